//! Throwaway timing.
use sheaf_admm::admm::*;
use sheaf_tasks::maze::{carve::MazeShape, data::generate, model::*};
struct Instant(f64);
fn cpu() -> f64 {
    std::fs::read_to_string("/proc/self/schedstat")
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse::<f64>()
        .unwrap()
        * 1e-9
}
impl Instant {
    fn now() -> Self {
        Self(cpu())
    }
    fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::from_secs_f64((cpu() - self.0).max(1e-9))
    }
}
fn main() {
    let _ = 0;
    let threads: usize = std::env::args().nth(1).map_or(1, |s| s.parse().unwrap());
    rayon::ThreadPoolBuilder::new().num_threads(threads).use_current_thread().build_global().unwrap();
    let model = MazeModel::new(MazeConfig::default()).unwrap();
    let params: Vec<f32> = model.init(42);
    let set = generate(&MazeShape::new(19, 19, 18).unwrap(), 1, 128).unwrap();
    let board = model.board(19, 19).unwrap();
    let mut batch = Batch::<f32>::default();
    let mut grad = vec![0f32; params.len()];
    for r in 0..4 {
        let t = Instant::now();
        let l = batch
            .loss_and_grad(
                &model,
                &params,
                &board,
                &set.inputs,
                &set.labels,
                Horizon { iterations: 27, window: 4 },
                Adjoint::Unrolled,
                &mut grad,
            )
            .unwrap();
        let e = t.elapsed().as_secs_f64();
        println!(
            "{r}: loss {} views {} {:.1} samples/s, {:.3} ms per sample and core",
            l.loss,
            batch.views().len(),
            128.0 / e,
            e * 1e3 * threads as f64 / 128.0
        );
    }
    let z = model.z_update();
    let mut s = Sample::default();
    let t = Instant::now();
    for i in 0..32 {
        let index = &batch.views().index()[i * 81..][..81];
        model
            .solve(
                &params,
                &board,
                batch.tables(),
                index,
                &z,
                &Options::fixed(100),
                Mode::Solve,
                &mut s,
                &mut (),
            )
            .unwrap();
        model.decode(&params, batch.tables(), index, &mut s);
    }
    println!("forward K=100: {:.3} ms per maze and core", t.elapsed().as_secs_f64() * 1e3 / 32.0);
    let u = board.sheaf.as_uniform().unwrap();
    let mut idx = batch.views().index()[..81].to_vec();
    let mut dd = idx.clone();
    dd.sort();
    dd.dedup();
    println!("distinct in one maze {}", dd.len());
    if std::env::var("SORT").is_ok() {
        idx.sort();
    }
    let op = sheaf_admm::sheaf::SheafOp::new(
        &board.sheaf,
        sheaf_admm::sheaf::Maps::Table {
            stacks: batch.tables().stacks(&board.sheaf),
            index: &batch.views().index()[..81],
        },
    )
    .unwrap();
    let (mut zz, mut g) = (
        sheaf_admm::linalg::aligned::AlignedVec::<f32>::zeros(810),
        sheaf_admm::linalg::aligned::AlignedVec::<f32>::zeros(810),
    );
    let (mut y, mut sr) = (
        sheaf_admm::linalg::aligned::AlignedVec::<f32>::zeros(81 * u.ld),
        sheaf_admm::linalg::aligned::AlignedVec::<f32>::zeros(81 * u.ld),
    );
    zz.fill(0.3);
    for name in ["project", "exchange", "lift", "laplacian"] {
        let t = Instant::now();
        let n = 20000;
        for _ in 0..n {
            match name {
                "project" => op.project(&zz, &mut y),
                "exchange" => op.exchange(&y, &mut sr),
                "lift" => op.lift(&sr, &mut g),
                _ => op.laplacian(&zz, &mut g, &mut y, &mut sr),
            }
            std::hint::black_box((&y, &sr, &g));
        }
        println!("{name}: {:.1} ns per agent", t.elapsed().as_secs_f64() * 1e9 / n as f64 / 81.0);
    }
}
