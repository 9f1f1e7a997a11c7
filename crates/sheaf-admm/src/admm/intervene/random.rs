//! Random numbers of interventions: a function of their key, so that nothing depends on order.

/// A standard normal number of (seed, iteration, agent, coordinate).
pub fn normal(seed: u64, k: usize, agent: usize, coordinate: usize) -> f64 {
    let key = [k, agent, coordinate].iter().fold(mix(seed), |key, &part| mix(key ^ mix(part as u64)));
    let (a, b) = (unit(mix(key ^ 1)), unit(mix(key ^ 2)));
    // Box and Muller.
    (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// A share of `count` agents, at least one of them if there are any, in increasing order.
pub fn chosen(count: usize, share: f64, seed: u64) -> Vec<usize> {
    let wanted = ((share * count as f64).round() as usize).clamp(1.min(count), count);
    let mut all: Vec<usize> = (0..count).collect();
    all.sort_by_key(|&agent| (mix(mix(seed) ^ mix(agent as u64)), agent));
    all.truncate(wanted);
    all.sort_unstable();
    all
}

/// Uniform in [0, 1), 53 bits.
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
pub(crate) fn mix(key: u64) -> u64 {
    let key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_normal_and_depends_on_every_part_of_its_key() {
        let draws: Vec<f64> = (0..20_000).map(|i| normal(7, i % 50, i / 50, i % 7)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
        let one = normal(7, 3, 4, 5);
        assert_eq!(one.to_bits(), normal(7, 3, 4, 5).to_bits());
        for other in [normal(8, 3, 4, 5), normal(7, 4, 4, 5), normal(7, 3, 5, 5), normal(7, 3, 4, 6)] {
            assert_ne!(one.to_bits(), other.to_bits());
        }
    }

    #[test]
    fn the_noise_of_a_script_is_the_same_in_every_version() {
        // Computed with another program from the definition.
        for (key, value) in [
            ((1, 2, 3, 4), -0.1432945673484509),
            ((0, 0, 0, 0), 0.14507528017299876),
            ((42, 7, 80, 9), -1.8557048522361148),
        ] {
            let (seed, k, agent, coordinate) = key;
            assert!((normal(seed, k, agent, coordinate) - value).abs() < 1e-13, "{key:?}");
        }
    }

    #[test]
    fn a_share_has_its_size_and_no_agent_twice() {
        let ten = chosen(81, 0.1, 3);
        assert_eq!(ten.len(), 8);
        assert!(ten.windows(2).all(|pair| pair[0] < pair[1]));
        assert_ne!(ten, chosen(81, 0.1, 4));
        assert_eq!((chosen(5, 1e-9, 1).len(), chosen(5, 1.0, 1).len(), chosen(0, 1.0, 1).len()), (1, 5, 0));
    }
}
