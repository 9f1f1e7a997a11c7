//! AVX-512 versions of the stack kernels for `f32`, for stacks of at most 16 columns and at most 64 padded rows.
//!
//! The compiler vectorises the projection well but breaks the lift (a dot product per column) into scalar sums. Here
//! the products of all columns stay in registers and one tree of shuffles adds up to sixteen of them at once. The
//! gradient keeps a block of columns in registers over all terms of all agents that share a view, so that it is read
//! and written once. Where eight of the last sixteen rows are padding, the last vector is half as wide.

#![allow(unsafe_code)]

mod lift;
mod lift_tiles;
mod outers;
mod project;

use std::ops::Range;

use lift::lift_shape;
use lift_tiles::lift_tiles_band;
use outers::outers_shape;
use project::project_shape;

use super::stack::{LiftBand, Table};
use super::tiles;

/// Whether these kernels support a table of this shape.
pub(super) fn fits(table: &Table<'_>) -> bool {
    table.d_v <= 16 && (16..=64).contains(&table.ld)
}

/// Calls `f::<vectors, columns, last vector is half>`; the maze's shape (40 rows, 10 columns) is constant.
macro_rules! by_shape {
    ($table:expr, $f:ident($($arg:expr),*)) => {
        match ($table.ld / 16, $table.d_v) {
            (3, 10) if $table.rows <= 40 => $f::<3, 10, true>($($arg),*),
            (1, 10) => $f::<1, 10, false>($($arg),*),
            (2, 10) => $f::<2, 10, false>($($arg),*),
            (3, 10) => $f::<3, 10, false>($($arg),*),
            (4, 10) => $f::<4, 10, false>($($arg),*),
            (1, _) => $f::<1, 16, false>($($arg),*),
            (2, _) => $f::<2, 16, false>($($arg),*),
            (3, _) => $f::<3, 16, false>($($arg),*),
            _ => $f::<4, 16, false>($($arg),*),
        }
    };
}

/// Checks once what the unchecked loads below rely on; returns the number of views of the table, which bounds each
/// agent's view.
fn check(table: &Table<'_>, stacks: usize, states: usize, rows: usize) -> usize {
    let Table { d_v, ld, index, order, .. } = *table;
    assert!(order.is_empty() || order.len() == index.len(), "an order that leaves agents out");
    assert!(index.len() * d_v <= states && index.len() * ld <= rows, "a vector shorter than its agents");
    stacks / (d_v * ld)
}

/// The same for a range of agents whose rows start at agent `base`. Ranges are whole bands, which the order respects.
fn check_band(table: &Table<'_>, agents: &Range<usize>, base: usize, states: usize, rows: usize) {
    let Table { d_v, ld, index, order, .. } = *table;
    assert!(order.is_empty() || order.len() == index.len(), "an order that leaves agents out");
    assert!(order.is_empty() || table.whole_bands(agents), "a part of a band");
    let inside = base <= agents.start && agents.start <= agents.end && agents.end <= index.len();
    assert!(inside, "a band outside its agents");
    assert!(agents.end * d_v <= states && (agents.end - base) * ld <= rows, "a vector shorter than its band");
}

/// The start of the stack of a view.
#[inline(always)]
fn place(view: u32, views: usize, len: usize) -> usize {
    assert!((view as usize) < views, "a view beyond the table");
    view as usize * len
}

/// y_i = F_i z_i.
///
/// # Safety
/// The CPU must have AVX-512 F, VL and DQ.
pub(super) unsafe fn project(
    table: Table<'_>,
    agents: Range<usize>,
    base: usize,
    stacks: &[f32],
    z: &[f32],
    y: &mut [f32],
) {
    check_band(&table, &agents, base, z.len(), y.len());
    let views = stacks.len() / (table.d_v * table.ld);
    // SAFETY: the caller guarantees the CPU, `check_band` the lengths.
    unsafe { by_shape!(table, project_shape(table, agents, base, views, stacks, z, y)) }
}

/// g_i = F_iᵀ s_i.
///
/// # Safety
/// The CPU must have AVX-512 F, VL and DQ.
pub(super) unsafe fn lift(table: Table<'_>, stacks: &[f32], s: &[f32], g: &mut [f32]) {
    let views = check(&table, stacks.len(), g.len(), s.len());
    // SAFETY: the caller guarantees the CPU, `check` the lengths.
    unsafe { by_shape!(table, lift_shape(table, views, stacks, s, g)) }
}

/// Whether [`lift_tiles`] supports this band: the maze's shape, with tiles.
pub(super) fn fits_tiles(band: &LiftBand<'_, f32>) -> bool {
    !band.tiles.is_empty() && tiles::tile_len(band.table.d_v, band.slots) == tiles::STACK
}

/// Exchange and lift of a band in one pass: the differences stay in registers (if they are kept for the
/// adjoint, they are written as well).
///
/// # Safety
/// The CPU must have AVX-512 F, VL and DQ.
pub(super) unsafe fn lift_tiles(band: LiftBand<'_, f32>) {
    let (table, agents, base) = (&band.table, &band.agents, band.base);
    check_band(table, agents, base, band.p.len().min(band.q.len()), band.y.len());
    assert!(!band.keep || agents.end * table.ld <= band.s.len(), "fewer differences than agents");
    assert!(band.partners.rows().len() == table.index.len() * 8, "exchange: one partner per slot");
    band.partners.check(band.slots, agents, base, band.y.len());
    let views = band.tiles.len() / tiles::STACK;
    let alone = agents.len() == table.index.len();
    // SAFETY: the caller guarantees the CPU; all lengths were just checked.
    unsafe {
        match (band.keep, alone) {
            (true, true) => lift_tiles_band::<true, false>(band, views),
            (true, false) => lift_tiles_band::<true, true>(band, views),
            (false, true) => lift_tiles_band::<false, false>(band, views),
            (false, false) => lift_tiles_band::<false, true>(band, views),
        }
    }
}

/// dF_i += scale·Σ_t rows_t,i state_t,iᵀ.
///
/// # Safety
/// The CPU must have AVX-512 F, VL and DQ.
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
    // SAFETY: the caller guarantees the CPU, `check` the lengths.
    unsafe { by_shape!(table, outers_shape(table, views, d_stacks, scale, terms, rows, states)) }
}

/// Columns of a table: 10 where `DV` is 10, otherwise taken from the table (`DV` is then an upper limit of 16).
#[inline(always)]
fn columns<const DV: usize>(table: &Table<'_>) -> usize {
    if DV == 10 { 10 } else { table.d_v }
}

/// Calls `$two` with agents that share a view and are adjacent in the table's order, `$one` with the others. A
/// pair loads its stack once.
macro_rules! by_pairs {
    ($table:expr, $range:expr, |$agents:ident, $view:ident| $one:expr, $two:expr) => {{
        let (mut k, end) = ($range.start, $range.end);
        while k < end {
            let a = $table.agent(k);
            let $view = $table.index[a];
            if k + 1 < end && $table.index[$table.agent(k + 1)] == $view {
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
use by_pairs;
