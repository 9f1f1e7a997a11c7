//! Whole solves of agents that are not in step: gradients, fixed points, batches, memory.

use crate::support::{Case, scaled};
use sheaf_admm::ErrorKind;
use sheaf_admm::admm::{Adjoint, Balancing, Gradients, Mode, Options, Problem, Seeds, Start, Workspace};
use sheaf_admm::sheaf::{AgentGraph, Connectivity, Maps, MapsGrad, Sheaf, SheafOp};
use sheaf_admm::x_update::{Diagonal, DiagonalGrad, Objective, ObjectiveGrad, Penalty};
use sheaf_admm::z_update::{Agreement, Asynchronous, Descent, Draw, Exact, OutOfStep, ZUpdate};
use sheaf_kernels::gemm::may_allocate;
use sheaf_testkit::{TestRng, allocations, assert_vjp};

const SOFT: Agreement<f64> = Agreement::Soft { gamma: 1.3 };
const LAG: OutOfStep = OutOfStep { delay: 3, loss: 0.3, activity: 0.6, seed: 11 };
const DRAW: Draw = Draw { step: 7, sample: 4 };

/// The inputs of a solve, one after the other in one vector: diag, q, h, maps, rho, gamma, eta.
struct Inputs<'a> {
    case: &'a Case,
    sizes: [usize; 7],
}

impl<'a> Inputs<'a> {
    fn new(case: &'a Case, rhos: usize) -> Self {
        let n = case.sheaf.state_len();
        Self { case, sizes: [n, n, n, case.params.len(), rhos, 1, 1] }
    }

    fn point(&self) -> Vec<f64> {
        let (n, mut rng) = (self.sizes[0], TestRng::new(5));
        let mut point = rng.ranges(n, 0.3, 1.5);
        point.extend(rng.normals(2 * n));
        point.extend(&self.case.params);
        point.extend(rng.ranges(self.sizes[4], 0.6, 1.4));
        point.extend([1.3, 0.06]);
        point
    }

    fn cut<'p>(&self, point: &'p [f64]) -> [&'p [f64]; 7] {
        let mut start = 0;
        self.sizes.map(|len| {
            start += len;
            &point[start - len..start]
        })
    }

    /// Runs `f` with the problem of a point.
    fn with<R>(
        &self,
        point: &[f64],
        hard: bool,
        lag: OutOfStep,
        f: impl FnOnce(&Problem<'_, f64>, &[f64]) -> R,
    ) -> R {
        let [diag, q, h, maps, rho, gamma, eta] = self.cut(point);
        let agreement = if hard { Agreement::Hard } else { Agreement::Soft { gamma: gamma[0] } };
        let descent = Descent { momentum: 0.5, ..Descent::nesterov(agreement, eta[0], 2) };
        let z_update = ZUpdate::Asynchronous(Asynchronous { descent, warm: !hard, lag });
        let problem = Problem {
            op: SheafOp::new(&self.case.sheaf, self.case.maps(maps)).unwrap(),
            objective: Objective::Diagonal(Diagonal::new(diag, q)),
            z_update: &z_update,
            rho: if rho.len() == 1 { Penalty::Scalar(rho[0]) } else { Penalty::PerAgent(rho) },
            relax: 1.2,
        };
        f(&problem, h)
    }

    /// The last two x, z and u.
    fn forward(&self, point: &[f64], hard: bool, lag: OutOfStep, k: usize) -> Vec<f64> {
        self.with(point, hard, lag, |problem, h| {
            let mut ws = Workspace::new(problem, Mode::Differentiate { iterations: k });
            problem.solve(Start::At(h), &Options::fixed(k).drawing(DRAW), &mut ws, &mut ()).unwrap();
            [ws.last_x(2).unwrap(), ws.z(), ws.u()].concat()
        })
    }

    fn vjp(
        &self,
        point: &[f64],
        hard: bool,
        lag: OutOfStep,
        k: usize,
        cotangent: &[f64],
        ws: &mut Workspace<f64>,
    ) -> Vec<f64> {
        self.with(point, hard, lag, |problem, h| {
            ws.fit(problem, Mode::Keep { iterations: k });
            problem.solve(Start::At(h), &Options::fixed(k).drawing(DRAW), ws, &mut ()).unwrap();
            let n = h.len();
            let [mut diag, mut q, mut start, mut maps, mut rho, mut gamma, mut eta] =
                self.sizes.map(|len| vec![0.0; len]);
            let grad = DiagonalGrad { diag: Some(&mut diag), q: Some(&mut q), ..DiagonalGrad::default() };
            let (d_x, rest) = cotangent.split_at(2 * n);
            let seeds = Seeds { d_x, d_z: Some(&rest[..n]), d_u: Some(&rest[n..]) };
            let mut grads = Gradients {
                objective: &mut ObjectiveGrad::Diagonal(grad),
                maps: &mut self.case.maps_grad(&mut maps),
                rho: &mut rho,
                gamma: &mut gamma[0],
                eta: &mut eta[0],
                offsets: &mut [],
                edge_weights: &mut [],
                start: &mut start,
            };
            problem.reverse(Adjoint::Unrolled, &seeds, &mut grads, ws).unwrap();
            [diag, q, start, maps, rho, gamma, eta].concat()
        })
    }
}

#[test]
fn gradients_go_back_through_the_messages_as_they_were_sent() {
    let k = 6;
    for case in Case::all(4) {
        for (hard, lag) in [
            (false, LAG),
            (true, LAG),
            (false, OutOfStep { delay: 5, loss: 0.0, activity: 1.0, seed: 1 }),
            (true, OutOfStep { delay: 0, loss: 0.5, activity: 1.0, seed: 2 }),
            (false, OutOfStep { delay: 0, loss: 0.0, activity: 0.3, seed: 3 }),
        ] {
            for rhos in [1, case.sheaf.agents()] {
                let (inputs, mut ws) = (Inputs::new(&case, rhos), Workspace::default());
                let point = inputs.point();
                assert_vjp(
                    &format!("{}, hard {hard}, {lag}, {rhos} penalties", case.name),
                    &mut |point| inputs.forward(point, hard, lag, k),
                    &point,
                    &mut |cotangent| inputs.vjp(&point, hard, lag, k, cotangent, &mut ws),
                );
            }
        }
    }
}

#[test]
fn every_lag_changes_the_states_and_every_draw_too() {
    let case = Case::table(2);
    let inputs = Inputs::new(&case, 1);
    let point = inputs.point();
    let run = |lag| inputs.forward(&point, false, lag, 8);
    let none = OutOfStep::NONE;
    let in_step = run(none);
    for lag in
        [OutOfStep { delay: 1, ..none }, OutOfStep { loss: 0.2, ..none }, OutOfStep { activity: 0.8, ..none }]
    {
        let one = run(lag);
        assert_ne!(one, in_step, "{lag}");
        assert_eq!(one, run(lag));
        assert_ne!(one, run(OutOfStep { seed: 1, ..lag }), "{lag}");
    }
    assert_eq!(in_step, run(OutOfStep { seed: 1, ..none }));
}

#[test]
fn a_second_solve_and_its_reverse_sweep_ask_for_no_memory() {
    let case = Case::table(1);
    let (inputs, mut ws) = (Inputs::new(&case, 1), Workspace::default());
    let (point, n) = (inputs.point(), case.sheaf.state_len());
    inputs.with(&point, false, LAG, |problem, h| {
        let d_x = TestRng::new(1).normals(2 * n);
        let (mut maps, mut rho, mut gamma, mut eta) = (vec![0.0; case.params.len()], [0.0], 0.0, 0.0);
        let mut maps = case.maps_grad(&mut maps);
        let mut run = || {
            ws.fit(problem, Mode::Keep { iterations: 6 });
            problem.solve(Start::At(h), &Options::fixed(6), &mut ws, &mut ()).unwrap();
            let mut grads = Gradients {
                objective: &mut ObjectiveGrad::None,
                maps: &mut maps,
                rho: &mut rho,
                gamma: &mut gamma,
                eta: &mut eta,
                offsets: &mut [],
                edge_weights: &mut [],
                start: &mut [],
            };
            let seeds = Seeds { d_x: &d_x, d_z: None, d_u: None };
            problem.reverse(Adjoint::Unrolled, &seeds, &mut grads, &mut ws).unwrap();
        };
        run();
        let count = allocations(run);
        assert!(count == 0 || may_allocate(), "{count}");
    });
}

#[test]
fn late_and_lost_messages_and_sleep_do_not_move_the_solution_of_a_warm_descent() {
    let case = Case::mixed(6);
    let n = case.sheaf.state_len();
    let mut rng = TestRng::new(6);
    let (diag, q) = (rng.ranges(n, 0.4, 1.2), rng.normals(n));
    let solve = |z_update: &ZUpdate<f64>, k: usize| {
        let problem = Problem {
            op: case.op(),
            objective: Objective::Diagonal(Diagonal::new(&diag, &q)),
            z_update,
            rho: Penalty::Scalar(0.8),
            relax: 1.0,
        };
        let mut ws = Workspace::new(&problem, Mode::Solve);
        problem.solve(Start::Zeros, &Options::fixed(k), &mut ws, &mut ()).unwrap();
        ws.x().to_vec()
    };
    let exact = solve(&ZUpdate::Exact(Exact::new(&case.sheaf, SOFT)), 2000);
    for (steps, lag) in [(1, LAG), (3, LAG), (2, OutOfStep { delay: 10, loss: 0.5, activity: 0.3, seed: 3 })]
    {
        let descent = Descent { momentum: 0.0, ..Descent::nesterov(SOFT, 0.05, steps) };
        let x = solve(&ZUpdate::Asynchronous(Asynchronous { descent, warm: true, lag }), 20_000);
        let worst = x.iter().zip(&exact).fold(0.0f64, |m, (a, b)| m.max((a - b).abs()));
        assert!(worst < 1e-9, "{lag}: {worst:e}");
    }
}

#[test]
fn a_sample_of_a_batch_has_the_bits_that_it_has_alone() {
    let graph = AgentGraph::grid(3, 3, Connectivity::Eight).unwrap();
    let sheaf = Sheaf::uniform(&graph, 3, 1).unwrap();
    let (n, samples) = (sheaf.state_len(), 3);
    let mut stack = vec![0.0; 3 * 16];
    Sheaf::pack_stack(&scaled(TestRng::new(1).normals(24), 0.5), 3, &mut stack).unwrap();
    let mut rng = TestRng::new(2);
    let (diag, q, h) =
        (rng.ranges(samples * n, 0.3, 1.0), rng.normals(samples * n), rng.normals(samples * n));
    let d_x = rng.normals(samples * n);
    let descent = Descent::nesterov(SOFT, 0.05, 2);
    let z_update = ZUpdate::Asynchronous(Asynchronous { descent, warm: true, lag: LAG });
    let run = |first: usize, count: usize| {
        let own = first * n..(first + count) * n;
        let problem = Problem {
            op: SheafOp::batch(&sheaf, Maps::Stack(&stack), count).unwrap(),
            objective: Objective::Diagonal(Diagonal::new(&diag[own.clone()], &q[own.clone()])),
            z_update: &z_update,
            rho: Penalty::Scalar(0.8),
            relax: 1.0,
        };
        let mut ws = Workspace::new(&problem, Mode::Keep { iterations: 6 });
        let options = Options::fixed(6).drawing(Draw { step: 1, sample: 20 + first as u64 });
        problem.solve(Start::At(&h[own.clone()]), &options, &mut ws, &mut ()).unwrap();
        let x = ws.x().to_vec();
        let (mut start, mut gamma, mut eta) = (vec![0.0; count * n], 0.0, 0.0);
        let mut grads = Gradients {
            objective: &mut ObjectiveGrad::None,
            maps: &mut MapsGrad::None,
            rho: &mut [0.0],
            gamma: &mut gamma,
            eta: &mut eta,
            offsets: &mut [],
            edge_weights: &mut [],
            start: &mut start,
        };
        let seeds = Seeds { d_x: &d_x[own], d_z: None, d_u: None };
        problem.reverse(Adjoint::Unrolled, &seeds, &mut grads, &mut ws).unwrap();
        (x, start)
    };
    let (x, d_h) = run(0, samples);
    for b in 0..samples {
        let (one, d_one) = run(b, 1);
        assert_eq!(&x[b * n..][..n], &one[..], "sample {b}");
        assert_eq!(&d_h[b * n..][..n], &d_one[..], "gradient of sample {b}");
    }
    assert_ne!(run(0, 1).0, run(1, 1).0);
}

#[test]
fn what_needs_sums_over_all_agents_is_refused() {
    let case = Case::shared(1);
    let inputs = Inputs::new(&case, 1);
    inputs.with(&inputs.point(), false, LAG, |problem, h| {
        let mut ws = Workspace::new(problem, Mode::Differentiate { iterations: 4 });
        for options in [
            Options::until(1e-3, 0.0, 4),
            Options { balancing: Some(Balancing::default()), ..Options::fixed(4) },
        ] {
            let error = problem.solve(Start::At(h), &options, &mut ws, &mut ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
        problem.solve(Start::At(h), &Options::fixed(4), &mut ws, &mut ()).unwrap();
        let (d_x, mut gamma, mut eta) = (vec![1.0; h.len()], 0.0, 0.0);
        let mut grads = Gradients {
            objective: &mut ObjectiveGrad::None,
            maps: &mut MapsGrad::None,
            rho: &mut [0.0],
            gamma: &mut gamma,
            eta: &mut eta,
            offsets: &mut [],
            edge_weights: &mut [],
            start: &mut [],
        };
        let implicit = Adjoint::Implicit { tolerance: 1e-6, max_terms: 10 };
        let seeds = Seeds { d_x: &d_x, d_z: None, d_u: None };
        let error = problem.reverse(implicit, &seeds, &mut grads, &mut ws).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    });
}
