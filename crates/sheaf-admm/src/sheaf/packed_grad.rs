//! The gradient of packed low-rank maps: from dense stacks to base and factors.
//!
//! ```text
//! dR += Σ_s dF[s]     dA[s] += factor·dF[s]·B[s]     dB[s] += factor·dF[s]ᵀ·A[s]
//! ```

use crate::error::check_len;
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::low_rank::LowRankShape;
use sheaf_kernels::simd::{fma, kernel};

/// Lengths of B and A of a view of the published sizes, the only ones in bf16.
const PUBLISHED_B: usize = 64 * 32;
const PUBLISHED_A: usize = 64 * 24;

/// Adjoint of the composition F = R + factor·A·Bᵀ for one view: adds dR, dA and dB.
pub fn unpack_grad<T: Real>(
    shape: LowRankShape,
    view: &[T],    // [shape.view_len()]
    d_stack: &[T], // [d_v, ld]
    factor: T,
    d_base: &mut [T], // [d_e, d_v]
    d_a: &mut [T],    // [slots, d_e, rank]
    d_b: &mut [T],    // [slots, d_v, rank]
) -> Result<()> {
    let LowRankShape { d_v, d_e, slots, ld, .. } = shape;
    if ld < (slots * d_e).max(1) {
        return Err(Error::new(
            ErrorKind::Shape,
            "ld of packed maps",
            format_args!("{} or more", slots * d_e),
            ld,
        ));
    }
    check_len("packed view", shape.view_len(), view.len())?;
    check_len("gradient of a stack", d_v * ld, d_stack.len())?;
    check_len("gradient of the base", d_e * d_v, d_base.len())?;
    check_len("gradient of factor A", shape.m() * d_e, d_a.len())?;
    check_len("gradient of factor B", shape.m() * d_v, d_b.len())?;
    if shape.is_bf16() {
        // The gradient of the products that ran, whose factors were rounded.
        let (mut b, mut a_t) = ([T::ZERO; PUBLISHED_B], [T::ZERO; PUBLISHED_A]);
        T::unpack_view_bf16(view, &mut b, &mut a_t);
        base_grad(shape, d_stack, d_base);
        factor_grads_8(shape, &b, &a_t, d_stack, factor, d_a, d_b);
        return Ok(());
    }
    let (b, rest) = view.split_at(shape.d_v * shape.m());
    let a_t = &rest[shape.m() * shape.d_e..][..shape.m() * shape.d_e];
    base_grad(shape, d_stack, d_base);
    match shape.rank {
        0 => {}
        8 => factor_grads_8(shape, b, a_t, d_stack, factor, d_a, d_b),
        _ => factor_grads(shape, b, a_t, d_stack, factor, d_a, d_b),
    }
    Ok(())
}

#[inline(always)]
fn base_grad_body<T: Real, const FMA: bool>(shape: LowRankShape, d_stack: &[T], d_base: &mut [T]) {
    let LowRankShape { d_v, d_e, slots, ld, .. } = shape;
    for (j, column) in d_stack.chunks_exact(ld).enumerate() {
        for r in 0..d_e {
            let sum: T = (0..slots).map(|slot| column[slot * d_e + r]).sum();
            d_base[r * d_v + j] += sum;
        }
    }
}

kernel! {
    fn base_grad, base_grad_at<T>(shape: LowRankShape, d_stack: &[T], d_base: &mut [T]) = base_grad_body;
}

/// dA and dB for any rank.
#[inline(always)]
fn factor_grads_body<T: Real, const FMA: bool>(
    shape: LowRankShape,
    b: &[T],
    a_t: &[T],
    d_stack: &[T],
    factor: T,
    d_a: &mut [T],
    d_b: &mut [T],
) {
    let LowRankShape { d_v, d_e, slots, rank, ld, .. } = shape;
    let m = slots * rank;
    for slot in 0..slots {
        for j in 0..d_v {
            let d = &d_stack[j * ld + slot * d_e..][..d_e];
            let b = &b[j * m + slot * rank..][..rank];
            let d_b = &mut d_b[(slot * d_v + j) * rank..][..rank];
            for (r, &d) in d.iter().enumerate() {
                let a = &a_t[(slot * d_e + r) * rank..][..rank];
                let d_a = &mut d_a[(slot * d_e + r) * rank..][..rank];
                for k in 0..rank {
                    d_a[k] = fma::<T, FMA>(factor * d, b[k], d_a[k]);
                    // The factor is already in the packed A.
                    d_b[k] = fma::<T, FMA>(d, a[k], d_b[k]);
                }
            }
        }
    }
}

kernel! {
    fn factor_grads, factor_grads_at<T>(
        shape: LowRankShape, b: &[T], a_t: &[T], d_stack: &[T], factor: T, d_a: &mut [T], d_b: &mut [T],
    ) = factor_grads_body;
}

/// dA and dB of rank 8, the published one: dB stays in a register over the rows of a slot.
#[inline(always)]
fn factor_grads_8_body<T: Real, const FMA: bool>(
    shape: LowRankShape,
    b: &[T],
    a_t: &[T],
    d_stack: &[T],
    factor: T,
    d_a: &mut [T],
    d_b: &mut [T],
) {
    const RANK: usize = 8;
    let LowRankShape { d_v, d_e, slots, ld, .. } = shape;
    let m = slots * RANK;
    let lanes = |slice: &[T], at: usize| -> [T; RANK] { slice[at..at + RANK].try_into().expect("8 lanes") };
    for slot in 0..slots {
        let d_a = &mut d_a[slot * d_e * RANK..][..d_e * RANK];
        let a_t = &a_t[slot * d_e * RANK..][..d_e * RANK];
        for j in 0..d_v {
            let d = &d_stack[j * ld + slot * d_e..][..d_e];
            let b = lanes(b, j * m + slot * RANK);
            let mut sum = [T::ZERO; RANK];
            for ((&d, a), d_a) in d.iter().zip(a_t.chunks_exact(RANK)).zip(d_a.chunks_exact_mut(RANK)) {
                for k in 0..RANK {
                    sum[k] = fma::<T, FMA>(d, a[k], sum[k]);
                    d_a[k] = fma::<T, FMA>(factor * d, b[k], d_a[k]);
                }
            }
            let d_b = &mut d_b[(slot * d_v + j) * RANK..][..RANK];
            for k in 0..RANK {
                d_b[k] += sum[k];
            }
        }
    }
}

kernel! {
    fn factor_grads_8, factor_grads_8_at<T>(
        shape: LowRankShape, b: &[T], a_t: &[T], d_stack: &[T], factor: T, d_a: &mut [T], d_b: &mut [T],
    ) = factor_grads_8_body;
}
