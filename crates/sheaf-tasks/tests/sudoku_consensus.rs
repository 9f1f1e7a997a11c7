//! Consensus in the space of projections against conjugate gradients on the states, values and gradients.

use sheaf_admm::sheaf::{AgentGraph, LowRank, LowRankGrad, Maps, MapsGrad, Sheaf, SheafOp};
use sheaf_admm::x_update::Penalty;
use sheaf_admm::z_update::{Agreement, Cg, ConsensusGrad, ZUpdate};
use sheaf_tasks::sudoku::model::Cayley;
use sheaf_tasks::sudoku::model::consensus::{Consensus, Kept, Scalars, Work};
use sheaf_tasks::sudoku::model::low_rank::{self, LowRankDims, LowRankTile};
use sheaf_tasks::sudoku::model::maps::{Stack, StackGrad};
use sheaf_tasks::sudoku::model::tile_maps::{TileMaps, TileMapsGrad};
use sheaf_tasks::sudoku::views::cell_of_view;
use sheaf_testkit::random::TestRng;

const D_V: usize = 18;
const RANK: usize = 2;
const BOARDS: usize = 3;
const GAMMA: f64 = 2.0;
const RHO: f64 = 0.3;
const STATES: usize = 27 * D_V;

fn close(name: &str, got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len(), "{name}");
    let scale = want.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    assert!(scale > 1e-3, "{name}: nothing to compare");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= 1e-9 * scale, "{name}[{i}]: {g} against {w}");
    }
}

/// Everything a consensus step was given and asked for.
struct Case {
    d_e: usize,
    maps: Vec<f64>, // [9, d_e, D_V]
    a: Vec<f64>,    // [BOARDS, 27, 9, d_e, RANK]
    b: Vec<f64>,    // [BOARDS, 27, 9, D_V, RANK]
    w: Vec<f64>,    // [BOARDS, STATES]
    d_g: Vec<f64>,  // [BOARDS, STATES]
}

/// What came out: z, and the gradients of w, the maps, the factors and ρ for the cotangent `d_g` of z − w.
struct Answer {
    z: Vec<f64>,
    d_w: Vec<f64>,
    d_maps: Vec<f64>,
    d_a: Vec<f64>,
    d_b: Vec<f64>,
    d_rho: f64,
}

fn case(seed: u64, d_e: usize) -> Case {
    let mut rng = TestRng::new(seed);
    let mut some = |n: usize, size: f64| rng.normals(n).iter().map(|v| v * size).collect::<Vec<f64>>();
    let agents = BOARDS * 27 * 9 * RANK;
    Case {
        d_e,
        maps: some(9 * d_e * D_V, 0.3),
        a: some(agents * d_e, 0.5),
        b: some(agents * D_V, 0.3),
        w: some(BOARDS * STATES, 1.0),
        d_g: some(BOARDS * STATES, 1.0),
    }
}

fn by_tiles(case: &Case, steps: usize, low_rank: bool) -> Answer {
    let (cell_of, d_e, m) = (cell_of_view(), case.d_e, 9 * case.d_e);
    let consensus = Consensus { cell_of: &cell_of, d_e, gamma: GAMMA, rho: RHO, steps };
    let mut stack = Stack::default();
    stack.prepare(&case.maps, D_V);
    let dims = LowRankDims { d_v: D_V, d_e, rank: RANK };
    let (mut low, mut low_grad) = (LowRankTile::default(), low_rank::LowRankGrad::default());
    if low_rank {
        low.prepare(&stack, dims, 0.5, &case.a, &case.b);
        low_grad.reset(&low);
    }
    let maps = TileMaps { stack: &stack, low: low_rank.then_some(&low) };
    let rows = BOARDS * 27 * m;
    let (s_len, count) = consensus.kept_len(rows, BOARDS);
    let (mut y, mut s) = (vec![0.0; rows], vec![0.0; s_len]);
    let mut scalars = vec![Scalars::default(); count];
    let mut kept = Kept { y: &mut y, s: &mut s, scalars: &mut scalars };
    let (mut g, mut work) = (vec![0.0; case.w.len()], Work::default());
    consensus.forward(&maps, &case.w, &mut kept, &mut g, &mut work);
    let z = case.w.iter().zip(&g).map(|(w, g)| w + g).collect();

    let mut stack_grad = StackGrad::default();
    stack_grad.reset(m, D_V);
    let (mut d_w, mut d_rho) = (vec![0.0; case.w.len()], 0.0);
    let mut grad = TileMapsGrad { stack: &mut stack_grad, low: low_rank.then_some(&mut low_grad) };
    consensus.vjp(&maps, &case.w, &mut kept, &case.d_g, &mut d_w, &mut grad, &mut d_rho, &mut work);
    let (mut d_a, mut d_b) = (vec![0.0; case.a.len()], vec![0.0; case.b.len()]);
    if low_rank {
        low.prepare_vjp(&stack, 0.5, &mut low_grad, &mut d_a, &mut d_b, &mut stack_grad);
    }
    let mut d_maps = stack_grad.g.to_vec();
    stack.gram_vjp(&stack_grad.c, &mut d_maps);
    Answer { z, d_w, d_maps, d_a, d_b, d_rho }
}

/// The general solver, board by board.
fn by_states(case: &Case, cg: Cg<f64>, low_rank: bool) -> Answer {
    let cg = ZUpdate::Cg(cg);
    let sheaf = Sheaf::uniform(&AgentGraph::sudoku(), D_V, case.d_e).unwrap();
    let mut stack = vec![0.0; D_V * sheaf.as_uniform().unwrap().ld];
    Sheaf::pack_stack(&case.maps, D_V, &mut stack).unwrap();
    let index: Vec<u32> = (0..27).collect();
    let rho = Penalty::Scalar(RHO);
    let (a_len, b_len) = (case.a.len() / BOARDS, case.b.len() / BOARDS);
    let mut out = Answer {
        z: vec![],
        d_w: vec![],
        d_maps: vec![0.0; case.maps.len()],
        d_a: vec![0.0; case.a.len()],
        d_b: vec![0.0; case.b.len()],
        d_rho: 0.0,
    };
    for board in 0..BOARDS {
        let (a, b) = (&case.a[board * a_len..][..a_len], &case.b[board * b_len..][..b_len]);
        let low = LowRank { base: &case.maps, a, b, gate: None, rank: RANK, scale: 0.5, index: &index };
        let maps = if low_rank { Maps::LowRank(low) } else { Maps::Stack(&stack) };
        let op = SheafOp::new(&sheaf, maps).unwrap();
        let w = &case.w[board * STATES..][..STATES];
        let d_g = &case.d_g[board * STATES..][..STATES];
        let mut scratch = vec![0.0; cg.scratch_len(&op)];
        let mut z = vec![0.0; STATES];
        cg.forward(&op, &rho, w, w, &mut [], &mut z, &mut scratch).unwrap();
        // z − w has the cotangent, so w has minus it beside what comes through z.
        let (mut d_w, mut d_z_prev) = (d_g.iter().map(|d| -d).collect::<Vec<_>>(), vec![0.0; STATES]);
        let mut d_stack = vec![0.0; stack.len()];
        let (mut d_gamma, mut d_eta, mut d_rho) = (0.0, 0.0, [0.0]);
        let mut d_maps = if low_rank {
            MapsGrad::LowRank(LowRankGrad {
                base: &mut out.d_maps,
                a: &mut out.d_a[board * a_len..][..a_len],
                b: &mut out.d_b[board * b_len..][..b_len],
                gate: None,
            })
        } else {
            MapsGrad::Stack(&mut d_stack)
        };
        let mut grad =
            ConsensusGrad { maps: &mut d_maps, rho: &mut d_rho, gamma: &mut d_gamma, eta: &mut d_eta };
        cg.vjp(&op, &rho, w, w, &[], d_g, &mut d_w, &mut d_z_prev, &mut [], &mut grad, &mut scratch).unwrap();
        Sheaf::unpack_stack_add(&d_stack, D_V, &mut out.d_maps).unwrap();
        out.z.extend(z);
        out.d_w.extend(d_w);
        out.d_rho += d_rho[0];
    }
    out
}

fn compare(got: &Answer, want: &Answer, low_rank: bool) {
    close("z", &got.z, &want.z);
    close("gradient of w", &got.d_w, &want.d_w);
    close("gradient of the maps", &got.d_maps, &want.d_maps);
    close("gradient of rho", &[got.d_rho], &[want.d_rho]);
    if low_rank {
        close("gradient of A", &got.d_a, &want.d_a);
        close("gradient of B", &got.d_b, &want.d_b);
    }
}

fn published(steps: usize) -> Cg<f64> {
    Cg::published(Agreement::Soft { gamma: GAMMA }, steps)
}

#[test]
fn shared_maps_agree_with_conjugate_gradients_on_states() {
    for steps in [1, 2, 5] {
        let case = case(steps as u64, 3);
        compare(&by_tiles(&case, steps, false), &by_states(&case, published(steps), false), false);
    }
}

#[test]
fn low_rank_maps_agree_with_conjugate_gradients_on_states() {
    for steps in [1, 5] {
        let case = case(10 + steps as u64, 3);
        compare(&by_tiles(&case, steps, true), &by_states(&case, published(steps), true), true);
    }
}

#[test]
fn with_orthonormal_maps_the_closed_form_is_the_solution() {
    let mut case = case(7, D_V / 9);
    let skew: Vec<f64> = TestRng::new(8).normals(D_V * D_V).iter().map(|v| 0.2 * v).collect();
    let mut cayley = Cayley::default();
    cayley.forward(D_V, &skew, &mut case.maps);
    let mut got = by_tiles(&case, 0, false);
    let solver = Cg::to_tolerance(Agreement::Soft { gamma: GAMMA }, 1e-13, 50);
    let mut want = by_states(&case, solver, false);
    // Away from orthonormal maps the two differ, so only the gradients along them can agree.
    for answer in [&mut got, &mut want] {
        let d_maps = std::mem::replace(&mut answer.d_maps, vec![0.0; skew.len()]);
        cayley.vjp(D_V, &d_maps, &mut answer.d_maps);
    }
    compare(&got, &want, false);
}
