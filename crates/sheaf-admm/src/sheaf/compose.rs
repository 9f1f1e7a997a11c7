//! Stacks made from other forms of the maps, and their adjoints: dense stacks from a base and low-rank factors, stacks
//! from maps written row by row.
//!
//! ```text
//! F = R + gate·scale·A·Bᵀ     dR += dF     dA += gate·scale·dF·B     dB += gate·scale·dFᵀ·A     dgate += scale·⟨dF, A·Bᵀ⟩
//! ```
//!
//! | name | shape |
//! | --- | --- |
//! | stacks, dF | `[views, d_v, ld]`, entry (row r, column j) at `j·ld + r` |
//! | R, A, B, gate | as in [`LowRank`] |

use super::{LowRank, LowRankGrad, Sheaf, pad};
use crate::{Error, ErrorKind, Real, Result};

/// Writes the dense stack of every view: `stacks[view] = R + gate·scale·A·Bᵀ`, ready for
/// [`Maps::Table`](super::Maps::Table). `stacks` is `[views, d_v, ld]`; the padding rows become zero. `low.index` is
/// not used.
pub fn compose_low_rank<T: Real>(sheaf: &Sheaf, low: &LowRank<'_, T>, stacks: &mut [T]) -> Result<()> {
    let u = low.check_stacks(sheaf, stacks.len())?;
    for (view, stack) in stacks.chunks_exact_mut((u.d_v * u.ld).max(1)).enumerate() {
        stack.fill(T::ZERO);
        for slot in 0..u.slots {
            let (base, a, b, factor) = low.slot(u, view, slot);
            for j in 0..u.d_v {
                let b = &b[j * low.rank..][..low.rank];
                for r in 0..u.d_e {
                    let a = &a[r * low.rank..][..low.rank];
                    let update: T = a.iter().zip(b).map(|(&a, &b)| a * b).sum();
                    stack[j * u.ld + slot * u.d_e + r] = base[r * u.d_v + j] + factor * update;
                }
            }
        }
    }
    Ok(())
}

/// Adjoint of [`compose_low_rank`]: adds the gradients of base, factors and gates.
pub fn compose_low_rank_vjp<T: Real>(
    sheaf: &Sheaf,
    low: &LowRank<'_, T>,
    d_stacks: &[T],
    grad: &mut LowRankGrad<'_, T>,
) -> Result<()> {
    let u = low.check_stacks(sheaf, d_stacks.len())?;
    grad.validate(low)?;
    let one = u.d_e * u.d_v;
    for (view, d_stack) in d_stacks.chunks_exact((u.d_v * u.ld).max(1)).enumerate() {
        for slot in 0..u.slots {
            let (_, a, b, factor) = low.slot(u, view, slot);
            let k = view * u.slots + slot;
            let d_a = &mut grad.a[k * u.d_e * low.rank..][..u.d_e * low.rank];
            let d_b = &mut grad.b[k * u.d_v * low.rank..][..u.d_v * low.rank];
            let base_start = if low.base.len() == one { 0 } else { slot * one };
            let mut d_factor = T::ZERO;
            for j in 0..u.d_v {
                for r in 0..u.d_e {
                    let d = d_stack[j * u.ld + slot * u.d_e + r];
                    grad.base[base_start + r * u.d_v + j] += d;
                    for t in 0..low.rank {
                        let (a, b) = (a[r * low.rank + t], b[j * low.rank + t]);
                        d_a[r * low.rank + t] += factor * d * b;
                        d_b[j * low.rank + t] += factor * d * a;
                        d_factor += d * a * b;
                    }
                }
            }
            if let Some(gate) = grad.gate.as_deref_mut().and_then(|gates| gates.get_mut(k)) {
                *gate += d_factor * low.scale;
            }
        }
    }
    Ok(())
}

impl Sheaf {
    /// Packs agent-style maps `[slots, d_e, d_v]` (rows of all slots, row-major) of one agent into a stack
    /// `[d_v, ld]` at the front of `stack`; the padding becomes zero.
    pub fn pack_stack<T: Real>(rows: &[T], d_v: usize, stack: &mut [T]) -> Result<()> {
        let ld = stack_rows(rows.len(), d_v, stack.len())?;
        stack[..d_v * ld].fill(T::ZERO);
        for (r, row) in rows.chunks_exact(d_v).enumerate() {
            for (j, &f) in row.iter().enumerate() {
                stack[j * ld + r] = f;
            }
        }
        Ok(())
    }

    /// Adds a stack's gradient `[d_v, ld]` to maps `[slots, d_e, d_v]`; the adjoint of
    /// [`pack_stack`](Self::pack_stack).
    pub fn unpack_stack_add<T: Real>(stack: &[T], d_v: usize, rows: &mut [T]) -> Result<()> {
        let ld = stack_rows(rows.len(), d_v, stack.len())?;
        for (r, row) in rows.chunks_exact_mut(d_v).enumerate() {
            for (j, f) in row.iter_mut().enumerate() {
                *f += stack[j * ld + r];
            }
        }
        Ok(())
    }
}

/// Padded rows of the stack of maps with this many entries, if it fits.
fn stack_rows(entries: usize, d_v: usize, room: usize) -> Result<usize> {
    let rows = entries.checked_div(d_v).unwrap_or(0);
    if d_v == 0 || rows * d_v != entries {
        let expected = format_args!("rows of {d_v} numbers, at least one each").to_string();
        return Err(Error::new(ErrorKind::Shape, "maps of an agent", expected, entries));
    }
    let ld = pad(rows);
    if d_v.saturating_mul(ld) > room {
        let expected = format_args!("room for {d_v} columns of {ld}").to_string();
        return Err(Error::new(ErrorKind::Shape, "stack of an agent", expected, room)
            .hint("Sheaf::stack_offsets says where each agent's stack starts"));
    }
    Ok(ld)
}
