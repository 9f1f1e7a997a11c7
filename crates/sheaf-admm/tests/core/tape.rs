//! What a workspace records of a solve, and what a reverse sweep accepts.

use sheaf_admm::admm::{
    Actor, Adjoint, Before, Gradients, Iteration, Mode, Options, Problem, Seeds, Start, States, Workspace,
};
use sheaf_admm::sheaf::MapsGrad;
use sheaf_admm::x_update::{Curvature, Diagonal, Objective, ObjectiveGrad, Penalty, Qp};
use sheaf_admm::z_update::{Agreement, Cg, CgStart, ZUpdate};
use sheaf_admm::{ErrorKind, Result};
use sheaf_testkit::{TestRng, assert_close_max};

use crate::errors::assert_kind;
use crate::net::{Kind, Net};
use crate::point::Point;

const SOFT: Agreement<f64> = Agreement::Soft { gamma: 1.3 };

/// A grid with maps, diagonals and a seed of the last x.
struct Grid {
    net: Net,
    point: Point,
}

impl Grid {
    fn new() -> Self {
        let (net, mut rng, mut point) = (Net::grid(Kind::Table), TestRng::new(9), Point::default());
        net.draw_maps(&mut rng, &mut point);
        point.push("diag", rng.ranges(net.states(), 0.5, 1.5));
        point.push("q", rng.normals(net.states()));
        point.push("d_x", rng.normals(net.states()));
        Self { net, point }
    }

    fn problem<'a>(&'a self, z_update: &'a ZUpdate<f64>) -> Problem<'a, f64> {
        let objective = Objective::Diagonal(Diagonal::new(self.point.get("diag"), self.point.get("q")));
        let op = self.net.op(&self.point);
        Problem { op, objective, z_update, rho: Penalty::Scalar(0.8), relax: 1.2 }
    }

    /// The gradients of the maps and of the penalty.
    fn reverse(
        &self,
        problem: &Problem<'_, f64>,
        adjoint: Adjoint<f64>,
        ws: &mut Workspace<f64>,
    ) -> Result<Vec<f64>> {
        let (mut d_stacks, mut d_rho) = (vec![0.0; self.point.get("stacks").len()], [0.0]);
        let mut grads = Gradients {
            objective: &mut ObjectiveGrad::None,
            maps: &mut MapsGrad::Table(&mut d_stacks),
            rho: &mut d_rho,
            gamma: &mut 0.0,
            eta: &mut 0.0,
            offsets: &mut [],
            edge_weights: &mut [],
            start: &mut [],
        };
        let seeds = Seeds { d_x: self.point.get("d_x"), d_z: None, d_u: None };
        problem.reverse(adjoint, &seeds, &mut grads, ws)?;
        Ok([d_stacks, d_rho.to_vec()].concat())
    }
}

fn run(problem: &Problem<'_, f64>, iterations: usize, ws: &mut Workspace<f64>) {
    problem.solve(Start::Zeros, &Options::fixed(iterations), ws, &mut ()).expect("solves");
}

#[test]
fn a_solve_that_was_not_recorded_is_not_reversed_by_the_tape_of_an_earlier_one() {
    let (grid, z_update) = (Grid::new(), ZUpdate::Cg(Cg::published(SOFT, 4)));
    let problem = grid.problem(&z_update);
    let (replayed, kept) = (Mode::Differentiate { iterations: 5 }, Mode::Keep { iterations: 5 });
    let mut ws = Workspace::new(&problem, kept);
    run(&problem, 5, &mut ws);
    grid.reverse(&problem, Adjoint::Unrolled, &mut ws).expect("recorded");
    // The memory is large enough, but its content is not valid.
    for (first, then) in [(Mode::Solve, replayed), (replayed, kept), (kept, replayed)] {
        ws.fit(&problem, first);
        run(&problem, 5, &mut ws);
        ws.fit(&problem, then);
        assert_kind(grid.reverse(&problem, Adjoint::Unrolled, &mut ws), ErrorKind::Unsupported, "reverse");
        assert_kind(ws.x_at(0), ErrorKind::OutOfRange, "recorded");
        run(&problem, 5, &mut ws);
        grid.reverse(&problem, Adjoint::Unrolled, &mut ws).expect("recorded again");
    }
}

#[test]
fn a_solve_can_be_reversed_more_than_once_whatever_its_tape_keeps() {
    let (grid, z_update) = (Grid::new(), ZUpdate::Cg(Cg::published(SOFT, 60)));
    let problem = grid.problem(&z_update);
    let implicit = Adjoint::Implicit { tolerance: 1e-12, max_terms: 2000 };
    let gradients = |mode: Mode| {
        let mut ws = Workspace::new(&problem, mode);
        run(&problem, 60, &mut ws);
        [Adjoint::Unrolled, implicit, Adjoint::LastSteps(3), implicit, Adjoint::Unrolled]
            .map(|adjoint| grid.reverse(&problem, adjoint, &mut ws).expect("reverses"))
    };
    let replayed = gradients(Mode::Differentiate { iterations: 60 });
    assert_eq!(replayed[0], replayed[4]);
    assert_eq!(replayed[1], replayed[3]);
    let kept = gradients(Mode::Keep { iterations: 60 });
    for (replayed, kept) in replayed.iter().zip(&kept) {
        assert_close_max("kept steps against replayed ones", kept, replayed, 1e-12);
    }
}

#[test]
fn a_tape_grows_by_the_iterates_and_not_by_the_inner_steps() {
    let grid = Grid::new();
    let growth = |steps: usize, mode: fn(usize) -> Mode| {
        let z_update = ZUpdate::Cg(Cg::published(SOFT, steps));
        let problem = grid.problem(&z_update);
        Workspace::new(&problem, mode(30)).len() - Workspace::new(&problem, mode(20)).len()
    };
    let replay = |iterations| Mode::Differentiate { iterations };
    // z, u and x of an iteration, and the penalty's factor.
    assert_eq!(growth(5, replay), 10 * (3 * grid.net.states() + 1));
    assert_eq!(growth(50, replay), growth(5, replay));
    assert!(growth(50, |iterations| Mode::Keep { iterations }) > 50 * growth(50, replay));
}

#[test]
fn an_implicit_adjoint_without_a_tolerance_or_an_end_says_so() {
    let (grid, z_update) = (Grid::new(), ZUpdate::Cg(Cg::published(SOFT, 40)));
    let problem = grid.problem(&z_update);
    let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations: 40 });
    run(&problem, 40, &mut ws);
    for tolerance in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
        let adjoint = Adjoint::Implicit { tolerance, max_terms: usize::MAX };
        assert_kind(grid.reverse(&problem, adjoint, &mut ws), ErrorKind::NotPositive, "tolerance");
    }
    let short = Adjoint::Implicit { tolerance: 1e-12, max_terms: 3 };
    assert_kind(grid.reverse(&problem, short, &mut ws), ErrorKind::SolverFailed, "implicit adjoint");
    // A series with non-finite terms ends there.
    let broken = Grid {
        point: grid.point.with("d_x", &vec![f64::NAN; grid.net.states()]),
        net: Net::grid(Kind::Table),
    };
    let endless = Adjoint::Implicit { tolerance: 1e-12, max_terms: usize::MAX };
    assert_kind(broken.reverse(&problem, endless, &mut ws), ErrorKind::SolverFailed, "implicit adjoint");
}

#[test]
fn an_iteration_that_fails_is_neither_shown_nor_recorded() {
    let (grid, z_update) = (Grid::new(), ZUpdate::Cg(Cg::published(SOFT, 4)));
    // The first coordinate of the first agent must be both below −1 and above 1.
    let mut rows = vec![0; grid.net.agents()];
    rows[0] = 2;
    let (g, h) = ([1.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0], [-1.0, -1.0]);
    let plain = Qp::new(Curvature::Diagonal(grid.point.get("diag")), grid.point.get("q"));
    let objective = Objective::Qp(Qp { in_rows: &rows, g: &g, h: &h, ..plain });
    let problem = Problem { objective, ..grid.problem(&z_update) };
    problem.validate().expect("only the solver can tell");
    let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations: 3 });
    let mut shown = 0;
    let mut watch = |_: &Iteration<'_, '_, f64>| {
        shown += 1;
        true
    };
    let result = problem.solve(Start::Zeros, &Options::fixed(3), &mut ws, &mut watch);
    assert_kind(result, ErrorKind::Infeasible, "agent 0");
    assert_eq!(shown, 0);
    assert_kind(grid.reverse(&problem, Adjoint::Unrolled, &mut ws), ErrorKind::Unsupported, "reverse");
}

/// Changes z and u before one iteration, and remembers what it left.
struct Kick {
    at: usize,
    last: Option<usize>,
    left: [Vec<f64>; 2],
}

impl Actor<f64> for Kick {
    fn act(&mut self, k: usize, before: Before, states: States<'_, f64>) -> bool {
        let hits = k == self.at && before == Before::X;
        if hits {
            states.z.iter_mut().enumerate().for_each(|(i, z)| *z += 0.1 * (i % 5) as f64);
            states.u.iter_mut().step_by(3).for_each(|u| *u = 0.0);
            self.left = [states.z.to_vec(), states.u.to_vec()];
        }
        hits
    }

    fn last(&self) -> Option<usize> {
        self.last
    }
}

#[test]
fn states_changed_before_the_tape_begins_are_the_start_of_what_is_differentiated() {
    let grid = Grid::new();
    let carried = Cg { start: CgStart::Carried, ..Cg::published(Agreement::Hard, 4) };
    for (name, cg) in [("soft", Cg::published(SOFT, 4)), ("hard, with a product carried on", carried)] {
        let z_update = ZUpdate::Cg(cg);
        let problem = grid.problem(&z_update);
        for mode in [Mode::Differentiate { iterations: 5 }, Mode::Keep { iterations: 5 }] {
            let kick = &mut Kick { at: 7, last: Some(7), left: Default::default() };
            let (options, ws) = (Options::fixed(12).taping(5), &mut Workspace::new(&problem, mode));
            problem.solve_acting(Start::Zeros, &options, ws, &mut (), kick).expect("solves");
            let gradients = grid.reverse(&problem, Adjoint::LastSteps(5), ws).expect("reverses");
            let [z, u] = &kick.left;
            let alone = &mut Workspace::new(&problem, mode);
            problem.solve(Start::Warm { z, u }, &Options::fixed(5), alone, &mut ()).expect("solves");
            assert_eq!(ws.x(), alone.x(), "{name}");
            let wanted = grid.reverse(&problem, Adjoint::LastSteps(5), alone).expect("reverses");
            assert_eq!(gradients, wanted, "{name}");
        }
    }
}

#[test]
fn states_changed_on_the_tape_are_refused() {
    let (grid, z_update) = (Grid::new(), ZUpdate::Cg(Cg::published(SOFT, 4)));
    let problem = grid.problem(&z_update);
    let ws = &mut Workspace::new(&problem, Mode::Differentiate { iterations: 5 });
    let options = Options::fixed(12).taping(5);
    // Iteration 7 is the first on the tape. An actor that does not say when it is done may act at any time.
    for (last, accepted) in [(Some(7), true), (Some(8), false), (None, false)] {
        let kick = &mut Kick { at: 7, last, left: Default::default() };
        let solved = problem.solve_acting(Start::Zeros, &options, ws, &mut (), kick);
        match accepted {
            true => drop(solved.expect("solves")),
            false => assert_kind(solved, ErrorKind::Unsupported, "acted upon"),
        }
    }
}
