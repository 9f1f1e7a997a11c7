//! Stacks cut into tiles, the layout that the AVX-512 lift reads.
//!
//! A tile is one vector of sixteen numbers: eight rows of one column, then the same rows of another. Multiplied with
//! the eight differences of those rows, twice side by side, one multiply-add serves two columns, forty rows need no
//! padding, and half as many sums remain to be added up. Tile (c, q) of a stack holds rows 8c to 8c + 7 of the columns
//! `COLUMNS[q]`; the pairs are chosen so that the sums come out in the order of the columns.
//!
//! | name | shape |
//! | --- | --- |
//! | stacks | `[views, d_v, ld]` = `[views, 10, 48]` |
//! | tiles | `[views, 5, 5, 16]` |

use super::exchange::SlotRows;

/// The two columns of a tile.
pub(super) const COLUMNS: [(usize, usize); 5] = [(0, 4), (1, 5), (2, 6), (3, 7), (8, 9)];
/// Tiles of eight rows.
pub(super) const CHUNKS: usize = 5;
/// Length of a stack by tiles.
pub(super) const STACK: usize = CHUNKS * COLUMNS.len() * 16;
const D_V: usize = 10;
const LD: usize = 48;

/// Length of one stack by tiles; 0 where the shape has no tiles (they are made for the maze: stalks of 10, eight slots
/// of five rows).
#[inline]
pub fn tile_len(d_v: usize, rows: SlotRows) -> usize {
    if d_v == D_V && rows.slots == 8 && rows.d_e == 5 && rows.ld == LD { STACK } else { 0 }
}

/// Cuts stacks of a shape that has tiles; where `tiles` is empty it does nothing.
pub fn tile_stacks<T: Copy>(stacks: &[T], tiles: &mut [T]) {
    for (stack, tiles) in stacks.chunks_exact(D_V * LD).zip(tiles.chunks_exact_mut(STACK)) {
        for (k, tile) in tiles.chunks_exact_mut(16).enumerate() {
            let (row, (a, b)) = (8 * (k / COLUMNS.len()), COLUMNS[k % COLUMNS.len()]);
            tile[..8].copy_from_slice(&stack[a * LD + row..][..8]);
            tile[8..].copy_from_slice(&stack[b * LD + row..][..8]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_hold_every_number_of_forty_rows_once() {
        let stack: Vec<usize> = (0..2 * D_V * LD).collect();
        let mut tiles = vec![usize::MAX; 2 * STACK];
        tile_stacks(&stack, &mut tiles);
        let mut seen = tiles.clone();
        seen.sort_unstable();
        let used: Vec<usize> = stack.into_iter().filter(|k| k % LD < 40).collect();
        assert_eq!(seen, used);
        assert_eq!(tiles[STACK + (2 * COLUMNS.len() + 1) * 16 + 8 + 3], D_V * LD + 5 * LD + 2 * 8 + 3);
    }
}
