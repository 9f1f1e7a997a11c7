//! Samples that end at different times.

use sheaf_admm::admm::{
    Adjoint, Gradients, Iteration, Mode, Observer, Options, Problem, Seeds, Start, Status, Trace, Workspace,
};
use sheaf_admm::x_update::ObjectiveGrad;
use sheaf_admm::z_update::{Agreement, Cg, CgStart, Gram, ZUpdate};
use sheaf_testkit::TestRng;

use crate::support::{Batch, SOFT, close};

const K: usize = 7;

/// Ends each sample after its own number of iterations.
struct Ends {
    after: [usize; 3],
    k: usize,
    seen: Vec<Vec<bool>>,
}

impl Observer<f64> for Ends {
    fn iteration(&mut self, view: &Iteration<'_, '_, f64>) -> bool {
        self.k = view.k + 1;
        self.seen.push(view.running.to_vec());
        true
    }

    fn goes_on(&mut self, b: usize) -> bool {
        self.k < self.after[b]
    }
}

fn solvers() -> [ZUpdate<f64>; 2] {
    [ZUpdate::Gram(Gram::published(SOFT, 3)), ZUpdate::Cg(Cg::published(SOFT, 3))]
}

/// Gradients of maps, ρ and the start.
fn reverse(
    batch: &Batch,
    problem: &Problem<'_, f64>,
    adjoint: Adjoint<f64>,
    ws: &mut Workspace<f64>,
    point: &[f64],
    scale: &[f64],
) -> Vec<f64> {
    let n = batch.sheaf.state_len();
    let weigh = |seed: Vec<f64>| -> Vec<f64> {
        seed.into_iter().enumerate().map(|(i, v)| v * scale[i / n % batch.samples]).collect()
    };
    let mut rng = TestRng::new(3);
    let (d_x, d_z) = (weigh(rng.normals(2 * batch.states())), weigh(rng.normals(batch.states())));
    let prepared = batch.prepare(point);
    let mut maps = prepared.grads(batch);
    let (mut d_rho, mut d_gamma, mut d_eta, mut d_h) = ([0.0], 0.0, 0.0, vec![0.0; batch.states()]);
    let mut grads = Gradients {
        objective: &mut ObjectiveGrad::None,
        maps: &mut maps.maps(),
        rho: &mut d_rho,
        gamma: &mut d_gamma,
        eta: &mut d_eta,
        offsets: &mut [],
        edge_weights: &mut [],
        start: &mut d_h,
    };
    problem.reverse(adjoint, &Seeds { d_x: &d_x, d_z: Some(&d_z), d_u: None }, &mut grads, ws).unwrap();
    [maps.fold(batch, &prepared), d_rho.to_vec(), vec![d_gamma], d_h].concat()
}

#[test]
fn a_sample_keeps_what_it_had_when_it_ended_while_others_go_on() {
    for batch in Batch::all(3) {
        let point = batch.point(1);
        let (prepared, n) = (batch.prepare(&point), batch.sheaf.state_len());
        let h = batch.cut(&point)[5];
        // One that carries its solution from one iteration to the next.
        let carried = Cg { start: CgStart::Carried, ..Cg::published(Agreement::Hard, 3) };
        for z_update in solvers().into_iter().chain([ZUpdate::Cg(carried)]) {
            let problem = batch.problem(&point, &prepared, &z_update);
            for mode in [Mode::Solve, Mode::Keep { iterations: K }] {
                let (mut trace, after) = (Trace::default(), [2, K, 4]);
                let mut ws = Workspace::new(&problem, mode);
                problem.solve(Start::At(h), &Options::fixed(K), &mut ws, &mut trace).unwrap();
                let mut ends = Ends { after, k: 0, seen: Vec::new() };
                let report = problem.solve(Start::At(h), &Options::fixed(K), &mut ws, &mut ends).unwrap();
                assert_eq!((report.status, report.iterations), (Status::Stopped, K));
                assert_eq!(ends.seen[4], [false, true, false]);
                for (b, sample) in ws.samples().iter().enumerate() {
                    assert_eq!(sample.iterations, after[b]);
                    let at = ((after[b] - 1) * 3 + b) * n;
                    for (all, got) in [(&trace.x, ws.x()), (&trace.z, ws.z()), (&trace.u, ws.u())] {
                        assert_eq!(&got[b * n..][..n], &all[at..][..n], "{}, sample {b}", batch.name);
                    }
                    if mode != Mode::Solve {
                        assert_eq!(ws.last_x_of(b, 1).unwrap(), &trace.x[at - 3 * n..][..n]);
                    }
                }
            }
        }
    }
}

#[test]
fn the_gradients_of_samples_that_ended_apart_are_those_of_each_alone() {
    for batch in Batch::all(3) {
        let point = batch.point(2);
        let (prepared, after) = (batch.prepare(&point), [2, K, 4]);
        let h = batch.cut(&point)[5];
        for z_update in solvers() {
            let problem = batch.problem(&point, &prepared, &z_update);
            for mode in [Mode::Differentiate { iterations: K }, Mode::Keep { iterations: K }] {
                for adjoint in [Adjoint::Unrolled, Adjoint::LastSteps(3)] {
                    let mut ws = Workspace::new(&problem, mode);
                    let mut ends = Ends { after, k: 0, seen: Vec::new() };
                    problem.solve(Start::At(h), &Options::fixed(K), &mut ws, &mut ends).unwrap();
                    let got = reverse(&batch, &problem, adjoint, &mut ws, &point, &[1.0; 3]);
                    let mut want = vec![0.0; got.len()];
                    for b in 0..3 {
                        // All samples run as long as this one, and only this one has seeds.
                        problem.solve(Start::At(h), &Options::fixed(after[b]), &mut ws, &mut ()).unwrap();
                        let scale = [0, 1, 2].map(|other| if other == b { 1.0 } else { 0.0 });
                        let alone = reverse(&batch, &problem, adjoint, &mut ws, &point, &scale);
                        want.iter_mut().zip(alone).for_each(|(want, alone)| *want += alone);
                    }
                    close(
                        &format!("{}, {z_update:?}, {mode:?}, {adjoint:?}", batch.name),
                        &got,
                        &want,
                        1e-11,
                    );
                }
            }
        }
    }
}

#[test]
fn each_sample_meets_its_tolerance_at_the_iteration_it_would_alone() {
    let batch = Batch::grid(3, false);
    let mut point = batch.point(3);
    let (n, at) = (batch.sheaf.state_len(), batch.lens()[..4].iter().sum::<usize>());
    // The second sample has an easy objective.
    point[at + n..at + 2 * n].fill(0.0);
    let (prepared, h) = (batch.prepare(&point), vec![0.0; batch.states()]);
    let exact =
        [ZUpdate::Gram(Gram::to_tolerance(SOFT, 1e-9, 200)), ZUpdate::Cg(Cg::to_tolerance(SOFT, 1e-9, 200))];
    // Three steps of a consensus solver settle at a point that is not the solution.
    let rough = solvers().map(|z_update| (z_update, Status::Settled));
    for (z_update, end) in exact.map(|z_update| (z_update, Status::Solved)).into_iter().chain(rough) {
        let problem = batch.problem(&point, &prepared, &z_update);
        let (mut ws, options) = (Workspace::new(&problem, Mode::Solve), Options::until(1e-6, 1e-6, 400));
        let options = if end == Status::Settled { options.iterates_only() } else { options };
        let report = problem.solve(Start::At(&h), &options, &mut ws, &mut ()).unwrap();
        let samples = ws.samples().to_vec();
        assert_eq!(report.status, end);
        assert!(samples.iter().all(|s| s.status == end && s.residuals.unwrap().met()));
        assert!(samples[1].iterations < samples[0].iterations, "{samples:?}");
        assert_eq!(report.iterations, samples.iter().map(|s| s.iterations).max().unwrap());
        let solves: usize = samples.iter().map(|s| s.iterations).sum();
        if let (ZUpdate::Cg(_), Status::Settled) = (&z_update, end) {
            assert_eq!((report.inner.solves, report.inner.steps), (solves, 3 * solves));
        }
        let short =
            problem.solve(Start::At(&h), &Options { iterations: 3, ..options }, &mut ws, &mut ()).unwrap();
        assert_eq!(short.status, Status::IterationLimit);
        assert_eq!(ws.samples()[1].status, end);
    }
}

#[test]
fn inner_solves_that_miss_their_tolerance_are_counted() {
    let batch = Batch::triples(2, true);
    let point = batch.point(4);
    let prepared = batch.prepare(&point);
    for z_update in
        [ZUpdate::Gram(Gram::to_tolerance(SOFT, 1e-10, 2)), ZUpdate::Cg(Cg::to_tolerance(SOFT, 1e-10, 2))]
    {
        let problem = batch.problem(&point, &prepared, &z_update);
        let mut ws = Workspace::new(&problem, Mode::Solve);
        let h = batch.cut(&point)[5];
        let inner = problem.solve(Start::At(h), &Options::fixed(4), &mut ws, &mut ()).unwrap().inner;
        assert_eq!((inner.solves, inner.steps, inner.missed), (8, 16, 8));
    }
}

#[test]
fn a_solve_that_stops_at_its_x_gives_the_same_x() {
    for batch in Batch::all(2) {
        let point = batch.point(5);
        let (prepared, h) = (batch.prepare(&point), batch.cut(&point)[5]);
        for z_update in solvers() {
            let problem = batch.problem(&point, &prepared, &z_update);
            for mode in [Mode::Solve, Mode::Differentiate { iterations: K }] {
                let (mut ws, mut x_only) = (Workspace::new(&problem, mode), Workspace::new(&problem, mode));
                problem.solve(Start::At(h), &Options::fixed(K), &mut ws, &mut ()).unwrap();
                let options = Options::fixed(K).x_only();
                let report = problem.solve(Start::At(h), &options, &mut x_only, &mut ()).unwrap();
                assert_eq!((report.residuals, report.inner.solves % (K - 1)), (None, 0));
                assert_eq!(ws.x(), x_only.x());
                problem.solve(Start::At(h), &Options::fixed(K - 1), &mut ws, &mut ()).unwrap();
                assert_eq!((ws.z(), ws.u()), (x_only.z(), x_only.u()));
            }
        }
    }
}
