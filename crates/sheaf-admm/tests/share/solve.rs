//! Whole solves over ranks against one process, bit by bit.

use sheaf_admm::admm::{Balancing, Mode, Options, Problem, SolveReport, Start, Workspace};
use sheaf_admm::share::{GraphPart, own_agents};
use sheaf_admm::sheaf::{AgentGraph, Connectivity, Maps, Sheaf, SheafOp};
use sheaf_admm::x_update::{Coefficient, Diagonal, Objective, Penalty};
use sheaf_admm::z_update::{Agreement, Cg, CgStart, Descent, ZUpdate};
use sheaf_kernels::Real;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::pool::with_threads;
use sheaf_kernels::stack::order_by_view;
use sheaf_kernels::tiles::tile_stacks;

use crate::grid::{D_E, D_V, Grid, SIDES, VIEWS};
use crate::support::on_ranks;

impl<T: Real> Grid<T> {
    /// Solves the agents of a sheaf: the whole, or a rank's part.
    fn solve(&self, sheaf: &Sheaf, z_update: &ZUpdate<T>, each: bool, options: &Options<T>) -> Solved<T> {
        let own = sheaf.share().map_or(0..sheaf.agents(), |share| share.own());
        let index = &self.index[own.clone()];
        let (mut order, mut counts) = (vec![0; index.len()], vec![0; VIEWS + 1]);
        order_by_view(index, VIEWS, &mut counts, &mut order);
        let mut tiles = AlignedVec::zeros(VIEWS * sheaf.tile_len());
        if sheaf.tile_len() > 0 {
            tile_stacks(&self.stacks, &mut tiles);
        }
        let maps = Maps::Table { stacks: &self.stacks, index, order: &order, tiles: &tiles };
        let states = own.start * D_V..own.end * D_V;
        let diagonal = Diagonal::new(&self.diag[states.clone()], &self.q[states]);
        let lo = Some(Coefficient::Scalar(T::from_f64(-0.8)));
        let problem = Problem {
            op: SheafOp::new(sheaf, maps).unwrap(),
            objective: Objective::Diagonal(Diagonal { lo, ..diagonal }),
            z_update,
            rho: if each { Penalty::PerAgent(&self.rho[own]) } else { Penalty::Scalar(T::from_f64(0.3)) },
            relax: T::from_f64(1.2),
        };
        let mut ws = Workspace::new(&problem, Mode::Solve);
        let report = problem.solve(Start::Zeros, options, &mut ws, &mut ()).unwrap();
        Solved { x: ws.x().to_vec(), z: ws.z().to_vec(), u: ws.u().to_vec(), report }
    }
}

struct Solved<T> {
    x: Vec<T>,
    z: Vec<T>,
    u: Vec<T>,
    report: SolveReport<T>,
}

fn solvers<T: Real>() -> Vec<(&'static str, ZUpdate<T>)> {
    let soft = Agreement::Soft { gamma: T::from_f64(0.7) };
    let with = |agreement, start| ZUpdate::Cg(Cg { start, ..Cg::published(agreement, 4) });
    vec![
        ("soft", with(soft, CgStart::Published)),
        ("soft, warm", with(soft, CgStart::Warm)),
        ("hard", with(Agreement::Hard, CgStart::Published)),
        ("hard, from zero", with(Agreement::Hard, CgStart::Zero)),
        ("hard, carried", with(Agreement::Hard, CgStart::Carried)),
        ("to a tolerance", ZUpdate::Cg(Cg::to_tolerance(soft, T::from_f64(1e-4), 40))),
        ("descent", ZUpdate::Descent(Descent::nesterov(soft, T::from_f64(0.02), 5))),
        ("hard descent", ZUpdate::Descent(Descent::nesterov(Agreement::Hard, T::from_f64(0.02), 5))),
    ]
}

fn ranks_solve_like_one<T: Real>(ranks: &[usize]) {
    let (grid, (height, width)) = (Grid::<T>::new(), SIDES);
    let graph = AgentGraph::grid(height, width, Connectivity::Eight).unwrap();
    let whole = Sheaf::uniform(&graph, D_V, D_E).unwrap();
    let options = Options { balancing: Some(Balancing::default()), ..Options::fixed(2) };
    for (name, z_update) in solvers::<T>() {
        for each in [false, true] {
            if each && name == "hard descent" {
                continue;
            }
            let one = with_threads(1, || grid.solve(&whole, &z_update, each, &options));
            for &ranks in ranks {
                on_ranks(ranks, |comm| {
                    let part =
                        GraphPart::grid(height, width, Connectivity::Eight, comm.rank(), ranks).unwrap();
                    let own = own_agents(height * width, comm.rank(), ranks);
                    let sheaf = Sheaf::uniform_part(&part, D_V, D_E, comm).unwrap();
                    let states = own.start * D_V..own.end * D_V;
                    let solved = grid.solve(&sheaf, &z_update, each, &options);
                    for (what, a, b) in
                        [("x", &solved.x, &one.x), ("z", &solved.z, &one.z), ("u", &solved.u, &one.u)]
                    {
                        let first = a
                            .iter()
                            .zip(&b[states.clone()])
                            .position(|(a, b)| a.to_f64().to_bits() != b.to_f64().to_bits());
                        assert!(
                            a.len() == states.len() && first.is_none(),
                            "{name}, {ranks} ranks: {what} at {first:?}"
                        );
                    }
                    assert_eq!(solved.report, one.report, "{name}, {ranks} ranks");
                });
            }
        }
    }
}

#[test]
fn any_number_of_ranks_gives_the_bits_of_one_process() {
    ranks_solve_like_one::<f32>(&[1, 2, 4]);
}

#[test]
fn and_in_f64_with_ranks_that_own_nothing() {
    ranks_solve_like_one::<f64>(&[5]);
}
