//! AVX-512 versions of the stack kernels for `f32`, for stacks of at most 16 columns and at most 64 padded rows.
//!
//! The compiler vectorises the projection well but breaks the lift (a dot product per column) into scalar sums. Here
//! the products of all columns stay in registers and one tree of shuffles adds up to sixteen of them at once. The
//! gradient keeps a block of columns in registers over all terms, so that it is read and written once.

#![allow(unsafe_code)]

mod lift;
mod outers;
mod project;

use lift::{exchange_lift_shape, lift_shape};
use outers::outers_shape;
use project::project_shape;

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
