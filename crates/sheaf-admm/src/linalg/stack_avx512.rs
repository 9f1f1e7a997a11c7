//! AVX-512 versions of the stack kernels for `f32`, for stacks of at most 16 columns and at most 64 padded rows.
//!
//! The compiler vectorises the projection well but breaks the lift (a dot product per column) into scalar sums. Here
//! the products of all columns stay in registers and one tree of shuffles adds up to sixteen of them at once. The
//! gradient keeps a block of columns in registers over all terms, so that it is read and written once.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::exchange::{Partners, SlotRows};
use super::stack::Table;

/// Whether these kernels take a table of this shape.
pub(super) fn fits(table: &Table<'_>) -> bool {
    table.d_v <= 16 && (16..=64).contains(&table.ld)
}

macro_rules! by_shape {
    ($table:expr, $f:ident($($arg:expr),*)) => {
        match ($table.ld / 16, $table.d_v) {
            (1, 10) => $f::<1, 10>($($arg),*),
            (2, 10) => $f::<2, 10>($($arg),*),
            (3, 10) => $f::<3, 10>($($arg),*),
            (4, 10) => $f::<4, 10>($($arg),*),
            (1, _) => $f::<1, 16>($($arg),*),
            (2, _) => $f::<2, 16>($($arg),*),
            (3, _) => $f::<3, 16>($($arg),*),
            _ => $f::<4, 16>($($arg),*),
        }
    };
}

/// Checks once what the unchecked loads below rely on; returns how many views the table has, which each agent's view
/// is then compared with.
fn check(table: &Table<'_>, stacks: usize, states: usize, rows: usize) -> usize {
    let Table { d_v, ld, index, order } = *table;
    assert!(order.is_empty() || order.len() == index.len(), "an order that leaves agents out");
    assert!(index.len() * d_v <= states && index.len() * ld <= rows, "a vector shorter than its agents");
    stacks / (d_v * ld)
}

/// Where the stack of a view starts.
#[inline(always)]
fn place(view: u32, views: usize, len: usize) -> usize {
    assert!((view as usize) < views, "a view beyond the table");
    view as usize * len
}

/// y_i = F_i z_i.
///
/// # Safety
/// The CPU must have AVX-512F.
pub(super) unsafe fn project(table: Table<'_>, stacks: &[f32], z: &[f32], y: &mut [f32]) {
    let views = check(&table, stacks.len(), z.len(), y.len());
    // SAFETY: the caller vouches for the CPU, `check` for the lengths.
    unsafe { by_shape!(table, project_shape(table, views, stacks, z, y)) }
}

/// g_i = F_iᵀ s_i.
///
/// # Safety
/// The CPU must have AVX-512F.
pub(super) unsafe fn lift(table: Table<'_>, stacks: &[f32], s: &[f32], g: &mut [f32]) {
    let views = check(&table, stacks.len(), g.len(), s.len());
    // SAFETY: the caller vouches for the CPU, `check` for the lengths.
    unsafe { by_shape!(table, lift_shape(table, views, stacks, s, g)) }
}

/// Whether [`exchange_lift`] takes this shape: eight slots of five rows, the maze's.
pub(super) fn fits_exchange(table: &Table<'_>, rows: &SlotRows) -> bool {
    table.d_v <= 16 && rows.slots == 8 && rows.d_e == 5 && table.ld == 48
}

/// s = y − y of the partner slots, then g_i = F_iᵀ s_i, in one pass: the differences never leave their registers
/// (they are written to `s` as well, for the adjoint).
///
/// # Safety
/// The CPU must have AVX-512F.
pub(super) unsafe fn exchange_lift(
    table: Table<'_>,
    partners: &Partners,
    stacks: &[f32],
    y: &[f32],
    s: &mut [f32],
    g: &mut [f32],
) {
    let views = check(&table, stacks.len(), g.len(), s.len().min(y.len()));
    assert!(partners.rows().len() == table.index.len() * 8, "exchange: one partner per slot");
    assert!(partners.end() <= y.len(), "exchange: a partner beyond the rows");
    // SAFETY: the caller vouches for the CPU; all lengths were just checked.
    unsafe {
        if table.d_v == 10 {
            exchange_lift_shape::<3, 10, 5>(table, views, partners.rows(), stacks, y, s, g);
        } else {
            exchange_lift_shape::<3, 16, 5>(table, views, partners.rows(), stacks, y, s, g);
        }
    }
}

/// dF_i += scale·Σ_t rows_t,i state_t,iᵀ.
///
/// # Safety
/// The CPU must have AVX-512F.
pub(super) unsafe fn outers(
    table: Table<'_>,
    d_stacks: &mut [f32],
    scale: f32,
    terms: usize,
    rows: &[f32],
    states: &[f32],
) {
    if terms == 0 {
        return;
    }
    let views = check(&table, d_stacks.len(), states.len() / terms, rows.len() / terms);
    // SAFETY: the caller vouches for the CPU, `check` for the lengths.
    unsafe { by_shape!(table, outers_shape(table, views, d_stacks, scale, terms, rows, states)) }
}

/// Columns of a table: 10 where `DV` is 10, otherwise as the table says (`DV` is then an upper limit of 16).
#[inline(always)]
fn columns<const DV: usize>(table: &Table<'_>) -> usize {
    if DV == 10 { 10 } else { table.d_v }
}

/// Calls `f::<1>` or `f::<2>` with agents that share a view: `$two` for a pair that stand side by side in the table's
/// order, `$one` for the others. A pair loads its stack once.
macro_rules! by_pairs {
    ($table:expr, |$agents:ident, $view:ident| $one:expr, $two:expr) => {{
        let mut k = 0;
        while k < $table.index.len() {
            let a = $table.agent(k);
            let $view = $table.index[a];
            if k + 1 < $table.index.len() && $table.index[$table.agent(k + 1)] == $view {
                let $agents = [a, $table.agent(k + 1)];
                $two;
                k += 2;
            } else {
                let $agents = [a];
                $one;
                k += 1;
            }
        }
    }};
}

#[target_feature(enable = "avx512f")]
unsafe fn project_shape<const LV: usize, const DV: usize>(
    table: Table<'_>,
    views: usize,
    stacks: &[f32],
    z: &[f32],
    y: &mut [f32],
) {
    let len = columns::<DV>(&table) * LV * 16;
    let (z, y) = (z.as_ptr(), y.as_mut_ptr());
    by_pairs!(
        table,
        // SAFETY: `check` and `place` hold for every view and agent.
        |agents, view| unsafe {
            project_some::<LV, DV, 1>(&table, agents, stacks.as_ptr().add(place(view, views, len)), z, y);
        },
        // SAFETY: as above.
        unsafe {
            project_some::<LV, DV, 2>(&table, agents, stacks.as_ptr().add(place(view, views, len)), z, y);
        }
    );
}

/// F z of agents that share a stack.
///
/// # Safety
/// `stack` has d_v·16·LV entries; `z` and `y` have room for every agent.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn project_some<const LV: usize, const DV: usize, const A: usize>(
    table: &Table<'_>,
    agents: [usize; A],
    stack: *const f32,
    z: *const f32,
    y: *mut f32,
) {
    let (d_v, ld) = (columns::<DV>(table), LV * 16);
    // SAFETY: the caller vouches for all sizes.
    unsafe {
        // Two chains per block halve the wait for the multiply-add unit; a pair of agents has two already.
        let mut even = [[_mm512_setzero_ps(); LV]; A];
        let mut odd = [[_mm512_setzero_ps(); LV]; A];
        for j in 0..DV {
            if j >= d_v {
                break;
            }
            for b in 0..LV {
                let column = _mm512_loadu_ps(stack.add(j * ld + b * 16));
                for i in 0..A {
                    let z = _mm512_set1_ps(*z.add(agents[i] * d_v + j));
                    if A == 1 && j % 2 == 1 {
                        odd[i][b] = _mm512_fmadd_ps(z, column, odd[i][b]);
                    } else {
                        even[i][b] = _mm512_fmadd_ps(z, column, even[i][b]);
                    }
                }
            }
        }
        for i in 0..A {
            for b in 0..LV {
                let sum = if A == 1 { _mm512_add_ps(even[i][b], odd[i][b]) } else { even[i][b] };
                _mm512_storeu_ps(y.add(agents[i] * ld + b * 16), sum);
            }
        }
    }
}

#[target_feature(enable = "avx512f")]
unsafe fn lift_shape<const LV: usize, const DV: usize>(
    table: Table<'_>,
    views: usize,
    stacks: &[f32],
    s: &[f32],
    g: &mut [f32],
) {
    let (d_v, ld) = (columns::<DV>(&table), LV * 16);
    for (i, &view) in table.index.iter().enumerate() {
        // SAFETY: `check` and `place` hold for every view and agent.
        unsafe {
            let mut held = [_mm512_setzero_ps(); LV];
            for b in 0..LV {
                held[b] = _mm512_loadu_ps(s.as_ptr().add(i * ld + b * 16));
            }
            let stack = stacks.as_ptr().add(place(view, views, d_v * ld));
            lift_one::<LV, DV>(d_v, stack, held, g.as_mut_ptr().add(i * d_v));
        }
    }
}

/// Fᵀ s of one agent, s in registers. The sums bind here, not the loads: pairs of agents gain nothing.
///
/// # Safety
/// `stack` has d_v·16·LV entries, `g` room for d_v.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn lift_one<const LV: usize, const DV: usize>(
    d_v: usize,
    stack: *const f32,
    held: [__m512; LV],
    g: *mut f32,
) {
    let (ld, mask) = (LV * 16, ((1u32 << d_v) - 1) as __mmask16);
    let mut sums = [_mm512_setzero_ps(); 16];
    for j in 0..DV {
        if j >= d_v {
            break;
        }
        // SAFETY: column j of the stack; the caller vouches for its size.
        unsafe {
            let mut acc = _mm512_mul_ps(held[0], _mm512_loadu_ps(stack.add(j * ld)));
            for b in 1..LV {
                acc = _mm512_fmadd_ps(held[b], _mm512_loadu_ps(stack.add(j * ld + b * 16)), acc);
            }
            sums[j] = acc;
        }
    }
    // SAFETY: the masked store writes d_v entries.
    unsafe { _mm512_mask_storeu_ps(g, mask, add_up::<DV>(sums)) };
}

#[target_feature(enable = "avx512f")]
unsafe fn exchange_lift_shape<const LV: usize, const DV: usize, const DE: usize>(
    table: Table<'_>,
    views: usize,
    partners: &[u32],
    stacks: &[f32],
    y: &[f32],
    s: &mut [f32],
    g: &mut [f32],
) {
    let (d_v, ld) = (columns::<DV>(&table), LV * 16);
    for (i, &view) in table.index.iter().enumerate() {
        // SAFETY: `check`, `place` and the partners' bounds hold for every view and agent.
        unsafe {
            let held = exchange_one::<LV, DE>(i, partners, y.as_ptr(), s.as_mut_ptr());
            let stack = stacks.as_ptr().add(place(view, views, d_v * ld));
            lift_one::<LV, DV>(d_v, stack, held, g.as_mut_ptr().add(i * d_v));
        }
    }
}

/// y − y of the partner slots of one agent with eight slots; also written to `s`.
///
/// # Safety
/// `y` and `s` hold 16·LV entries for every agent, `partners` eight slots inside `y` for every agent.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn exchange_one<const LV: usize, const DE: usize>(
    agent: usize,
    partners: &[u32],
    y: *const f32,
    s: *mut f32,
) -> [__m512; LV] {
    let partners: &[u32; 8] = partners[agent * 8..][..8].try_into().expect("eight slots");
    let mut other = [_mm512_setzero_ps(); LV];
    for k in 0..8 {
        let (first, end) = (k * DE, (k + 1) * DE);
        for b in 0..LV {
            let (lo, hi) = (b * 16, b * 16 + 16);
            if first < hi && end > lo {
                let (from, to) = (first.max(lo) - lo, end.min(hi) - lo);
                let mask = (((1u32 << to) - 1) & !((1u32 << from) - 1)) as __mmask16;
                let shift = lo as isize - first as isize;
                let start = y.wrapping_add(partners[k] as usize).wrapping_offset(shift);
                // SAFETY: the lanes of the mask lie inside the partner's slot; the others are never touched, so a
                // start before or behind the rows is not read there.
                other[b] = unsafe { _mm512_mask_loadu_ps(other[b], mask, start) };
            }
        }
    }
    let mut held = [_mm512_setzero_ps(); LV];
    for b in 0..LV {
        let at = agent * LV * 16 + b * 16;
        // SAFETY: the agent's own rows.
        unsafe {
            held[b] = _mm512_sub_ps(_mm512_loadu_ps(y.add(at)), other[b]);
            _mm512_storeu_ps(s.add(at), held[b]);
        }
    }
    held
}

/// Lane j of the answer is the sum of all lanes of `v[j]`; vectors from `DV` on are zero.
#[inline]
#[target_feature(enable = "avx512f")]
fn add_up<const DV: usize>(v: [__m512; 16]) -> __m512 {
    let zero = _mm512_setzero_ps();
    let mut pairs = [zero; 8];
    for i in 0..8 {
        if 2 * i < DV {
            let (a, b) = (v[2 * i], v[2 * i + 1]);
            pairs[i] = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
        }
    }
    let mut fours = [zero; 4];
    for i in 0..4 {
        if 4 * i < DV {
            let (a, b) = (_mm512_castps_pd(pairs[2 * i]), _mm512_castps_pd(pairs[2 * i + 1]));
            let (lo, hi) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
            fours[i] = _mm512_add_ps(_mm512_castpd_ps(lo), _mm512_castpd_ps(hi));
        }
    }
    let mut eights = [zero; 2];
    for i in 0..2 {
        if 8 * i < DV {
            let (a, b) = (fours[2 * i], fours[2 * i + 1]);
            eights[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
        }
    }
    let (a, b) = (eights[0], eights[1]);
    _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd))
}

/// Columns whose gradients are held in registers at a time.
const HELD: usize = 5;

#[target_feature(enable = "avx512f")]
unsafe fn outers_shape<const LV: usize, const DV: usize>(
    table: Table<'_>,
    views: usize,
    d_stacks: &mut [f32],
    scale: f32,
    terms: usize,
    rows: &[f32],
    states: &[f32],
) {
    let (d_v, ld, agents) = (columns::<DV>(&table), LV * 16, table.index.len());
    let factor = _mm512_set1_ps(scale);
    for (i, &view) in table.index.iter().enumerate() {
        let mut j = 0;
        while j < d_v {
            let width = HELD.min(d_v - j);
            // SAFETY: `check` holds for every view, agent and term; columns j..j + width exist.
            unsafe {
                let d_stack = d_stacks.as_mut_ptr().add(place(view, views, d_v * ld) + j * ld);
                let mut acc = [[_mm512_setzero_ps(); LV]; HELD];
                for t in 0..terms {
                    let r = rows.as_ptr().add((t * agents + i) * ld);
                    let x = states.as_ptr().add((t * agents + i) * d_v + j);
                    let mut held = [_mm512_setzero_ps(); LV];
                    for b in 0..LV {
                        held[b] = _mm512_loadu_ps(r.add(b * 16));
                    }
                    if width == HELD {
                        for c in 0..HELD {
                            let x = _mm512_set1_ps(*x.add(c));
                            for b in 0..LV {
                                acc[c][b] = _mm512_fmadd_ps(x, held[b], acc[c][b]);
                            }
                        }
                    } else {
                        for c in 0..width {
                            let x = _mm512_set1_ps(*x.add(c));
                            for b in 0..LV {
                                acc[c][b] = _mm512_fmadd_ps(x, held[b], acc[c][b]);
                            }
                        }
                    }
                }
                for c in 0..width {
                    for b in 0..LV {
                        let at = d_stack.add(c * ld + b * 16);
                        _mm512_storeu_ps(at, _mm512_fmadd_ps(factor, acc[c][b], _mm512_loadu_ps(at)));
                    }
                }
            }
            j += width;
        }
    }
}
