//! One picture: gather what the encoder said of each agent's view, iterate, read every agent's x, and back.

use sheaf_admm::admm::{
    Adjoint, Gradients, Mode, Observer, Options, Problem, Seeds, SolveReport, Start, Workspace,
};
use sheaf_admm::sheaf::{Maps, MapsGrad, PackedLowRank, SheafOp, ViewGroups, unpack_grad};
use sheaf_admm::x_update::{Coefficient, Diagonal, DiagonalGrad, Objective, ObjectiveGrad, Penalty};
use sheaf_admm::z_update::ZUpdate;
use sheaf_admm::{Real, Result};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_learn::train::loss::cross_entropy_grad;

use super::tables::{A, B, DIAG, H, Q, Tables};
use super::{Board, MnistModel};
use crate::mnist::views::PieceRows;

/// How many iterations run and how many of the last ones are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// Iterations K.
    pub iterations: usize,
    /// Loss window W; clamped to K.
    pub window: usize,
}

/// Memory for one picture at a time; kept by a worker.
#[derive(Debug, Default)]
pub struct Sample<T: Copy + Default> {
    ws: Workspace<T>,
    groups: ViewGroups,
    states: [AlignedVec<T>; 3],   // h, diag, q of every agent, [states]
    d_states: [AlignedVec<T>; 3], // their gradients
    d_x: AlignedVec<T>,           // [W, states]
    logits: AlignedVec<T>,        // [agents, classes]
    exps: AlignedVec<T>,          // [agents, classes]
    d_stacks: AlignedVec<T>,      // [views of the picture, d_v, ld]
    labels: Vec<u8>,              // [agents]
}

impl<T: Real> Sample<T> {
    fn fit(&mut self, model: &MnistModel, board: &Board) {
        let (n, agents) = (board.sheaf.state_len(), board.sheaf.agents());
        self.states.iter_mut().for_each(|b| b.ensure(n));
        self.logits.ensure(agents * model.classes());
        self.exps.ensure(agents * model.classes());
    }

    /// The logits last decoded, `[agents, classes]`.
    pub fn logits(&self, model: &MnistModel, board: &Board) -> &[T] {
        &self.logits[..board.sheaf.agents() * model.classes()]
    }

    /// The workspace of the last solve.
    pub fn workspace(&self) -> &Workspace<T> {
        &self.ws
    }
}

/// Where a picture adds its gradients.
#[derive(Debug)]
pub struct SampleGrad<'g, 't, T> {
    /// Of the parameters that every picture touches itself: base, decoder, rho.
    pub own: &'g mut [T], // [per_sample]
    /// Of h, D, q, A, B.
    pub tables: &'g mut [PieceRows<'t, T>; 5],
    /// The row of every agent's view in them.
    pub rows: &'g [u32], // [agents]
}

impl MnistModel {
    fn gather<T: Real>(&self, tables: &Tables<T>, index: &[u32], states: &mut [AlignedVec<T>; 3]) {
        let d = self.config.d_v;
        for (agent, &view) in index.iter().enumerate() {
            for (state, head) in states.iter_mut().zip(tables.heads(view, d)) {
                state[agent * d..][..d].copy_from_slice(head);
            }
        }
    }

    fn problem<'a, T: Real>(
        &self,
        params: &[T],
        board: &'a Board,
        tables: &'a Tables<T>,
        groups: &'a ViewGroups,
        z_update: &'a ZUpdate<T>,
        states: &'a [AlignedVec<T>; 3],
    ) -> Result<Problem<'a, T>> {
        let n = board.sheaf.state_len();
        let (base, views) = (tables.base(), tables.packed());
        let maps = Maps::Packed(PackedLowRank {
            base,
            views,
            rank: board.shape.rank,
            agents: std::slice::from_ref(groups),
        });
        let l1 = (self.config.l1 > 0.0).then(|| Coefficient::Scalar(T::from_f64(self.config.l1)));
        Ok(Problem {
            op: SheafOp::new(&board.sheaf, maps)?,
            objective: Objective::Diagonal(Diagonal {
                l1,
                ..Diagonal::new(&states[DIAG][..n], &states[Q][..n])
            }),
            z_update,
            rho: Penalty::Scalar(self.rho(params).0),
            relax: T::from_f64(self.config.relaxation),
        })
    }

    /// Solves one picture; the answers are in `sample.workspace()`.
    pub fn solve<T: Real>(
        &self,
        params: &[T],
        board: &Board,
        tables: &Tables<T>,
        index: &[u32], // [agents]
        z_update: &ZUpdate<T>,
        options: &Options<T>,
        mode: Mode,
        sample: &mut Sample<T>,
        observer: &mut impl Observer<T>,
    ) -> Result<SolveReport<T>> {
        let n = board.sheaf.state_len();
        sample.fit(self, board);
        sample.groups.set(&board.sheaf, index);
        self.gather(tables, index, &mut sample.states);
        let problem = self.problem(params, board, tables, &sample.groups, z_update, &sample.states)?;
        sample.ws.fit(&problem, mode);
        let start = if self.checked.start_at_h { Start::At(&sample.states[H][..n]) } else { Start::Zeros };
        problem.solve(start, options, &mut sample.ws, observer)
    }

    /// Reads the last x of a solve into `sample.logits`.
    pub fn decode<T: Real>(&self, params: &[T], board: &Board, sample: &mut Sample<T>) {
        let logits = &mut sample.logits[..board.sheaf.agents() * self.classes()];
        self.decoder.forward(params, sample.ws.x(), logits);
    }

    /// Reads given states into `sample.logits`.
    pub fn decode_states<T: Real>(
        &self,
        params: &[T],
        x: &[T], // [agents, d_v]
        sample: &mut Sample<T>,
    ) {
        let len = x.len() / self.config.d_v * self.classes();
        sample.logits.ensure(len);
        self.decoder.forward(params, x, &mut sample.logits[..len]);
    }

    /// Loss of one picture and, added to `grad`, its gradients. `weight` is what one agent's reading counts.
    pub fn sample_grad<T: Real>(
        &self,
        params: &[T],
        board: &Board,
        tables: &Tables<T>,
        index: &[u32], // [agents]
        label: u8,
        horizon: Horizon,
        weight: T,
        adjoint: Adjoint<T>,
        z_update: &ZUpdate<T>,
        sample: &mut Sample<T>,
        grad: &mut SampleGrad<'_, '_, T>,
    ) -> Result<T> {
        let (n, agents) = (board.sheaf.state_len(), board.sheaf.agents());
        let window = horizon.window.min(horizon.iterations).max(1);
        let options = Options::fixed(horizon.iterations);
        // A third of the products for some megabytes per core.
        let mode = Mode::Keep { iterations: horizon.iterations };
        self.solve(params, board, tables, index, z_update, &options, mode, sample, &mut ())?;
        sample.d_x.ensure(window * n);
        sample.labels.clear();
        sample.labels.resize(agents, label);
        let mut loss = T::ZERO;
        let logits = &mut sample.logits[..agents * self.classes()];
        for slot in 0..window {
            let x = sample.ws.x_at(horizon.iterations - window + slot)?;
            self.decoder.forward(params, x, logits);
            loss += cross_entropy_grad(logits, &sample.labels, self.classes(), weight, &mut sample.exps);
            self.decoder.vjp_input(params, logits, &mut sample.d_x[slot * n..][..n]);
            self.own_decoder.vjp_weights(x, logits, grad.own);
        }
        self.reverse(params, board, tables, z_update, adjoint, window, sample, grad)?;
        Ok(loss)
    }

    fn reverse<T: Real>(
        &self,
        params: &[T],
        board: &Board,
        tables: &Tables<T>,
        z_update: &ZUpdate<T>,
        adjoint: Adjoint<T>,
        window: usize,
        sample: &mut Sample<T>,
        grad: &mut SampleGrad<'_, '_, T>,
    ) -> Result<()> {
        let n = board.sheaf.state_len();
        let stack = board.shape.d_v * board.shape.ld;
        let stacks = sample.groups.views().len() * stack;
        sample.d_stacks.ensure(stacks);
        sample.d_stacks[..stacks].fill(T::ZERO);
        for d in &mut sample.d_states {
            d.ensure(n);
            d[..n].fill(T::ZERO);
        }
        let problem = self.problem(params, board, tables, &sample.groups, z_update, &sample.states)?;
        let [d_h, d_diag, d_q] = sample.d_states.each_mut().map(|d| &mut d[..n]);
        let mut objective = ObjectiveGrad::Diagonal(DiagonalGrad {
            diag: Some(d_diag),
            q: Some(d_q),
            ..DiagonalGrad::default()
        });
        let mut maps = MapsGrad::Packed(&mut sample.d_stacks[..stacks]);
        let (mut rho, mut gamma, mut eta, mut no_start) = ([T::ZERO], T::ZERO, T::ZERO, []);
        problem.reverse(
            adjoint,
            &Seeds { d_x: &sample.d_x[..window * n], d_z: None, d_u: None },
            &mut Gradients {
                objective: &mut objective,
                maps: &mut maps,
                rho: &mut rho,
                gamma: &mut gamma,
                eta: &mut eta,
                start: if self.checked.start_at_h { d_h } else { &mut no_start },
            },
            &mut sample.ws,
        )?;
        grad.own[self.rho.start - self.per_sample.start] += rho[0] * self.rho(params).1;
        self.scatter(board, tables, sample, grad);
        Ok(())
    }

    /// Takes the gradients of states and stacks to the rows of their views, and to the base.
    fn scatter<T: Real>(
        &self,
        board: &Board,
        tables: &Tables<T>,
        sample: &Sample<T>,
        grad: &mut SampleGrad<'_, '_, T>,
    ) {
        let d = self.config.d_v;
        for (agent, &row) in grad.rows.iter().enumerate() {
            for table in [H, DIAG, Q] {
                let from = &sample.d_states[table][agent * d..][..d];
                grad.tables[table].row(row).iter_mut().zip(from).for_each(|(to, &g)| *to += g);
            }
        }
        if !self.checked.trains_base {
            return;
        }
        let shape = board.shape;
        let (stack, view_len) = (shape.d_v * shape.ld, shape.view_len());
        let base = self.base.start - self.per_sample.start..self.base.end - self.per_sample.start;
        let views = sample.groups.views().iter().zip(sample.groups.speakers());
        for (local, (&view, &speaker)) in views.enumerate() {
            // All agents of a view share its row; the first one speaks for them.
            let row = grad.rows[speaker as usize];
            let [.., d_a, d_b] = &mut *grad.tables;
            let added = unpack_grad(
                shape,
                &tables.packed()[view as usize * view_len..][..view_len],
                &sample.d_stacks[local * stack..][..stack],
                self.encoder.factor(),
                &mut grad.own[base.clone()],
                d_a.row(row),
                d_b.row(row),
            );
            debug_assert!(added.is_ok(), "{added:?}");
        }
    }
}

const _: () = assert!(H == 0 && DIAG == 1 && Q == 2 && A == 3 && B == 4);
