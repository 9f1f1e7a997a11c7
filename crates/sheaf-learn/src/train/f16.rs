//! Half precision (1 sign, 5 exponent, 10 fraction bits), for weights that ship at half the size.

/// The nearest half, ties to even; too large becomes infinity, NaN stays NaN.
pub fn f16_from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7FFF_FFFF;
    if magnitude > 0x7F80_0000 {
        return sign | 0x7E00;
    }
    // 65520 is half-way between the largest half and the next power of two: from there on it is infinity.
    if magnitude >= 0x477F_F000 {
        return sign | 0x7C00;
    }
    if magnitude < 0x3880_0000 {
        // Below 2⁻¹⁴ halves are multiples of 2⁻²⁴. Scaling by 2²⁴ is exact, and so is rounding to an integer.
        let units = f32::from_bits(magnitude) * 16_777_216.0;
        return sign | units.round_ties_even() as u16;
    }
    // Move the exponent's origin from 127 to 15 and round away the last 13 fraction bits; a carry is right.
    let rounded = magnitude - (112 << 23) + 0xFFF + ((magnitude >> 13) & 1);
    sign | (rounded >> 13) as u16
}

/// The same number in single precision; exact.
pub fn f32_from_f16(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let magnitude = u32::from(half & 0x7FFF);
    let bits = match magnitude {
        0..0x0400 => (magnitude as f32 / 16_777_216.0).to_bits(),
        0x0400..0x7C00 => (magnitude << 13) + (112 << 23),
        _ => 0x7F80_0000 | (magnitude & 0x3FF) << 13,
    };
    f32::from_bits(sign | bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_the_way_to_single_and_back() {
        for half in 0..=u16::MAX {
            let single = f32_from_f16(half);
            if single.is_nan() {
                assert!(f32_from_f16(f16_from_f32(single)).is_nan());
            } else {
                assert_eq!(f16_from_f32(single), half, "{single}");
            }
        }
    }

    #[test]
    fn known_values_have_their_known_bits() {
        for (value, bits) in
            [(1.0, 0x3C00), (-2.0, 0xC000), (65504.0, 0x7BFF), (2f32.powi(-24), 1), (0.333_251_95, 0x3555)]
        {
            assert_eq!(f16_from_f32(value), bits);
            assert_eq!(f32_from_f16(bits), value);
        }
    }

    #[test]
    fn the_nearest_half_is_chosen_and_ties_go_to_even() {
        for half in 0..0x7BFFu16 {
            let (low, high) = (f32_from_f16(half), f32_from_f16(half + 1));
            let middle = low + (high - low) / 2.0;
            let even = if half % 2 == 0 { half } else { half + 1 };
            assert_eq!(f16_from_f32(middle), even);
            assert_eq!(f16_from_f32(f32::from_bits(middle.to_bits() - 1)), half);
            assert_eq!(f16_from_f32(f32::from_bits(middle.to_bits() + 1)), half + 1);
        }
        assert_eq!(f16_from_f32(65519.0), 0x7BFF);
        assert_eq!(f16_from_f32(-65520.0), 0xFC00);
    }
}
