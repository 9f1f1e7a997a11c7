//! Limits on sizes that come from files and arguments.
//!
//! A size is checked before anything of that size is allocated: a small file must not be able to ask for all memory.
//! Each limit is far above what a task can use and far below what a machine cannot give. Limits of one format stand
//! with its reader; `docs/cli.md` lists them all.

use sheaf_admm::{Error, ErrorKind, Result};

/// Largest experiment file, in bytes.
pub const MAX_EXPERIMENT_BYTES: u64 = 1 << 20;
/// Largest file of weights, and largest checkpoint, in bytes.
pub const MAX_WEIGHTS_BYTES: u64 = 1 << 30;
/// Longest name of a tensor, in bytes.
pub const MAX_TENSOR_NAME: usize = 1024;
/// Most parameters of a model, and most numbers in the maps of one agent.
pub const MAX_PARAMETERS: usize = 1 << 27;
/// Largest width of a layer and largest stalk.
pub const MAX_WIDTH: usize = 1 << 14;
/// Most samples in a batch.
pub const MAX_BATCH: usize = 1 << 16;
/// Most iterations of a solve.
pub const MAX_ITERATIONS: usize = 1_000_000;
/// Most bytes that the samples of one set may take in memory.
pub const MAX_SET_BYTES: u64 = 1 << 28;

/// Checks that a size is at most `max`; `what` names the unit.
pub fn at_most(place: &str, what: &str, max: usize, got: usize) -> Result<()> {
    if got <= max {
        return Ok(());
    }
    Err(Error::new(ErrorKind::OutOfRange, place, format_args!("at most {max} {what}"), got))
}

/// Checks that a width is at least 1 and at most [`MAX_WIDTH`].
pub fn check_width(place: &str, got: usize) -> Result<()> {
    if got == 0 {
        return Err(Error::new(ErrorKind::Malformed, place, "at least 1", got));
    }
    at_most(place, "numbers", MAX_WIDTH, got)
}

/// Whether a number is finite and above 0 in the precision that models compute in.
pub fn is_positive_f32(value: f64) -> bool {
    (value as f32).is_finite() && value as f32 > 0.0
}

/// The product of sizes, if it is at most `max`.
pub fn product(sizes: &[usize], max: u64) -> Option<u64> {
    let whole = sizes.iter().try_fold(1u64, |product, &size| product.checked_mul(size as u64));
    whole.filter(|&product| product <= max)
}

/// Checks that the system can still give this much memory. Where it does not say how much it has, everything passes.
pub fn check_memory(place: &str, what: &str, bytes: u64) -> Result<()> {
    match available_memory() {
        Some(free) if bytes > free => {
            let mb = |bytes: u64| bytes.div_ceil(1_000_000);
            let want = format!("{what} that fit in memory, {} MB at most now", mb(free));
            Err(Error::new(ErrorKind::OutOfRange, place, want, format_args!("{} MB", mb(bytes))))
        }
        _ => Ok(()),
    }
}

/// Memory the system can still give without swapping, in bytes: what Linux estimates, or what is left to the control
/// group of this process.
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let system = 1024 * line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    let number = |name: &str| -> Option<u64> {
        std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse().ok()
    };
    let group =
        number("memory.max").zip(number("memory.current")).map(|(max, used)| max.saturating_sub(used));
    Some(group.map_or(system, |group| group.min(system)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_beyond_the_limit_or_beyond_64_bits_is_none() {
        assert_eq!(product(&[3, 4], 12), Some(12));
        assert_eq!(product(&[3, 4], 11), None);
        assert_eq!(product(&[usize::MAX, 2, 0], 11), None);
    }

    #[test]
    fn more_memory_than_there_is_is_refused_by_size() {
        check_memory("here", "numbers", 1).unwrap();
        if available_memory().is_some() {
            let error = check_memory("here", "numbers", u64::MAX).unwrap_err();
            assert!(error.to_string().contains("fit in memory"), "{error}");
        }
    }
}
