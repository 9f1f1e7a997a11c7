//! How fast the model of pictures runs: `cargo run --release --example mnist_speed -- DIR [THREADS]`.
//!
//! Tells CPU time, the best of some rounds, because other work on the machine disturbs the clock on the wall.

use std::time::Instant;

use sheaf_admm::admm::{Adjoint, Mode, Options};
use sheaf_admm::sheaf::{Maps, MapsGrad, PackedLowRank, SheafOp, ViewGroups};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_tasks::baselines::cnn::{CnnBatch, CnnConfig, CnnModel};
use sheaf_tasks::mnist::data::{ImageSet, Split};
use sheaf_tasks::mnist::evaluate::{EvalOptions, evaluate};
use sheaf_tasks::mnist::model::{Batch, Board, Horizon, MnistConfig, MnistModel, Sample};
use sheaf_tasks::mnist::shifts::Shift;

/// Seconds of CPU time of all threads.
fn cpu() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let times = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    times.sum::<f64>() * 1e-9
}

/// Peak of memory in MB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or_default();
    peak.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
}

/// Seconds of CPU time and on the clock of the best of some rounds: those that other work disturbed least.
fn best(rounds: usize, mut run: impl FnMut()) -> (f64, f64) {
    let mut best = (f64::MAX, f64::MAX);
    for _ in 0..rounds {
        let (before, clock) = (cpu(), Instant::now());
        run();
        best = (best.0.min(cpu() - before), best.1.min(clock.elapsed().as_secs_f64()));
    }
    best
}

fn told(what: &str, images: usize, (cpu, clock): (f64, f64)) {
    let n = images as f64;
    let (ms, free, now) = (cpu * 1e3 / n, 2.0 * n / cpu, n / clock);
    println!(
        "{what}: {ms:.2} ms of CPU per image, {free:.0} images/s on two free cores, {now:.0} by the clock"
    );
}

fn main() {
    let dir = std::env::args().nth(1).expect("a folder with MNIST");
    let threads = std::env::args().nth(2).map_or(2, |s| s.parse().expect("a number of threads"));
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().expect("threads");
    let set = ImageSet::read(dir.as_ref(), Split::Test).expect("the test set").first(128);
    let model = MnistModel::new(MnistConfig::default()).expect("the published model");
    let mut params: Vec<f32> = model.init(42);
    // B starts at 0; noise makes the maps differ, as they do after training.
    let mut stream = sheaf_learn::rng::Stream::new(1, "noise on parameters", 0, 0);
    params.iter_mut().for_each(|p| *p += (0.02 * stream.normal()) as f32);
    let board = model.board(set.height, set.width).expect("a board");
    let mut images = vec![0f32; set.images.len()];
    for (i, image) in images.chunks_exact_mut(set.pixels()).enumerate() {
        set.write_image(i, image);
    }
    let mut batch = Batch::<f32>::default();
    let mut grad = vec![0f32; params.len()];
    let horizon = Horizon { iterations: 20, window: 2 };
    let mut step = || {
        batch
            .loss_and_grad(
                &model,
                &params,
                &board,
                &images,
                &set.labels,
                horizon,
                Adjoint::Unrolled,
                &mut grad,
            )
            .expect("a step")
    };
    let loss = step();
    told("train K=20", 128, best(5, || _ = std::hint::black_box(step())));
    println!("loss {}, {} distinct views", loss.loss, batch.views().len());
    told("encode", 128, best(5, || batch.encode(&model, &params, &board, &images, None)));
    let (z_update, mut sample, tables) = (model.z_update(), Sample::default(), batch.tables());
    let index: Vec<&[u32]> = batch.views().index().chunks_exact(board.sheaf.agents()).collect();
    let report = EvalOptions { iterations: 100, shift: Shift::None, draws: 1, seed: 0 };
    told("evaluation K=100", 128, best(2, || drop(evaluate(&model, &params, &set, &report, &|_| {}))));
    println!("peak {:.0} MB", peak());
    for (what, iterations, mode) in [
        ("solve K=100", 100, Mode::Solve),
        ("solve K=20, recorded", 20, Mode::Differentiate { iterations: 20 }),
    ] {
        let options = Options::fixed(iterations);
        let run = |k: usize, sample: &mut Sample<f32>| {
            model
                .solve(&params, &board, tables, index[k], &z_update, &options, mode, sample, &mut ())
                .map(drop)
        };
        told(what, 16, best(5, || (0..16).for_each(|k| run(k, &mut sample).expect("a solve"))));
    }
    products(&board, &batch);
    let network = CnnModel::new(CnnConfig::default()).expect("the published network");
    let (weights, size) = (network.init::<f32>(1), (set.height, set.width));
    let (mut pieces, mut grad) = (CnnBatch::<f32>::default(), vec![0f32; weights.len()]);
    let mut step = || {
        pieces
            .loss_and_grad(&network, &weights, size, &images, &set.labels, Some((1, 1)), &mut grad)
            .expect("a step")
    };
    step();
    told("network, training", 128, best(5, || _ = std::hint::black_box(step())));
    println!("peak {:.0} MB", peak());
}

/// Nanoseconds per agent of each product, over the first pictures.
fn products(board: &Board, batch: &Batch<f32>) {
    let (sheaf, shape, agents) = (&board.sheaf, board.shape, board.sheaf.agents());
    let (n, m, terms) = (sheaf.state_len(), sheaf.row_len(), 12);
    let [mut z, mut g] = [(); 2].map(|()| AlignedVec::<f32>::zeros(terms * n));
    let [mut y, mut s] = [(); 2].map(|()| AlignedVec::<f32>::zeros(terms * m));
    let mut d_stacks = AlignedVec::<f32>::zeros(agents * shape.d_v * shape.ld);
    let mut groups = ViewGroups::default();
    z.fill(0.3);
    s.fill(0.1);
    for what in ["project", "exchange", "lift", "laplacian", "12 outers"] {
        let seconds = best(5, || {
            for index in batch.views().index().chunks_exact(agents).take(16) {
                groups.set(sheaf, index);
                let (base, views) = (batch.tables().base(), batch.tables().packed());
                let low =
                    PackedLowRank { base, views, rank: shape.rank, agents: std::slice::from_ref(&groups) };
                let op = SheafOp::new(sheaf, Maps::Packed(low)).expect("maps that fit");
                for _ in 0..400 {
                    match what {
                        "project" => op.project(&z[..n], &mut y[..m]).expect("fits"),
                        "exchange" => op.exchange(&y[..m], &mut s[..m]).expect("fits"),
                        "lift" => op.lift(&s[..m], &mut g[..n]).expect("fits"),
                        "laplacian" => {
                            op.laplacian(&z[..n], &mut g[..n], &mut y[..m], &mut s[..m]).expect("fits")
                        }
                        _ => MapsGrad::Packed(&mut d_stacks)
                            .add_outers(sheaf, op.maps(), 1e-9, terms, &s, &z)
                            .expect("fits"),
                    }
                    std::hint::black_box((&y, &g, &d_stacks));
                }
            }
        });
        println!("{what}: {:.2} us per image", seconds.0 * 1e6 / 6400.0);
    }
}
