//! One maze: gather what the encoder said of each agent's view, iterate, decode, and back.

use sheaf_admm::admm::{
    Adjoint, Gradients, Mode, Observer, Options, Problem, Seeds, SolveReport, Start, Workspace,
};
use sheaf_admm::sheaf::{Maps, MapsGrad, SheafOp};
use sheaf_admm::x_update::{
    Coefficient, Diagonal, DiagonalGrad, Objective, ObjectiveGrad, Penalty, Tether, TetherGrad,
};
use sheaf_admm::z_update::ZUpdate;
use sheaf_admm::{Real, Result};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::stack::order_by_view;
use sheaf_learn::train::loss::{IGNORE, cross_entropy_grad};

use super::batch::{BatchGrad, BatchTables};
use super::{Board, CLASSES, MazeModel, ObjectiveKind, VIEW_LEN, VIEW_PIXELS};

/// How many iterations run and how many of the last ones are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// Iterations K.
    pub iterations: usize,
    /// Loss window W; clamped to K.
    pub window: usize,
}

/// Memory for one maze at a time; kept by a worker.
#[derive(Debug, Default)]
pub struct Sample<T: Copy + Default> {
    pub(super) ws: Workspace<T>,
    states: [AlignedVec<T>; 5],       // h, diag, q, l1, hi of every agent, [states]
    d_states: [AlignedVec<T>; 5],     // their gradients
    d_x: AlignedVec<T>,               // [W, states]
    pub(super) scaled: AlignedVec<T>, // [W, states]
    pub(super) d_scaled: AlignedVec<T>, // [W, states]
    pub(super) inv: AlignedVec<T>,    // [W, agents]
    pub(super) slope: AlignedVec<T>,  // [W, agents, hidden]
    pub(super) act: AlignedVec<T>,    // [W, agents, hidden]
    pub(super) logits: AlignedVec<T>, // [W, agents, VIEW_LEN]
    pub(super) exps: AlignedVec<T>,   // [agents, VIEW_LEN]
    labels: Vec<u8>,                  // [agents, VIEW_PIXELS]
    order: Vec<u32>,                  // [agents], equal views side by side
    rows: Vec<u32>,                   // [W, agents], the views of the decoder's rows
    counts: Vec<u32>,                 // [views + 1]
}

const H: usize = 0;
const DIAG: usize = 1;
const Q: usize = 2;
const L1: usize = 3;
const HI: usize = 4;

impl<T: Real> Sample<T> {
    /// Memory to decode `agents` agents, `rows` of them at a time.
    pub(super) fn fit_decoder(&mut self, model: &MazeModel, agents: usize, rows: usize) {
        self.scaled.ensure(rows * model.config.d_v);
        self.inv.ensure(rows);
        self.slope.ensure(rows * model.hidden());
        self.act.ensure(rows * model.hidden());
        self.logits.ensure(agents * VIEW_LEN);
    }

    /// Memory for the reverse sweep, which decodes all agents of the whole window at once.
    fn fit_reverse(&mut self, model: &MazeModel, board: &Board, window: usize) {
        let (n, agents) = (board.sheaf.state_len(), board.sheaf.agents());
        self.fit_decoder(model, window * agents, window * agents);
        self.d_states.iter_mut().for_each(|b| b.ensure(n));
        self.d_x.ensure(window * n);
        self.d_scaled.ensure(window * n);
        self.exps.ensure(agents * VIEW_LEN);
        self.labels.resize(agents * VIEW_PIXELS, IGNORE);
    }

    /// The logits last decoded, `[agents, VIEW_LEN]`.
    pub fn logits(&self, agents: usize) -> &[T] {
        &self.logits[..agents * VIEW_LEN]
    }

    /// The workspace of the last solve.
    pub fn workspace(&self) -> &Workspace<T> {
        &self.ws
    }
}

impl MazeModel {
    fn objective<'a, T: Real>(
        &self,
        params: &[T],
        states: &'a [AlignedVec<T>; 5],
        n: usize,
    ) -> Objective<'a, T> {
        let [h, diag, q, l1, hi] = states.each_ref().map(|s| &s[..n]);
        let plain = Diagonal::new(diag, q);
        match self.checked.objective {
            ObjectiveKind::L1Box => Objective::Diagonal(Diagonal {
                l1: Some(Coefficient::PerCoordinate(l1)),
                lo: Some(Coefficient::Scalar(T::ZERO)),
                hi: Some(Coefficient::PerCoordinate(hi)),
                ..plain
            }),
            ObjectiveKind::Quadratic => Objective::Diagonal(plain),
            ObjectiveKind::NonNegative => {
                Objective::Diagonal(Diagonal { lo: Some(Coefficient::Scalar(T::ZERO)), ..plain })
            }
            ObjectiveKind::Tether => Objective::Tether(Tether { anchor: h, beta: self.beta(params).0 }),
        }
    }

    fn gather<T: Real>(&self, tables: &BatchTables<T>, index: &[u32], states: &mut [AlignedVec<T>; 5]) {
        let (d, t) = (self.config.d_v, &tables.views);
        let l1_box = self.checked.objective == ObjectiveKind::L1Box;
        let tether = self.checked.objective == ObjectiveKind::Tether;
        let sources = [&t.h, &t.diag, &t.q, &t.l1, &t.hi];
        let wanted = [true, !tether, !tether, l1_box, l1_box];
        for ((state, source), _) in states.iter_mut().zip(sources).zip(wanted).filter(|(_, wanted)| *wanted) {
            for (to, &view) in state.chunks_exact_mut(d).zip(index) {
                to.copy_from_slice(&source[view as usize * d..][..d]);
            }
        }
    }

    /// Solves one maze; the answers are in `sample.workspace()`.
    pub fn solve<T: Real>(
        &self,
        params: &[T],
        board: &Board,
        tables: &BatchTables<T>,
        index: &[u32],
        z_update: &ZUpdate<T>,
        options: &Options<T>,
        mode: Mode,
        sample: &mut Sample<T>,
        observer: &mut impl Observer<T>,
    ) -> Result<SolveReport<T>> {
        let n = board.sheaf.state_len();
        sample.states.iter_mut().for_each(|b| b.ensure(n));
        self.gather(tables, index, &mut sample.states);
        sample.order.resize(index.len(), 0);
        sample.counts.resize(tables.views.views + 1, 0);
        order_by_view(index, tables.views.views, &mut sample.counts, &mut sample.order);
        let problem = self.problem(params, board, tables, index, &sample.order, z_update, &sample.states)?;
        sample.ws.fit(&problem, mode);
        let start = if self.checked.start_at_h { Start::At(&sample.states[H][..n]) } else { Start::Zeros };
        problem.solve(start, options, &mut sample.ws, observer)
    }

    fn problem<'a, T: Real>(
        &self,
        params: &[T],
        board: &'a Board,
        tables: &'a BatchTables<T>,
        index: &'a [u32],
        order: &'a [u32],
        z_update: &'a ZUpdate<T>,
        states: &'a [AlignedVec<T>; 5],
    ) -> Result<Problem<'a, T>> {
        let (stacks, tiles) = (tables.stacks(&board.sheaf), tables.tiles(&board.sheaf));
        let maps = Maps::Table { stacks, index, order, tiles };
        Ok(Problem {
            op: SheafOp::new(&board.sheaf, maps)?,
            objective: self.objective(params, states, board.sheaf.state_len()),
            z_update,
            rho: Penalty::Scalar(self.rho(params).0),
            relax: T::from_f64(self.config.relaxation),
        })
    }

    /// Loss of one maze and, added to `grad`, its gradients. `weight` is what one pixel of one window iterate counts.
    pub fn sample_grad<T: Real>(
        &self,
        params: &[T],
        board: &Board,
        tables: &BatchTables<T>,
        index: &[u32],
        label: &[u8], // [height, width]
        horizon: Horizon,
        weight: T,
        adjoint: Adjoint<T>,
        z_update: &ZUpdate<T>,
        sample: &mut Sample<T>,
        grad: &mut BatchGrad<T>,
    ) -> Result<T> {
        let (n, window) = (board.sheaf.state_len(), horizon.window.min(horizon.iterations).max(1));
        sample.fit_reverse(self, board, window);
        let options = Options::fixed(horizon.iterations);
        // A quarter of the products for some megabytes per core.
        let mode = Mode::Keep { iterations: horizon.iterations };
        self.solve(params, board, tables, index, z_update, &options, mode, sample, &mut ())?;
        board.grid.label_patches(label, &mut sample.labels);
        sample.labels.iter_mut().filter(|l| **l == super::super::UNUSED).for_each(|l| *l = IGNORE);

        // The window's iterates are decoded as one long list of rows: larger products run better.
        let mut loss = T::ZERO;
        let mut d_x = std::mem::take(&mut sample.d_x);
        let mut rows = std::mem::take(&mut sample.rows);
        d_x[..window * n].fill(T::ZERO);
        rows.clear();
        (0..window).for_each(|_| rows.extend_from_slice(index));
        {
            let labels = std::mem::take(&mut sample.labels);
            let (ws, mut buffers) = sample.split();
            let x = ws.last_x(window)?;
            self.decode_from(params, tables, &rows, x, &mut buffers);
            for logits in buffers.logits[..rows.len() * VIEW_LEN].chunks_exact_mut(index.len() * VIEW_LEN) {
                loss += cross_entropy_grad(logits, &labels, CLASSES, weight, buffers.exps);
            }
            self.decode_vjp(params, tables, &rows, x, &mut d_x[..window * n], &mut buffers, grad);
            sample.labels = labels;
        }
        sample.rows = rows;
        let reversed =
            self.reverse(params, board, tables, index, z_update, adjoint, &d_x[..window * n], sample, grad);
        sample.d_x = d_x;
        reversed?;
        Ok(loss)
    }

    fn reverse<T: Real>(
        &self,
        params: &[T],
        board: &Board,
        tables: &BatchTables<T>,
        index: &[u32],
        z_update: &ZUpdate<T>,
        adjoint: Adjoint<T>,
        d_x: &[T],
        sample: &mut Sample<T>,
        grad: &mut BatchGrad<T>,
    ) -> Result<()> {
        let n = board.sheaf.state_len();
        let problem = self.problem(params, board, tables, index, &sample.order, z_update, &sample.states)?;
        sample.d_states.iter_mut().for_each(|d| d[..n].fill(T::ZERO));
        let [d_h, d_diag, d_q, d_l1, d_hi] = sample.d_states.each_mut().map(|d| &mut d[..n]);
        let mut d_beta = T::ZERO;
        let mut no_start = [];
        let (mut objective, start): (_, &mut [T]) = match self.checked.objective {
            ObjectiveKind::Tether => {
                // h is both anchor and start: the start's share goes into the unused place of q.
                let tether = TetherGrad { anchor: Some(d_h), beta: Some(&mut d_beta) };
                (ObjectiveGrad::Tether(tether), if self.checked.start_at_h { d_q } else { &mut no_start })
            }
            kind => {
                let boxed = kind == ObjectiveKind::L1Box;
                let d = DiagonalGrad {
                    diag: Some(d_diag),
                    q: Some(d_q),
                    l1: boxed.then_some(d_l1),
                    hi: boxed.then_some(d_hi),
                    ..DiagonalGrad::default()
                };
                (ObjectiveGrad::Diagonal(d), if self.checked.start_at_h { d_h } else { &mut no_start })
            }
        };
        let views = tables.views.views;
        let stack_len = tables.stacks(&board.sheaf).len();
        let mut maps = MapsGrad::Table(&mut grad.stacks[..stack_len]);
        let (mut rho, mut gamma, mut eta) = ([T::ZERO], T::ZERO, T::ZERO);
        problem.reverse(
            adjoint,
            &Seeds { d_x, d_z: None, d_u: None },
            &mut Gradients {
                objective: &mut objective,
                maps: &mut maps,
                rho: &mut rho,
                gamma: &mut gamma,
                eta: &mut eta,
                start,
            },
            &mut sample.ws,
        )?;
        grad.params[self.rho.start] += rho[0] * self.rho(params).1;
        if let Some(beta) = &self.beta {
            grad.params[beta.start] += d_beta * self.beta(params).1;
        }
        let d = self.config.d_v;
        let tether = self.checked.objective == ObjectiveKind::Tether;
        for (k, d_state) in sample.d_states.iter().enumerate() {
            let table = &mut grad.tables[if tether { H } else { k }][..views * d];
            for (from, &view) in d_state[..n].chunks_exact(d).zip(index) {
                table[view as usize * d..][..d].iter_mut().zip(from).for_each(|(to, &g)| *to += g);
            }
        }
        Ok(())
    }
}

const _: () = assert!(DIAG == 1 && Q == 2 && L1 == 3 && HI == 4);
