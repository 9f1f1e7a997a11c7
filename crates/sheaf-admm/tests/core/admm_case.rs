//! A whole problem as a point, its solve and reverse sweep, and an independent implementation of the same iteration.

use sheaf_admm::admm::{
    Adjoint, Gradients, Iteration, Mode, Options, Problem, Seeds, SolveReport, Start, Workspace,
};
use sheaf_admm::sheaf::Sheaf;
use sheaf_admm::x_update::{Coefficient, Diagonal, DiagonalGrad, Objective, ObjectiveGrad};
use sheaf_admm::z_update::{Agreement, ZUpdate};
use sheaf_testkit::TestRng;

use crate::net::{MapBuffers, Net, penalty};
use crate::point::{Point, dot};

/// The consensus solver of a case: the sheaf, the agreement and the step size, both from the point.
pub type Solver = fn(&Sheaf, Agreement<f64>, f64) -> ZUpdate<f64>;

/// What does not vary with the point.
pub struct Case {
    pub net: Net,
    pub solver: Solver,
    pub relax: f64,
    pub from_h: bool,
    /// How wide the boxes are; narrow ones are hit often.
    pub width: f64,
    /// Whether the solver has a step size.
    pub has_eta: bool,
}

/// The results of a solve: every x, the last z and u, every factor of the penalty.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub x: Vec<Vec<f64>>,
    pub z: Vec<f64>,
    pub u: Vec<f64>,
    pub factors: Vec<f64>,
    /// The distance of the x-update from its kinks, per iteration.
    pub margins: Vec<f64>,
}

impl Outcome {
    /// How many coordinates of the last x are at lo, at hi, at zero, and free.
    pub fn pieces(&self, point: &Point) -> [usize; 4] {
        let x = self.x.last().expect("it ran");
        let at = |name: &str| x.iter().zip(point.get(name)).filter(|(x, bound)| x == bound).count();
        let (lo, hi, zero) = (at("lo"), at("hi"), x.iter().filter(|x| **x == 0.0).count());
        [lo, hi, zero, x.len() - lo - hi - zero]
    }
}

/// A linear loss: the last W proposals, the last z and u, each with its own random weights.
pub struct Loss {
    pub d_x: Vec<f64>, // [W, states]
    pub d_z: Option<Vec<f64>>,
    pub d_u: Option<Vec<f64>>,
}

impl Loss {
    pub fn new(states: usize, window: usize, on_z: bool, on_u: bool) -> Self {
        let mut rng = TestRng::new(31);
        let d_x = rng.normals(window * states);
        let mut seed = |wanted: bool| wanted.then(|| rng.normals(states));
        Self { d_x, d_z: seed(on_z), d_u: seed(on_u) }
    }

    pub fn value(&self, outcome: &Outcome) -> f64 {
        let n = outcome.z.len();
        let window = self.d_x.len() / n;
        let x = outcome.x[outcome.x.len() - window..].concat();
        let on = |seed: &Option<Vec<f64>>, state: &[f64]| seed.as_ref().map_or(0.0, |s| dot(s, state));
        dot(&self.d_x, &x) + on(&self.d_z, &outcome.z) + on(&self.d_u, &outcome.u)
    }

    fn seeds(&self) -> Seeds<'_, f64> {
        Seeds { d_x: &self.d_x, d_z: self.d_z.as_deref(), d_u: self.d_u.as_deref() }
    }
}

const OBJECTIVE: [&str; 6] = ["diag", "q", "l1", "l2", "lo", "hi"];

impl Case {
    /// A random point. `rho` is the size of the penalty, or of the penalties of all agents.
    fn draw(&self, seed: u64, soft: bool, per_agent: bool, rho: f64) -> Point {
        let (n, mut rng, mut point) = (self.net.states(), TestRng::new(seed), Point::default());
        self.net.draw_maps(&mut rng, &mut point);
        point.push("diag", rng.ranges(n, 0.4, 1.5));
        point.push("q", rng.normals(n));
        point.push("l1", rng.ranges(n, 0.05, 0.2 / self.width));
        point.push("l2", vec![0.05]);
        point.push("lo", rng.ranges(n, -self.width, -0.2 * self.width));
        point.push("hi", rng.ranges(n, 0.2 * self.width, self.width));
        let agents = if per_agent { self.net.agents() } else { 1 };
        point.push("rho", rng.ranges(agents, 0.7 * rho, 1.4 * rho));
        if soft {
            point.push("gamma", vec![1.3]);
        }
        if self.from_h {
            point.push("h", rng.normals(n));
        }
        if self.has_eta {
            point.push("eta", vec![0.03]);
        }
        point
    }

    /// A random point whose solve stays away from kinks in every iteration, so that finite differences are valid.
    pub fn point(&self, soft: bool, per_agent: bool, rho: f64, options: &Options<f64>) -> Point {
        let draws = (23..123).map(|seed| self.draw(seed, soft, per_agent, rho));
        let smooth = |point: &Point| {
            let factors = self.solve(point, options).0.factors;
            self.replay(point, &factors).margins.iter().all(|&m| m > 1e-3)
        };
        draws.into_iter().find(smooth).expect("one in a hundred points is smooth")
    }

    /// A random point whose solution, to which the solve has converged, lies away from kinks and is not determined by
    /// its constraints alone: more coordinates are free than the edges constrain.
    pub fn point_at_rest(&self, soft: bool, per_agent: bool, rho: f64, options: &Options<f64>) -> Point {
        let draws = (23..2023).map(|seed| self.draw(seed, soft, per_agent, rho));
        let smooth = |point: &Point| {
            let outcome = self.solve(point, options).0;
            let pieces = outcome.pieces(point);
            let margins = self.replay(point, &outcome.factors).margins;
            let all = pieces.iter().all(|&count| count > 0) && pieces[3] > self.net.sheaf.edge_len();
            all && margins.last().is_some_and(|&m| m > 1e-2)
        };
        draws.into_iter().find(smooth).expect("one in two thousand points is smooth")
    }

    /// The smallest distance of any coordinate to an edge of the dead zone or to the point where it meets a bound.
    fn margin(point: &Point, rho: f64, agent: std::ops::Range<usize>, v: &[f64]) -> f64 {
        let one = |i: usize| {
            let a = point.get("diag")[i] + point.one("l2") + rho;
            let (t, kappa) = ((rho * v[i] - point.get("q")[i]) / a, point.get("l1")[i] / a);
            let soft = t.signum() * (t.abs() - kappa).max(0.0);
            let kinks = [t.abs() - kappa, soft - point.get("lo")[i], soft - point.get("hi")[i]];
            kinks.into_iter().map(f64::abs).fold(f64::INFINITY, f64::min)
        };
        agent.map(one).fold(f64::INFINITY, f64::min)
    }

    fn objective<'a>(point: &'a Point) -> Objective<'a, f64> {
        let each = |name| Some(Coefficient::PerCoordinate(point.get(name)));
        let l2 = Some(Coefficient::Scalar(point.one("l2")));
        let plain = Diagonal::new(point.get("diag"), point.get("q"));
        Objective::Diagonal(Diagonal { l1: each("l1"), l2, lo: each("lo"), hi: each("hi"), ..plain })
    }

    fn z_update(&self, point: &Point) -> ZUpdate<f64> {
        let soft = || Agreement::Soft { gamma: point.one("gamma") };
        let agreement = if point.has("gamma") { soft() } else { Agreement::Hard };
        (self.solver)(&self.net.sheaf, agreement, if self.has_eta { point.one("eta") } else { f64::NAN })
    }

    fn problem<'a>(&'a self, point: &'a Point, z_update: &'a ZUpdate<f64>) -> Problem<'a, f64> {
        let (op, objective) = (self.net.op(point), Self::objective(point));
        let problem = Problem { op, objective, z_update, rho: penalty(point.get("rho")), relax: self.relax };
        problem.validate().expect("the problem is valid");
        problem
    }

    fn start<'a>(&self, point: &'a Point) -> Start<'a, f64> {
        if self.from_h { Start::At(point.get("h")) } else { Start::Zeros }
    }

    /// Solves with the library.
    pub fn solve(&self, point: &Point, options: &Options<f64>) -> (Outcome, SolveReport<f64>) {
        let z_update = self.z_update(point);
        let problem = self.problem(point, &z_update);
        let mut ws = Workspace::new(&problem, Mode::Solve);
        self.run(&problem, point, options, &mut ws)
    }

    fn run(
        &self,
        problem: &Problem<'_, f64>,
        point: &Point,
        options: &Options<f64>,
        ws: &mut Workspace<f64>,
    ) -> (Outcome, SolveReport<f64>) {
        let (mut x, mut factors) = (Vec::new(), Vec::new());
        let mut observer = |view: &Iteration<'_, '_, f64>| {
            x.push(view.x.to_vec());
            factors.push(view.rho.of(0) / point.get("rho")[0]);
            true
        };
        let report = problem.solve(self.start(point), options, ws, &mut observer).expect("solves");
        (Outcome { x, z: ws.z().to_vec(), u: ws.u().to_vec(), factors, margins: Vec::new() }, report)
    }

    /// Solves and differentiates with the library.
    pub fn reverse(
        &self,
        point: &Point,
        options: &Options<f64>,
        adjoint: Adjoint<f64>,
        loss: &Loss,
    ) -> (Point, Outcome, SolveReport<f64>) {
        let z_update = self.z_update(point);
        let problem = self.problem(point, &z_update);
        let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations: options.iterations });
        let (outcome, report) = self.run(&problem, point, options, &mut ws);

        let [mut d_diag, mut d_q, mut d_l1, mut d_l2, mut d_lo, mut d_hi] =
            OBJECTIVE.map(|name| point.grad_buffer(name));
        let [mut d_rho, mut d_start] = ["rho", "h"].map(|name| point.grad_buffer(name));
        let (mut d_gamma, mut d_eta) = (Point::OFFSET, Point::OFFSET);
        let mut buffers = MapBuffers::new(point);
        let mut maps = buffers.grad(self.net.kind);
        let mut objective = ObjectiveGrad::Diagonal(DiagonalGrad {
            diag: Some(&mut d_diag),
            q: Some(&mut d_q),
            l1: Some(&mut d_l1),
            l2: Some(&mut d_l2),
            lo: Some(&mut d_lo),
            hi: Some(&mut d_hi),
        });
        let mut grads = Gradients {
            objective: &mut objective,
            maps: &mut maps,
            rho: &mut d_rho,
            gamma: &mut d_gamma,
            eta: &mut d_eta,
            offsets: &mut [],
            edge_weights: &mut [],
            start: &mut d_start,
        };
        problem.reverse(adjoint, &loss.seeds(), &mut grads, &mut ws).expect("the reverse sweep runs");
        let mut grad = Point::default();
        buffers.push_to(point, &mut grad);
        for (name, added) in OBJECTIVE.into_iter().zip([d_diag, d_q, d_l1, d_l2, d_lo, d_hi]) {
            grad.push_added(name, added);
        }
        grad.push_added("rho", d_rho);
        if point.has("gamma") {
            grad.push_added("gamma", vec![d_gamma]);
        } else {
            assert_eq!(d_gamma, Point::OFFSET, "a hard constraint has no price");
        }
        if self.from_h {
            grad.push_added("h", d_start);
        }
        if self.has_eta {
            grad.push_added("eta", vec![d_eta]);
        } else {
            assert_eq!(d_eta, Point::OFFSET, "a solver without a step size");
        }
        (grad, outcome, report)
    }

    /// The iteration written out: one step per factor of the penalty, from (z, u).
    pub fn written_out(&self, point: &Point, factors: &[f64], (z, u): (&[f64], &[f64])) -> Outcome {
        let (z_update, objective, op) = (self.z_update(point), Self::objective(point), self.net.op(point));
        let (n, offsets) = (self.net.states(), self.net.sheaf.state_offsets());
        let (mut z, mut u, mut all_x) = (z.to_vec(), u.to_vec(), Vec::new());
        let mut prox_scratch = vec![f64::NAN; objective.scratch_len(offsets)];
        let mut scratch = vec![f64::NAN; z_update.forward_scratch_len(&op)];
        let mut carry = vec![0.0; z_update.carry_len(&op)];
        let mut margins = Vec::new();
        for (k, factor) in factors.iter().enumerate() {
            if k > 0 {
                u.iter_mut().for_each(|u| *u *= factors[k - 1] / factor);
            }
            let rho: Vec<f64> = point.get("rho").iter().map(|rho| factor * rho).collect();
            let rho = penalty(&rho);
            objective.prepare(offsets, &rho, &mut prox_scratch).expect("valid");
            z_update.prepare(&op, &rho, &mut scratch).expect("valid");
            let v: Vec<f64> = z.iter().zip(&u).map(|(z, u)| z - u).collect();
            let agents = offsets.windows(2).enumerate();
            let margin = agents.map(|(i, at)| Self::margin(point, rho.of(i), at[0]..at[1], &v));
            margins.push(margin.fold(f64::INFINITY, f64::min));
            let (mut x, mut z_next) = (vec![f64::NAN; n], vec![f64::NAN; n]);
            objective.prox(offsets, &rho, &v, &mut x, &mut prox_scratch).expect("solves");
            let relaxed: Vec<f64> =
                x.iter().zip(&z).map(|(x, z)| self.relax * x + (1.0 - self.relax) * z).collect();
            let w: Vec<f64> = relaxed.iter().zip(&u).map(|(x, u)| x + u).collect();
            z_update.forward(&op, &rho, &w, &z, &mut carry, &mut z_next, &mut scratch).expect("solves");
            for i in 0..n {
                u[i] += relaxed[i] - z_next[i];
            }
            z = z_next;
            all_x.push(x);
        }
        Outcome { x: all_x, z, u, factors: factors.to_vec(), margins }
    }

    /// [`written_out`](Self::written_out) from the case's own start.
    pub fn replay(&self, point: &Point, factors: &[f64]) -> Outcome {
        let zeros = vec![0.0; self.net.states()];
        self.written_out(point, factors, (if self.from_h { point.get("h") } else { &zeros }, &zeros))
    }
}
