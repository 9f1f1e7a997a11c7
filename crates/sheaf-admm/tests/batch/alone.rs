//! A batch gives the same results as its samples alone: the same bits if it runs sample by sample, and up to rounding
//! if its products run over all samples at once.

use sheaf_admm::admm::{Adjoint, Gradients, Mode, Options, Problem, Seeds, Start, Workspace};
use sheaf_admm::sheaf::{
    AgentGraph, Connectivity, LowRank, LowRankGrad, Maps, MapsGrad, PackedLowRank, Sheaf, SheafOp,
    ViewGroups, pack_base, pack_view,
};
use sheaf_admm::x_update::{
    Dense, DenseGrad, Diagonal, DiagonalGrad, Objective, ObjectiveGrad, Penalty, Tether, TetherGrad,
};
use sheaf_admm::z_update::{
    Agreement, Cg, CgStart, Descent, EdgeMethod, EdgePotential, EdgeSpace, Exact, Gram, Potential, Stop,
    ZUpdate,
};
use sheaf_testkit::TestRng;

use crate::support::{Batch, SOFT, close};

const SAMPLES: usize = 3;
const VIEWS: usize = 4;
const RANK: usize = 2;
const K: usize = 5;

fn solvers(sheaf: &Sheaf) -> Vec<ZUpdate<f64>> {
    let stop = Stop::Steps(4);
    let mut all = Vec::new();
    for agreement in [SOFT, Agreement::Hard] {
        all.push(ZUpdate::Cg(Cg { start: CgStart::Carried, ..Cg::published(agreement, 4) }));
        all.push(ZUpdate::Cg(Cg::to_tolerance(agreement, 1e-2, 30)));
        all.push(ZUpdate::Descent(Descent::nesterov(agreement, 0.05, 4)));
        all.push(ZUpdate::Exact(Exact::new(sheaf, agreement)));
        let method = EdgeMethod::Cg { guard: 1e-8 };
        all.push(ZUpdate::EdgeSpace(EdgeSpace { agreement, method, stop, warm: true }));
    }
    let potential = EdgePotential::Huber { delta: 0.3 };
    all.push(ZUpdate::Potential(Potential { potential, gamma: 1.2, eta: 0.05, momentum: 0.5, stop }));
    all
}

/// The data of three samples on a 2 × 3 grid.
struct Numbers {
    sheaf: Sheaf,
    /// One dense stack per view.
    stacks: Vec<f64>,
    index: Vec<u32>,
    base: Vec<f64>,
    a: Vec<f64>,
    b: Vec<f64>,
    packed_base: Vec<f64>,
    packed: Vec<f64>,
    groups: Vec<ViewGroups>,
    per_agent: Vec<f64>,
    diag: Vec<f64>,
    q: Vec<f64>,
    quad: Vec<f64>,
    h: Vec<f64>,
    d_x: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Stack,
    Table,
    PerAgent,
    LowRank,
    Packed,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Want {
    Diagonal,
    Tether,
    Dense,
    Mixed,
}

impl Numbers {
    fn new() -> Self {
        let graph = AgentGraph::grid(2, 3, Connectivity::Four).unwrap();
        let sheaf = Sheaf::uniform(&graph, 5, 2).unwrap();
        let (mut rng, n) = (TestRng::new(1), SAMPLES * sheaf.state_len());
        let mut some =
            |len: usize, scale: f64| rng.normals(len).iter().map(|v| v * scale).collect::<Vec<_>>();
        let (base, a, b) = (some(10, 0.5), some(VIEWS * 4 * 2 * RANK, 0.5), some(VIEWS * 4 * 5 * RANK, 0.5));
        let (stacks, per_agent) = (some(VIEWS * 5 * 16, 0.5), some(SAMPLES * sheaf.stack_len(), 0.5));
        let (q, h, d_x) = (some(n, 1.0), some(n, 1.0), some(2 * n, 1.0));
        let index: Vec<u32> = (0..SAMPLES * 6).map(|i| ((i * 7 + i / 6) % VIEWS) as u32).collect();
        let shape = PackedLowRank::<f64>::shape(&sheaf, RANK).unwrap();
        let mut packed_base = vec![0.0; shape.base_len()];
        pack_base(shape, &base, &mut packed_base).unwrap();
        let mut packed = vec![0.0; VIEWS * shape.view_len()];
        for (view, out) in packed.chunks_exact_mut(shape.view_len()).enumerate() {
            let (a, b) =
                (&a[view * 4 * 2 * RANK..][..4 * 2 * RANK], &b[view * 4 * 5 * RANK..][..4 * 5 * RANK]);
            pack_view(shape, a, b, 0.5, out).unwrap();
        }
        let groups = index.chunks_exact(6).map(|index| {
            let mut groups = ViewGroups::default();
            groups.set(&sheaf, index);
            groups
        });
        let groups = groups.collect();
        let diag = TestRng::new(2).ranges(n, 0.5, 1.5);
        let mut quad = vec![0.0; n * 5];
        for (i, q) in quad.iter_mut().enumerate() {
            *q = if i % 25 % 6 == 0 { diag[i / 5] } else { 0.1 };
        }
        Self {
            sheaf,
            stacks,
            index,
            base,
            a,
            b,
            packed_base,
            packed,
            groups,
            per_agent,
            diag,
            q,
            quad,
            h,
            d_x,
        }
    }

    fn maps(&self, kind: Kind, samples: std::ops::Range<usize>) -> Maps<'_, f64> {
        let index = &self.index[samples.start * 6..samples.end * 6];
        let one = self.sheaf.stack_len();
        match kind {
            Kind::Stack => Maps::Stack(&self.stacks[..80]),
            Kind::Table => Maps::Table { stacks: &self.stacks, index, order: &[], tiles: &[] },
            Kind::PerAgent => Maps::PerAgent(&self.per_agent[samples.start * one..samples.end * one]),
            Kind::LowRank => Maps::LowRank(LowRank {
                base: &self.base,
                a: &self.a,
                b: &self.b,
                gate: None,
                rank: RANK,
                scale: 0.5,
                index,
            }),
            Kind::Packed => Maps::Packed(PackedLowRank {
                base: &self.packed_base,
                views: &self.packed,
                rank: RANK,
                agents: &self.groups[samples],
            }),
        }
    }

    fn objective(&self, want: Want, samples: std::ops::Range<usize>) -> Objective<'_, f64> {
        let own = samples.start * 30..samples.end * 30;
        let (diag, q, quad) =
            (&self.diag[own.clone()], &self.q[own.clone()], &self.quad[own.start * 5..own.end * 5]);
        match want {
            Want::Diagonal => Objective::Diagonal(Diagonal::new(diag, q)),
            Want::Tether => Objective::Tether(Tether { beta: 0.7, anchor: q }),
            Want::Dense => Objective::Dense(Dense { quad, q }),
            Want::Mixed => Objective::Mixed(
                (0..samples.len() * 6)
                    .map(|i| match i % 6 % 2 {
                        0 => Objective::Diagonal(Diagonal::new(&diag[i * 5..][..5], &q[i * 5..][..5])),
                        _ => Objective::Tether(Tether { beta: 0.7, anchor: &q[i * 5..][..5] }),
                    })
                    .collect(),
            ),
        }
    }

    /// x, z, u and all gradients of some of the samples.
    fn run(
        &self,
        kind: Kind,
        want: Want,
        z_update: &ZUpdate<f64>,
        mode: Mode,
        samples: std::ops::Range<usize>,
    ) -> Out {
        let own = samples.start * 30..samples.end * 30;
        let rho = [0.5, 1.5, 0.8, 2.0, 1.1, 0.9];
        let rho = if want == Want::Dense { Penalty::PerAgent(&rho) } else { Penalty::Scalar(0.8) };
        let problem = Problem {
            op: SheafOp::batch(&self.sheaf, self.maps(kind, samples.clone()), samples.len()).unwrap(),
            objective: self.objective(want, samples.clone()),
            z_update,
            rho,
            relax: 1.3,
        };
        problem.validate().unwrap();
        let mut ws = Workspace::new(&problem, mode);
        problem.solve(Start::At(&self.h[own.clone()]), &Options::fixed(K), &mut ws, &mut ()).unwrap();
        let n = own.len();
        let [mut d_one, mut d_q, mut d_h] = [vec![0.0; n * 5], vec![0.0; n], vec![0.0; n]];
        let (mut d_rho, mut d_gamma, mut d_eta, mut d_beta) = (vec![0.0; rho.grad_len(6)], 0.0, 0.0, 0.0);
        let distinct: usize = self.groups[samples.clone()].iter().map(|g| g.views().len()).sum();
        let mut d_maps = vec![
            0.0;
            match kind {
                Kind::Stack => 80,
                Kind::Table => self.stacks.len(),
                Kind::PerAgent => samples.len() * self.sheaf.stack_len(),
                Kind::LowRank => self.base.len(),
                Kind::Packed => distinct * 80,
            }
        ];
        let (mut d_a, mut d_b) = (vec![0.0; self.a.len()], vec![0.0; self.b.len()]);
        let mut maps = match kind {
            Kind::Stack => MapsGrad::Stack(&mut d_maps),
            Kind::Table => MapsGrad::Table(&mut d_maps),
            Kind::PerAgent => MapsGrad::PerAgent(&mut d_maps),
            Kind::LowRank => {
                MapsGrad::LowRank(LowRankGrad { base: &mut d_maps, a: &mut d_a, b: &mut d_b, gate: None })
            }
            Kind::Packed => MapsGrad::Packed(&mut d_maps),
        };
        let mut objective = match want {
            Want::Diagonal => ObjectiveGrad::Diagonal(DiagonalGrad {
                diag: Some(&mut d_one[..n]),
                q: Some(&mut d_q),
                ..Default::default()
            }),
            Want::Tether => {
                ObjectiveGrad::Tether(TetherGrad { beta: Some(&mut d_beta), anchor: Some(&mut d_q) })
            }
            Want::Dense => ObjectiveGrad::Dense(DenseGrad { quad: Some(&mut d_one), q: Some(&mut d_q) }),
            Want::Mixed => ObjectiveGrad::None,
        };
        let seeds: Vec<f64> = (0..2).flat_map(|w| self.d_x[w * 90..][own.clone()].to_vec()).collect();
        problem
            .reverse(
                Adjoint::Unrolled,
                &Seeds { d_x: &seeds, d_z: None, d_u: None },
                &mut Gradients {
                    objective: &mut objective,
                    maps: &mut maps,
                    rho: &mut d_rho,
                    gamma: &mut d_gamma,
                    eta: &mut d_eta,
                    offsets: &mut [],
                    edge_weights: &mut [],
                    start: &mut d_h,
                },
                &mut ws,
            )
            .unwrap();
        drop(objective);
        let bits = [ws.x().to_vec(), ws.z().to_vec(), ws.u().to_vec(), d_one, d_q, d_h];
        let (own_maps, shared_maps) = match kind {
            Kind::PerAgent | Kind::Packed => (d_maps, Vec::new()),
            _ => (Vec::new(), d_maps),
        };
        Out { bits, own_maps, sums: [shared_maps, d_a, d_b, d_rho, vec![d_gamma, d_eta, d_beta]].concat() }
    }
}

struct Out {
    /// Sample after sample.
    bits: [Vec<f64>; 6],
    own_maps: Vec<f64>,
    /// Added up over samples.
    sums: Vec<f64>,
}

#[test]
fn a_batch_gives_the_bits_of_its_samples() {
    let numbers = Numbers::new();
    for z_update in solvers(&numbers.sheaf) {
        for kind in [Kind::Stack, Kind::Table, Kind::PerAgent, Kind::LowRank, Kind::Packed] {
            for want in [Want::Diagonal, Want::Tether, Want::Dense, Want::Mixed] {
                for mode in [Mode::Differentiate { iterations: K }, Mode::Keep { iterations: K }] {
                    let name = format!("{z_update:?}, {kind:?}, {want:?}, {mode:?}");
                    let of = |samples| numbers.run(kind, want, &z_update, mode, samples);
                    let (all, each) = (of(0..SAMPLES), [0, 1, 2].map(|b| of(b..b + 1)));
                    for (i, all) in all.bits.iter().enumerate() {
                        let alone: Vec<f64> = each.iter().flat_map(|out| out.bits[i].clone()).collect();
                        // The gradient of a diagonal fills a fifth of its buffer.
                        let strip = |v: &[f64]| v.iter().copied().filter(|&v| v != 0.0).collect::<Vec<_>>();
                        assert!(strip(all) == strip(&alone), "{name}: output {i}");
                    }
                    let alone: Vec<f64> = each.iter().flat_map(|out| out.own_maps.clone()).collect();
                    assert!(all.own_maps == alone, "{name}: maps");
                    let mut sums = vec![0.0; all.sums.len()];
                    each.iter().for_each(|out| sums.iter_mut().zip(&out.sums).for_each(|(s, o)| *s += o));
                    close(&name, &all.sums, &sums, 1e-10);
                }
            }
        }
    }
}

#[test]
fn a_batch_in_gram_space_agrees_with_its_samples() {
    for batch in Batch::all(3) {
        let point = batch.point(7);
        let n = batch.sheaf.state_len();
        let z_update = ZUpdate::Gram(Gram::published(SOFT, 4));
        let prepared = batch.prepare(&point);
        let problem = batch.problem(&point, &prepared, &z_update);
        let [_, a, b, diag, q, h, ..] = batch.cut(&point);
        let mut ws = Workspace::new(&problem, Mode::Solve);
        problem.solve(Start::At(h), &Options::fixed(K), &mut ws, &mut ()).unwrap();
        for sample in 0..3 {
            let one = Batch { samples: 1, sheaf: batch.sheaf.clone(), ..batch };
            let lens = one.lens();
            let part = |all: &[f64], len: usize| all[sample * len..][..len].to_vec();
            let point = [
                point[..lens[0]].to_vec(),
                part(a, lens[1]),
                part(b, lens[2]),
                part(diag, n),
                part(q, n),
                part(h, n),
                vec![0.8, 1.3],
            ]
            .concat();
            let prepared = one.prepare(&point);
            let problem = one.problem(&point, &prepared, &z_update);
            let mut alone = Workspace::new(&problem, Mode::Solve);
            let start = part(h, n);
            problem.solve(Start::At(&start), &Options::fixed(K), &mut alone, &mut ()).unwrap();
            close("x", &part(ws.x(), n), alone.x(), 1e-12);
            close("z", &part(ws.z(), n), alone.z(), 1e-12);
            close("u", &part(ws.u(), n), alone.u(), 1e-12);
        }
    }
}
