//! The fixtures of the Python reference: problems of every kind, their iterates, losses and gradients.

use std::path::{Path, PathBuf};

use sheaf_admm::Real;
use sheaf_admm::admm::{Adjoint, Gradients, Mode, Options, Problem, Seeds, Start, Trace, Workspace};
use sheaf_admm::sheaf::{AgentGraph, Edge, LowRank, LowRankGrad, Maps, MapsGrad, Sheaf, SheafOp};
use sheaf_admm::x_update::{
    Coefficient, Dense, DenseGrad, Diagonal, DiagonalGrad, Objective, ObjectiveGrad, Penalty, Tether,
    TetherGrad,
};
use sheaf_admm::z_update::{Agreement, Cg, Descent, Exact, ZUpdate};
use sheaf_testkit::{Golden, assert_close_max};

/// Compares (name, got, want, whether it is a gradient).
type Check<'a> = dyn Fn(&str, &[f64], &[f64], bool) + 'a;

const ITERATIONS: usize = 6;
const WINDOW: usize = 2;

/// A fixture and the five words of its name: graph, maps, objective, solver, mode.
struct Fixture {
    name: String,
    golden: Golden,
    graph: AgentGraph,
    sheaf: Sheaf,
}

impl Fixture {
    fn all() -> Vec<Self> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        let listing = std::fs::read_dir(&directory).expect("the fixtures are part of the repository");
        let mut paths: Vec<PathBuf> = listing.map(|entry| entry.expect("readable").path()).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "safetensors"));
        paths.sort();
        assert_eq!(paths.len(), 14, "fixtures of {}", directory.display());
        paths.iter().map(|path| Self::read(path)).collect()
    }

    fn read(path: &Path) -> Self {
        let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
        let golden = Golden::read(path);
        let sizes = |name: &str| golden.i32(name).data.iter().map(|&d| d as usize).collect::<Vec<_>>();
        let (d_v, d_e, ends) = (sizes("stalks"), sizes("edge_stalks"), sizes("edges"));
        let slots = golden.i32("slots").data;
        let (graph, sheaf);
        if slots[0] < 0 {
            let pairs: Vec<(usize, usize)> = ends.chunks_exact(2).map(|e| (e[0], e[1])).collect();
            graph = AgentGraph::from_edges(d_v.len(), &pairs).expect("valid");
            sheaf = Sheaf::heterogeneous(&graph, &d_v, &d_e).expect("valid");
        } else {
            let ends = ends.chunks_exact(2).zip(slots.chunks_exact(2));
            let edge = |(e, s): (&[usize], &[i32])| Edge {
                u: e[0] as u32,
                slot_u: s[0] as u32,
                v: e[1] as u32,
                slot_v: s[1] as u32,
            };
            graph = AgentGraph::with_slots(vec![8; d_v.len()], ends.map(edge).collect()).expect("valid");
            sheaf = Sheaf::uniform(&graph, d_v[0], d_e[0]).expect("valid");
        }
        Self { name, golden, graph, sheaf }
    }

    fn word(&self, k: usize) -> &str {
        self.name.split('_').nth(k).expect("five words")
    }

    fn input<T: Real>(&self, name: &str) -> Vec<T> {
        self.golden.f64(&format!("in/{name}")).data.iter().map(|&v| T::from_f64(v)).collect()
    }

    /// Where each number of maps_u and maps_v lies in the stacks.
    fn edgewise(&self) -> [Vec<usize>; 2] {
        let mut places = [Vec::new(), Vec::new()];
        for edge in self.graph.edges() {
            for (side, agent, slot) in [(0, edge.u as usize, edge.slot_u), (1, edge.v as usize, edge.slot_v)]
            {
                let d_v = self.sheaf.state_offsets()[agent + 1] - self.sheaf.state_offsets()[agent];
                let ld = self.sheaf.row_offsets()[agent + 1] - self.sheaf.row_offsets()[agent];
                let rows = &self.sheaf.slot_rows(agent)[slot as usize..][..2];
                let entry = |k: usize| self.sheaf.stack_offsets()[agent] + k % d_v * ld + rows[0] + k / d_v;
                places[side].extend((0..(rows[1] - rows[0]) * d_v).map(entry));
            }
        }
        places
    }

    /// All stacks of a fixture, in the form of its kind of maps (empty for low-rank maps).
    fn stacks<T: Real>(&self) -> Vec<T> {
        let mut stacks = vec![T::ZERO; self.sheaf.stack_len()];
        if self.word(1) == "edgewise" {
            for (places, name) in self.edgewise().iter().zip(["maps_u", "maps_v"]) {
                places.iter().zip(self.input(name)).for_each(|(&place, f)| stacks[place] = f);
            }
            return stacks;
        }
        let u = self.sheaf.as_uniform().expect("a grid");
        let (rows, one) = (u.slots * u.d_e * u.d_v, u.d_v * u.ld);
        let all: Vec<T> = self.input(if self.word(1) == "table" { "stacks" } else { "maps" });
        let mut stacks = vec![T::ZERO; all.len() / rows * one];
        for (rows, stack) in all.chunks_exact(rows).zip(stacks.chunks_exact_mut(one)) {
            Sheaf::pack_stack(rows, u.d_v, stack).expect("fits");
        }
        stacks
    }

    /// The gradients of the maps under the names of the reference.
    fn unpack<T: Real>(&self, d_stacks: &[T]) -> Vec<(&'static str, Vec<T>)> {
        if self.word(1) == "edgewise" {
            let [u, v] = self.edgewise();
            let take = |places: Vec<usize>| places.into_iter().map(|place| d_stacks[place]).collect();
            return vec![("maps_u", take(u)), ("maps_v", take(v))];
        }
        let u = self.sheaf.as_uniform().expect("a grid");
        let (rows, one) = (u.slots * u.d_e * u.d_v, u.d_v * u.ld);
        let mut all = vec![T::ZERO; d_stacks.len() / one * rows];
        for (rows, stack) in all.chunks_exact_mut(rows).zip(d_stacks.chunks_exact(one)) {
            Sheaf::unpack_stack_add(stack, u.d_v, rows).expect("fits");
        }
        vec![(if self.word(1) == "table" { "stacks" } else { "maps" }, all)]
    }

    fn z_update<T: Real>(&self) -> ZUpdate<T> {
        let soft = || Agreement::Soft { gamma: self.input("gamma")[0] };
        let agreement = if self.word(4) == "soft" { soft() } else { Agreement::Hard };
        match self.word(3) {
            "cg" => ZUpdate::Cg(Cg::published(agreement, 5)),
            "descent" => ZUpdate::Descent(Descent::nesterov(agreement, self.input("eta")[0], 10)),
            "exact" => ZUpdate::Exact(Exact::new(&self.sheaf, agreement)),
            other => panic!("unknown solver {other}"),
        }
    }

    /// Solves and reverses; calls `check(name, got, want, whether it is a gradient)` for everything in the fixture.
    fn assert<T: Real>(&self, check: &Check<'_>) {
        let index: Vec<u32> = if self.golden.has("in/stack_of") {
            self.golden.i32("in/stack_of").data.iter().map(|&v| v as u32).collect()
        } else {
            (0..self.sheaf.agents() as u32).collect()
        };
        // Every input of every family; those that a fixture lacks stay empty.
        let names = ["D", "q", "l1", "l2", "lo", "hi", "beta", "target", "Q", "maps", "A", "B"];
        let has = |name: &str| self.golden.has(&format!("in/{name}"));
        let inputs: [Vec<T>; 12] = names.map(|name| if has(name) { self.input(name) } else { Vec::new() });
        let mut grads = inputs.clone().map(|input| vec![T::ZERO; input.len()]);
        let [diag, q, l1, l2, lo, hi, beta, target, quad, base, a, b] = &inputs;
        let [d_diag, d_q, d_l1, d_l2, d_lo, d_hi, d_beta, d_target, d_quad, d_base, d_a, d_b] = &mut grads;
        let (objective, mut objective_grad) = match self.word(2) {
            "diagonal" => {
                let each = |c| Some(Coefficient::PerCoordinate(c));
                let (l1, l2) = (each(l1.as_slice()), Some(Coefficient::Scalar(l2[0])));
                (
                    Objective::Diagonal(Diagonal {
                        l1,
                        l2,
                        lo: each(lo),
                        hi: each(hi),
                        ..Diagonal::new(diag, q)
                    }),
                    ObjectiveGrad::Diagonal(DiagonalGrad {
                        diag: Some(d_diag),
                        q: Some(d_q),
                        l1: Some(d_l1),
                        l2: Some(d_l2),
                        lo: Some(d_lo),
                        hi: Some(d_hi),
                    }),
                )
            }
            "tether" => (
                Objective::Tether(Tether { beta: beta[0], anchor: target }),
                ObjectiveGrad::Tether(TetherGrad { beta: Some(&mut d_beta[0]), anchor: Some(d_target) }),
            ),
            _ => (
                Objective::Dense(Dense { quad, q }),
                ObjectiveGrad::Dense(DenseGrad { quad: Some(d_quad), q: Some(d_q) }),
            ),
        };
        let low_rank = self.word(1) == "lowrank";
        let stacks = if low_rank { Vec::new() } else { self.stacks() };
        let mut d_stacks = vec![T::ZERO; stacks.len()];
        let (maps, mut maps_grad) = match self.word(1) {
            "shared" => (Maps::Stack(&stacks), MapsGrad::Stack(&mut d_stacks)),
            "table" => (
                Maps::Table { stacks: &stacks, index: &index, order: &[], tiles: &[] },
                MapsGrad::Table(&mut d_stacks),
            ),
            "edgewise" => (Maps::PerAgent(&stacks), MapsGrad::PerAgent(&mut d_stacks)),
            _ => {
                let (rank, scale) = (2, T::from_f64(0.5));
                let low = LowRank { base, a, b, gate: None, rank, scale, index: &index };
                let grad = LowRankGrad { base: d_base, a: d_a, b: d_b, gate: None };
                (Maps::LowRank(low), MapsGrad::LowRank(grad))
            }
        };
        let (z_update, start) = (self.z_update(), self.input("z_start"));
        let problem = Problem {
            op: SheafOp::new(&self.sheaf, maps).expect("the maps fit"),
            objective,
            z_update: &z_update,
            rho: Penalty::Scalar(self.input("rho")[0]),
            relax: T::from_f64(1.6),
        };
        problem.validate().expect("the fixture is valid");
        let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations: ITERATIONS });
        let mut trace = Trace::default();
        let options = Options::fixed(ITERATIONS);
        problem.solve(Start::At(&start), &options, &mut ws, &mut trace).expect("solves");
        let last = &trace.x[(ITERATIONS - WINDOW) * start.len()..];
        let d_x: Vec<T> = last.iter().map(|&x| x * T::from_f64(2.0 / last.len() as f64)).collect();
        let (mut d_rho, mut d_gamma, mut d_eta) = ([T::ZERO], T::ZERO, T::ZERO);
        let mut d_start = vec![T::ZERO; start.len()];
        let mut all = Gradients {
            objective: &mut objective_grad,
            maps: &mut maps_grad,
            rho: &mut d_rho,
            gamma: &mut d_gamma,
            eta: &mut d_eta,
            offsets: &mut [],
            edge_weights: &mut [],
            start: &mut d_start,
        };
        let seeds = Seeds { d_x: &d_x, d_z: None, d_u: None };
        problem.reverse(Adjoint::Unrolled, &seeds, &mut all, &mut ws).expect("reverses");

        let wide = |values: &[T]| values.iter().map(|v| v.to_f64()).collect::<Vec<_>>();
        let loss = last.iter().map(|x| x.to_f64() * x.to_f64()).sum::<f64>() / last.len() as f64;
        check(&format!("{}: loss", self.name), &[loss], &self.golden.f64("loss").data, false);
        for (name, got) in [("x", &trace.x), ("z", &trace.z), ("u", &trace.u)] {
            check(&format!("{}: {name}", self.name), &wide(got), &self.golden.f64(name).data, false);
        }
        let residuals = [("primal", &trace.primal), ("dual", &trace.dual), ("consistency", &trace.edge_rms)];
        for (name, got) in residuals {
            check(&format!("{}: {name}", self.name), &wide(got), &self.golden.f64(name).data, false);
        }
        let mut named = vec![("rho", d_rho.to_vec()), ("gamma", vec![d_gamma]), ("eta", vec![d_eta])];
        named.push(("z_start", d_start));
        if !low_rank {
            named.extend(self.unpack(&d_stacks));
        }
        named.extend(names.into_iter().zip(grads).filter(|(name, _)| low_rank || *name != "maps"));
        let mut compared = 0;
        for (name, got) in named.iter().filter(|(name, _)| self.golden.has(&format!("grad/{name}"))) {
            let want = self.golden.f64(&format!("grad/{name}")).data;
            check(&format!("{}: gradient of {name}", self.name), &wide(got), &want, true);
            compared += 1;
        }
        let stored = self.golden.names().iter().filter(|name| name.starts_with("grad/")).count();
        assert_eq!(compared, stored, "{}: gradients compared and stored", self.name);
    }
}

#[test]
fn f64_repeats_the_reference_almost_to_rounding() {
    for fixture in Fixture::all() {
        fixture.assert::<f64>(&|name, got, want, _| assert_close_max(name, got, want, 1e-10));
    }
}

/// Five steps of CG on a small singular system end near rounding, where f32 keeps three digits and f64 ten; that f64
/// keeps ten shows that the error of f32 is rounding.
#[test]
fn f32_repeats_the_reference_to_three_digits() {
    let norm = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>().sqrt();
    for fixture in Fixture::all() {
        fixture.assert::<f32>(&|name, got, want, gradient| {
            if !gradient {
                return assert_close_max(name, got, want, 1e-3);
            }
            let difference: Vec<f64> = got.iter().zip(want).map(|(g, w)| g - w).collect();
            let error = norm(&difference) / norm(want);
            assert!(error <= 1e-2, "{name}: off by {error:.1e}");
        });
    }
}
