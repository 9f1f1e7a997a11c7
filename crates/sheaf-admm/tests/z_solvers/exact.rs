use crate::support::{Case, assert_near, check_gradients, solve};
use sheaf_admm::ErrorKind;
use sheaf_admm::sheaf::{AgentGraph, Maps, MapsGrad, Sheaf, SheafOp};
use sheaf_admm::x_update::Penalty;
use sheaf_admm::z_update::{Agreement, ConsensusGrad, Exact, ZUpdate};
use sheaf_testkit::TestRng;

fn exact(case: &Case, agreement: Agreement<f64>) -> ZUpdate<f64> {
    ZUpdate::Exact(Exact::new(&case.sheaf, agreement))
}

fn cases() -> Vec<Case> {
    (0..4)
        .flat_map(|seed| [Case::mixed(seed), Case::repeated(seed), Case::shared(seed), Case::table(seed)])
        .collect()
}

/// A single penalty, and one for each agent.
fn penalties(case: &Case) -> [Vec<f64>; 2] {
    [vec![1.3], TestRng::new(31).ranges(case.sheaf.agents(), 0.4, 2.5)]
}

fn penalty(rho: &[f64]) -> Penalty<'_, f64> {
    if let [rho] = rho { Penalty::Scalar(*rho) } else { Penalty::PerAgent(rho) }
}

#[test]
fn the_soft_solution_is_that_of_the_dense_system() {
    for case in cases() {
        let w = TestRng::new(1).normals(case.sheaf.state_len());
        for rho in &penalties(&case) {
            let rho = penalty(rho);
            let (z, report) = solve(&exact(&case, Agreement::Soft { gamma: 2.1 }), &case, &rho, &w);
            assert!(report.converged);
            assert_near(&z, &case.dense().soft_weighted(&w, 2.1, &case.spread(&rho)), 1e-12);
        }
    }
}

#[test]
fn the_hard_solution_is_the_dense_projection_whatever_the_rank() {
    for case in cases() {
        let w = TestRng::new(2).normals(case.sheaf.state_len());
        for rho in &penalties(&case) {
            let rho = penalty(rho);
            let (z, _) = solve(&exact(&case, Agreement::Hard), &case, &rho, &w);
            assert_near(&z, &case.dense().project_weighted(&w, &case.spread(&rho)), 1e-9);
            let residual = case.dense().coboundary().mul_vec(&z);
            assert!(residual.iter().all(|r| r.abs() < 1e-12), "{}", case.name);
        }
    }
}

#[test]
fn soft_with_a_large_price_tends_to_hard() {
    let case = Case::mixed(3);
    let (w, rho) = (TestRng::new(3).normals(case.sheaf.state_len()), Penalty::Scalar(0.9));
    let (hard, _) = solve(&exact(&case, Agreement::Hard), &case, &rho, &w);
    let distance = |gamma| {
        let (soft, _) = solve(&exact(&case, Agreement::Soft { gamma }), &case, &rho, &w);
        soft.iter().zip(&hard).map(|(s, h)| (s - h).abs()).fold(0.0, f64::max)
    };
    let [far, near, nearest] = [1.0, 1e3, 1e6].map(distance);
    assert!(far > 1e-2 && near < 1e-1 * far && nearest < 1e-4 * far, "{far} {near} {nearest}");
}

#[test]
fn gradients_agree_with_differences() {
    let mut cases = Case::all(5);
    cases.push(Case::repeated(5));
    for case in cases {
        check_gradients("exact soft", &case, 1.2, 1.0, &|gamma, _| exact(&case, Agreement::Soft { gamma }));
        check_gradients("exact hard", &case, 1.2, 1.0, &|_, _| exact(&case, Agreement::Hard));
    }
}

#[test]
fn single_precision_projects_to_its_own_precision() {
    for case in [Case::mixed(1), Case::repeated(1), Case::shared(1)] {
        let w = TestRng::new(4).normals(case.sheaf.state_len());
        let params: Vec<f32> = case.params.iter().map(|&p| p as f32).collect();
        let maps = if case.name == "shared" { Maps::Stack(&params) } else { Maps::PerAgent(&params) };
        let op = SheafOp::new(&case.sheaf, maps).unwrap();
        let z_update = ZUpdate::Exact(Exact::<f32>::new(&case.sheaf, Agreement::Hard));
        let (rho, w32) = (Penalty::Scalar(1.0), w.iter().map(|&w| w as f32).collect::<Vec<_>>());
        let (mut z, mut scratch) = (vec![0.0; w.len()], vec![f32::NAN; z_update.scratch_len(&op)]);
        z_update.prepare(&op, &rho, &mut scratch).unwrap();
        z_update.forward(&op, &rho, &w32, &w32, &mut [], &mut z, &mut scratch).unwrap();
        let z: Vec<f64> = z.into_iter().map(f64::from).collect();
        assert_near(&z, &case.dense().project(&w), 1e-4);
    }
}

#[test]
fn a_tree_of_agents_has_a_thin_factor() {
    let pairs: Vec<(usize, usize)> = (1..200).map(|i| (i - 1, i)).collect();
    let sheaf = Sheaf::uniform(&AgentGraph::from_edges(200, &pairs).unwrap(), 3, 2).unwrap();
    let soft = Exact::new(&sheaf, Agreement::Soft { gamma: 1.0 });
    assert!(soft.factor_len() <= 600 * 6, "{}", soft.factor_len());
    let hard = Exact::<f64>::new(&sheaf, Agreement::Hard);
    assert!(hard.factor_len() <= 600 * 6, "{}", hard.factor_len());
}

/// Three agents in a ring and one apart; every edge compares two numbers of each end, scaled by 2.
fn selectors() -> (Sheaf, Vec<f64>) {
    let graph = AgentGraph::from_edges(4, &[(0, 1), (1, 2), (2, 0), (0, 1)]).unwrap();
    let sheaf = Sheaf::heterogeneous(&graph, &[3, 4, 3, 2], &[2, 2, 2, 2]).unwrap();
    let mut stacks = vec![0.0; sheaf.stack_len()];
    for agent in 0..3 {
        let (d, rows) =
            (sheaf.state_offsets()[agent + 1] - sheaf.state_offsets()[agent], sheaf.slot_rows(agent));
        let slots = rows.len() - 1;
        let map: Vec<f64> = (0..2 * slots)
            .flat_map(|r| (0..d).map(move |j| if j == r % 2 + usize::from(d > 3) { 2.0 } else { 0.0 }))
            .collect();
        Sheaf::pack_stack(&map, d, &mut stacks[sheaf.stack_offsets()[agent]..]).unwrap();
    }
    (sheaf, stacks)
}

/// Solves and differentiates; returns z and all gradients.
fn both(
    z_update: &ZUpdate<f64>,
    op: &SheafOp<'_, f64>,
    rho: &[f64],
    w: &[f64],
    d_z: &[f64],
) -> [Vec<f64>; 4] {
    let mut scratch = vec![f64::NAN; z_update.scratch_len(op)];
    let (mut z, mut d_w, mut d_prev) = (vec![0.0; w.len()], vec![0.0; w.len()], vec![0.0; w.len()]);
    let (mut d_maps, mut d_b) = (vec![0.0; op.sheaf().stack_len()], vec![0.0; op.sheaf().edge_len()]);
    let (mut d_rho, mut d_gamma, mut d_eta) = (vec![0.0; rho.len()], 0.0, 0.0);
    let rho = penalty(rho);
    z_update.validate(op).unwrap();
    z_update.prepare(op, &rho, &mut scratch).unwrap();
    z_update.forward(op, &rho, w, w, &mut [], &mut z, &mut scratch).unwrap();
    let mut grad = ConsensusGrad {
        maps: &mut MapsGrad::PerAgent(&mut d_maps),
        rho: &mut d_rho,
        gamma: &mut d_gamma,
        eta: &mut d_eta,
        offsets: &mut d_b,
        edge_weights: &mut [],
    };
    z_update.vjp(op, &rho, w, w, &[], d_z, &mut d_w, &mut d_prev, &mut [], &mut grad, &mut scratch).unwrap();
    d_rho.push(d_gamma);
    [z, d_w, d_rho, d_b]
}

#[test]
fn selectors_have_the_same_solution_in_closed_form_and_by_factorisation() {
    let (sheaf, stacks) = selectors();
    let (mut rng, maps) = (TestRng::new(8), Maps::PerAgent(&stacks));
    let [w, d_z, other] = [(); 3].map(|()| rng.normals(sheaf.state_len()));
    let (mut b, mut rows) = (vec![0.0; sheaf.edge_len()], vec![0.0; sheaf.row_len()]);
    let plain = SheafOp::new(&sheaf, maps).unwrap();
    plain.coboundary(&other, &mut b, &mut rows).unwrap();
    let op = plain.with_offsets(&b).unwrap();
    for rho in [vec![0.7], vec![0.5, 1.5, 0.9, 2.0]] {
        for agreement in [Agreement::Hard, Agreement::Soft { gamma: 1.4 }] {
            let full = ZUpdate::Exact(Exact::new(&sheaf, agreement));
            let thin = ZUpdate::Exact(Exact::for_maps(&op, agreement).unwrap());
            let (a, b) = (both(&full, &op, &rho, &w, &d_z), both(&thin, &op, &rho, &w, &d_z));
            // The multipliers of hard edges in a ring are not unique, so the gradient of b is compared when soft only.
            let parts = if agreement == Agreement::Hard { 3 } else { 4 };
            (0..parts).for_each(|k| assert_near(&b[k], &a[k], 1e-10));
        }
    }
    let (thin, full) = (
        Exact::for_maps(&op, Agreement::Soft { gamma: 1.0 }).unwrap(),
        Exact::new(&sheaf, Agreement::Soft { gamma: 1.0 }),
    );
    assert!(thin.factor_len() < full.factor_len() / 2, "{} {}", thin.factor_len(), full.factor_len());
    assert_eq!(Exact::for_maps(&op, Agreement::Hard).unwrap().factor_len(), 0);
    // Offsets that contradict each other around the ring, and maps that the solver was not made for.
    let hard = ZUpdate::Exact(Exact::for_maps(&op, Agreement::Hard).unwrap());
    let mut scratch = vec![0.0; hard.scratch_len(&op)];
    b[0] += 1.0;
    let wrong = plain.with_offsets(&b).unwrap();
    let error = hard.prepare(&wrong, &Penalty::Scalar(1.0), &mut scratch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Infeasible, "{error}");
    let others: Vec<f64> = stacks.iter().map(|f| f + 0.1).collect();
    let op = SheafOp::new(&sheaf, Maps::PerAgent(&others)).unwrap();
    for agreement in [Agreement::Hard, Agreement::Soft { gamma: 1.0 }] {
        let made = ZUpdate::Exact(Exact::for_maps(&plain, agreement).unwrap());
        let mut scratch = vec![0.0; made.scratch_len(&op)];
        let error = made.prepare(&op, &Penalty::Scalar(1.0), &mut scratch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}

#[test]
fn misuse_is_refused() {
    let (case, other) = (Case::shared(0), Case::table(0));
    let hard = Exact::<f64>::new(&case.sheaf, Agreement::Hard);
    let kind = |e: &Exact<f64>, case: &Case| e.validate(&case.op()).unwrap_err().kind();
    assert_eq!(kind(&hard, &other), ErrorKind::Shape);
    let soft = |gamma| Agreement::Soft { gamma };
    let mut turned = hard.clone();
    turned.agreement = soft(1.0);
    assert_eq!(kind(&turned, &case), ErrorKind::Unsupported);
    assert_eq!(kind(&Exact::new(&case.sheaf, soft(0.0)), &case), ErrorKind::NotPositive);
    let broken = Case { params: vec![f64::NAN; case.params.len()], ..case.clone() };
    for agreement in [Agreement::Hard, soft(1.0)] {
        let z_update = exact(&broken, agreement);
        let mut scratch = vec![0.0; z_update.scratch_len(&broken.op())];
        let error = z_update.prepare(&broken.op(), &Penalty::Scalar(1.0), &mut scratch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFinite);
    }
}
