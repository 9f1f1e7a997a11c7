//! The gradient of a solve to a tolerance is that of the solution, also where the steps end at once.

use sheaf_admm::sheaf::{AgentGraph, Maps, MapsGrad, Sheaf, SheafOp};
use sheaf_admm::x_update::Penalty;
use sheaf_admm::z_update::{
    Agreement, Cg, CgStart, ConsensusGrad, EdgeMethod, EdgeSpace, Exact, Stop, ZUpdate,
};
use sheaf_testkit::{TestRng, assert_close_max};

/// Agents with one number each that compare it with their neighbours.
struct Scalars {
    sheaf: Sheaf,
    stacks: Vec<f64>,
}

/// d_w and d_maps.
type Grads = (Vec<f64>, Vec<f64>);

impl Scalars {
    fn new(agents: usize, edges: &[(usize, usize)]) -> Self {
        let graph = AgentGraph::from_edges(agents, edges).unwrap();
        let sheaf = Sheaf::heterogeneous(&graph, &vec![1; agents], &vec![1; edges.len()]).unwrap();
        let mut stacks = vec![0.0; sheaf.stack_len()];
        for agent in 0..agents {
            let rows = vec![1.0; sheaf.slot_rows(agent).len() - 1];
            Sheaf::pack_stack(&rows, 1, &mut stacks[sheaf.stack_offsets()[agent]..]).unwrap();
        }
        Self { sheaf, stacks }
    }

    /// The gradients of a step with target `w` and start `z_prev`, after `warm` solves of the same step.
    fn gradients(
        &self,
        z_update: &ZUpdate<f64>,
        w: &[f64],
        z_prev: &[f64],
        warm: usize,
        d_z: &[f64],
    ) -> Grads {
        let op = SheafOp::new(&self.sheaf, Maps::PerAgent(&self.stacks)).unwrap();
        let rho = Penalty::Scalar(0.8);
        let mut scratch = vec![f64::NAN; z_update.scratch_len(&op)];
        let (mut z, mut carry) = (vec![0.0; w.len()], vec![0.0; z_update.carry_len(&op)]);
        z_update.prepare(&op, &rho, &mut scratch).unwrap();
        for _ in 0..warm {
            z_update.forward(&op, &rho, w, z_prev, &mut carry, &mut z, &mut scratch).unwrap();
        }
        let (mut d_w, mut d_prev) = (vec![0.0; w.len()], vec![0.0; w.len()]);
        let (mut d_maps, mut d_carry) = (vec![0.0; self.stacks.len()], vec![0.0; carry.len()]);
        let (mut d_rho, mut d_gamma, mut d_eta) = ([0.0], 0.0, 0.0);
        let mut grad = ConsensusGrad {
            maps: &mut MapsGrad::PerAgent(&mut d_maps),
            rho: &mut d_rho,
            gamma: &mut d_gamma,
            eta: &mut d_eta,
            offsets: &mut [],
            edge_weights: &mut [],
        };
        z_update
            .vjp(
                &op,
                &rho,
                w,
                z_prev,
                &carry,
                d_z,
                &mut d_w,
                &mut d_prev,
                &mut d_carry,
                &mut grad,
                &mut scratch,
            )
            .unwrap();
        assert!(
            d_prev.iter().chain(&d_carry).all(|&d| d == 0.0),
            "the solution does not depend on the start"
        );
        (d_w, d_maps)
    }
}

fn edge(agreement: Agreement<f64>) -> ZUpdate<f64> {
    let stop = Stop::Tolerance { absolute: 1e-12, relative: 1e-10, max_steps: 2000 };
    ZUpdate::EdgeSpace(EdgeSpace { agreement, method: EdgeMethod::Cg { guard: 0.0 }, stop, warm: true })
}

fn cg(agreement: Agreement<f64>, start: CgStart) -> ZUpdate<f64> {
    let stop = Stop::Tolerance { absolute: 1e-12, relative: 1e-10, max_steps: 2000 };
    ZUpdate::Cg(Cg { start, stop, ..Cg::to_tolerance(agreement, 1e-10, 2000) })
}

/// All solvers to a tolerance have the gradients of the factorisation.
fn assert_exact(name: &str, net: &Scalars, w: &[f64], d_z: &[f64]) {
    for agreement in [Agreement::Hard, Agreement::Soft { gamma: 3.0 }] {
        let exact = ZUpdate::Exact(Exact::new(&net.sheaf, agreement));
        let (d_w, d_maps) = net.gradients(&exact, w, w, 1, d_z);
        for z_update in [edge(agreement), cg(agreement, CgStart::Zero), cg(agreement, CgStart::Warm)] {
            for warm in [0, 1] {
                let got = net.gradients(&z_update, w, w, warm, d_z);
                let name = format!("{name}, {warm} solves before, {z_update:?}");
                assert_close_max(&format!("{name}: w"), &got.0, &d_w, 1e-7);
                // Where rows of F depend on each other, hard multipliers are not unique, nor is this gradient.
                if net.sheaf.edge_len() < w.len() || agreement != Agreement::Hard {
                    assert_close_max(&format!("{name}: maps"), &got.1, &d_maps, 1e-7);
                }
            }
        }
    }
}

#[test]
fn two_agents_that_start_at_their_solution() {
    let net = Scalars::new(2, &[(0, 1)]);
    assert_exact("two agents", &net, &[1.0, -2.0], &[0.7, 0.1]);
    let (d_w, _) = net.gradients(&edge(Agreement::Hard), &[1.0, -2.0], &[0.0; 2], 3, &[0.7, 0.1]);
    assert_close_max("the mean", &d_w, &[0.4, 0.4], 1e-12);
}

#[test]
fn three_agents_on_a_path_that_already_agree() {
    let net = Scalars::new(3, &[(0, 1), (1, 2)]);
    assert_exact("three agents", &net, &[2.0; 3], &[1.0, -0.5, 0.4]);
    let (d_w, _) =
        net.gradients(&cg(Agreement::Hard, CgStart::Zero), &[2.0; 3], &[0.0; 3], 0, &[1.0, -0.5, 0.4]);
    assert_close_max("the mean", &d_w, &[0.3; 3], 1e-12);
}

#[test]
fn a_grid_with_targets_that_are_constant_along_rows() {
    let at = |row: usize, col: usize| 20 * row + col;
    let mut pairs = Vec::new();
    for row in 0..20 {
        for col in 0..20 {
            if col + 1 < 20 {
                pairs.push((at(row, col), at(row, col + 1)));
            }
            if row + 1 < 20 {
                pairs.push((at(row, col), at(row + 1, col)));
            }
        }
    }
    let net = Scalars::new(400, &pairs);
    let w: Vec<f64> = (0..400).map(|k| ((k / 20) as f64).sin()).collect();
    assert_exact("grid", &net, &w, &TestRng::new(9).normals(400));
}
