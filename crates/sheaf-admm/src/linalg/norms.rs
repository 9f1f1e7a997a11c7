//! Euclidean norms that neither overflow nor underflow.

use std::ops::Range;

use crate::Real;
use crate::sheaf::Sheaf;

/// The norms of N vectors, given by their numbers side by side. Where a plain sum of squares leaves the range of the
/// type, the numbers are divided by the largest of them first.
pub(crate) fn norms<T: Real, const N: usize>(values: impl Iterator<Item = [T; N]> + Clone) -> [T; N] {
    let sums = squares(values.clone());
    // Squares below this have lost digits, or all of them.
    let small = T::MIN_POSITIVE / (T::EPSILON * T::EPSILON);
    if sums.iter().all(|&sum| sum >= small && sum.is_finite()) {
        return sums.map(T::sqrt);
    }
    let mut largest = [T::ZERO; N];
    values.clone().for_each(|each| {
        for (most, v) in largest.iter_mut().zip(each) {
            *most = larger(*most, v.abs());
        }
    });
    let mut scaled = [T::ZERO; N];
    values.for_each(|each| {
        for ((sum, v), &most) in scaled.iter_mut().zip(each).zip(&largest) {
            if most > T::ZERO {
                *sum += (v / most) * (v / most);
            }
        }
    });
    std::array::from_fn(|k| rescued(sums[k], small, largest[k], scaled[k]))
}

/// The sums of squares.
fn squares<T: Real, const N: usize>(values: impl Iterator<Item = [T; N]>) -> [T; N] {
    let mut sums = [T::ZERO; N];
    values.for_each(|each| {
        for (sum, v) in sums.iter_mut().zip(each) {
            *sum += v * v;
        }
    });
    sums
}

/// As [`norms`] over the numbers of all agents of a sheaf, which `values` gives for a range of own agents: chunk by chunk, on
/// all threads and ranks.
pub(crate) fn norms_of_agents<T: Real, const N: usize, I: Iterator<Item = [T; N]> + Clone>(
    sheaf: &Sheaf,
    values: impl Fn(Range<usize>) -> I + Sync,
) -> [T; N] {
    if sheaf.is_one_chunk() {
        return norms(values(0..sheaf.agents()));
    }
    let small = T::MIN_POSITIVE / (T::EPSILON * T::EPSILON);
    let sums = sheaf.sums((), |own, ()| squares(values(sheaf.agents_of(own))));
    if sums.iter().all(|&sum| sum >= small && sum.is_finite()) {
        return sums.map(T::sqrt);
    }
    let most = |own: Range<usize>, ()| {
        let mut most = [T::ZERO; N];
        values(sheaf.agents_of(own))
            .for_each(|each| (0..N).for_each(|k| most[k] = larger(most[k], each[k].abs())));
        most
    };
    let most = sheaf.fold((), most, |total, own| (0..N).for_each(|k| total[k] = larger(total[k], own[k])));
    let scale = |each: [T; N]| -> [T; N] {
        std::array::from_fn(|k| if most[k] > T::ZERO { each[k] / most[k] } else { T::ZERO })
    };
    let scaled: [T; N] = sheaf.sums((), |own, ()| squares(values(sheaf.agents_of(own)).map(scale)));
    std::array::from_fn(|k| rescued(sums[k], small, most[k], scaled[k]))
}

/// The norm of a vector from its sum of squares, or from its largest number and the sum of squares of what that divides.
fn rescued<T: Real>(sum: T, small: T, most: T, scaled: T) -> T {
    match (sum >= small && sum.is_finite(), most > T::ZERO && most.is_finite()) {
        (true, _) => sum.sqrt(),
        (false, true) => most * scaled.sqrt(),
        (false, false) => most,
    }
}

/// As [`norms`] over the numbers of all edges of a sheaf, which `values` gives for an edge: chunk by chunk, on all ranks.
pub(crate) fn norms_of_edges<T: Real, const N: usize, I: Iterator<Item = [T; N]> + Clone>(
    sheaf: &Sheaf,
    values: impl Fn(usize) -> I,
) -> [T; N] {
    if sheaf.is_one_chunk() {
        return norms((0..sheaf.edges().len()).flat_map(&values));
    }
    let small = T::MIN_POSITIVE / (T::EPSILON * T::EPSILON);
    let add = |total: &mut [T; N], own: [T; N]| (0..N).for_each(|k| total[k] += own[k]);
    let sums = sheaf.fold_edges(|edge, sums| add(sums, squares(values(edge))), add);
    let most = |edge: usize, most: &mut [T; N]| {
        values(edge).for_each(|each| (0..N).for_each(|k| most[k] = larger(most[k], each[k].abs())));
    };
    let most = sheaf.fold_edges(most, |total, own| (0..N).for_each(|k| total[k] = larger(total[k], own[k])));
    let scale = |each: [T; N]| -> [T; N] {
        std::array::from_fn(|k| if most[k] > T::ZERO { each[k] / most[k] } else { T::ZERO })
    };
    let scaled = sheaf.fold_edges(|edge, sums| add(sums, squares(values(edge).map(scale))), add);
    std::array::from_fn(|k| rescued(sums[k], small, most[k], scaled[k]))
}

/// The largest numbers of M vectors and the root mean squares of N others, given by their numbers side by side: `values` gives
/// them for a range of own agents. Chunk by chunk, on all threads and ranks.
pub(crate) fn extremes_of_agents<T, const M: usize, const N: usize, const K: usize, I>(
    sheaf: &Sheaf,
    values: impl Fn(Range<usize>) -> I + Sync,
) -> ([T; M], [T; N])
where
    T: Real,
    I: Iterator<Item = ([T; M], [T; N])> + Clone,
{
    const { assert!(M + N == K) };
    let one = |own: Range<usize>, ()| {
        let mut found = [T::ZERO; K];
        values(sheaf.agents_of(own)).for_each(|(largest, squared)| {
            (0..M).for_each(|k| found[k] = larger(found[k], largest[k].abs()));
            (0..N).for_each(|k| found[M + k] += squared[k] * squared[k]);
        });
        found
    };
    let join = |total: &mut [T; K], own: [T; K]| {
        (0..M).for_each(|k| total[k] = larger(total[k], own[k]));
        (M..K).for_each(|k| total[k] += own[k]);
    };
    let found = sheaf.fold((), one, join);
    let root = T::from_f64(sheaf.whole_state_len().max(1) as f64).sqrt();
    let small = T::MIN_POSITIVE / (T::EPSILON * T::EPSILON);
    let plain = found[M..].iter().all(|&sum| sum >= small && sum.is_finite());
    let sizes: [T; N] = if plain {
        std::array::from_fn(|k| found[M + k].sqrt())
    } else {
        norms_of_agents(sheaf, |own| values(own).map(|(_, squared)| squared))
    };
    (std::array::from_fn(|k| found[k]), sizes.map(|size| size / root))
}

/// The larger of two numbers; NaN if one is.
pub(crate) fn larger<T: Real>(a: T, b: T) -> T {
    if b <= a {
        a
    } else if b > a {
        b
    } else {
        a + b
    }
}

/// The largest number of a vector by its size; NaN if there is one.
pub(crate) fn largest<T: Real>(values: &[T]) -> T {
    values.iter().fold(T::ZERO, |most, v| larger(most, v.abs()))
}

/// The norm of one vector.
pub(crate) fn norm<T: Real>(values: impl Iterator<Item = T> + Clone) -> T {
    norms(values.map(|v| [v]))[0]
}

#[cfg(test)]
mod tests {
    use super::{extremes_of_agents, largest, norm};
    use crate::sheaf::{AgentGraph, Sheaf};

    #[test]
    fn norms_stay_exact_at_the_ends_of_the_range() {
        assert_eq!(norm([3.0, 4.0].into_iter()), 5.0);
        assert_eq!(norm([3e300, 4e300].into_iter()), 5e300);
        assert!((norm([3e-300, 4e-300].into_iter()) / 5e-300 - 1.0f64).abs() < 1e-15);
        assert!((norm([3e30f32, 4e30].into_iter()) / 5e30 - 1.0).abs() < 1e-6);
        assert_eq!(norm([0.0, 0.0].into_iter()), 0.0);
        assert!(norm([1.0, f64::NAN].into_iter()).is_nan());
        assert_eq!(norm([1.0, f64::INFINITY].into_iter()), f64::INFINITY);
        assert!(largest(&[1.0, f64::NAN, 2.0]).is_nan() && largest(&[1.0, -3.0, 2.0]) == 3.0);
    }

    #[test]
    fn extremes_are_largest_numbers_and_root_mean_squares_over_all_chunks() {
        let agents = 3 * crate::chunks::AGENTS + 5;
        let sheaf = Sheaf::uniform(&AgentGraph::from_edges(agents, &[]).unwrap(), 1, 1).unwrap();
        let value = |k: usize| if k == 7000 { -9.0 } else { 0.5 * ((k % 3) as f64 - 1.0) };
        let values = |own: std::ops::Range<usize>| own.map(move |k| ([value(k)], [value(k)]));
        let ([most], [mean]) = extremes_of_agents::<f64, 1, 1, 2, _>(&sheaf, values);
        let squares: f64 = (0..agents).map(|k| value(k).powi(2)).sum();
        assert!(most == 9.0 && (mean - (squares / agents as f64).sqrt()).abs() < 1e-14);
        let huge = |own: std::ops::Range<usize>| own.map(|_| ([1.0], [1e300]));
        let (_, [mean]) = extremes_of_agents::<f64, 1, 1, 2, _>(&sheaf, huge);
        assert!((mean / 1e300 - 1.0).abs() < 1e-12);
    }
}
