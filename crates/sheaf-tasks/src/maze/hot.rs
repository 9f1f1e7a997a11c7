//! The hot paths of a maze, one core, ready to be run again and again while their time is taken.

use sheaf_admm::admm::{Adjoint, Mode, Options};
use sheaf_admm::sheaf::{Maps, SheafOp};
use sheaf_admm::z_update::ZUpdate;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::stack::order_by_view;

use super::data::MazeSet;
use super::model::{Batch, Board, Horizon, MazeModel, Sample};

/// A model, a batch of mazes that it has encoded, and memory for everything.
#[derive(Debug)]
pub struct HotPaths {
    model: MazeModel,
    params: Vec<f32>,
    mazes: MazeSet,
    board: Board,
    batch: Batch<f32>,
    sample: Sample<f32>,
    z_update: ZUpdate<f32>,
    next: usize,
    grad: Vec<f32>,
    one: rayon::ThreadPool,
}

impl HotPaths {
    /// Encodes the mazes.
    pub fn new(model: MazeModel, params: Vec<f32>, mazes: MazeSet) -> Result<Self> {
        let board = model.board(mazes.height, mazes.width)?;
        let mut batch = Batch::default();
        batch.encode(&model, &params, &board, &mazes.inputs)?;
        let one = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .build()
            .map_err(|e| Error::new(ErrorKind::Io, "hot paths", "a thread of their own", e))?;
        let (z_update, grad) = (model.z_update(), vec![0.0; params.len()]);
        Ok(Self {
            model,
            params,
            mazes,
            board,
            batch,
            sample: Sample::default(),
            z_update,
            next: 0,
            grad,
            one,
        })
    }

    /// Agents of a maze.
    pub fn agents(&self) -> usize {
        self.board.sheaf.agents()
    }

    /// Mazes of the batch.
    pub fn mazes(&self) -> usize {
        self.mazes.len()
    }

    /// So many fused sheaf Laplacians of the first maze, its stacks from the table of the whole batch.
    pub fn laplacians(&mut self, count: usize) -> Result<()> {
        let (sheaf, tables, agents) = (&self.board.sheaf, self.batch.tables(), self.board.sheaf.agents());
        let (index, views) = (&self.batch.views().index()[..agents], self.batch.views().len());
        let (mut counts, mut order) = (vec![0; views + 1], vec![0; agents]);
        order_by_view(index, views, &mut counts, &mut order);
        let (stacks, tiles) = (tables.stacks(sheaf), tables.tiles(sheaf));
        let op = SheafOp::new(sheaf, Maps::Table { stacks, index, order: &order, tiles })?;
        let (n, m) = (sheaf.state_len(), sheaf.row_len());
        let [mut z, mut g] = [(); 2].map(|()| AlignedVec::<f32>::zeros(n));
        let [mut y, mut s] = [(); 2].map(|()| AlignedVec::<f32>::zeros(m));
        z.iter_mut().enumerate().for_each(|(i, z)| *z = (i % 7) as f32 * 0.1);
        (0..count).try_for_each(|_| {
            op.laplacian(std::hint::black_box(&z), &mut g, &mut y, &mut s)?;
            std::hint::black_box(&g);
            Ok(())
        })
    }

    /// So many iterations on the next maze of the batch, and the decoder.
    pub fn forward(&mut self, iterations: usize) -> Result<()> {
        let agents = self.agents();
        self.next = (self.next + 1) % self.mazes.len().max(1);
        let (tables, options) = (self.batch.tables(), Options::fixed(iterations));
        let index = &self.batch.views().index()[self.next * agents..][..agents];
        let (params, board, sample) = (&self.params, &self.board, &mut self.sample);
        let (z_update, mode) = (&self.z_update, Mode::Solve);
        self.model.solve(params, board, tables, index, z_update, &options, mode, sample, &mut ())?;
        self.model.decode(params, tables, index, sample);
        std::hint::black_box(sample.logits(agents).first());
        Ok(())
    }

    /// So many iterations, the loss of the last four, and all gradients, for the whole batch.
    pub fn forward_and_reverse(&mut self, iterations: usize) -> Result<()> {
        let Self { model, params, mazes, board, batch, grad, one, .. } = self;
        let (horizon, adjoint) = (Horizon { iterations, window: 4 }, Adjoint::Unrolled);
        one.install(|| {
            batch.loss_and_grad(model, params, board, &mazes.inputs, &mazes.labels, horizon, adjoint, grad)
        })?;
        std::hint::black_box(grad.first());
        Ok(())
    }
}
