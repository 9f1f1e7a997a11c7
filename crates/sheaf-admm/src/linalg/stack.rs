//! The hot kernels: many small matrix–vector products, one stack per agent, stacks picked from a table by index.
//!
//! A stack is stored by columns, each padded to `ld` rows: `stack[j·ld + r]` is row r, column j. Columns are whole
//! cache lines, so that
//!
//! | kernel | does | bound by |
//! | --- | --- | --- |
//! | [`project_table`](StackKernels::project_table) | y_i = F_i z_i: broadcast z_j, add column j | loads of F |
//! | [`lift_table`](StackKernels::lift_table) | g_i = F_iᵀ s_i: one dot product per column | loads of F, then the horizontal sums |
//! | [`outers_table`](StackKernels::outers_table) | dF_i += scale·Σ_t rows_t state_tᵀ | multiply-adds |

use super::exchange::{ExchangeKernel, Partners, SlotRows};
use super::simd::{fma, kernel};
use crate::Real;

/// Sizes of a table of stacks and the index that picks one for each agent.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// Columns of a stack (the vertex stalk).
    pub d_v: usize,
    /// Padded rows of a stack; a multiple of 16.
    pub ld: usize,
    /// Which stack each agent uses.
    pub index: &'a [u32], // [agents]
    /// Agents in the order in which they are best treated: equal views side by side share a load of their stack.
    /// Empty for the natural order. It changes speed, never results.
    pub order: &'a [u32], // [agents] or []
}

impl Table<'_> {
    /// The k-th agent to treat.
    #[inline(always)]
    pub(super) fn agent(&self, k: usize) -> usize {
        if self.order.is_empty() {
            return k;
        }
        let agent = self.order[k] as usize;
        assert!(agent < self.index.len(), "an agent beyond the table");
        agent
    }
}

/// Fills `order` so that agents with equal views stand side by side; `counts` is scratch of at least `views + 1`.
pub fn order_by_view(index: &[u32], views: usize, counts: &mut [u32], order: &mut [u32]) {
    let counts = &mut counts[..=views];
    counts.fill(0);
    for &view in index {
        counts[view as usize + 1] += 1;
    }
    for v in 0..views {
        counts[v + 1] += counts[v];
    }
    for (agent, &view) in index.iter().enumerate() {
        order[counts[view as usize] as usize] = agent as u32;
        counts[view as usize] += 1;
    }
}

/// The kernels a scalar type brings; `f32` has hand-written AVX-512 versions.
pub trait StackKernels: Sized {
    /// y_i = F_i z_i for every agent.
    fn project_table(table: Table<'_>, stacks: &[Self], z: &[Self], y: &mut [Self]);
    /// g_i = F_iᵀ s_i for every agent.
    fn lift_table(table: Table<'_>, stacks: &[Self], s: &[Self], g: &mut [Self]);
    /// s = y − y of the partner slots, then g_i = F_iᵀ s_i.
    fn exchange_lift_table(
        table: Table<'_>,
        rows: SlotRows,
        partners: &Partners,
        stacks: &[Self],
        y: &[Self],
        s: &mut [Self],
        g: &mut [Self],
    );
    /// dF_i += scale·Σ_t rows_t,i · state_t,iᵀ; `rows` is [terms, agents·ld], `states` is [terms, agents·d_v].
    fn outers_table(
        table: Table<'_>,
        d_stacks: &mut [Self],
        scale: Self,
        terms: usize,
        rows: &[Self],
        states: &[Self],
    );
}

/// Rows a pass holds in accumulators.
const BLOCK: usize = 16;

#[inline(always)]
fn project_body<T: Real, const FMA: bool>(table: Table<'_>, stacks: &[T], z: &[T], y: &mut [T]) {
    let Table { d_v, ld, index, .. } = table;
    for ((&view, z), y) in index.iter().zip(z.chunks_exact(d_v)).zip(y.chunks_exact_mut(ld)) {
        let stack = &stacks[view as usize * d_v * ld..][..d_v * ld];
        for (block, y) in y.chunks_exact_mut(BLOCK).enumerate() {
            let mut acc = [T::ZERO; BLOCK];
            for (&z, column) in z.iter().zip(stack.chunks_exact(ld)) {
                let column: &[T; BLOCK] = column[block * BLOCK..][..BLOCK].try_into().expect("BLOCK rows");
                for r in 0..BLOCK {
                    acc[r] = fma::<T, FMA>(z, column[r], acc[r]);
                }
            }
            y.copy_from_slice(&acc);
        }
    }
}

#[inline(always)]
fn lift_body<T: Real, const FMA: bool>(table: Table<'_>, stacks: &[T], s: &[T], g: &mut [T]) {
    let Table { d_v, ld, index, .. } = table;
    for ((&view, s), g) in index.iter().zip(s.chunks_exact(ld)).zip(g.chunks_exact_mut(d_v)) {
        let stack = &stacks[view as usize * d_v * ld..][..d_v * ld];
        for (g, column) in g.iter_mut().zip(stack.chunks_exact(ld)) {
            let mut acc = [T::ZERO; BLOCK];
            for (c, s) in column.chunks_exact(BLOCK).zip(s.chunks_exact(BLOCK)) {
                for r in 0..BLOCK {
                    acc[r] = fma::<T, FMA>(c[r], s[r], acc[r]);
                }
            }
            let mut width = BLOCK / 2;
            while width > 0 {
                for r in 0..width {
                    acc[r] += acc[r + width];
                }
                width /= 2;
            }
            *g = acc[0];
        }
    }
}

#[inline(always)]
fn outers_body<T: Real, const FMA: bool>(
    table: Table<'_>,
    d_stacks: &mut [T],
    scale: T,
    terms: usize,
    rows: &[T],
    states: &[T],
) {
    let Table { d_v, ld, index, .. } = table;
    let (row_len, state_len) = (index.len() * ld, index.len() * d_v);
    for (i, &view) in index.iter().enumerate() {
        let d_stack = &mut d_stacks[view as usize * d_v * ld..][..d_v * ld];
        for t in 0..terms {
            let rows = &rows[t * row_len + i * ld..][..ld];
            let state = &states[t * state_len + i * d_v..][..d_v];
            for (column, &x) in d_stack.chunks_exact_mut(ld).zip(state) {
                let x = scale * x;
                for (c, &r) in column.iter_mut().zip(rows) {
                    *c = fma::<T, FMA>(x, r, *c);
                }
            }
        }
    }
}

kernel! {
    fn project_any, project_any_at<T>(table: Table<'_>, stacks: &[T], z: &[T], y: &mut [T]) = project_body;
}
kernel! {
    fn lift_any, lift_any_at<T>(table: Table<'_>, stacks: &[T], s: &[T], g: &mut [T]) = lift_body;
}
kernel! {
    fn outers_any, outers_any_at<T>(
        table: Table<'_>, d_stacks: &mut [T], scale: T, terms: usize, rows: &[T], states: &[T],
    ) = outers_body;
}

impl StackKernels for f64 {
    fn project_table(table: Table<'_>, stacks: &[f64], z: &[f64], y: &mut [f64]) {
        project_any(table, stacks, z, y);
    }
    fn lift_table(table: Table<'_>, stacks: &[f64], s: &[f64], g: &mut [f64]) {
        lift_any(table, stacks, s, g);
    }
    fn exchange_lift_table(
        table: Table<'_>,
        rows: SlotRows,
        partners: &Partners,
        stacks: &[f64],
        y: &[f64],
        s: &mut [f64],
        g: &mut [f64],
    ) {
        f64::exchange_partners(rows, partners, y, s);
        lift_any(table, stacks, s, g);
    }
    fn outers_table(table: Table<'_>, d: &mut [f64], scale: f64, terms: usize, rows: &[f64], states: &[f64]) {
        outers_any(table, d, scale, terms, rows, states);
    }
}

/// Runs the AVX-512 kernel where the CPU has it and the shape fits, else the plain loop.
macro_rules! wide_or_plain {
    ($wide:ident, $plain:ident, $table:expr, $($arg:expr),*) => {{
        #[cfg(target_arch = "x86_64")]
        if super::simd::level() == super::simd::Level::Avx512 && super::stack_avx512::fits(&$table) {
            // SAFETY: AVX-512 was detected; the kernel checks all lengths itself.
            unsafe { super::stack_avx512::$wide($table, $($arg),*) };
            return;
        }
        $plain($table, $($arg),*);
    }};
}

#[allow(unsafe_code)]
impl StackKernels for f32 {
    fn project_table(table: Table<'_>, stacks: &[f32], z: &[f32], y: &mut [f32]) {
        wide_or_plain!(project, project_any, table, stacks, z, y);
    }
    fn lift_table(table: Table<'_>, stacks: &[f32], s: &[f32], g: &mut [f32]) {
        wide_or_plain!(lift, lift_any, table, stacks, s, g);
    }
    fn exchange_lift_table(
        table: Table<'_>,
        rows: SlotRows,
        partners: &Partners,
        stacks: &[f32],
        y: &[f32],
        s: &mut [f32],
        g: &mut [f32],
    ) {
        #[cfg(target_arch = "x86_64")]
        if super::simd::level() == super::simd::Level::Avx512
            && super::stack_avx512::fits_exchange(&table, &rows)
        {
            // SAFETY: AVX-512 was detected; the kernel checks all lengths itself.
            unsafe { super::stack_avx512::exchange_lift(table, partners, stacks, y, s, g) };
            return;
        }
        f32::exchange_partners(rows, partners, y, s);
        Self::lift_table(table, stacks, s, g);
    }
    fn outers_table(table: Table<'_>, d: &mut [f32], scale: f32, terms: usize, rows: &[f32], states: &[f32]) {
        wide_or_plain!(outers, outers_any, table, d, scale, terms, rows, states);
    }
}
