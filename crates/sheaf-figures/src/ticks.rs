//! Ticks of logarithmic axes: powers of ten, or 1, 2, 5 where there are few of them.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

use crate::chart::short;

/// Decades from which powers of ten alone are enough.
const MANY: f64 = 2.5;
/// Most ticks of an axis.
const MOST: usize = 8;

/// A logarithmic axis: its ends and ticks, as powers of ten.
#[derive(Clone, Debug, PartialEq)]
pub struct LogAxis {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The ticks, ascending.
    pub ticks: Vec<f64>,
    /// Whether ticks are powers of ten.
    pub decades: bool,
}

impl LogAxis {
    /// The axis for values from `low` to `high`, which are positive.
    pub fn over(low: f64, high: f64) -> Self {
        let (low, high) = (low.max(1e-300).log10(), high.max(1e-300).log10());
        if high - low > MANY {
            let (low, high) = (low.floor(), high.ceil());
            let every = ((high - low) as usize).div_ceil(MOST).max(1);
            let ticks = (0..=(high - low) as usize).step_by(every).map(|i| low + i as f64).collect();
            return Self { low, high, ticks, decades: true };
        }
        let steps = (low.floor() as i32..=high.ceil() as i32)
            .flat_map(|decade| [1.0f64, 2.0, 5.0].map(|digit| digit.log10() + f64::from(decade)));
        let steps: Vec<f64> = steps.collect();
        // Logarithms of round numbers are not exact.
        let first = steps.iter().rposition(|&s| s <= low + 1e-9).unwrap_or(0);
        let last = steps.iter().position(|&s| s >= high - 1e-9).unwrap_or(steps.len() - 1);
        let ticks = steps[first..=last.max(first + 1).min(steps.len() - 1)].to_vec();
        Self { low: ticks[0], high: ticks[ticks.len() - 1], ticks, decades: false }
    }

    /// The axis for counts from 1 to `high`, such as iterations: ticks at 1, 2, 5 and, where there is room, at the end.
    pub fn counts(high: f64) -> Self {
        let high = high.max(2.0).log10();
        let ticks =
            (0..=high as i32).flat_map(|decade| [1.0f64, 2.0, 5.0].map(|d| d.log10() + f64::from(decade)));
        let mut ticks: Vec<f64> = ticks.filter(|&tick| tick <= high + 1e-9).collect();
        if ticks.last().is_some_and(|&last| high - last > 0.06 * high) {
            ticks.push(high);
        }
        Self { low: 0.0, high, ticks, decades: false }
    }

    /// The text of a tick.
    pub fn label(&self, tick: f64) -> String {
        if self.decades { power(tick) } else { short(10f64.powf(tick)) }
    }
}

impl Ranged for LogAxis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.low) / (self.high - self.low);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

/// A power of ten as 10⁻³.
fn power(exponent: f64) -> String {
    let superscript = |c: char| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        digit => char::from_u32(0x2070 + digit.to_digit(10).unwrap_or(0)).unwrap_or('?'),
    };
    format!("10{}", (exponent.round() as i64).to_string().chars().map(superscript).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64) -> Vec<String> {
        let axis = LogAxis::over(low, high);
        axis.ticks.iter().map(|&tick| axis.label(tick)).collect()
    }

    #[test]
    fn a_range_within_a_decade_is_not_widened_to_powers_of_ten() {
        assert_eq!(labels(1.3, 2.6), ["1", "2", "5"]);
        assert_eq!(labels(0.021, 0.3), ["0.02", "0.05", "0.1", "0.2", "0.5"]);
    }

    #[test]
    fn an_axis_of_counts_ends_at_the_last_count() {
        let axis = LogAxis::counts(30.0);
        let labels: Vec<String> = axis.ticks.iter().map(|&tick| axis.label(tick)).collect();
        assert_eq!(
            (labels, axis.high),
            (["1", "2", "5", "10", "20", "30"].map(String::from).to_vec(), 30f64.log10())
        );
        assert!(LogAxis::counts(1.0).high > 0.0, "one count has an axis too");
    }

    #[test]
    fn both_ends_of_an_axis_have_a_label() {
        assert_eq!(labels(0.012, 8.0), ["10⁻²", "10⁻¹", "10⁰", "10¹"]);
        assert_eq!(labels(0.01, 1.0), ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"]);
        assert_eq!(labels(1.0, 1.0).len(), 2, "one value has an axis too");
        assert!(labels(1e-30, 1.0).len() <= MOST + 1);
    }
}
