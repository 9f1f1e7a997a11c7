//! The whole model: gradients against differences, against the general solver, on any number of threads.

use sheaf_admm::admm::Mode;
use sheaf_admm::admm::{Options, Problem, Start, Trace, Workspace};
use sheaf_admm::sheaf::{AgentGraph, Maps, Sheaf, SheafOp};
use sheaf_admm::x_update::{Coefficient, Diagonal, Objective, Penalty};
use sheaf_admm::z_update::{Agreement, Cg, ZUpdate};
use sheaf_tasks::sudoku::data::SudokuSet;
use sheaf_tasks::sudoku::generate::{Kind, generate};
use sheaf_tasks::sudoku::model::{Batch, Horizon, Prepared, SudokuConfig, SudokuModel, Tile, TileGrad};
use sheaf_testkit::random::TestRng;
use sheaf_testkit::{CountingAllocator, GradientCheck, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn tiny(maps: &str) -> SudokuConfig {
    SudokuConfig {
        d_v: 18,
        d_e: if maps == "orthonormal" { 2 } else { 3 },
        channels: 6,
        token_hidden: 4,
        channel_hidden: 5,
        decoder_hidden: 7,
        rank: 2,
        cg_steps: 3,
        maps: maps.into(),
        ..SudokuConfig::default()
    }
}

/// Starting values with noise on all of them, so that nothing is zero.
fn noisy(model: &SudokuModel, seed: u64) -> Vec<f64> {
    let noise = TestRng::new(seed).normals(model.layout().len());
    model.init::<f64>(seed).iter().zip(noise).map(|(p, n)| p + 0.05 * n).collect()
}

fn some_boards(count: usize) -> SudokuSet {
    generate(Kind::Mixed, 8, count)
}

#[test]
fn gradients_of_the_whole_model_agree_with_differences() {
    let set = some_boards(2);
    let horizon = Horizon::whole(4, 2);
    for config in [
        tiny("slot"),
        tiny("low-rank"),
        tiny("orthonormal"),
        SudokuConfig { start: "zeros".into(), mixers: 0, ..tiny("slot") },
    ] {
        let model = SudokuModel::new(config.clone()).unwrap();
        let mut params = noisy(&model, 2);
        // A quarter of the states is pushed below the bound at 0, the others above: no step crosses it.
        let q = model.layout().range("encoder/q/bias").unwrap();
        params[q].iter_mut().enumerate().for_each(|(i, b)| *b += if i % 4 == 0 { 4.0 } else { -4.0 });
        let mut batch = Batch::<f64>::default();
        let mut gradient = vec![0.0; params.len()];
        batch.loss_and_grad(&model, &params, &set.puzzles, &set.solutions, horizon, &mut gradient);
        let mut unused = vec![0.0; params.len()];
        let mut loss = |at: &[f64]| {
            batch.loss_and_grad(&model, at, &set.puzzles, &set.solutions, horizon, &mut unused).loss
        };
        let check = GradientCheck { step: 1e-5, ..GradientCheck::default() };
        check.assert(&format!("{config:?}"), &mut loss, &params, &gradient);
        // One tensor at a time, so that small ones count.
        for entry in model.layout().entries() {
            if config.start == "zeros" && entry.name.starts_with("encoder/h") {
                assert!(gradient[entry.range.clone()].iter().all(|&g| g == 0.0), "{}", entry.name);
                continue;
            }
            let mut at = params.clone();
            let mut part = |v: &[f64]| {
                at[entry.range.clone()].copy_from_slice(v);
                loss(&at)
            };
            let check = GradientCheck { directions: 1, ..check.clone() };
            let (point, gradient) = (&params[entry.range.clone()], &gradient[entry.range.clone()]);
            check.assert(&format!("{} of {}", entry.name, config.maps), &mut part, point, gradient);
        }
    }
}

#[test]
fn gradients_of_the_last_iterations_leave_out_what_was_before() {
    let set = some_boards(3);
    for maps in ["slot", "low-rank", "orthonormal"] {
        let model = SudokuModel::new(tiny(maps)).unwrap();
        let params = noisy(&model, 6);
        let mut batch = Batch::<f64>::default();
        let mut run = |gradient| {
            let horizon = Horizon { gradient, ..Horizon::whole(5, 2) };
            let mut grad = vec![0.0; params.len()];
            let told = batch.loss_and_grad(&model, &params, &set.puzzles, &set.solutions, horizon, &mut grad);
            (told.loss, grad)
        };
        let (loss, whole) = run(0);
        assert_eq!(run(5), (loss, whole.clone()), "{maps}");
        assert_eq!(run(9), (loss, whole.clone()), "{maps}");
        let distance = |part: &[f64]| part.iter().zip(&whole).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        let mut last = f64::INFINITY;
        for gradient in [2, 3, 4] {
            let (same, part) = run(gradient);
            assert_eq!(same, loss, "{maps}");
            for entry in model.layout().entries() {
                let (part, whole) = (&part[entry.range.clone()], &whole[entry.range.clone()]);
                if entry.name.starts_with("decoder/") {
                    assert_eq!(part, whole, "{maps}: {}", entry.name);
                } else if entry.name.starts_with("encoder/h") {
                    assert!(part.iter().all(|&g| g == 0.0), "{maps}: {}", entry.name);
                } else if entry.name == "encoder/q/bias" {
                    assert_ne!(part, whole, "{maps}");
                }
            }
            assert!(distance(&part) < last, "{maps}: {gradient}");
            last = distance(&part);
        }
    }
}

#[test]
fn iterations_are_those_of_the_general_solver() {
    let model = SudokuModel::new(tiny("slot")).unwrap();
    let (params, puzzle, k) = (noisy(&model, 3), some_boards(1).puzzles[0], 6);
    let (mut prepared, mut tile) = (Prepared::default(), Tile::default());
    model.prepare(&params, &mut prepared);
    model.encode(&params, &prepared, &[puzzle], &mut tile);
    let (e, n) = (tile.encoded(), model.state_len());

    let sheaf = Sheaf::uniform(&AgentGraph::sudoku(), 18, 3).unwrap();
    let mut stack = vec![0.0; 18 * sheaf.as_uniform().unwrap().ld];
    Sheaf::pack_stack(&params[model.layout().range("maps").unwrap()], 18, &mut stack).unwrap();
    let z_update = ZUpdate::Cg(Cg::published(Agreement::Soft { gamma: 2.0 }, 3));
    let bound = Some(Coefficient::Scalar(0.0));
    let problem = Problem {
        op: SheafOp::new(&sheaf, Maps::Stack(&stack)).unwrap(),
        objective: Objective::Diagonal(Diagonal { lo: bound, ..Diagonal::new(&e.diag[..n], &e.q[..n]) }),
        z_update: &z_update,
        rho: Penalty::Scalar(model.rho(&params).0),
        relax: 1.0,
    };
    let mut want = Trace::default();
    let mut ws = Workspace::new(&problem, Mode::Solve);
    problem.solve(Start::At(&e.h[..n]), &Options::fixed(k), &mut ws, &mut want).unwrap();

    let got = model.trace(&params, &puzzle, k);
    for (name, got, want) in [
        ("x", &got.x, &want.x),
        ("z", &got.z, &want.z),
        ("u", &got.u, &want.u),
        ("primal", &got.primal, &want.primal),
        ("dual", &got.dual, &want.dual),
        ("consistency", &got.consistency, &want.edge_rms),
    ] {
        assert_eq!(got.len(), want.len(), "{name}");
        assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-10), "{name}");
    }
}

#[test]
fn gradients_are_the_same_bits_on_any_number_of_threads() {
    let set = some_boards(37);
    for maps in ["slot", "low-rank", "orthonormal"] {
        let model = SudokuModel::new(tiny(maps)).unwrap();
        let params: Vec<f32> = model.init(5);
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut grad = vec![0.0f32; params.len()];
                let horizon = Horizon::whole(3, 2);
                let mut batch = Batch::default();
                // Twice: buffers that were used before must not matter.
                batch.loss_and_grad(
                    &model,
                    &params,
                    &set.puzzles[..9],
                    &set.solutions[..9],
                    horizon,
                    &mut grad,
                );
                let told =
                    batch.loss_and_grad(&model, &params, &set.puzzles, &set.solutions, horizon, &mut grad);
                (told.loss.to_bits(), grad.iter().map(|g| g.to_bits()).collect::<Vec<_>>())
            })
        };
        let one = run(1);
        assert!(one == run(2) && one == run(5), "{maps}");
    }
}

#[test]
fn a_batch_is_the_mean_of_its_boards() {
    let set = some_boards(6);
    let model = SudokuModel::new(tiny("low-rank")).unwrap();
    let params = noisy(&model, 4);
    let horizon = Horizon::whole(3, 9);
    let mut batch = Batch::<f64>::default();
    let mut whole = vec![0.0; params.len()];
    let told = batch.loss_and_grad(&model, &params, &set.puzzles, &set.solutions, horizon, &mut whole);
    let (mut loss, mut sum, mut one) = (0.0, vec![0.0; params.len()], vec![0.0; params.len()]);
    for i in 0..6 {
        let (puzzle, solution) = (&set.puzzles[i..=i], &set.solutions[i..=i]);
        loss += batch.loss_and_grad(&model, &params, puzzle, solution, horizon, &mut one).loss / 6.0;
        sum.iter_mut().zip(&one).for_each(|(s, o)| *s += o / 6.0);
    }
    assert!((told.loss - loss).abs() < 1e-12);
    let scale = whole.iter().fold(0.0f64, |m, g| m.max(g.abs()));
    assert!(whole.iter().zip(&sum).all(|(a, b)| (a - b).abs() < 1e-12 * scale));
}

#[test]
fn a_board_that_is_not_finite_is_named() {
    let set = some_boards(20);
    let model = SudokuModel::new(tiny("slot")).unwrap();
    let mut params: Vec<f32> = model.init(5);
    let range = model.layout().range("encoder/token/kernel").unwrap();
    // Only boards with a 7 among their givens see this row; all of these have one, save those made to lack it.
    params[range.start + 7 * 6..][..6].fill(1e30);
    let mut puzzles = set.puzzles.clone();
    puzzles[..13].iter_mut().flatten().for_each(|d| *d = if *d == 7 { 0 } else { *d });
    let mut grad = vec![0.0; params.len()];
    let horizon = Horizon::whole(2, 1);
    let told = Batch::default().loss_and_grad(&model, &params, &puzzles, &set.solutions, horizon, &mut grad);
    assert!(told.loss.is_nan());
    assert_eq!(told.bad, Some(13));
}

#[test]
fn buffers_are_made_once() {
    let set = some_boards(12);
    for maps in ["slot", "low-rank", "orthonormal"] {
        let model = SudokuModel::new(tiny(maps)).unwrap();
        let params: Vec<f32> = model.init(6);
        let (mut prepared, mut tile, mut grad) = (Prepared::default(), Tile::default(), TileGrad::default());
        let horizon = Horizon::whole(3, 2);
        let mut run = |from: usize| {
            let (p, s) = (&set.puzzles[from..][..4], &set.solutions[from..][..4]);
            allocations(|| {
                model.prepare(&params, &mut prepared);
                grad.reset(&model);
                model.tile_grad(&params, &prepared, p, s, horizon, 1.0, 0, &mut tile, &mut grad);
            })
        };
        // What remains are the copies that general matrix products make of their operands.
        let (first, second, third) = (run(0), run(4), run(8));
        assert!(first > second + 50 && second == third, "{maps}: {first}, {second}, {third}");
    }
}

#[test]
fn choices_without_meaning_are_refused() {
    let place = |config: SudokuConfig| SudokuModel::new(config).unwrap_err().place().to_string();
    assert_eq!(place(SudokuConfig { d_v: 20, ..tiny("slot") }), "model.d_v");
    assert_eq!(place(SudokuConfig { d_e: 3, ..tiny("orthonormal") }), "model.d_e");
    assert_eq!(place(SudokuConfig { rank: 0, ..tiny("low-rank") }), "model.rank");
    assert_eq!(place(SudokuConfig { gamma: -1.0, ..tiny("slot") }), "model.gamma");
    assert_eq!(place(SudokuConfig { cg_steps: 0, ..tiny("slot") }), "model.cg_steps");
    assert_eq!(place(tiny("dense")), "model.maps");
}

#[test]
fn orthonormal_maps_start_near_the_identity_and_stay_orthonormal() {
    let model = SudokuModel::new(tiny("orthonormal")).unwrap();
    let params: Vec<f64> = model.init(1);
    let mut cayley = sheaf_tasks::sudoku::model::Cayley::default();
    let mut q = vec![0.0; 18 * 18];
    cayley.forward(18, &params[model.layout().range("maps/skew").unwrap()], &mut q);
    for (i, &v) in q.iter().enumerate() {
        let unit = f64::from(u8::from(i / 18 == i % 18));
        assert!((v - unit).abs() < 0.05);
    }
}
