//! Converged solves against an interior-point method on the whole problem at once:
//!
//! ```text
//! min Σ f_i(x_i)   with   F x = 0   and every agent's own constraints
//! ```
//!
//! Each agent draws one of five families. All constraints hold at a random point of ker F, so that a solution exists.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettings, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus, SupportedConeT, ZeroConeT,
};
use sheaf_admm::admm::{Balancing, Mode, Options, Problem, Start, Status, Workspace};
use sheaf_admm::x_update::{
    Coefficient, Curvature, Dense, Diagonal, Equality, Objective, Penalty, Qp, Tether,
};
use sheaf_admm::z_update::{Agreement, Exact, ZUpdate};
use sheaf_testkit::TestRng;

use crate::net::Net;
use crate::point::{Point, dot};

/// The problem of one agent: ½xᵀQx + q·x + l1‖x‖₁ with A x = b, G x ≤ h, lo ≤ x ≤ hi; fields a family lacks are empty.
#[derive(Default)]
struct Local {
    family: usize,
    quad: Vec<f64>, // [d, d]
    diag: Vec<f64>, // [d], where Q is diagonal
    q: Vec<f64>,    // [d]
    l1: Vec<f64>,   // [d]
    a: Vec<f64>,    // [1, d]
    b: Vec<f64>,    // [1]
    g: Vec<f64>,    // [2, d]
    h: Vec<f64>,    // [2]
    lo: Vec<f64>,   // [d]
    hi: Vec<f64>,   // [d]
    beta: f64,
    anchor: Vec<f64>, // [d]
}

impl Local {
    fn draw(rng: &mut TestRng, feasible: &[f64]) -> Self {
        let d = feasible.len();
        let mut local = Self { family: rng.below(5), q: rng.normals(d), ..Self::default() };
        local.diag = rng.ranges(d, 0.3, 2.0);
        let root = rng.normals(d * d);
        let gram = |i: usize, j: usize| dot(&root[i * d..][..d], &root[j * d..][..d]) / d as f64;
        let dense = |i, j| gram(i, j) + if i == j { 0.3 } else { 0.0 };
        local.quad = (0..d * d).map(|k| dense(k / d, k % d)).collect();
        let bounds = |rng: &mut TestRng, sign: f64| {
            feasible.iter().map(|z| z + sign * rng.range(0.05, 0.5)).collect::<Vec<f64>>()
        };
        match local.family {
            0 => {
                local.l1 = rng.ranges(d, 0.05, 0.5);
                (local.lo, local.hi) = (bounds(rng, -1.0), bounds(rng, 1.0));
            }
            1 => (local.beta, local.anchor) = (0.8, rng.normals(d)),
            2 => {}
            3 => {
                local.a = rng.normals(d);
                local.b = vec![dot(&local.a, feasible)];
            }
            _ => {
                local.g = rng.normals(2 * d);
                local.h = local.g.chunks_exact(d).map(|row| dot(row, feasible) + 0.1).collect();
                (local.lo, local.hi) = (bounds(rng, -1.0), bounds(rng, 1.0));
            }
        }
        // From here on Q and q hold the whole quadratic part, for every family.
        if matches!(local.family, 0 | 1) {
            let entry = |i: usize| if local.family == 0 { local.diag[i] } else { local.beta };
            local.quad = (0..d * d).map(|k| if k / d == k % d { entry(k / d) } else { 0.0 }).collect();
        }
        if local.family == 1 {
            local.q = local.anchor.iter().map(|h| -local.beta * h).collect();
        }
        local
    }

    fn objective(&self) -> Objective<'_, f64> {
        let each = |c| Some(Coefficient::PerCoordinate(c));
        match self.family {
            0 => {
                let plain = Diagonal::new(&self.diag, &self.q);
                Objective::Diagonal(Diagonal {
                    l1: each(&self.l1[..]),
                    lo: each(&self.lo),
                    hi: each(&self.hi),
                    ..plain
                })
            }
            1 => Objective::Tether(Tether { beta: self.beta, anchor: &self.anchor }),
            2 => Objective::Dense(Dense { quad: &self.quad, q: &self.q }),
            3 => {
                let quad = Curvature::Dense(&self.quad[..]);
                Objective::Equality(Equality { quad, q: &self.q, rows: &[1], a: &self.a, b: &self.b })
            }
            _ => {
                let plain = Qp::new(Curvature::Dense(&self.quad), &self.q);
                let (lo, hi) = (each(&self.lo[..]), each(&self.hi[..]));
                Objective::Qp(Qp { in_rows: &[2], g: &self.g, h: &self.h, lo, hi, ..plain })
            }
        }
    }
}

/// Rows of a sparse system, collected one by one.
#[derive(Default)]
struct Rows {
    entries: Vec<(usize, usize, f64)>,
    right: Vec<f64>,
}

impl Rows {
    fn push(&mut self, entries: impl IntoIterator<Item = (usize, f64)>, right: f64) {
        let row = self.right.len();
        self.entries.extend(entries.into_iter().map(|(col, value)| (row, col, value)));
        self.right.push(right);
    }
}

fn csc(rows: usize, cols: usize, entries: &[(usize, usize, f64)]) -> CscMatrix<f64> {
    let (i, j) = entries.iter().map(|e| (e.0, e.1)).unzip();
    CscMatrix::new_from_triplets(rows, cols, i, j, entries.iter().map(|e| e.2).collect())
}

/// The whole problem in the variables (x, t), t ≥ |x| for the l1 terms.
fn interior_point(net: &Net, point: &Point, locals: &[Local]) -> Vec<f64> {
    let n = net.states();
    let (mut equal, mut below, mut quad) = (Rows::default(), Rows::default(), Vec::new());
    let mut linear = vec![0.0; 2 * n];
    let coboundary = net.dense(point).coboundary();
    for row in 0..coboundary.rows() {
        equal.push((0..n).map(|col| (col, coboundary.get(row, col))).filter(|e| e.1 != 0.0), 0.0);
    }
    for (local, &start) in locals.iter().zip(net.sheaf.state_offsets()) {
        let d = local.q.len();
        for i in 0..d {
            quad.extend((i..d).map(|j| (start + i, start + j, local.quad[i * d + j])).filter(|e| e.2 != 0.0));
            linear[start + i] = local.q[i];
            linear[n + start + i] = local.l1.get(i).copied().unwrap_or(0.0);
            below.push([(start + i, 1.0), (n + start + i, -1.0)], 0.0);
            below.push([(start + i, -1.0), (n + start + i, -1.0)], 0.0);
            // Where t costs nothing it must still be bounded.
            below.push([(n + start + i, 1.0)], 100.0);
            if let (Some(&lo), Some(&hi)) = (local.lo.get(i), local.hi.get(i)) {
                below.push([(start + i, -1.0)], -lo);
                below.push([(start + i, 1.0)], hi);
            }
        }
        let at = |row: &[f64]| row.iter().enumerate().map(|(i, &v)| (start + i, v)).collect::<Vec<_>>();
        local.a.chunks_exact(d).zip(&local.b).for_each(|(row, &b)| equal.push(at(row), b));
        local.g.chunks_exact(d).zip(&local.h).for_each(|(row, &h)| below.push(at(row), h));
    }
    let (equalities, all) = (equal.right.len(), equal.right.len() + below.right.len());
    let shifted = below.entries.iter().map(|&(row, col, value)| (row + equalities, col, value));
    let entries: Vec<_> = equal.entries.iter().copied().chain(shifted).collect();
    let right = [equal.right, below.right].concat();
    let cones: [SupportedConeT<f64>; 2] = [ZeroConeT(equalities), NonnegativeConeT(all - equalities)];
    let settings = DefaultSettings {
        verbose: false,
        tol_gap_abs: 1e-11,
        tol_gap_rel: 1e-11,
        tol_feas: 1e-11,
        ..DefaultSettings::default()
    };
    let (quad, rows) = (csc(2 * n, 2 * n, &quad), csc(all, 2 * n, &entries));
    let mut solver =
        DefaultSolver::new(&quad, &linear, &rows, &right, &cones, settings).expect("well formed");
    solver.solve();
    assert!(
        matches!(solver.solution.status, SolverStatus::Solved | SolverStatus::AlmostSolved),
        "{}: {:?}",
        net.name,
        solver.solution.status
    );
    solver.solution.x[..n].to_vec()
}

#[test]
fn converged_solves_are_the_solutions_of_the_whole_problem() {
    let mut families = [0; 5];
    for seed in 20..40 {
        let net = Net::random(seed);
        let (mut rng, mut point) = (TestRng::new(1000 + seed), Point::default());
        net.draw_maps(&mut rng, &mut point);
        let feasible = net.dense(&point).project(&rng.normals(net.states()));
        let agents = net.sheaf.state_offsets().windows(2);
        let locals: Vec<Local> = agents.map(|at| Local::draw(&mut rng, &feasible[at[0]..at[1]])).collect();
        locals.iter().for_each(|local| families[local.family] += 1);

        let z_update = ZUpdate::Exact(Exact::new(&net.sheaf, Agreement::Hard));
        let rho = rng.ranges(net.agents(), 0.5, 1.5);
        let problem = Problem {
            op: net.op(&point),
            objective: Objective::Mixed(locals.iter().map(Local::objective).collect()),
            z_update: &z_update,
            rho: if seed % 2 == 0 { Penalty::PerAgent(&rho) } else { Penalty::Scalar(rho[0]) },
            relax: 1.6,
        };
        problem.validate().expect("the problem is valid");
        let balancing = Some(Balancing { until: 200, ..Balancing::default() });
        let options = Options { balancing, ..Options::until(1e-9, 1e-9, 100_000) };
        let mut ws = Workspace::new(&problem, Mode::Solve);
        let report = problem.solve(Start::Zeros, &options, &mut ws, &mut ()).expect("solves");
        assert_eq!(report.status, Status::Solved, "{}: {report:?}", net.name);
        let expected = interior_point(&net, &point, &locals);
        for (k, want) in expected.iter().enumerate() {
            let (x, z) = (ws.x()[k], ws.z()[k]);
            assert!((x - want).abs() < 1e-5, "{}: x[{k}] is {x}, want {want}", net.name);
            assert!((z - want).abs() < 1e-5, "{}: z[{k}] is {z}, want {want}", net.name);
        }
    }
    assert!(families.iter().all(|&count| count > 5), "agents of each family: {families:?}");
}
