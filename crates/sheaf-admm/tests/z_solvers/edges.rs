//! Offsets and weights of edges, hard edges among soft ones: solutions against dense linear algebra, gradients against
//! differences.

use crate::support::Case;
use sheaf_admm::ErrorKind;
use sheaf_admm::sheaf::SheafOp;
use sheaf_admm::x_update::Penalty;
use sheaf_admm::z_update::{
    Agreement, Cg, CgStart, ConsensusGrad, Descent, EdgeMethod, EdgePotential, EdgeSpace, Exact, Potential,
    Stop, ZUpdate,
};
use sheaf_testkit::{TestRng, assert_close_max, assert_vjp};

const SOFT: Agreement<f64> = Agreement::Soft { gamma: 1.3 };
const TIGHT: Stop<f64> = Stop::Tolerance { absolute: 0.0, relative: 1e-13, max_steps: 5000 };

/// w, offsets and weights of a case.
struct Edges {
    w: Vec<f64>,
    b: Vec<f64>,
    weights: Vec<f64>,
}

impl Edges {
    fn of(case: &Case, hard: bool) -> Self {
        let mut rng = TestRng::new(11);
        let (w, b) = (rng.normals(case.sheaf.state_len()), rng.normals(case.sheaf.edge_len()));
        // Feasible where edges are hard: b is the coboundary of some state, plus noise on soft edges.
        let mut weights = rng.ranges(case.sheaf.edge_count(), 0.3, 2.0);
        if hard {
            weights[0] = f64::INFINITY;
        }
        Self { w, b, weights }
    }
}

fn edge(agreement: Agreement<f64>, stop: Stop<f64>) -> ZUpdate<f64> {
    let method = EdgeMethod::Cg { guard: 0.0 };
    ZUpdate::EdgeSpace(EdgeSpace { agreement, method, stop, warm: false })
}

fn potential(potential: EdgePotential<f64>, stop: Stop<f64>) -> ZUpdate<f64> {
    ZUpdate::Potential(Potential { potential, gamma: 1.3, eta: 0.02, momentum: 0.5, stop })
}

fn solvers(case: &Case) -> Vec<ZUpdate<f64>> {
    let descent = |stop| ZUpdate::Descent(Descent { agreement: SOFT, eta: 0.03, momentum: 0.5, stop });
    vec![
        ZUpdate::Exact(Exact::new(&case.sheaf, SOFT)),
        ZUpdate::Cg(Cg::to_tolerance(SOFT, 1e-13, 500)),
        ZUpdate::Cg(Cg { start: CgStart::Warm, ..Cg::to_tolerance(SOFT, 1e-13, 500) }),
        edge(SOFT, TIGHT),
        descent(TIGHT),
    ]
}

fn forward(case: &Case, op: &SheafOp<'_, f64>, z_update: &ZUpdate<f64>, rho: &[f64], w: &[f64]) -> Vec<f64> {
    let mut scratch = vec![f64::NAN; z_update.scratch_len(op)];
    let rho = if rho.len() == 1 { Penalty::Scalar(rho[0]) } else { Penalty::PerAgent(rho) };
    let mut z = vec![f64::NAN; case.sheaf.state_len()];
    z_update.validate(op).unwrap();
    z_update.prepare(op, &rho, &mut scratch).unwrap();
    // A solution does not depend on where it is looked for.
    let z_prev: Vec<f64> = w.iter().rev().map(|w| 0.5 * w).collect();
    z_update.forward(op, &rho, w, &z_prev, &mut [], &mut z, &mut scratch).unwrap();
    z
}

/// γ FᵀΩ(F z − b) + ρ(z − w), which is 0 at the soft solution.
fn slope(case: &Case, edges: &Edges, rho: &[f64], z: &[f64]) -> Vec<f64> {
    let op = case.op();
    let (mut r, mut rows) = (vec![0.0; case.sheaf.edge_len()], vec![0.0; case.sheaf.row_len()]);
    op.coboundary(z, &mut r, &mut rows).unwrap();
    let mut at = 0;
    for (edge, weight) in case.edge_dims().into_iter().zip(&edges.weights) {
        for k in at..at + edge {
            r[k] = 1.3 * weight * (r[k] - edges.b[k]);
        }
        at += edge;
    }
    let mut g = vec![0.0; z.len()];
    op.coboundary_t(&r, &mut g, &mut rows).unwrap();
    for (i, range) in case.sheaf.state_offsets().windows(2).enumerate() {
        let rho = if rho.len() == 1 { rho[0] } else { rho[i] };
        (range[0]..range[1]).for_each(|k| g[k] += rho * (z[k] - edges.w[k]));
    }
    g
}

#[test]
fn weighted_soft_consensus_with_offsets_is_stationary_for_every_solver() {
    for case in Case::all(3) {
        let edges = Edges::of(&case, false);
        for rhos in [1, case.sheaf.agents()] {
            let rho = TestRng::new(5).ranges(rhos, 0.6, 1.6);
            for z_update in solvers(&case) {
                let op = case.op().with_offsets(&edges.b).unwrap().with_edge_weights(&edges.weights).unwrap();
                let z = forward(&case, &op, &z_update, &rho, &edges.w);
                let slope = slope(&case, &edges, &rho, &z);
                assert!(slope.iter().all(|g| g.abs() < 1e-9), "{}, {z_update:?}: {slope:?}", case.name);
            }
        }
    }
}

#[test]
fn hard_consensus_with_offsets_meets_them_where_they_can_be_met() {
    for case in Case::all(3) {
        let mut rng = TestRng::new(4);
        let (w, other) = (rng.normals(case.sheaf.state_len()), rng.normals(case.sheaf.state_len()));
        let (mut b, mut rows) = (vec![0.0; case.sheaf.edge_len()], vec![0.0; case.sheaf.row_len()]);
        case.op().coboundary(&other, &mut b, &mut rows).unwrap();
        let exact = ZUpdate::Exact(Exact::new(&case.sheaf, Agreement::Hard));
        let cg = ZUpdate::Cg(Cg::to_tolerance(Agreement::Hard, 1e-13, 500));
        let op = case.op().with_offsets(&b).unwrap();
        let expected = forward(&case, &op, &exact, &[1.0], &w);
        let mut r = vec![0.0; b.len()];
        case.op().coboundary(&expected, &mut r, &mut rows).unwrap();
        assert_close_max(case.name, &r, &b, 1e-10);
        for z_update in [cg, edge(Agreement::Hard, TIGHT)] {
            let z = forward(&case, &op, &z_update, &[1.0], &w);
            assert_close_max(&format!("{}, {z_update:?}", case.name), &z, &expected, 1e-9);
        }
    }
}

#[test]
fn a_hard_edge_among_soft_ones_is_the_limit_of_a_large_weight() {
    for case in Case::all(3) {
        let mut edges = Edges::of(&case, true);
        let op = case.op().with_offsets(&edges.b).unwrap().with_edge_weights(&edges.weights).unwrap();
        let mixed = forward(&case, &op, &edge(SOFT, TIGHT), &[0.8], &edges.w);
        let exact = forward(&case, &op, &ZUpdate::Exact(Exact::new(&case.sheaf, SOFT)), &[0.8], &edges.w);
        assert_close_max(case.name, &mixed, &exact, 1e-9);
        edges.weights[0] = 1e8;
        let op = case.op().with_offsets(&edges.b).unwrap().with_edge_weights(&edges.weights).unwrap();
        let stiff = forward(&case, &op, &ZUpdate::Exact(Exact::new(&case.sheaf, SOFT)), &[0.8], &edges.w);
        assert_close_max(case.name, &mixed, &stiff, 1e-5);
    }
}

/// Gradients of w, maps, offsets and weights against differences; hard edges keep their weight.
fn check(case: &Case, edges: &Edges, rhos: usize, weighted: bool, z_update: &ZUpdate<f64>) {
    let (n, e, m) = (case.sheaf.state_len(), case.sheaf.edge_len(), case.params.len());
    let finite: Vec<f64> = edges.weights.iter().map(|w| if w.is_finite() { *w } else { 1.0 }).collect();
    let rho = TestRng::new(5).ranges(rhos, 0.6, 1.6);
    let point = [edges.w.clone(), case.params.clone(), edges.b.clone(), finite.clone(), rho].concat();
    let hard: Vec<bool> = edges.weights.iter().map(|w| w.is_infinite()).collect();
    let weights_at = |point: &[f64]| -> Vec<f64> {
        let drawn = &point[n + m + e..][..finite.len()];
        drawn.iter().zip(&hard).map(|(&w, &hard)| if hard { f64::INFINITY } else { w }).collect()
    };
    let mut run = |point: &[f64]| {
        let weights = weights_at(point);
        let op = SheafOp::new(&case.sheaf, case.maps(&point[n..n + m])).unwrap();
        let mut op = op.with_offsets(&point[n + m..][..e]).unwrap();
        if weighted {
            op = op.with_edge_weights(&weights).unwrap();
        }
        forward(case, &op, z_update, &point[n + m + e + finite.len()..], &point[..n])
    };
    let mut vjp = |d_z: &[f64]| {
        let weights = weights_at(&point);
        let op = SheafOp::new(&case.sheaf, case.maps(&point[n..n + m])).unwrap();
        let mut op = op.with_offsets(&point[n + m..][..e]).unwrap();
        if weighted {
            op = op.with_edge_weights(&weights).unwrap();
        }
        let rho = &point[n + m + e + finite.len()..];
        let rho = if rho.len() == 1 { Penalty::Scalar(rho[0]) } else { Penalty::PerAgent(rho) };
        let mut scratch = vec![f64::NAN; z_update.scratch_len(&op)];
        z_update.prepare(&op, &rho, &mut scratch).unwrap();
        let (mut d_w, mut d_prev, mut d_maps) = (vec![0.0; n], vec![0.0; n], vec![0.0; m]);
        let (mut d_rho, mut d_gamma, mut d_eta) = (vec![0.0; rhos], 0.0, 0.0);
        let (mut d_b, mut d_weights) = (vec![0.0; e], vec![0.0; finite.len()]);
        let mut grad = ConsensusGrad {
            maps: &mut case.maps_grad(&mut d_maps),
            rho: &mut d_rho,
            gamma: &mut d_gamma,
            eta: &mut d_eta,
            offsets: &mut d_b,
            edge_weights: if weighted { &mut d_weights } else { &mut [] },
        };
        let w = &point[..n];
        z_update
            .vjp(&op, &rho, w, w, &[], d_z, &mut d_w, &mut d_prev, &mut [], &mut grad, &mut scratch)
            .unwrap();
        [d_w, d_maps, d_b, d_weights, d_rho].concat()
    };
    assert_vjp(&format!("{}, {rhos} penalties, {z_update:?}", case.name), &mut run, &point, &mut vjp);
}

#[test]
fn gradients_of_offsets_and_weights_agree_with_differences() {
    for case in Case::all(3) {
        let edges = Edges::of(&case, false);
        for rhos in [1, case.sheaf.agents()] {
            let mut all = solvers(&case);
            for stop in [Stop::Steps(4), TIGHT] {
                all.push(potential(EdgePotential::SmoothedL1 { epsilon: 0.7 }, stop));
                all.push(ZUpdate::Descent(Descent { agreement: SOFT, eta: 0.03, momentum: 0.5, stop }));
            }
            all.iter().for_each(|z_update| check(&case, &edges, rhos, true, z_update));
            check(&case, &edges, rhos, false, &edge(SOFT, Stop::Steps(3)));
            let mixed = Edges::of(&case, true);
            check(&case, &mixed, rhos, true, &edge(SOFT, TIGHT));
            check(&case, &mixed, rhos, true, &ZUpdate::Exact(Exact::new(&case.sheaf, SOFT)));
        }
    }
}

#[test]
fn hard_gradients_of_offsets_agree_with_differences() {
    // On a tree of agents every offset can be met, so that the solution is smooth in all of them.
    let case = Case::tree(2);
    let edges = Edges::of(&case, false);
    for rhos in [1, case.sheaf.agents()] {
        let exact = ZUpdate::Exact(Exact::new(&case.sheaf, Agreement::Hard));
        let cg = ZUpdate::Cg(Cg::to_tolerance(Agreement::Hard, 1e-13, 500));
        for z_update in [exact, cg, edge(Agreement::Hard, TIGHT)] {
            check(&case, &edges, rhos, false, &z_update);
        }
    }
}

#[test]
fn solvers_refuse_edges_they_cannot_treat_and_name_one_that_can() {
    let case = Case::shared(1);
    let edges = Edges::of(&case, true);
    let op = case.op().with_edge_weights(&edges.weights).unwrap();
    let hard = Agreement::Hard;
    for z_update in [
        ZUpdate::Cg(Cg::to_tolerance(SOFT, 1e-9, 50)),
        ZUpdate::Cg(Cg::published(SOFT, 5)),
        ZUpdate::Descent(Descent::nesterov(SOFT, 0.1, 5)),
        edge(hard, TIGHT),
        ZUpdate::Exact(Exact::new(&case.sheaf, hard)),
        potential(EdgePotential::Quadratic, Stop::Steps(3)),
    ] {
        let error = z_update.validate(&op).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{z_update:?}");
        assert!(
            error.hint_text().is_some_and(|hint| hint.contains("use") || hint.contains("solve")),
            "{error}"
        );
    }
    let zero = vec![0.0; edges.weights.len()];
    assert_eq!(case.op().with_edge_weights(&zero).unwrap_err().kind(), ErrorKind::NotPositive);
    assert_eq!(case.op().with_offsets(&[1.0]).unwrap_err().kind(), ErrorKind::Shape);
}
