//! How fast the model of mazes runs: `cargo run --release --example maze_speed -- [THREADS]`.
//!
//! Tells CPU time, the best of some rounds, because other work on the machine disturbs the clock on the wall.

use sheaf_admm::admm::{Adjoint, Mode, Options};
use sheaf_admm::sheaf::{Maps, MapsGrad, SheafOp};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::stack::order_by_view;
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::generate;
use sheaf_tasks::maze::model::{Batch, Board, Horizon, MazeModel, Sample};
use sheaf_tasks::maze::weights::MazeWeights;

const MAZES: usize = 128;

/// Seconds of CPU time of all threads.
fn cpu() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let times = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    times.sum::<f64>() * 1e-9
}

/// Seconds of the best of many rounds that are too short for the clock of CPU time.
fn quickest(rounds: usize, mut run: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let before = std::time::Instant::now();
        run();
        best = best.min(before.elapsed().as_secs_f64());
    }
    best
}

/// Seconds of CPU time of the best of some rounds: the one that other work disturbed least.
fn best(rounds: usize, mut run: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let before = cpu();
        run();
        best = best.min(cpu() - before);
    }
    best
}

fn told(what: &str, mazes: usize, seconds: f64) {
    let per = seconds / mazes as f64;
    println!("{what}: {:.3} ms of CPU per maze, {:.0} mazes/s on two free cores", per * 1e3, 2.0 / per);
}

fn main() {
    let threads = std::env::args().nth(1).map_or(1, |s| s.parse().expect("a number of threads"));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    // Within the pool a single thread needs no other to wake up.
    pool.install(measure);
}

fn measure() {
    let set = generate(&MazeShape::new(19, 19, 18).expect("odd sizes"), 1, MAZES).expect("mazes");
    let MazeWeights { model, mut params, .. } = MazeWeights::builtin().expect("weights");
    if std::env::args().nth(2).is_some() {
        params = model.init(42);
    }
    let board = model.board(19, 19).expect("a board");
    let mut batch = Batch::<f32>::default();
    let mut grad = vec![0f32; params.len()];
    let (inputs, labels) = (&set.inputs, &set.labels);
    let mut seconds = [f64::MAX; 2];
    for (k, seconds) in [1, 27].into_iter().zip(&mut seconds) {
        let horizon = Horizon { iterations: k, window: 4 };
        let adjoint = Adjoint::Unrolled;
        let mut step = || {
            batch
                .loss_and_grad(&model, &params, &board, inputs, labels, horizon, adjoint, &mut grad)
                .expect("a step")
        };
        let loss = step();
        *seconds = best(10, || _ = std::hint::black_box(step()));
        told(&format!("train K={k}"), MAZES, *seconds);
        println!("loss {}", loss.loss);
    }
    println!(
        "an iteration, forward and reverse: {:.2} us",
        1e6 * (seconds[1] - seconds[0]) / 26.0 / MAZES as f64
    );
    let one = set.pixels();
    let mut alone = Batch::<f32>::default();
    for k in [1, 3, 9, 27] {
        let horizon = Horizon { iterations: k, window: 4 };
        let mut step = |i: usize| {
            let (input, label) = (&inputs[i * one..][..one], &labels[i * one..][..one]);
            let told = alone.loss_and_grad(
                &model,
                &params,
                &board,
                input,
                label,
                horizon,
                Adjoint::Unrolled,
                &mut grad,
            );
            std::hint::black_box(told.expect("a step"));
        };
        let seconds: f64 = (0..16).map(|i| quickest(40, || step(i))).sum();
        told(&format!("train K={k}, one maze alone"), 16, seconds);
    }
    told("encode", MAZES, quickest(30, || batch.encode(&model, &params, &board, inputs).expect("a grid")));
    solves(&model, &params, &board, &batch);
    products(&board, &batch);
}

fn solves(model: &MazeModel, params: &[f32], board: &Board, batch: &Batch<f32>) {
    let (z_update, mut sample, tables) = (model.z_update(), Sample::default(), batch.tables());
    let index: Vec<&[u32]> = batch.views().index().chunks_exact(board.sheaf.agents()).collect();
    for (what, iterations, mode) in [
        ("solve K=100", 100, Mode::Solve),
        ("solve K=27, recorded", 27, Mode::Differentiate { iterations: 27 }),
        ("solve K=27, kept", 27, Mode::Keep { iterations: 27 }),
    ] {
        let options = Options::fixed(iterations);
        let run = |k: usize, sample: &mut Sample<f32>| {
            model.solve(params, board, tables, index[k], &z_update, &options, mode, sample, &mut ()).map(drop)
        };
        let seconds: f64 = (0..16).map(|k| quickest(30, || run(k, &mut sample).expect("a solve"))).sum();
        told(what, 16, seconds);
    }
}

/// Nanoseconds per agent of each product, over the first mazes.
fn products(board: &Board, batch: &Batch<f32>) {
    let (sheaf, agents, views) = (&board.sheaf, board.sheaf.agents(), batch.views().len());
    let (n, m, terms) = (sheaf.state_len(), sheaf.row_len(), 12);
    let [mut z, mut g] = [(); 2].map(|()| AlignedVec::<f32>::zeros(terms * n));
    let [mut y, mut s] = [(); 2].map(|()| AlignedVec::<f32>::zeros(terms * m));
    let (stacks, tiles) = (batch.tables().stacks(sheaf), batch.tables().tiles(sheaf));
    let mut d_stacks = AlignedVec::<f32>::zeros(stacks.len());
    z.fill(0.3);
    s.fill(0.1);
    let (mut counts, mut order) = (vec![0; views + 1], vec![0; agents]);
    let mut distinct = 0;
    for index in batch.views().index().chunks_exact(agents) {
        let mut seen: Vec<_> = index.to_vec();
        seen.sort_unstable();
        seen.dedup();
        distinct += seen.len();
    }
    println!("{views} views, {:.1} of them in a maze", distinct as f64 / MAZES as f64);
    for what in ["project", "exchange", "lift", "laplacian", "12 outers"] {
        let mut seconds = 0.0;
        for index in batch.views().index().chunks_exact(agents).take(16) {
            order_by_view(index, views, &mut counts, &mut order);
            let maps = Maps::Table { stacks, index, order: &order, tiles };
            let op = SheafOp::new(sheaf, maps).expect("maps that fit");
            seconds += quickest(30, || {
                for _ in 0..50 {
                    match what {
                        "project" => op.project(&z[..n], &mut y[..m]).expect("fits"),
                        "exchange" => op.exchange(&y[..m], &mut s[..m]).expect("fits"),
                        "lift" => op.lift(&s[..m], &mut g[..n]).expect("fits"),
                        "laplacian" => {
                            op.laplacian(&z[..n], &mut g[..n], &mut y[..m], &mut s[..m]).expect("fits")
                        }
                        _ => MapsGrad::Table(&mut d_stacks)
                            .add_outers(sheaf, op.maps(), 1e-9, terms, &s, &z)
                            .expect("fits"),
                    }
                    std::hint::black_box((&y, &g, &d_stacks));
                }
            });
        }
        println!("{what}: {:.1} ns per agent", seconds * 1e9 / (16 * 50 * agents) as f64);
    }
}
