//! Aggregation of the messages that an agent receives, component by component, and its adjoint.
//!
//! | kind | a_i | gradient of a message |
//! | --- | --- | --- |
//! | max | max over j of m_{j→i} | d_a, shared equally by all that attain the maximum |
//! | mean, add | mean or sum over j | d_a / count, d_a |
//! | degree | Σ_j m_{j→i}/√(d_j d_i), d = messages received + 1 | d_a/√(d_j d_i) |
//!
//! An agent that receives nothing has a_i = 0.

use sheaf_admm::Real;
use sheaf_kernels::simd::kernel;

use super::links::Links;
use crate::model::section::AggregationKind;

/// Messages whose maximum one word of marks covers.
const WORD: usize = u32::BITS as usize;

/// Words of marks per component: one bit per message an agent may receive. Only the maximum needs them.
pub fn words(kind: AggregationKind, links: &Links) -> usize {
    if kind == AggregationKind::Max { links.most().div_ceil(WORD).max(1) } else { 0 }
}

/// Aggregates the messages `y` of some samples. Saves: `marks`, which messages attain the maximum.
pub fn aggregate<T: Real>(
    kind: AggregationKind,
    links: &Links,
    width: usize,
    y: &[T],           // [samples, agents, types, width]
    a: &mut [T],       // [samples, agents, width]
    marks: &mut [u32], // [samples, agents, words, width]
) {
    let (agents, words) = (links.agents(), words(kind, links));
    for (row, a) in a.chunks_exact_mut(width).enumerate() {
        let (sample, i) = (row / agents, row % agents);
        let y = &y[sample * agents * links.types() * width..];
        a.fill(T::ZERO);
        if kind == AggregationKind::Max {
            let marks = &mut marks[row * words * width..][..words * width];
            marks.fill(0);
            maximum(links.of(i), y, a, marks);
            continue;
        }
        for &source in links.of(i) {
            add_scaled(a, weight(kind, links, i, source), &y[source as usize * width..][..width]);
        }
    }
}

/// Adjoint of [`aggregate`]: adds to `d_y`; overwrites `d_a`.
pub fn aggregate_vjp<T: Real>(
    kind: AggregationKind,
    links: &Links,
    width: usize,
    marks: &[u32],
    d_a: &mut [T],
    d_y: &mut [T],
) {
    let (agents, words) = (links.agents(), words(kind, links));
    for (row, d_a) in d_a.chunks_exact_mut(width).enumerate() {
        let (sample, i) = (row / agents, row % agents);
        let d_y = &mut d_y[sample * agents * links.types() * width..];
        if kind == AggregationKind::Max {
            maximum_vjp(links.of(i), &marks[row * words * width..][..words * width], d_a, d_y);
            continue;
        }
        for &source in links.of(i) {
            add_scaled(&mut d_y[source as usize * width..][..width], weight(kind, links, i, source), d_a);
        }
    }
}

/// The weight of a message in a sum.
fn weight<T: Real>(kind: AggregationKind, links: &Links, i: usize, source: u32) -> T {
    T::from_f64(match kind {
        AggregationKind::Max | AggregationKind::Add => 1.0,
        AggregationKind::Mean => 1.0 / links.of(i).len() as f64,
        AggregationKind::Degree => {
            let from = source as usize / links.types();
            links.inverse_root_degree(from) * links.inverse_root_degree(i)
        }
    })
}

kernel! {
    fn add_scaled, add_scaled_at<T>(to: &mut [T], by: T, from: &[T]) = add_scaled_body;
}

#[inline(always)]
fn add_scaled_body<T: Real, const FMA: bool>(to: &mut [T], by: T, from: &[T]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to += by * from;
    }
}

kernel! {
    /// a = the maximum of the messages `sources`; marks those that attain it.
    fn maximum, maximum_at<T>(sources: &[u32], y: &[T], a: &mut [T], marks: &mut [u32]) = maximum_body;
}

#[inline(always)]
fn maximum_body<T: Real, const FMA: bool>(sources: &[u32], y: &[T], a: &mut [T], marks: &mut [u32]) {
    let width = a.len();
    let message = |source: u32| &y[source as usize * width..][..width];
    let Some((&first, rest)) = sources.split_first() else { return };
    a.copy_from_slice(message(first));
    for &source in rest {
        for (a, &y) in a.iter_mut().zip(message(source)) {
            // A message that is not finite must reach the loss.
            *a = if y > *a || !y.is_finite() { y } else { *a };
        }
    }
    for (sources, marks) in sources.chunks(WORD).zip(marks.chunks_exact_mut(width)) {
        for (bit, &source) in sources.iter().enumerate() {
            for ((mark, &a), &y) in marks.iter_mut().zip(&*a).zip(message(source)) {
                *mark |= u32::from(y == a) << bit;
            }
        }
    }
}

kernel! {
    /// Adds the gradient of a maximum to the messages that attain it, in equal shares; leaves the share in `d_a`.
    fn maximum_vjp, maximum_vjp_at<T>(sources: &[u32], marks: &[u32], d_a: &mut [T], d_y: &mut [T])
        = maximum_vjp_body;
}

#[inline(always)]
fn maximum_vjp_body<T: Real, const FMA: bool>(sources: &[u32], marks: &[u32], d_a: &mut [T], d_y: &mut [T]) {
    let width = d_a.len();
    for (k, d_a) in d_a.iter_mut().enumerate() {
        let ties: u32 = marks.iter().skip(k).step_by(width).map(|m| m.count_ones()).sum();
        if ties > 1 {
            *d_a /= T::from_f64(f64::from(ties));
        }
    }
    for (sources, marks) in sources.chunks(WORD).zip(marks.chunks_exact(width)) {
        for (bit, &source) in sources.iter().enumerate() {
            let d_y = &mut d_y[source as usize * width..][..width];
            for ((d_y, &mark), &d_a) in d_y.iter_mut().zip(marks).zip(&*d_a) {
                *d_y += if mark >> bit & 1 == 1 { d_a } else { T::ZERO };
            }
        }
    }
}
