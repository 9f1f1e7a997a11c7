//! Sparse Cholesky factorisation A = L Lᵀ with a fill-reducing ordering (AMD), by faer, in memory that the caller owns.
//!
//! The pattern of A, its ordering and the pattern of L are found once; values may then change and be factored again. All
//! work is sequential, so that results do not depend on the number of threads.

use std::mem::MaybeUninit;

use faer::dyn_stack::{MemStack, StackReq};
use faer::linalg::cholesky::llt::factor::{LltError, LltParams, LltRegularization};
use faer::sparse::linalg::cholesky::{
    CholeskySymbolicParams, LltRef, SymbolicCholesky, SymmetricOrdering, factorize_symbolic_cholesky,
};
use faer::sparse::{SparseColMatRef, SymbolicSparseColMatRef};
use faer::{Conj, MatMut, Par, Side, Spec};

/// The pattern of a symmetric matrix and of its factor.
#[derive(Debug)]
pub struct SparseSymbolic {
    n: usize,
    col_ptr: Vec<usize>, // [n + 1]
    row_idx: Vec<usize>, // [nnz], the lower triangle, sorted in each column
    symbolic: SymbolicCholesky<usize>,
}

/// Scratch is aligned to this many bytes, or loses as many.
const ALIGN: usize = 128;

impl SparseSymbolic {
    /// Orders the unknowns. `row_idx` lists the rows of each column's lower triangle, growing, the diagonal first.
    /// `None` if memory does not suffice.
    ///
    /// # Panics
    /// If the pattern is not as described.
    pub fn new(n: usize, col_ptr: Vec<usize>, row_idx: Vec<usize>) -> Option<Self> {
        let pattern = SymbolicSparseColMatRef::new_checked(n, n, &col_ptr, None, &row_idx);
        let params = CholeskySymbolicParams::default();
        let symbolic =
            factorize_symbolic_cholesky(pattern, Side::Lower, SymmetricOrdering::Amd, params).ok()?;
        Some(Self { n, col_ptr, row_idx, symbolic })
    }

    /// Unknowns.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Entries of the lower triangle of A.
    pub fn nnz(&self) -> usize {
        self.row_idx.len()
    }

    /// Entries that the factor stores.
    pub fn factor_len(&self) -> usize {
        self.symbolic.len_val()
    }

    /// Where entry (row, col), row ≥ col, is stored; `None` if it is outside the pattern.
    #[inline]
    pub fn position(&self, row: usize, col: usize) -> Option<usize> {
        let own = self.col_ptr[col]..self.col_ptr[col + 1];
        self.row_idx[own.clone()].binary_search(&row).ok().map(|k| own.start + k)
    }
}

/// Factorisation and solution in one precision.
pub trait SparseCholesky: Sized {
    /// Length of the scratch of [`sparse_factor`](Self::sparse_factor).
    fn sparse_factor_scratch_len(symbolic: &SparseSymbolic) -> usize;

    /// Factors A, given by the values of its lower triangle. An error is the unknown whose pivot is not positive.
    fn sparse_factor(
        symbolic: &SparseSymbolic,
        values: &[Self],     // [nnz]
        factor: &mut [Self], // [factor_len]
        scratch: &mut [Self],
    ) -> Result<(), usize>;

    /// Length of the scratch of [`sparse_solve`](Self::sparse_solve).
    fn sparse_solve_scratch_len(symbolic: &SparseSymbolic) -> usize;

    /// x ← A⁻¹ x.
    fn sparse_solve(symbolic: &SparseSymbolic, factor: &[Self], x: &mut [Self], scratch: &mut [Self]);
}

/// Numbers that cover a requirement.
fn numbers<T>(req: StackReq) -> usize {
    (req.unaligned_bytes_required() + ALIGN).div_ceil(size_of::<T>())
}

/// The numbers as untyped memory.
#[allow(unsafe_code)]
fn stack<T: Copy>(scratch: &mut [T]) -> &mut MemStack {
    let len = size_of_val(scratch);
    // SAFETY: the same memory, exclusively borrowed, for as long; bytes have no alignment. faer may leave bytes there that
    // are not initialised, but every user of scratch writes a number before it reads it.
    let bytes =
        unsafe { std::slice::from_raw_parts_mut(scratch.as_mut_ptr().cast::<MaybeUninit<u8>>(), len) };
    MemStack::new(bytes)
}

macro_rules! sparse {
    ($t:ident) => {
        impl SparseCholesky for $t {
            fn sparse_factor_scratch_len(symbolic: &SparseSymbolic) -> usize {
                let params = Spec::<LltParams, $t>::default();
                numbers::<$t>(symbolic.symbolic.factorize_numeric_llt_scratch::<$t>(Par::Seq, params))
            }

            fn sparse_factor(
                symbolic: &SparseSymbolic,
                values: &[$t],
                factor: &mut [$t],
                scratch: &mut [$t],
            ) -> Result<(), usize> {
                let SparseSymbolic { n, col_ptr, row_idx, symbolic } = symbolic;
                let pattern = SymbolicSparseColMatRef::new_checked(*n, *n, col_ptr, None, row_idx);
                let a = SparseColMatRef::new(pattern, &values[..row_idx.len()]);
                let factor = &mut factor[..symbolic.len_val()];
                let (regular, params) = (LltRegularization::default(), Spec::<LltParams, $t>::default());
                let stack = stack(scratch);
                match symbolic.factorize_numeric_llt(factor, a, Side::Lower, regular, Par::Seq, stack, params)
                {
                    Ok(_) => Ok(()),
                    Err(LltError::NonPositivePivot { index }) => Err(index),
                }
            }

            fn sparse_solve_scratch_len(symbolic: &SparseSymbolic) -> usize {
                numbers::<$t>(symbolic.symbolic.solve_in_place_scratch::<$t>(1, Par::Seq)) + symbolic.n
            }

            fn sparse_solve(symbolic: &SparseSymbolic, factor: &[$t], x: &mut [$t], scratch: &mut [$t]) {
                let llt = LltRef::new(&symbolic.symbolic, &factor[..symbolic.symbolic.len_val()]);
                let n = symbolic.n;
                let x = MatMut::from_column_major_slice_mut(&mut x[..n], n, 1);
                llt.solve_in_place_with_conj(Conj::No, x, Par::Seq, stack(scratch));
            }
        }
    };
}

sparse!(f32);
sparse!(f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factored_matrix_solves_its_equations() {
        // A ring of 50 unknowns: 3 on the diagonal, −1 between neighbours.
        let n = 50;
        let mut columns: Vec<Vec<usize>> = (0..n).map(|j| vec![j]).collect();
        (1..n).for_each(|i| columns[i - 1].push(i));
        columns[0].push(n - 1);
        let mut col_ptr = vec![0];
        columns.iter().for_each(|c| col_ptr.push(col_ptr[col_ptr.len() - 1] + c.len()));
        let symbolic = SparseSymbolic::new(n, col_ptr, columns.concat()).unwrap();
        assert_eq!((symbolic.position(n - 1, 0), symbolic.position(7, 3)), (Some(2), None));
        let values: Vec<f64> = columns
            .iter()
            .enumerate()
            .flat_map(|(j, c)| c.iter().map(move |&i| if i == j { 3.0 } else { -1.0 }))
            .collect();
        let mut factor = vec![0.0; symbolic.factor_len()];
        let mut scratch = vec![
            0.0;
            f64::sparse_factor_scratch_len(&symbolic)
                .max(f64::sparse_solve_scratch_len(&symbolic))
        ];
        f64::sparse_factor(&symbolic, &values, &mut factor, &mut scratch).unwrap();
        let b: Vec<f64> = (0..n).map(|i| (i as f64).sin()).collect();
        let mut x = b.clone();
        f64::sparse_solve(&symbolic, &factor, &mut x, &mut scratch);
        for i in 0..n {
            let ax = 3.0 * x[i] - x[(i + 1) % n] - x[(i + n - 1) % n];
            assert!((ax - b[i]).abs() < 1e-13);
        }
        let negative: Vec<f64> = values.iter().map(|v| -v).collect();
        assert!(f64::sparse_factor(&symbolic, &negative, &mut factor, &mut scratch).is_err());
    }
}
