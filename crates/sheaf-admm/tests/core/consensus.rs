//! Conjugate gradients against the textbook solution of the same consensus problem.

use sheaf_admm::z_update::{Agreement, Cg, CgStart, Stop, ZUpdate};
use sheaf_testkit::{TestRng, assert_close_max};

use crate::net::{Net, penalty};
use crate::point::Point;

struct Case {
    net: Net,
    point: Point,
    w: Vec<f64>,
    z_prev: Vec<f64>,
    rho: Vec<f64>,
}

impl Case {
    fn all() -> impl Iterator<Item = Self> {
        let seeded = |seed: u64| {
            let nets = Net::all_small().into_iter().chain([Net::random(seed)]);
            nets.map(move |net| (net, seed))
        };
        (1..4).flat_map(seeded).flat_map(|(net, seed)| {
            let mut rng = TestRng::new(seed);
            let mut point = Point::default();
            net.draw_maps(&mut rng, &mut point);
            let [w, z_prev] = [(); 2].map(|()| rng.normals(net.states()));
            let rho = rng.ranges(if seed == 1 { 1 } else { net.agents() }, 0.2, 2.0);
            std::iter::once(Self { net, point, w, z_prev, rho })
        })
    }

    fn solve(&self, cg: Cg<f64>) -> Vec<f64> {
        let (op, z_update) = (self.net.op(&self.point), ZUpdate::Cg(cg));
        let mut scratch = vec![f64::NAN; z_update.forward_scratch_len(&op)];
        let mut z = vec![f64::NAN; self.w.len()];
        let (rho, z_prev) = (penalty(&self.rho), &self.z_prev);
        let report = z_update.forward(&op, &rho, &self.w, z_prev, &mut [], &mut z, &mut scratch);
        assert!(report.expect("solves").converged, "{}", self.net.name);
        z
    }

    /// The penalty of every coordinate.
    fn weights(&self) -> Vec<f64> {
        let rho = penalty(&self.rho);
        let ranges = self.net.sheaf.state_offsets().windows(2).enumerate();
        ranges.flat_map(|(i, range)| vec![rho.of(i); range[1] - range[0]]).collect()
    }
}

#[test]
fn converged_soft_consensus_is_the_dense_solution_from_every_start() {
    for case in Case::all() {
        let expected = case.net.dense(&case.point).soft_weighted(&case.w, 1.7, &case.weights());
        let cg = Cg::to_tolerance(Agreement::Soft { gamma: 1.7 }, 1e-14, 300);
        for start in [CgStart::Published, CgStart::Warm, CgStart::Zero] {
            let z = case.solve(Cg { start, ..cg });
            assert_close_max(&format!("{}, {start:?}", case.net.name), &z, &expected, 1e-11);
        }
    }
}

#[test]
fn converged_hard_consensus_is_the_weighted_projection() {
    for case in Case::all() {
        let dense = case.net.dense(&case.point);
        let z = case.solve(Cg::to_tolerance(Agreement::Hard, 1e-14, 300));
        let expected = dense.project_weighted(&case.w, &case.weights());
        assert_close_max(&case.net.name, &z, &expected, 1e-11);
        let residual = dense.coboundary().mul_vec(&z);
        assert!(residual.iter().all(|r| r.abs() < 1e-11), "{}: F z = {residual:?}", case.net.name);
    }
}

#[test]
fn the_published_hard_start_keeps_the_kernel_part_of_the_previous_state() {
    // No step leaves the range of L, so the solution keeps P(w − z_prev) and the result is
    // w − (I − P) w − P(w − z_prev) = P z_prev, for any w.
    for case in Case::all().filter(|case| case.rho.len() == 1) {
        let cg = Cg::to_tolerance(Agreement::Hard, 1e-14, 300);
        let z = case.solve(Cg { start: CgStart::Published, ..cg });
        let expected = case.net.dense(&case.point).project(&case.z_prev);
        assert_close_max(&case.net.name, &z, &expected, 1e-10);
    }
}

#[test]
fn soft_consensus_tends_to_the_projection_as_disagreement_grows_dear() {
    for case in Case::all() {
        let expected = case.net.dense(&case.point).project_weighted(&case.w, &case.weights());
        let error = |gamma: f64| {
            let z = case.solve(Cg::to_tolerance(Agreement::Soft { gamma }, 1e-12, 2000));
            z.iter().zip(&expected).map(|(z, e)| (z - e).abs()).fold(0.0, f64::max)
        };
        let errors = [1e3, 1e5, 1e7].map(error);
        // The distance decreases as 1/gamma: a hundredfold gamma leaves a hundredth of it.
        assert!(
            errors[1] < 0.02 * errors[0] && errors[2] < 0.02 * errors[1],
            "{}: {errors:?}",
            case.net.name
        );
        assert!(errors[2] < 1e-4, "{}: {errors:?}", case.net.name);
    }
}

#[test]
fn an_absolute_tolerance_ends_at_the_first_residual_below_it() {
    let (gamma, absolute) = (1.7, 1e-5);
    for case in Case::all() {
        let (op, weights) = (case.net.op(&case.point), case.weights());
        let laplacian = case.net.dense(&case.point).laplacian();
        let run = |stop: Stop<f64>| {
            let cg = Cg { stop, ..Cg::to_tolerance(Agreement::Soft { gamma }, 1.0, 0) };
            let z_update = ZUpdate::Cg(cg);
            z_update.validate(&op).expect("valid");
            let mut scratch = vec![f64::NAN; z_update.forward_scratch_len(&op)];
            let (mut z, w) = (vec![f64::NAN; case.w.len()], &case.w);
            let rho = penalty(&case.rho);
            let report = z_update.forward(&op, &rho, w, &case.z_prev, &mut [], &mut z, &mut scratch);
            let lz = laplacian.mul_vec(&z);
            let slope = |k: usize| gamma * lz[k] + weights[k] * (z[k] - w[k]);
            let residual = (0..z.len()).map(|k| slope(k) * slope(k)).sum::<f64>().sqrt();
            (report.expect("solves"), residual)
        };
        let (report, residual) = run(Stop::Tolerance { absolute, relative: 0.0, max_steps: 300 });
        assert!(report.converged && report.steps > 1 && residual <= 1.001 * absolute, "{}", case.net.name);
        let (_, before) = run(Stop::Steps(report.steps - 1));
        assert!(before > 0.999 * absolute, "{}: {before}", case.net.name);
        let (short, _) = run(Stop::Tolerance { absolute, relative: 0.0, max_steps: report.steps - 1 });
        assert_eq!((short.steps, short.converged), (report.steps - 1, false), "{}", case.net.name);
    }
}
