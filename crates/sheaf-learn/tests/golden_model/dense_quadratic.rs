//! The dense quadratic of the authors' code: (Q + ρI) x = ρ(z − u) − q, soft consensus with γ = 2 and five steps of
//! CG, over-relaxation 1.6, six iterations; the loss is the mean of x² over the last two.

use sheaf_admm::Real;
use sheaf_admm::admm::{Adjoint, Gradients, Mode, Options, Problem, Seeds, Start, Trace, Workspace};
use sheaf_admm::sheaf::{AgentGraph, Connectivity, Maps, MapsGrad, Sheaf, SheafOp};
use sheaf_admm::x_update::{Dense, DenseGrad, Objective, ObjectiveGrad, Penalty};
use sheaf_admm::z_update::{Agreement, Cg, ZUpdate};
use sheaf_testkit::golden::LOSS;
use sheaf_testkit::{Array, Golden, assert_close_max, assert_grad};

use super::{by_sample, cast};
use crate::{assert_traces, to_f64};

const ITERATIONS: usize = 6;
const WINDOW: usize = 2;

/// The form in which the maps of the same agents are passed.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Table,
    PerAgent,
}

/// Position of the map of an edge end in the stacks: entry (r, j) of the map is at `f(r, j)`.
fn entries(sheaf: &Sheaf, graph: &AgentGraph) -> Vec<[usize; 2]> {
    let u = sheaf.as_uniform().expect("a grid");
    let start = |agent: u32, slot: u32| agent as usize * u.d_v * u.ld + slot as usize * u.d_e;
    graph.edges().iter().map(|e| [start(e.u, e.slot_u), start(e.v, e.slot_v)]).collect()
}

/// Calls `f(index in the stacks, index in base_maps)` for every entry of base_maps `[E, 2, d_e, d_v]`.
fn each_number(sheaf: &Sheaf, graph: &AgentGraph, mut f: impl FnMut(usize, usize)) {
    let u = sheaf.as_uniform().expect("a grid");
    for (end, start) in entries(sheaf, graph).into_iter().flatten().enumerate() {
        for k in 0..u.d_e * u.d_v {
            f(start + k % u.d_v * u.ld + k / u.d_v, end * u.d_e * u.d_v + k);
        }
    }
}

fn run<T: Real>(golden: &Golden, kind: Kind) {
    let name = format!("dense quadratic, {} bits, {kind:?}", size_of::<T>() * 8);
    let graph = AgentGraph::grid(3, 3, Connectivity::Eight).unwrap();
    let ends: Vec<i32> = graph.edges().iter().flat_map(|e| [e.u as i32, e.v as i32]).collect();
    assert_eq!(ends, golden.i32("edges").data, "the edges come in the order of the library's grid");
    let sheaf = Sheaf::uniform(&graph, 6, 3).expect("sizes are positive");
    let base = golden.f64("base_maps").data;
    let mut stacks = vec![T::ZERO; sheaf.stack_len()];
    each_number(&sheaf, &graph, |to, from| stacks[to] = T::from_f64(base[from]));
    let index: Vec<u32> = (0..9).collect();
    let of = |name: &str| cast::<T>(&by_sample(&golden.f64(name)));
    let (quad, q, start) = (of("Q"), of("q"), of("z_init"));
    let z_update = ZUpdate::Cg(Cg::published(Agreement::Soft { gamma: T::from_f64(2.0) }, 5));

    let n = sheaf.state_len();
    let samples = start.len() / n;
    let weight = T::from_f64(2.0 / (WINDOW * samples * n) as f64);
    let (mut d_quad, mut d_q) = (vec![T::ZERO; quad.len()], vec![T::ZERO; q.len()]);
    let (mut d_start, mut d_stacks) = (vec![T::ZERO; start.len()], vec![T::ZERO; stacks.len()]);
    let (mut d_rho, mut d_gamma, mut d_eta) = ([T::ZERO], T::ZERO, T::ZERO);
    let (mut traces, mut loss) = (Vec::new(), T::ZERO);
    for sample in 0..samples {
        let own = sample * n..(sample + 1) * n;
        let own_quad = sample * 6 * n..(sample + 1) * 6 * n;
        let maps = match kind {
            Kind::Table => Maps::Table { stacks: &stacks, index: &index, order: &[], tiles: &[] },
            Kind::PerAgent => Maps::PerAgent(&stacks),
        };
        let problem = Problem {
            op: SheafOp::new(&sheaf, maps).expect("the maps fit"),
            objective: Objective::Dense(Dense { quad: &quad[own_quad.clone()], q: &q[own.clone()] }),
            z_update: &z_update,
            rho: Penalty::Scalar(T::from_f64(golden.f64("rho").scalar())),
            relax: T::from_f64(1.6),
        };
        problem.validate().expect("the golden's problem is valid");
        let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations: ITERATIONS });
        let mut trace = Trace::default();
        let options = Options::fixed(ITERATIONS);
        problem.solve(Start::At(&start[own.clone()]), &options, &mut ws, &mut trace).expect("solves");
        let last = &trace.x[(ITERATIONS - WINDOW) * n..];
        loss += last.iter().map(|&x| x * x).sum::<T>() * weight * T::from_f64(0.5);
        let d_x: Vec<T> = last.iter().map(|&x| x * weight).collect();
        let mut objective = ObjectiveGrad::Dense(DenseGrad {
            quad: Some(&mut d_quad[own_quad]),
            q: Some(&mut d_q[own.clone()]),
        });
        let mut maps = match kind {
            Kind::Table => MapsGrad::Table(&mut d_stacks),
            Kind::PerAgent => MapsGrad::PerAgent(&mut d_stacks),
        };
        let mut grads = Gradients {
            objective: &mut objective,
            maps: &mut maps,
            rho: &mut d_rho,
            gamma: &mut d_gamma,
            eta: &mut d_eta,
            offsets: &mut [],
            edge_weights: &mut [],
            start: &mut d_start[own],
        };
        let seeds = Seeds { d_x: &d_x, d_z: None, d_u: None };
        problem.reverse(Adjoint::Unrolled, &seeds, &mut grads, &mut ws).expect("reverses");
        traces.push(trace);
    }
    assert_traces(&name, golden, ITERATIONS, &traces);
    assert_close_max(&format!("{name}: loss"), &[loss.to_f64()], &golden.f64("loss").data, LOSS);
    let largest = golden.largest_grad_norm();
    let check = |part: &str, got: &[T], want: &[f64]| {
        assert_grad(&format!("{name}: grad/{part}"), &to_f64(got), want, largest);
    };
    for (part, got) in [("Q", &d_quad), ("q", &d_q), ("z_init", &d_start)] {
        check(part, got, &by_sample(&golden.f64(&format!("grad/{part}"))));
    }
    check("rho", &d_rho, &golden.f64("grad/rho").data);
    let Array { data: want, .. } = golden.f64("grad/base_maps");
    let mut d_base = vec![T::ZERO; want.len()];
    each_number(&sheaf, &graph, |from, to| d_base[to] = d_stacks[from]);
    check("base_maps", &d_base, &want);
}

#[test]
fn the_dense_quadratic_repeats_values_loss_and_gradients() {
    let golden = Golden::open("dense_quadratic", "all");
    for kind in [Kind::Table, Kind::PerAgent] {
        run::<f32>(&golden, kind);
        run::<f64>(&golden, kind);
    }
}
