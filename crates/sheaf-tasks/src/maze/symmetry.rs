//! The eight symmetries of a picture, and the canonical form that all eight variants of a maze share.
//!
//! A symmetry maps an input of `height × width` to an output of the same size, or of `width × height` if it exchanges
//! rows and columns: `output[r, c] = input[source(r, c)]`.
//!
//! | bit of the number | 1: rows ↔ columns, first | 2: upside down | 4: left and right swapped |
//! | --- | --- | --- | --- |

use std::cmp::Ordering;

/// One of the eight rotations and reflections; number 0 changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Symmetry(u8);

impl Symmetry {
    /// All eight, the identity first.
    pub const ALL: [Self; 8] = [Self(0), Self(1), Self(2), Self(3), Self(4), Self(5), Self(6), Self(7)];

    fn transposes(self) -> bool {
        self.0 & 1 != 0
    }

    /// Size of the output for an input of `height × width`.
    pub fn output_size(self, height: usize, width: usize) -> (usize, usize) {
        if self.transposes() { (width, height) } else { (height, width) }
    }

    /// The source of pixel (`row`, `column`) of the output in an input of `height × width`.
    #[inline]
    pub fn source(self, row: usize, column: usize, height: usize, width: usize) -> (usize, usize) {
        let (rows, columns) = self.output_size(height, width);
        let row = if self.0 & 2 != 0 { rows - 1 - row } else { row };
        let column = if self.0 & 4 != 0 { columns - 1 - column } else { column };
        if self.transposes() { (column, row) } else { (row, column) }
    }

    /// Writes the variant of `input`; the output has size `output_size`.
    pub fn apply(
        self,
        input: &[u8], // [height, width]
        height: usize,
        width: usize,
        output: &mut [u8], // [output height, output width]
    ) {
        debug_assert!(input.len() == height * width && output.len() == height * width);
        for (out, token) in output.iter_mut().zip(self.read(input, height, width)) {
            *out = token;
        }
    }

    /// The inverse symmetry.
    pub fn inverse(self) -> Self {
        // Under the exchange of rows and columns, the two flips swap.
        if self.transposes() { Self(1 | (self.0 & 2) << 1 | (self.0 & 4) >> 1) } else { self }
    }

    /// The composition: this one, then `next`.
    pub fn then(self, next: Self) -> Self {
        let flips = if next.transposes() { (self.0 & 2) << 1 | (self.0 & 4) >> 1 } else { self.0 & 6 };
        Self((self.0 ^ next.0) & 1 | (flips ^ (next.0 & 6)))
    }

    /// The pixels of the variant, row by row.
    fn read<'a>(self, input: &'a [u8], height: usize, width: usize) -> impl Iterator<Item = u8> + 'a {
        let (rows, columns) = self.output_size(height, width);
        (0..rows).flat_map(move |r| {
            (0..columns).map(move |c| {
                let (row, column) = self.source(r, c, height, width);
                input[row * width + column]
            })
        })
    }
}

/// The symmetry that gives the canonical variant: fewest rows, then lexicographically smallest.
pub fn canonical(
    input: &[u8], // [height, width]
    height: usize,
    width: usize,
) -> Symmetry {
    let mut best = Symmetry(0);
    for candidate in Symmetry::ALL {
        let rows = |s: Symmetry| s.output_size(height, width).0;
        let order = rows(candidate)
            .cmp(&rows(best))
            .then_with(|| candidate.read(input, height, width).cmp(best.read(input, height, width)));
        if order == Ordering::Less {
            best = candidate;
        }
    }
    best
}

/// A 128-bit key shared by all eight variants of a maze; different mazes are not expected to share one.
///
/// The key covers size and pixels. Two mazes with equal keys are treated as the same: if two different ones collide,
/// one of them is dropped, which does no harm.
pub fn canonical_key(
    input: &[u8], // [height, width]
    height: usize,
    width: usize,
) -> u128 {
    let symmetry = canonical(input, height, width);
    let (rows, columns) = symmetry.output_size(height, width);
    // FNV-1a in 128 bits.
    let eat = |hash: u128, byte: u8| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    };
    let start = [rows, columns]
        .iter()
        .flat_map(|n| (*n as u64).to_le_bytes())
        .fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, eat);
    symmetry.read(input, height, width).fold(start, eat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    // All pixels differ: no two variants are equal.
    fn picture(height: usize, width: usize) -> Vec<u8> {
        (0..height * width).map(|i| i as u8).collect()
    }

    fn variant(s: Symmetry, input: &[u8], height: usize, width: usize) -> (Vec<u8>, usize, usize) {
        let mut output = vec![0; input.len()];
        s.apply(input, height, width, &mut output);
        let (rows, columns) = s.output_size(height, width);
        (output, rows, columns)
    }

    #[test]
    fn the_eight_variants_are_different() {
        for (height, width) in [(3, 3), (3, 5)] {
            let input = picture(height, width);
            let all: HashSet<_> = Symmetry::ALL.iter().map(|s| variant(*s, &input, height, width)).collect();
            assert_eq!(all.len(), 8);
        }
    }

    #[test]
    fn symmetries_form_a_group() {
        let (height, width) = (3, 5);
        let input = picture(height, width);
        for a in Symmetry::ALL {
            let (once, rows, columns) = variant(a, &input, height, width);
            assert_eq!(variant(a.inverse(), &once, rows, columns), (input.clone(), height, width));
            assert_eq!(a.then(a.inverse()), Symmetry(0));
            for b in Symmetry::ALL {
                assert_eq!(variant(b, &once, rows, columns), variant(a.then(b), &input, height, width));
            }
        }
    }

    #[test]
    fn all_variants_share_the_canonical_form_and_key() {
        for (height, width) in [(3, 3), (3, 5), (5, 3)] {
            let input = picture(height, width);
            let form = variant(canonical(&input, height, width), &input, height, width);
            let key = canonical_key(&input, height, width);
            for s in Symmetry::ALL {
                let (v, rows, columns) = variant(s, &input, height, width);
                assert_eq!(variant(canonical(&v, rows, columns), &v, rows, columns), form);
                assert_eq!(canonical_key(&v, rows, columns), key);
            }
            let mut other = input.clone();
            other[4] += 100;
            assert_ne!(canonical_key(&other, height, width), key);
        }
    }

    #[test]
    fn the_same_pixels_in_another_size_have_another_key() {
        assert_ne!(canonical_key(&[1; 15], 3, 5), canonical_key(&[1; 15], 1, 15));
    }
}
