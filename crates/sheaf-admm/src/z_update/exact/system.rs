//! The sparse matrix A = R̂ + Σ_e c_e F_eᵀF_e on the states: its pattern and its assembly.

use super::stacks::{End, Stacks, ends};
use crate::sheaf::{Sheaf, SheafOp};
use crate::z_update::weights::Weights;
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::sparse::SparseSymbolic;

/// The pattern of A and of its factor.
#[derive(Debug)]
pub(super) struct System {
    ends: Vec<[End; 2]>,
    pub symbolic: SparseSymbolic,
}

impl System {
    /// Every number of an agent is coupled to every number of its neighbours.
    pub(super) fn full(sheaf: &Sheaf) -> Result<Self> {
        let offsets = sheaf.state_offsets();
        Self::of(sheaf, |pair, _, add| {
            for p in pair {
                for q in pair {
                    let of = |end: End| offsets[end.agent as usize]..offsets[end.agent as usize + 1];
                    of(p).for_each(|row| of(q).for_each(|col| add(row, col)));
                }
            }
        })
    }

    /// The couplings of these maps: entries that are 0 stay out of the pattern.
    pub(super) fn of_maps<T: Real>(op: &SheafOp<'_, T>, stacks: &Stacks<'_, T>) -> Result<Self> {
        Self::of(op.sheaf(), |pair, dim, add| {
            for p in pair {
                for q in pair {
                    for_entries(stacks, p, q, dim, |row, col, _| add(row, col));
                }
            }
        })
    }

    /// From the entries (row, col) that `visit` reports for every edge.
    fn of(sheaf: &Sheaf, visit: impl Fn([End; 2], usize, &mut dyn FnMut(usize, usize))) -> Result<Self> {
        let (n, ends) = (sheaf.state_len(), ends(sheaf));
        let mut entries: Vec<u64> = (0..n as u64).map(|k| k << 32 | k).collect();
        for (pair, edge) in ends.iter().zip(sheaf.edges()) {
            visit(*pair, edge.dim as usize, &mut |row, col| {
                if row > col {
                    entries.push((col as u64) << 32 | row as u64);
                }
            });
        }
        entries.sort_unstable();
        entries.dedup();
        let mut col_ptr = vec![0; n + 1];
        entries.iter().for_each(|entry| col_ptr[(entry >> 32) as usize + 1] += 1);
        (0..n).for_each(|j| col_ptr[j + 1] += col_ptr[j]);
        let row_idx = entries.iter().map(|entry| (entry & 0xffff_ffff) as usize).collect();
        drop(entries);
        let symbolic = SparseSymbolic::new(n, col_ptr, row_idx).ok_or_else(|| {
            Error::new(
                ErrorKind::SolverFailed,
                "exact solver",
                "a factor that memory can hold",
                "a larger one",
            )
            .hint("solve with Cg::to_tolerance")
        })?;
        Ok(Self { ends, symbolic })
    }

    /// Fills the values of A. `coefficient(e)` is c_e.
    pub(super) fn assemble<T: Real>(
        &self,
        op: &SheafOp<'_, T>,
        stacks: &Stacks<'_, T>,
        weights: &Weights<'_, T>,
        coefficient: impl Fn(usize) -> T,
        values: &mut [T], // [nnz]
    ) -> Result<()> {
        values.fill(T::ZERO);
        let mut outside = None;
        for (e, (pair, edge)) in self.ends.iter().zip(op.sheaf().edges()).enumerate() {
            let c = coefficient(e);
            for (i, p) in pair.iter().enumerate() {
                for (j, q) in pair.iter().enumerate() {
                    let sign = if i == j { c } else { -c };
                    for_entries(stacks, *p, *q, edge.dim as usize, |row, col, value| {
                        if row >= col {
                            match self.symbolic.position(row, col) {
                                Some(at) => values[at] += sign * value,
                                None => outside = Some(e),
                            }
                        }
                    });
                }
            }
        }
        for (i, range) in op.sheaf().state_offsets().windows(2).enumerate() {
            for k in range[0]..range[1] {
                if let Some(at) = self.symbolic.position(k, k) {
                    values[at] += T::ONE / weights.of(i);
                }
            }
        }
        match outside {
            None => Ok(()),
            Some(e) => Err(Error::new(
                ErrorKind::Unsupported,
                format!("exact solver, maps of edge {e}"),
                "zeros where the maps it was made for have them",
                "another number",
            )
            .hint("make it anew with Exact::for_maps, or with Exact::new for maps of any pattern")),
        }
    }

    /// The largest squared row of F among some edges.
    pub(super) fn largest_row<T: Real>(
        &self,
        op: &SheafOp<'_, T>,
        stacks: &Stacks<'_, T>,
        counts: impl Fn(usize) -> bool,
    ) -> T {
        let mut largest = T::ZERO;
        for (e, (pair, edge)) in
            self.ends.iter().zip(op.sheaf().edges()).enumerate().filter(|(e, _)| counts(*e))
        {
            let _ = e;
            for r in 0..edge.dim as usize {
                let of = |end: End| -> T {
                    let square = |j: usize| stacks.column(end, j, edge.dim as usize)[r];
                    (0..stacks.stalk(end)).map(|j| square(j) * square(j)).sum()
                };
                largest = largest.max(of(pair[0]) + of(pair[1]));
            }
        }
        largest
    }
}

/// Calls `f(row, col, value)` for the entries of F_pᵀF_q that are not 0, rows and columns of the whole state.
fn for_entries<T: Real>(
    stacks: &Stacks<'_, T>,
    p: End,
    q: End,
    dim: usize,
    mut f: impl FnMut(usize, usize, T),
) {
    for k in 0..stacks.stalk(p) {
        let left = stacks.column(p, k, dim);
        if left.iter().all(|&f| f == T::ZERO) {
            continue;
        }
        for l in 0..stacks.stalk(q) {
            let right = stacks.column(q, l, dim);
            // Products that cancel stay in the pattern: other numbers at the same places need not.
            if left.iter().zip(right).any(|(&a, &b)| a != T::ZERO && b != T::ZERO) {
                let sum: T = left.iter().zip(right).map(|(&a, &b)| a * b).sum();
                f(stacks.start(p) + k, stacks.start(q) + l, sum);
            }
        }
    }
}
