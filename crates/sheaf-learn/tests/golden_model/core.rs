//! Maps, penalty, ADMM on one sample, and its reverse pass.

use std::ops::Range;

use sheaf_admm::Real;
use sheaf_admm::admm::{Adjoint, Gradients, Mode, Options, Problem, Seeds, Start, Trace, Workspace};
use sheaf_admm::sheaf::{
    AgentGraph, Edge, LowRank, LowRankGrad, Maps, MapsGrad, Sheaf, SheafOp, compose_low_rank,
    compose_low_rank_vjp,
};
use sheaf_admm::x_update::{
    Coefficient, Diagonal, DiagonalGrad, Objective, ObjectiveGrad, Penalty, Tether, TetherGrad,
};
use sheaf_admm::z_update::{Agreement, Cg, CgStart, Descent, ZUpdate};
use sheaf_learn::params::ParamLayout;
use sheaf_testkit::Golden;

use super::encoder::SLOTS;
use super::{Config, Named};

pub struct Core {
    graph: AgentGraph,
    sheaf: Sheaf,
    /// The range of the base map of every slot.
    maps: Vec<Range<usize>>,
    /// Every agent is its own view.
    index: Vec<u32>,
}

#[derive(Clone, Copy)]
pub struct Coupling<T> {
    pub rho: T,
    pub eta: T,
    pub composed: bool,
}

/// Gradients of the inputs of the core.
pub struct CoreGrads<T> {
    pub encoded: Named<T>,
    /// Only base maps are added here.
    pub params: Vec<T>,
    pub rho: T,
    pub eta: T,
}

impl<T: Real> CoreGrads<T> {
    pub fn new(encoded: &Named<T>, params: usize) -> Self {
        let zeros = |values: &Vec<T>| vec![T::ZERO; values.len()];
        let encoded = encoded.iter().map(|(name, values)| (name.clone(), zeros(values))).collect();
        Self { encoded, params: vec![T::ZERO; params], rho: T::ZERO, eta: T::ZERO }
    }
}

pub struct Solved<T: Real> {
    pub trace: Trace<T>,
    pub tape: Tape<T>,
}

/// A recorded solve, ready to be differentiated.
pub struct Tape<T: Real> {
    workspace: Workspace<T>,
    coupling: Coupling<T>,
}

/// The base maps of a sample in the layouts of the solver.
struct Built<T> {
    base: Vec<T>,   // [slots, d_e, d_v]
    stacks: Vec<T>, // [views, d_v, ld], or [d_v, ld]
}

/// One sample's part of an encoder output.
fn part<'a, T>(values: &'a Named<T>, name: &str, sample: usize, samples: usize) -> &'a [T] {
    let all = values.get(name).unwrap_or_else(|| panic!("the encoder gives no {name}"));
    let len = all.len() / samples;
    &all[sample * len..][..len]
}

impl Core {
    pub fn new(config: &Config, inputs: &Golden, layout: &mut ParamLayout) -> Self {
        let (d_v, d_e) = (config.count("d_v"), config.count("d_e"));
        let names: Vec<&str> = match config.text("rm_sharing") {
            "directional" => vec!["N", "NE", "E", "SE", "S", "SW", "W", "NW"],
            "global" => vec!["shared"],
            other => panic!("unknown sharing {other}"),
        };
        let shape = [d_e, d_v];
        let places: Vec<_> = names.iter().map(|name| layout.add(format!("rm/R_{name}"), &shape)).collect();
        let maps = (0..SLOTS).map(|slot| places[slot % places.len()].clone()).collect();
        layout.add("rho_raw", &[]);
        if config.text("z_solver") == "gd" {
            layout.add("eta_raw", &[]);
        }
        let agents = inputs.i32("centers").shape[0];
        let graph = graph(inputs, agents);
        let sheaf = Sheaf::uniform(&graph, d_v, d_e).expect("sizes are positive");
        Self { graph, sheaf, maps, index: (0..agents as u32).collect() }
    }

    /// The base maps at both ends of every edge, `[E, 2, d_e, d_v]`.
    pub fn base_maps<T: Real>(&self, params: &[T]) -> Vec<T> {
        let ends = self.graph.edges().iter().flat_map(|e| [e.slot_u, e.slot_v]);
        ends.flat_map(|slot| params[self.maps[slot as usize].clone()].to_vec()).collect()
    }

    fn samples<T>(&self, encoded: &Named<T>) -> usize {
        encoded["h"].len() / self.sheaf.state_len()
    }

    fn build<T: Real>(
        &self,
        config: &Config,
        params: &[T],
        encoded: &Named<T>,
        sample: usize,
        composed: bool,
    ) -> Built<T> {
        let base: Vec<T> = self.maps.iter().flat_map(|place| params[place.clone()].to_vec()).collect();
        let u = self.sheaf.as_uniform().expect("a grid");
        if config.text("rm_mode") == "fixed" {
            let mut stacks = vec![T::ZERO; u.d_v * u.ld];
            Sheaf::pack_stack(&base, u.d_v, &mut stacks).unwrap();
            return Built { base, stacks };
        }
        let mut stacks = vec![T::ZERO; if composed { self.index.len() * u.d_v * u.ld } else { 0 }];
        if composed {
            compose_low_rank(&self.sheaf, &self.low_rank(config, &base, encoded, sample), &mut stacks)
                .unwrap();
        }
        Built { base, stacks }
    }

    fn low_rank<'a, T: Real>(
        &'a self,
        config: &Config,
        base: &'a [T],
        encoded: &'a Named<T>,
        sample: usize,
    ) -> LowRank<'a, T> {
        let of = |name| part(encoded, name, sample, self.samples(encoded));
        let rank = config.count("lora_rank");
        LowRank {
            base,
            a: of("A"),
            b: of("B"),
            gate: config.flag("lora_use_gate").then(|| of("gate")),
            rank,
            scale: T::from_f64(config.number("lora_alpha") / rank as f64),
            index: &self.index,
        }
    }

    fn objective<'a, T: Real>(
        config: &Config,
        encoded: &'a Named<T>,
        sample: usize,
        n: usize,
    ) -> Objective<'a, T> {
        let of = |name| part(encoded, name, sample, n);
        if config.text("objective_mode") == "simple" {
            return Objective::Tether(Tether { beta: encoded["beta"][0], anchor: of("h") });
        }
        let plain = Diagonal::new(of("q_diag"), of("q"));
        let zero = Some(Coefficient::Scalar(T::ZERO));
        Objective::Diagonal(match config.text("objective_mode") {
            "quadratic" => plain,
            "lasso" => {
                let l1 = T::from_f64(config.number("l1_weight"));
                Diagonal { l1: Some(Coefficient::Scalar(l1)), ..plain }
            }
            "non_negative" => Diagonal { lo: zero, ..plain },
            "l1box_diag" => {
                let each = |name| Some(Coefficient::PerCoordinate(of(name)));
                Diagonal { l1: each("l1_weight"), lo: zero, hi: each("upper"), ..plain }
            }
            other => panic!("unknown objective {other}"),
        })
    }

    fn z_update<T: Real>(config: &Config, eta: T) -> ZUpdate<T> {
        let agreement = match config.text("z_mode") {
            "project" => Agreement::Hard,
            "prox" => Agreement::Soft { gamma: T::from_f64(config.number("gamma")) },
            other => panic!("unknown mode {other}"),
        };
        match config.text("z_solver") {
            "unrolled_cg" => {
                let start = match config.text("prox_init") {
                    "legacy" => CgStart::Published,
                    "warm" => CgStart::Warm,
                    other => panic!("unknown start {other}"),
                };
                let tikhonov = T::from_f64(config.number("tikhonov_eps"));
                ZUpdate::Cg(Cg { start, tikhonov, ..Cg::published(agreement, config.count("cg_iters")) })
            }
            "gd" => {
                let momentum = T::from_f64(config.number("gd_momentum"));
                let steps = config.count("gd_steps");
                ZUpdate::Descent(Descent { momentum, ..Descent::nesterov(agreement, eta, steps) })
            }
            other => panic!("unknown solver {other}"),
        }
    }

    /// Calls `work` with the problem of one sample.
    fn with_problem<T: Real, R>(
        &self,
        config: &Config,
        params: &[T],
        encoded: &Named<T>,
        sample: usize,
        coupling: Coupling<T>,
        work: impl FnOnce(&Problem<'_, T>, &Built<T>) -> R,
    ) -> R {
        let built = self.build(config, params, encoded, sample, coupling.composed);
        let maps = match (config.text("rm_mode"), coupling.composed) {
            ("fixed", _) => Maps::Stack(&built.stacks),
            (_, true) => Maps::Table { stacks: &built.stacks, index: &self.index, order: &[], tiles: &[] },
            (_, false) => Maps::LowRank(self.low_rank(config, &built.base, encoded, sample)),
        };
        let z_update = Self::z_update(config, coupling.eta);
        let problem = Problem {
            op: SheafOp::new(&self.sheaf, maps).expect("the maps fit"),
            objective: Self::objective(config, encoded, sample, self.samples(encoded)),
            z_update: &z_update,
            rho: Penalty::Scalar(coupling.rho),
            relax: T::from_f64(config.number("relaxation_alpha")),
        };
        problem.validate().expect("the golden's problem is valid");
        work(&problem, &built)
    }

    pub fn solve<T: Real>(
        &self,
        config: &Config,
        params: &[T],
        encoded: &Named<T>,
        sample: usize,
        coupling: Coupling<T>,
    ) -> Solved<T> {
        self.with_problem(config, params, encoded, sample, coupling, |problem, _| {
            let iterations = config.iterations();
            let mut workspace = Workspace::new(problem, Mode::Differentiate { iterations });
            let start = match config.text("z_init") {
                "h" => Start::At(part(encoded, "h", sample, self.samples(encoded))),
                "zeros" => Start::Zeros,
                other => panic!("unknown start {other}"),
            };
            let mut trace = Trace::default();
            let options = Options::fixed(iterations);
            problem.solve(start, &options, &mut workspace, &mut trace).expect("the golden's problem solves");
            Solved { trace, tape: Tape { workspace, coupling } }
        })
    }

    pub fn reverse<T: Real>(
        &self,
        config: &Config,
        params: &[T],
        encoded: &Named<T>,
        sample: usize,
        mut tape: Tape<T>,
        d_x: &[T],
        grads: &mut CoreGrads<T>,
    ) {
        let (samples, coupling) = (self.samples(encoded), tape.coupling);
        let zeros = |n: usize| vec![T::ZERO; n];
        let names = ["h", "q_diag", "q", "l1_weight", "upper", "A", "B", "gate"];
        let mut own =
            names.map(|name| encoded.get(name).map_or(Vec::new(), |all| zeros(all.len() / samples)));
        let [d_h, d_diag, d_q, d_l1, d_hi, d_a, d_b, d_gate] = &mut own;
        let (mut d_start, mut d_beta, mut d_rho, mut d_gamma) =
            (zeros(d_h.len()), T::ZERO, [T::ZERO], T::ZERO);
        let gated = !d_gate.is_empty();
        let adjoint = config.grad_window().map_or(Adjoint::Unrolled, Adjoint::LastSteps);
        let d_base = self.with_problem(config, params, encoded, sample, coupling, |problem, built| {
            let (mut d_base, mut d_stacks) = (zeros(built.base.len()), zeros(built.stacks.len()));
            let mut objective = match problem.objective {
                Objective::Tether(_) => {
                    ObjectiveGrad::Tether(TetherGrad { beta: Some(&mut d_beta), anchor: Some(d_h) })
                }
                _ => ObjectiveGrad::Diagonal(DiagonalGrad {
                    diag: Some(d_diag),
                    q: Some(d_q),
                    l1: (!d_l1.is_empty()).then_some(d_l1.as_mut_slice()),
                    hi: (!d_hi.is_empty()).then_some(d_hi.as_mut_slice()),
                    ..DiagonalGrad::default()
                }),
            };
            {
                let gate = gated.then_some(d_gate.as_mut_slice());
                let mut maps = match problem.op.maps() {
                    Maps::Stack(_) => MapsGrad::Stack(&mut d_stacks),
                    Maps::Table { .. } => MapsGrad::Table(&mut d_stacks),
                    _ => MapsGrad::LowRank(LowRankGrad { base: &mut d_base, a: d_a, b: d_b, gate }),
                };
                let mut gradients = Gradients {
                    objective: &mut objective,
                    maps: &mut maps,
                    rho: &mut d_rho,
                    gamma: &mut d_gamma,
                    eta: &mut grads.eta,
                    offsets: &mut [],
                    edge_weights: &mut [],
                    start: &mut d_start,
                };
                let seeds = Seeds { d_x, d_z: None, d_u: None };
                problem.reverse(adjoint, &seeds, &mut gradients, &mut tape.workspace).expect("reverses");
            }
            match problem.op.maps() {
                Maps::Stack(_) => {
                    Sheaf::unpack_stack_add(&d_stacks, config.count("d_v"), &mut d_base).unwrap();
                }
                Maps::Table { .. } => {
                    let low = self.low_rank(config, &built.base, encoded, sample);
                    let gate = gated.then_some(d_gate.as_mut_slice());
                    let mut grad = LowRankGrad { base: &mut d_base, a: d_a, b: d_b, gate };
                    compose_low_rank_vjp(&self.sheaf, &low, &d_stacks, &mut grad).unwrap();
                }
                _ => {}
            }
            d_base
        });
        if config.text("z_init") == "h" {
            own[0].iter_mut().zip(&d_start).for_each(|(d, &s)| *d += s);
        }
        let one = config.count("d_e") * config.count("d_v");
        for (place, d_map) in self.maps.iter().zip(d_base.chunks_exact(one)) {
            grads.params[place.clone()].iter_mut().zip(d_map).for_each(|(g, &d)| *g += d);
        }
        for (name, own) in names.into_iter().zip(own) {
            if let Some(all) = grads.encoded.get_mut(name) {
                let len = own.len();
                all[sample * len..][..len].copy_from_slice(&own);
            }
        }
        if let Some(beta) = grads.encoded.get_mut("beta") {
            beta[0] += d_beta;
        }
        grads.rho += d_rho[0];
    }
}

/// The graph of the golden, checked to be the library's own grid.
fn graph(inputs: &Golden, agents: usize) -> AgentGraph {
    let (ends, slot_u, slot_v) = (inputs.i32("edges"), inputs.i32("dir_uv"), inputs.i32("dir_vu"));
    let edge = |e: usize| Edge {
        u: ends.data[2 * e] as u32,
        slot_u: slot_u.data[e] as u32,
        v: ends.data[2 * e + 1] as u32,
        slot_v: slot_v.data[e] as u32,
    };
    let edges: Vec<Edge> = (0..slot_u.data.len()).map(edge).collect();
    let grid = AgentGraph::grid(3, 3, sheaf_admm::sheaf::Connectivity::Eight).unwrap();
    let sorted = |edges: &[Edge]| {
        let mut ends: Vec<_> = edges.iter().map(|e| (e.u, e.slot_u, e.v, e.slot_v)).collect();
        ends.sort_unstable();
        ends
    };
    assert_eq!(sorted(&edges), sorted(grid.edges()), "the golden's edges and the library's grid");
    AgentGraph::with_slots(vec![SLOTS; agents], edges).expect("the golden's edges are valid")
}
