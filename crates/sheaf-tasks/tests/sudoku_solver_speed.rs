//! The library's solver against the code that Sudoku runs today: a tile of two boards, forward and reverse, one thread.
//! `cargo test --release -p sheaf-tasks --test sudoku_solver_speed -- --ignored --nocapture`

use std::time::Instant;

use sheaf_admm::admm::{Adjoint, Gradients, Mode, Options, Problem, Seeds, Start, Workspace};
use sheaf_admm::sheaf::{
    AgentGraph, AgentUpdates, AgentUpdatesGrad, Maps, MapsGrad, SharedMaps, SharedMapsGrad, SharedStack,
    SharedStackGrad, Sheaf, SheafOp, UpdateDims,
};
use sheaf_admm::x_update::{Coefficient, Diagonal, DiagonalGrad, Objective, ObjectiveGrad, Penalty};
use sheaf_admm::z_update::{Agreement, Gram, Orthonormal, ZUpdate};
use sheaf_kernels::tile_prox::{self, ProxVjp};
use sheaf_kernels::vector::sub;
use sheaf_tasks::sudoku::model::consensus::{Consensus, Kept, Scalars, Work};
use sheaf_tasks::sudoku::model::low_rank::{LowRankDims, LowRankGrad, LowRankTile};
use sheaf_tasks::sudoku::model::maps::{Stack, StackGrad};
use sheaf_tasks::sudoku::model::tile_maps::{TileMaps, TileMapsGrad};
use sheaf_tasks::sudoku::views::cell_of_view;
use sheaf_testkit::TestRng;

const BOARDS: usize = 2;
const D_V: usize = 288;
const D_E: usize = 32;
const M: usize = 9 * D_E;
const N: usize = BOARDS * 27 * D_V;
const ROWS: usize = BOARDS * 27 * M;
const K: usize = 20;
const GAMMA: f32 = 2.0;
const RHO: f32 = 0.25;
const RANK: usize = 4;

struct Case {
    maps: Vec<f32>,
    a: Vec<f32>,
    b: Vec<f32>,
    diag: Vec<f32>,
    q: Vec<f32>,
    h: Vec<f32>,
    seed: Vec<f32>,
    /// 0 for the closed form.
    steps: usize,
    low: bool,
}

impl Case {
    fn new(steps: usize, low: bool) -> Self {
        let mut rng = TestRng::new(1);
        let mut some = |n: usize, scale: f64| -> Vec<f32> {
            rng.normals(n).iter().map(|v| (v * scale) as f32).collect()
        };
        let mut maps = some(M * D_V, 0.06);
        if steps == 0 {
            (0..M * D_V).for_each(|i| maps[i] = if i % (D_V + 1) == 0 { 1.0 } else { 0.0 });
        }
        let (a, b) = (some(BOARDS * 27 * M * RANK, 0.05), some(BOARDS * 27 * 9 * D_V * RANK, 0.05));
        let (q, h, seed) = (some(N, 1.0), some(N, 1.0), some(2 * N, 1.0));
        let diag = TestRng::new(2).ranges(N, 0.1, 1.0).iter().map(|&v| v as f32).collect();
        Self { maps, a, b, diag, q, h, seed, steps, low }
    }
}

/// The loops of `model/tile.rs`.
fn by_tile(case: &Case) -> impl FnMut() -> [Vec<f32>; 3] + '_ {
    let cell_of = cell_of_view();
    let mut stack = Stack::default();
    stack.prepare(&case.maps, D_V);
    let mut low = LowRankTile::default();
    low.prepare(&stack, LowRankDims { d_v: D_V, d_e: D_E, rank: RANK }, 0.5, &case.a, &case.b);
    let depth = case.steps.max(1);
    let (mut x, mut g, mut w) = (vec![0.0; K * N], vec![0.0; (K + 1) * N], vec![0.0; N]);
    let (mut y, mut s) = (vec![0.0; K * ROWS], vec![0.0; K * depth * ROWS]);
    let mut scalars = vec![Scalars::default(); K * depth * BOARDS];
    let [mut inv_a, mut gain, mut shift] = [(); 3].map(|()| vec![0.0; N]);
    let [mut d_w, mut d_g, mut d_diag, mut d_q] = [(); 4].map(|()| vec![0.0; N]);
    let (mut work, mut grad, mut low_grad) = (Work::default(), StackGrad::default(), LowRankGrad::default());
    move || {
        let consensus = Consensus { cell_of: &cell_of, d_e: D_E, gamma: GAMMA, rho: RHO, steps: case.steps };
        let maps = TileMaps { stack: &stack, low: case.low.then_some(&low) };
        let (s_len, count) = consensus.kept_len(ROWS, BOARDS);
        tile_prox::prepare(&case.diag, &case.q, RHO, &mut inv_a, &mut gain, &mut shift);
        w.copy_from_slice(&case.h);
        g[..N].fill(0.0);
        for k in 0..K {
            tile_prox::prox(&gain, &shift, &g[k * N..][..N], &mut w, &mut x[k * N..][..N]);
            if k + 1 == K {
                break;
            }
            let mut kept = Kept {
                y: &mut y[k * ROWS..][..ROWS],
                s: &mut s[k * s_len..][..s_len],
                scalars: &mut scalars[k * count..][..count],
            };
            consensus.forward(&maps, &w, &mut kept, &mut g[(k + 1) * N..][..N], &mut work);
        }
        grad.reset(M, D_V);
        low_grad.reset(&low);
        for d in [&mut d_w, &mut d_diag, &mut d_q] {
            d.fill(0.0);
        }
        let mut d_rho = 0.0;
        let mut d_maps = TileMapsGrad { stack: &mut grad, low: case.low.then_some(&mut low_grad) };
        for k in (0..K).rev() {
            let d_x = (k + 2).checked_sub(K).map(|slot| &case.seed[slot * N..][..N]);
            tile_prox::prox_vjp(ProxVjp {
                inv_a: &inv_a,
                gain: &gain,
                x: &x[k * N..][..N],
                d_x,
                d_w: &mut d_w,
                d_g: &mut d_g,
                d_diag: &mut d_diag,
                d_q: &mut d_q,
            });
            if let Some(last) = k.checked_sub(1) {
                sub(&mut w, &x[last * N..][..N], &g[last * N..][..N]);
                let mut kept = Kept {
                    y: &mut y[last * ROWS..][..ROWS],
                    s: &mut s[last * s_len..][..s_len],
                    scalars: &mut scalars[last * count..][..count],
                };
                consensus.vjp(&maps, &w, &mut kept, &d_g, &mut d_w, &mut d_maps, &mut d_rho, &mut work);
            }
        }
        d_rho += tile_prox::rho_grad(&case.diag, &case.q, RHO, &d_diag, &d_q);
        [x[(K - 1) * N..].to_vec(), d_q.clone(), vec![d_rho]]
    }
}

fn by_library(case: &Case) -> impl FnMut() -> [Vec<f32>; 3] + '_ {
    let sheaf = Sheaf::uniform(&AgentGraph::sudoku(), D_V, D_E).unwrap();
    let (mut stack, mut updates) = (SharedStack::default(), AgentUpdates::default());
    stack.prepare(&case.maps, D_V).unwrap();
    let dims = UpdateDims { slots: 9, d_v: D_V, d_e: D_E, rank: RANK };
    updates.prepare(&stack, dims, 0.5, &case.a, &case.b).unwrap();
    let agreement = Agreement::Soft { gamma: GAMMA };
    let z_update = match case.steps {
        0 => ZUpdate::Orthonormal(Orthonormal { agreement }),
        steps => ZUpdate::Gram(Gram::published(agreement, steps)),
    };
    let (mut grad, mut low_grad) = (SharedStackGrad::default(), AgentUpdatesGrad::default());
    let [mut d_diag, mut d_q, mut d_h] = [(); 3].map(|()| vec![0.0; N]);
    let mut ws = Workspace::default();
    move || {
        let maps =
            if case.low { SharedMaps::with_updates(&stack, &updates) } else { SharedMaps::new(&stack) };
        let lo = Some(Coefficient::Scalar(0.0));
        let problem = Problem {
            op: SheafOp::batch(&sheaf, Maps::Shared(maps), BOARDS).unwrap(),
            objective: Objective::Diagonal(Diagonal { lo, ..Diagonal::new(&case.diag, &case.q) }),
            z_update: &z_update,
            rho: Penalty::Scalar(RHO),
            relax: 1.0,
        };
        ws.fit(&problem, Mode::Keep { iterations: K });
        problem.solve(Start::At(&case.h), &Options::fixed(K).x_only(), &mut ws, &mut ()).unwrap();
        grad.reset(&stack);
        low_grad.reset(&updates);
        for d in [&mut d_diag, &mut d_q, &mut d_h] {
            d.fill(0.0);
        }
        let (mut d_rho, mut d_gamma, mut d_eta) = ([0.0], 0.0, 0.0);
        let d = DiagonalGrad { diag: Some(&mut d_diag), q: Some(&mut d_q), ..Default::default() };
        let updates = case.low.then_some(&mut low_grad);
        let mut grads = Gradients {
            objective: &mut ObjectiveGrad::Diagonal(d),
            maps: &mut MapsGrad::Shared(SharedMapsGrad { stack: &mut grad, updates }),
            rho: &mut d_rho,
            gamma: &mut d_gamma,
            eta: &mut d_eta,
            start: &mut d_h,
        };
        let seeds = Seeds { d_x: &case.seed, d_z: None, d_u: None };
        problem.reverse(Adjoint::Unrolled, &seeds, &mut grads, &mut ws).unwrap();
        [ws.x().to_vec(), d_q.clone(), d_rho.to_vec()]
    }
}

fn close(name: &str, got: &[f32], want: &[f32]) {
    let size = want.iter().fold(1.0f32, |m, w| m.max(w.abs()));
    let worst = got.iter().zip(want).fold(0.0f32, |m, (g, w)| m.max((g - w).abs()));
    assert!(worst <= 1e-3 * size, "{name}: off by {worst} of {size}");
}

#[test]
#[ignore = "a measurement"]
fn the_library_is_as_fast_as_the_tile_code() {
    let rounds = std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(40);
    for (name, steps, low) in [("gram", 5, false), ("gram, low rank", 5, true), ("orthonormal", 0, false)] {
        let case = Case::new(steps, low);
        let (mut tile, mut library) = (by_tile(&case), by_library(&case));
        let (want, got) = (tile(), library());
        for (what, (got, want)) in ["x", "d_q", "d_rho"].into_iter().zip(got.iter().zip(&want)) {
            close(&format!("{name}: {what}"), got, want);
        }
        let mut best = [f64::INFINITY; 2];
        for _ in 0..rounds {
            for (best, run) in best.iter_mut().zip([&mut tile as &mut dyn FnMut() -> _, &mut library]) {
                let start = Instant::now();
                std::hint::black_box(run());
                *best = best.min(start.elapsed().as_secs_f64() * 1e3);
            }
        }
        println!("{name}: tile {:.2} ms, library {:.2} ms, {:.3} of it", best[0], best[1], best[1] / best[0]);
    }
}
