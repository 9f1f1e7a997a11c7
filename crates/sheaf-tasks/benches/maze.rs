//! The hot paths of the maze, one core: `cargo bench -p sheaf-tasks`. Divide by 81 for the cost of an agent.
//!
//! | bench | is |
//! | --- | --- |
//! | `laplacian` | one fused sheaf Laplacian, 81 agents, 40×10 stacks from a table |
//! | `forward_100` | 100 iterations (five CG steps each) and the decoder, one 19×19 maze |
//! | `forward_and_reverse_27` | 27 iterations, the loss of the last four, and all gradients, one 19×19 maze |
#![allow(missing_docs)]

use divan::Bencher;
use divan::counter::ItemsCount;
use sheaf_admm::admm::{Adjoint, Mode, Options};
use sheaf_admm::linalg::aligned::AlignedVec;
use sheaf_admm::linalg::stack::order_by_view;
use sheaf_admm::sheaf::{Maps, SheafOp};
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::{MazeSet, generate};
use sheaf_tasks::maze::model::{Batch, Board, Horizon, MazeConfig, MazeModel, Sample};

/// Mazes of a batch, so that the table of stacks is as large as in training.
const MAZES: usize = 128;

fn main() {
    divan::main();
}

struct Setting {
    model: MazeModel,
    params: Vec<f32>,
    mazes: MazeSet,
    board: Board,
    batch: Batch<f32>,
}

fn setting() -> Setting {
    let model = MazeModel::new(MazeConfig::default()).expect("the published model");
    let params: Vec<f32> = model.init(42);
    let mazes = generate(&MazeShape::new(19, 19, 18).expect("odd sizes"), 1, MAZES).expect("mazes");
    let board = model.board(19, 19).expect("a board");
    let mut batch = Batch::default();
    batch.encode(&model, &params, &board, &mazes.inputs).expect("a grid");
    Setting { model, params, mazes, board, batch }
}

#[divan::bench]
fn laplacian(bencher: Bencher<'_, '_>) {
    let s = setting();
    let agents = s.board.sheaf.agents();
    let index = &s.batch.views().index()[..agents];
    let views = s.batch.views().len();
    let (mut counts, mut order) = (vec![0; views + 1], vec![0; agents]);
    order_by_view(index, views, &mut counts, &mut order);
    let (tables, sheaf) = (s.batch.tables(), &s.board.sheaf);
    let (stacks, tiles) = (tables.stacks(sheaf), tables.tiles(sheaf));
    let maps = Maps::Table { stacks, index, order: &order, tiles };
    let op = SheafOp::new(&s.board.sheaf, maps).expect("maps that fit");
    let (n, m) = (s.board.sheaf.state_len(), s.board.sheaf.row_len());
    let mut z = AlignedVec::<f32>::zeros(n);
    z.iter_mut().enumerate().for_each(|(i, z)| *z = (i % 7) as f32 * 0.1);
    let (mut g, mut y, mut r) = (AlignedVec::zeros(n), AlignedVec::zeros(m), AlignedVec::zeros(m));
    bencher.counter(ItemsCount::new(agents)).bench_local(|| {
        op.laplacian(divan::black_box(&z), &mut g, &mut y, &mut r);
        divan::black_box(&g);
    });
}

#[divan::bench]
fn forward_100(bencher: Bencher<'_, '_>) {
    let s = setting();
    let (agents, z_update, options) = (s.board.sheaf.agents(), s.model.z_update(), Options::fixed(100));
    let (mut sample, mut i) = (Sample::default(), 0);
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| {
        i = (i + 1) % MAZES;
        let (index, tables) = (&s.batch.views().index()[i * agents..][..agents], s.batch.tables());
        let (board, mode) = (&s.board, Mode::Solve);
        s.model
            .solve(&s.params, board, tables, index, &z_update, &options, mode, &mut sample, &mut ())
            .expect("a solve");
        s.model.decode(&s.params, tables, index, &mut sample);
        divan::black_box(sample.logits(agents)[0]);
    });
}

#[divan::bench]
fn forward_and_reverse_27(bencher: Bencher<'_, '_>) {
    let mut s = setting();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool of one thread");
    let mut grad = vec![0.0; s.params.len()];
    let horizon = Horizon { iterations: 27, window: 4 };
    bencher.counter(ItemsCount::new(MAZES)).bench_local(|| {
        pool.install(|| {
            let (inputs, labels) = (&s.mazes.inputs, &s.mazes.labels);
            let (model, params, board) = (&s.model, &s.params, &s.board);
            let adjoint = Adjoint::Unrolled;
            s.batch.loss_and_grad(model, params, board, inputs, labels, horizon, adjoint, &mut grad)
        })
        .expect("a step")
    });
}
