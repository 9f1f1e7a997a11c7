//! Reverse sweeps through a table of maps over ranks against one process, bit by bit.

use sheaf_admm::admm::{Adjoint, Gradients, Mode, Options, Problem, Seeds, Start, Workspace};
use sheaf_admm::share::{GraphPart, own_agents};
use sheaf_admm::sheaf::{AgentGraph, Connectivity, Maps, MapsGrad, Sheaf, SheafOp};
use sheaf_admm::x_update::{Diagonal, DiagonalGrad, Objective, ObjectiveGrad, Penalty};
use sheaf_admm::z_update::{Agreement, Cg, CgStart, Descent, ZUpdate};
use sheaf_kernels::Real;
use sheaf_kernels::pool::with_threads;
use sheaf_kernels::stack::order_by_view;

use crate::grid::{D_E, D_V, Grid, SIDES, VIEWS};
use crate::support::on_ranks;

/// Gradients of a solve, those of agents for the agents of a sheaf only.
struct Back<T> {
    maps: Vec<T>, // [views, d_v, ld], or of each agent
    q: Vec<T>,    // [agents, d_v]
    rho: T,
    gamma: T,
}

impl<T: Real> Grid<T> {
    /// Solves the agents of a sheaf and goes back, with maps from the table or copied for each agent.
    fn reverse(&self, sheaf: &Sheaf, z_update: &ZUpdate<T>, copied: bool) -> Back<T> {
        let own = sheaf.share().map_or(0..sheaf.agents(), |share| share.own());
        let (index, one) = (&self.index[own.clone()], self.stacks.len() / VIEWS);
        let (mut order, mut counts) = (vec![0; index.len()], vec![0; VIEWS + 1]);
        order_by_view(index, VIEWS, &mut counts, &mut order);
        let stack = |&view: &u32| self.stacks[view as usize * one..][..one].iter().copied();
        let copies: Vec<T> = if copied { index.iter().flat_map(stack).collect() } else { Vec::new() };
        let maps = match copied {
            true => Maps::PerAgent(&copies),
            false => Maps::Table { stacks: &self.stacks, index, order: &order, tiles: &[] },
        };
        let states = own.start * D_V..own.end * D_V;
        let (diag, q) = (&self.diag[states.clone()], &self.q[states]);
        let problem = Problem {
            op: SheafOp::new(sheaf, maps).unwrap(),
            objective: Objective::Diagonal(Diagonal::new(diag, q)),
            z_update,
            rho: Penalty::Scalar(T::from_f64(0.3)),
            relax: T::ONE,
        };
        let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations: 3 });
        problem.solve(Start::At(q), &Options::fixed(3), &mut ws, &mut ()).unwrap();
        // A gradient adds to what is there.
        let (mut d_maps, mut d_q) = (vec![T::ONE; maps_len(&problem)], vec![T::ZERO; q.len()]);
        let (mut rho, mut gamma, mut eta) = ([T::ZERO], T::ZERO, T::ZERO);
        let d_objective = DiagonalGrad { q: Some(&mut d_q), ..Default::default() };
        let mut gradients = Gradients {
            objective: &mut ObjectiveGrad::Diagonal(d_objective),
            maps: &mut if copied { MapsGrad::PerAgent(&mut d_maps) } else { MapsGrad::Table(&mut d_maps) },
            rho: &mut rho,
            gamma: &mut gamma,
            eta: &mut eta,
            offsets: &mut [],
            edge_weights: &mut [],
            start: &mut [],
        };
        problem
            .reverse(Adjoint::Unrolled, &Seeds { d_x: diag, d_z: None, d_u: None }, &mut gradients, &mut ws)
            .unwrap();
        assert!(matches!(gradients.maps, MapsGrad::Table(_) | MapsGrad::PerAgent(_)));
        Back { maps: d_maps, q: d_q, rho: rho[0], gamma }
    }
}

fn maps_len<T: Real>(problem: &Problem<'_, T>) -> usize {
    match problem.op.maps() {
        Maps::Table { stacks, .. } | Maps::PerAgent(stacks) => stacks.len(),
        _ => 0,
    }
}

fn solvers<T: Real>() -> Vec<(&'static str, ZUpdate<T>)> {
    let soft = Agreement::Soft { gamma: T::from_f64(0.7) };
    let with = |agreement, start| ZUpdate::Cg(Cg { start, ..Cg::published(agreement, 3) });
    vec![
        ("soft", with(soft, CgStart::Published)),
        ("hard", with(Agreement::Hard, CgStart::Published)),
        ("descent", ZUpdate::Descent(Descent::nesterov(soft, T::from_f64(0.02), 3))),
    ]
}

fn whole() -> Sheaf {
    let graph = AgentGraph::grid(SIDES.0, SIDES.1, Connectivity::Eight).unwrap();
    Sheaf::uniform(&graph, D_V, D_E).unwrap()
}

fn bits<T: Real>(numbers: &[T]) -> Vec<u64> {
    numbers.iter().map(|v| v.to_f64().to_bits()).collect()
}

fn ranks_go_back_like_one<T: Real>(counts: &[usize]) {
    let (grid, whole, (height, width)) = (Grid::<T>::new(), whole(), SIDES);
    for (name, z_update) in solvers::<T>() {
        let one = with_threads(1, || grid.reverse(&whole, &z_update, false));
        assert!(one.maps.iter().any(|d| *d != T::ONE) && one.maps.iter().all(|d| d.is_finite()));
        for &ranks in counts {
            on_ranks(ranks, |comm| {
                let own = own_agents(height * width, comm.rank(), ranks);
                let part = GraphPart::grid(height, width, Connectivity::Eight, comm.rank(), ranks).unwrap();
                let sheaf = Sheaf::uniform_part(&part, D_V, D_E, comm).unwrap();
                let met = grid.reverse(&sheaf, &z_update, false);
                // The table belongs to all ranks, and all have its gradient.
                assert!(bits(&met.maps) == bits(&one.maps), "{name}, {ranks} ranks: maps");
                assert!(bits(&met.q) == bits(&one.q[own.start * D_V..own.end * D_V]), "{name}, {ranks}: q");
                assert!(bits(&[met.rho, met.gamma]) == bits(&[one.rho, one.gamma]), "{name}, {ranks}: rho");
            });
        }
    }
}

#[test]
fn gradients_of_a_table_over_ranks_have_the_bits_of_one_process() {
    ranks_go_back_like_one::<f32>(&[1, 2, 4]);
}

#[test]
fn and_with_ranks_that_own_nothing() {
    ranks_go_back_like_one::<f64>(&[5]);
}

#[test]
fn the_gradient_of_a_stack_is_the_sum_over_the_agents_that_use_it() {
    let (grid, whole) = (Grid::<f64>::new(), whole());
    let one = grid.stacks.len() / VIEWS;
    for (name, z_update) in solvers::<f64>() {
        let (met, each) = (grid.reverse(&whole, &z_update, false), grid.reverse(&whole, &z_update, true));
        let mut sum = vec![1.0; VIEWS * one];
        for (&view, d) in grid.index.iter().zip(each.maps.chunks_exact(one)) {
            sum[view as usize * one..][..one].iter_mut().zip(d).for_each(|(sum, d)| *sum += d - 1.0);
        }
        let size = sum.iter().fold(0.0, |most: f64, d| most.max(d.abs()));
        let used = |k: &usize| k % 48 < 8 * D_E; // the rest of a column is padding
        let far = (0..sum.len()).filter(used).find(|&k| (sum[k] - met.maps[k]).abs() > 1e-11 * size);
        assert!(far.is_none(), "{name}: at {far:?}");
    }
}
