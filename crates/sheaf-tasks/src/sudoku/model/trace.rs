//! Everything about one board: states, residuals and digits of every iteration.

use sheaf_admm::Real;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::cliques::exchange_cliques;
use sheaf_kernels::vector::{dot, norm};

use super::tile_maps::TileMaps;
use super::{MapKind, Prepared, Seen, SudokuModel, Tile};
use crate::sudoku::views::{VIEWS, argmax, reassemble};
use crate::sudoku::{CELLS, CLASSES, Grid, UNITS};

/// Edges of the graph: three for each cell.
const EDGES: usize = 3 * CELLS;

/// What happened to a board; K iterations, 27 agents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SudokuTrace<T> {
    /// Proposals, `[K, 27, d_v]`.
    pub x: Vec<T>,
    /// Agreed states, `[K, 27, d_v]`.
    pub z: Vec<T>,
    /// Duals, `[K, 27, d_v]`.
    pub u: Vec<T>,
    /// Primal residuals ‖x − z‖, `[K, 27]`.
    pub primal: Vec<T>,
    /// Dual residuals ρ‖z − z_prev‖, `[K, 27]`.
    pub dual: Vec<T>,
    /// √(mean squared edge residual of z + 1e-6), `[K]`.
    pub consistency: Vec<T>,
    /// Logits of every agent's cells, `[K, 27, 9, 10]`.
    pub logits: Vec<T>,
    /// The board as the agents see it, `[K]`.
    pub boards: Vec<Grid>,
}

impl<T: Real> SudokuTrace<T> {
    /// Keeps the first `iterations` alone.
    pub fn truncate(&mut self, iterations: usize) {
        let all = self.boards.len().max(1);
        for v in [&mut self.x, &mut self.z, &mut self.u, &mut self.primal, &mut self.dual] {
            v.truncate(v.len() / all * iterations);
        }
        self.logits.truncate(self.logits.len() / all * iterations);
        self.consistency.truncate(iterations);
        self.boards.truncate(iterations);
    }

    /// Goes on with the iterations of another round.
    pub fn append(&mut self, mut round: Self) {
        self.x.append(&mut round.x);
        self.z.append(&mut round.z);
        self.u.append(&mut round.u);
        self.primal.append(&mut round.primal);
        self.dual.append(&mut round.dual);
        self.consistency.append(&mut round.consistency);
        self.logits.append(&mut round.logits);
        self.boards.append(&mut round.boards);
    }
}

impl SudokuModel {
    /// Solves one board and keeps everything.
    pub fn trace<T: Real>(&self, params: &[T], puzzle: &Grid, iterations: usize) -> SudokuTrace<T> {
        let (mut p, mut tile) = (Prepared::default(), Tile::default());
        self.prepare(params, &mut p);
        self.encode(params, &p, std::slice::from_ref(puzzle), &mut tile);
        let mut trace = SudokuTrace::default();
        let n = self.state_len();
        let mut z_prev =
            if self.checked.start_at_h { tile.encoded.h[..n].to_vec() } else { vec![T::ZERO; n] };
        let mut observer = |seen: Seen<'_, T>| {
            let z: Vec<T> = seen.w.iter().zip(seen.g).map(|(&w, &g)| w + g).collect();
            let d = self.config.d_v;
            let distance = |a: &[T], b: &[T]| {
                let difference: Vec<T> = a.iter().zip(b).map(|(&a, &b)| a - b).collect();
                norm(&difference)
            };
            for agent in 0..UNITS {
                let own = agent * d..(agent + 1) * d;
                trace.primal.push(distance(&seen.x[own.clone()], &z[own.clone()]));
                trace.dual.push(p.rho * distance(&z[own.clone()], &z_prev[own]));
            }
            trace.x.extend_from_slice(seen.x);
            trace.u.extend(seen.g.iter().map(|&g| -g));
            trace.z.extend_from_slice(&z);
            z_prev = z;
            true
        };
        self.iterate(&p, iterations, &mut tile, Some(&mut observer));
        self.finish_trace(params, &p, &mut tile, &mut trace);
        trace
    }

    fn finish_trace<T: Real>(
        &self,
        params: &[T],
        p: &Prepared<T>,
        tile: &mut Tile<T>,
        trace: &mut SudokuTrace<T>,
    ) {
        let (n, consensus) = (self.state_len(), self.consensus(p));
        let low = (self.checked.maps == MapKind::LowRank).then_some(tile.low());
        let maps = TileMaps { stack: &p.stack, low };
        let (mut y, mut m) = (vec![T::ZERO; self.row_len()], vec![T::ZERO; self.row_len()]);
        let mut room = AlignedVec::default();
        let mut sums = vec![T::ZERO; self.row_len() / 3];
        let count = T::from_f64((EDGES * self.config.d_e) as f64);
        for z in trace.z.chunks_exact(n) {
            maps.project(z, &mut y, &mut room);
            exchange_cliques(consensus.groups(), consensus.d_e, T::ONE, &y, &mut m, &mut sums);
            // The squared residuals of all edges add up to y·My.
            trace.consistency.push((dot(&y, &m) / count + T::from_f64(1e-6)).sqrt());
        }
        let mut board = vec![T::ZERO; CELLS * CLASSES];
        for x in trace.x.chunks_exact(n) {
            self.decoder.forward(params, &p.decoder, x, &mut tile.decoded);
            let logits = &tile.decoded.logits[..VIEWS * CLASSES];
            trace.logits.extend_from_slice(logits);
            reassemble(logits, &mut board);
            trace.boards.push(argmax(&board));
        }
    }
}
