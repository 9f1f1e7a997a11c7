//! Which way an exact solver takes, by the graph and the maps.

use sheaf_admm::sheaf::{AgentGraph, Maps, MapsGrad, Sheaf, SheafOp};
use sheaf_admm::x_update::Penalty;
use sheaf_admm::z_update::{Agreement, ConsensusGrad, Exact, ZUpdate};
use sheaf_testkit::TestRng;

/// Agents with six numbers each, and one general row for every end of an edge.
fn general(agents: usize, edges: &[(usize, usize)]) -> (Sheaf, Vec<f64>) {
    let graph = AgentGraph::from_edges(agents, edges).unwrap();
    let sheaf = Sheaf::heterogeneous(&graph, &vec![6; agents], &vec![1; edges.len()]).unwrap();
    let stacks = TestRng::new(6).normals(sheaf.stack_len());
    (sheaf, stacks)
}

fn hard(agents: usize, edges: &[(usize, usize)]) -> Exact<f64> {
    let (sheaf, stacks) = general(agents, edges);
    let op = SheafOp::new(&sheaf, Maps::PerAgent(&stacks)).unwrap();
    Exact::automatic(&op, Agreement::Hard).unwrap()
}

fn mesh(side: usize) -> Vec<(usize, usize)> {
    let agents = side * side;
    let right = (0..agents).filter(|k| k % side + 1 < side).map(|k| (k, k + 1));
    right.chain((0..agents - side).map(|k| (k, k + side))).collect()
}

/// A ring and four steps of a linear congruence: as good as random.
fn random(agents: usize) -> Vec<(usize, usize)> {
    let steps = [1, 7919, 3571, 9311, 5407].map(|m| (m, m / 3));
    let pairs = steps.into_iter().flat_map(|(m, c)| (0..agents).map(move |k| (k, (k * m + c + 1) % agents)));
    pairs.filter(|(a, b)| a != b).collect()
}

#[test]
fn general_hard_maps_are_factored_on_meshes_and_not_where_the_factor_fills_in() {
    let thin = hard(1600, &mesh(40));
    assert!(!thin.is_iterative() && thin.factor_len() > 0);
    assert!(hard(1000, &random(1000)).is_iterative());
    // A small factor may be full.
    assert!(!hard(60, &random(60)).is_iterative());
}

#[test]
fn soft_systems_that_are_not_large_are_solved_by_steps_where_the_factor_fills_in() {
    assert!(iterative(15_000, &random(15_000), 1.0));
    assert!(!iterative(14_400, &mesh(120), 1.0));
}

/// Agents with one number each.
fn iterative(agents: usize, edges: &[(usize, usize)], gamma: f64) -> bool {
    let graph = AgentGraph::from_edges(agents, edges).unwrap();
    let sheaf = Sheaf::heterogeneous(&graph, &vec![1; agents], &vec![1; edges.len()]).unwrap();
    let stacks = vec![1.0; sheaf.stack_len()];
    let op = SheafOp::new(&sheaf, Maps::PerAgent(&stacks)).unwrap();
    Exact::automatic(&op, Agreement::Soft { gamma }).unwrap().is_iterative()
}

#[test]
fn stiff_meshes_are_factored_and_random_graphs_are_not() {
    let side = 150;
    let agents = side * side;
    assert!(iterative(agents, &mesh(side), 1.0));
    assert!(!iterative(agents, &mesh(side), 1e4));
    assert!(iterative(agents, &random(agents), 1e4));
}

/// z, and the gradients of w, ρ, offsets and maps for d_z, of one consensus step.
fn step_and_gradient(
    exact: Exact<f64>,
    op: &SheafOp<'_, f64>,
    rho: &[f64],
    w: &[f64],
    d_z: &[f64],
) -> [Vec<f64>; 5] {
    let (update, rho) = (ZUpdate::Exact(exact), Penalty::PerAgent(rho));
    let (n, zero) = (op.state_len(), vec![0.0; op.state_len()]);
    let mut scratch = vec![0.0; update.scratch_len(op)];
    update.prepare(op, &rho, &mut scratch).unwrap();
    let (mut z, mut carry) = (zero.clone(), vec![0.0; update.carry_len(op)]);
    let start = carry.clone();
    let report = update.forward(op, &rho, w, &zero, &mut carry, &mut z, &mut scratch).unwrap();
    assert!(report.converged);
    let (mut d_w, mut d_prev, mut d_carry) = (vec![0.0; n], vec![0.0; n], start.clone());
    let mut d_rho = vec![0.0; op.sheaf().agents()];
    let (mut d_b, mut d_f) = (vec![0.0; op.sheaf().edge_len()], vec![0.0; op.sheaf().stack_len()]);
    let mut grad = ConsensusGrad {
        maps: &mut MapsGrad::PerAgent(&mut d_f),
        rho: &mut d_rho,
        gamma: &mut 0.0,
        eta: &mut 0.0,
        offsets: &mut d_b,
        edge_weights: &mut [],
    };
    let (w_out, prev) = (&mut d_w, &mut d_prev);
    update.vjp(op, &rho, w, &zero, &start, d_z, w_out, prev, &mut d_carry, &mut grad, &mut scratch).unwrap();
    [z, d_w, d_rho, d_b, d_f]
}

#[test]
fn steps_on_the_multipliers_have_the_point_and_the_gradient_of_the_factor() {
    let (sheaf, stacks) = general(300, &random(300));
    let mut rng = TestRng::new(7);
    let offsets = rng.normals(sheaf.edge_len());
    let op = SheafOp::new(&sheaf, Maps::PerAgent(&stacks)).unwrap().with_offsets(&offsets).unwrap();
    let chosen = Exact::automatic(&op, Agreement::Hard).unwrap();
    assert!(chosen.is_iterative());
    let factored = Exact::for_maps(&op, Agreement::Hard).unwrap();
    assert!(!factored.is_iterative());
    let (rho, w) = (rng.ranges(300, 0.4, 2.5), rng.normals(sheaf.state_len()));
    let d_z = rng.normals(sheaf.state_len());
    let ours = step_and_gradient(chosen, &op, &rho, &w, &d_z);
    let reference = step_and_gradient(factored, &op, &rho, &w, &d_z);
    for ((ours, reference), limit) in ours.iter().zip(&reference).zip([1e-8, 1e-9, 1e-8, 1e-9, 1e-8]) {
        let size = reference.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        assert!(size > 0.1);
        for (a, b) in ours.iter().zip(reference) {
            assert!((a - b).abs() <= limit * size, "{a} against {b}");
        }
    }
}
