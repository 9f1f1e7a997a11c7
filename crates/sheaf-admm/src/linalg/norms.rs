//! Euclidean norms that neither overflow nor underflow.

use std::ops::Range;

use crate::Real;
use crate::chunks;

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
            // NaN propagates.
            *most = if v.abs() <= *most { *most } else { v.abs() };
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
    std::array::from_fn(|k| {
        let plain = sums[k] >= small && sums[k].is_finite();
        let rescue = largest[k] > T::ZERO && largest[k].is_finite();
        match (plain, rescue) {
            (true, _) => sums[k].sqrt(),
            (false, true) => largest[k] * scaled[k].sqrt(),
            (false, false) => largest[k],
        }
    })
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

/// As [`norms`] over the numbers of all agents, which `values` gives for a range of them: chunk by chunk, on all threads.
pub(crate) fn norms_of_agents<T: Real, const N: usize, I: Iterator<Item = [T; N]> + Clone>(
    agents: usize,
    values: impl Fn(Range<usize>) -> I + Sync,
) -> [T; N] {
    let chunks = chunks::count(agents);
    let one = |chunk, ()| Ok(squares(values(chunks::agents(chunk, agents))));
    let small = T::MIN_POSITIVE / (T::EPSILON * T::EPSILON);
    match if chunks > 1 { chunks::sums(chunks, (), one).ok() } else { None } {
        Some(sums) if sums.iter().all(|&sum| sum >= small && sum.is_finite()) => sums.map(T::sqrt),
        _ => norms(values(0..agents)),
    }
}

/// The norm of one vector.
pub(crate) fn norm<T: Real>(values: impl Iterator<Item = T> + Clone) -> T {
    norms(values.map(|v| [v]))[0]
}

#[cfg(test)]
mod tests {
    use super::norm;

    #[test]
    fn norms_stay_exact_at_the_ends_of_the_range() {
        assert_eq!(norm([3.0, 4.0].into_iter()), 5.0);
        assert_eq!(norm([3e300, 4e300].into_iter()), 5e300);
        assert!((norm([3e-300, 4e-300].into_iter()) / 5e-300 - 1.0f64).abs() < 1e-15);
        assert!((norm([3e30f32, 4e30].into_iter()) / 5e30 - 1.0).abs() < 1e-6);
        assert_eq!(norm([0.0, 0.0].into_iter()), 0.0);
        assert!(norm([1.0, f64::NAN].into_iter()).is_nan());
        assert_eq!(norm([1.0, f64::INFINITY].into_iter()), f64::INFINITY);
    }
}
