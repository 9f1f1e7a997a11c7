//! A sparse factorisation of the whole problem by faer: P where nothing is constrained, else the regularised KKT matrix
//! [P, Aᵀ; A, −δ] with refinement. Only for programs whose rows are equalities.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::ldlt::factor::LdltRegularization;
use faer::sparse::linalg::cholesky::{
    CholeskySymbolicParams, LdltRef, SymmetricOrdering, factorize_symbolic_cholesky,
};
use faer::sparse::{SparseColMat, Triplet};
use faer::{Conj, MatMut, Par, Side, Spec};

use crate::program::Program;
use crate::solvers::Answer;

const DELTA: f64 = 1e-7;
const REFINEMENTS: usize = 20;

/// Factors and solves.
pub fn direct(program: &Program, tol: f64) -> Answer {
    match solve(program, tol) {
        Ok((x, true)) => Answer::new("solved".into(), x),
        Ok((x, false)) => Answer::new("inexact".into(), x),
        Err(e) => Answer::without(e),
    }
}

fn solve(program: &Program, tol: f64) -> Result<(Vec<f64>, bool), String> {
    if program.lower != program.upper {
        return Err("not applicable: inequalities".into());
    }
    let (n, rows) = (program.q.len(), program.lower.len());
    let size = n + rows;
    // The lower triangle: P is given by its upper one.
    let p = program.p.iter().map(|&(i, j, v)| Triplet::new(j as usize, i as usize, v));
    let a = program.a.iter().map(|&(i, j, v)| Triplet::new(n + i as usize, j as usize, v));
    let corner = (0..rows).map(|i| Triplet::new(n + i, n + i, -DELTA));
    let entries: Vec<_> = p.chain(a).chain(corner).collect();
    let matrix = SparseColMat::<usize, f64>::try_new_from_triplets(size, size, &entries)
        .map_err(|e| format!("{e:?}"))?;
    drop(entries);
    let (pattern, params) = (matrix.symbolic(), CholeskySymbolicParams::default());
    let symbolic = factorize_symbolic_cholesky(pattern, Side::Lower, SymmetricOrdering::Amd, params)
        .map_err(|e| format!("{e:?}"))?;
    let mut factor = Vec::new();
    factor.try_reserve_exact(symbolic.len_val()).map_err(|e| e.to_string())?;
    factor.resize(symbolic.len_val(), 0.0);
    let scratch = symbolic
        .factorize_numeric_ldlt_scratch::<f64>(Par::Seq, Spec::default())
        .or(symbolic.solve_in_place_scratch::<f64>(1, Par::Seq));
    let mut memory = MemBuffer::new(scratch);
    symbolic
        .factorize_numeric_ldlt(
            &mut factor,
            matrix.as_ref(),
            Side::Lower,
            LdltRegularization::default(),
            Par::Seq,
            MemStack::new(&mut memory),
            Spec::default(),
        )
        .map_err(|e| format!("{e:?}"))?;
    let ldlt = LdltRef::new(&symbolic, &factor);
    let (mut solution, mut rest) = (vec![0.0; size], vec![0.0; size]);
    let mut met = false;
    for _ in 0..if rows == 0 { 1 } else { REFINEMENTS } {
        residual(program, &solution, &mut rest);
        let largest = rest.iter().fold(0.0f64, |m, r| m.max(r.abs()));
        if largest <= 1e-2 * tol {
            met = true;
            break;
        }
        let step = MatMut::from_column_major_slice_mut(&mut rest, size, 1);
        ldlt.solve_in_place_with_conj(Conj::No, step, Par::Seq, MemStack::new(&mut memory));
        solution.iter_mut().zip(&rest).for_each(|(s, d)| *s += d);
    }
    solution.truncate(program.states);
    Ok((solution, met || rows == 0))
}

/// (−q − P x − Aᵀy, b − A x).
fn residual(program: &Program, solution: &[f64], out: &mut [f64]) {
    let n = program.q.len();
    out[..n].iter_mut().zip(&program.q).for_each(|(o, q)| *o = -q);
    out[n..].copy_from_slice(&program.upper);
    for &(i, j, v) in &program.p {
        let (i, j) = (i as usize, j as usize);
        out[i] -= v * solution[j];
        if i != j {
            out[j] -= v * solution[i];
        }
    }
    for &(i, j, v) in &program.a {
        let (i, j) = (n + i as usize, j as usize);
        out[j] -= v * solution[i];
        out[i] -= v * solution[j];
    }
}
