//! The blocks of the AMX kernel: up to two tiles high and two wide, for all of a part of the inner dimension.

#![allow(unsafe_code)]

use std::arch::asm;

use super::Block;
use crate::bf16::pack::LEN;

/// Where the tiles of a block are stored. The assembly reads the fields by their offsets.
#[repr(C)]
pub(super) struct To {
    corner: [*mut f32; 4],
    row_bytes: usize,
}

impl To {
    /// Rows `row` numbers apart; the next tile on the right is `right` numbers away, the one below `below`.
    #[inline(always)]
    pub(super) fn new(first: *mut f32, row: usize, right: usize, below: usize) -> Self {
        let at = |offset| first.wrapping_add(offset);
        Self { corner: [at(0), at(right), at(below), at(right + below)], row_bytes: row * size_of::<f32>() }
    }
}

/// Makes the function of a block: which tiles are cleared, loaded, multiplied and stored.
macro_rules! tiles {
    ($(#[$doc:meta])* $name:ident, zero [$($zero:literal)*], load [$($load:literal)*],
        multiply [$($multiply:literal)*], store [$($store:literal)*]) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The tiles must be configured; `a` must reach the rows of the block in whole tiles, `b` as many lines of
        /// pairs, `to` the tiles of the block.
        #[inline(always)]
        pub(super) unsafe fn $name(s: &Block, a: *const u32, b: *const u32, to: &To) {
            let pair = size_of::<u32>();
            // SAFETY: the caller guarantees the tiles and all memory. Only registers that are listed are changed.
            unsafe {
                asm!(
                    $($zero,)*
                    "2:",
                    $($load,)*
                    $($multiply,)*
                    "add {a0}, 64",
                    "add {a1}, 64",
                    "add {b}, {b_step}",
                    "dec {groups}",
                    "jnz 2b",
                    "mov {row}, [{to} + 32]",
                    $($store,)*
                    a0 = inout(reg) a => _,
                    a1 = inout(reg) a.wrapping_add(LEN * s.a_row) => _,
                    b = inout(reg) b => _,
                    groups = inout(reg) s.groups => _,
                    row = inout(reg) s.a_row * pair => _,
                    b_row = in(reg) s.b_pair * pair,
                    b_step = in(reg) s.b_pair * LEN * pair,
                    to = in(reg) to,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

tiles! {
    /// Two tiles high, two wide.
    tiles_2x2,
    zero ["tilezero tmm0" "tilezero tmm1" "tilezero tmm2" "tilezero tmm3"],
    load ["tileloadd tmm4, [{a0} + {row}]" "tileloadd tmm6, [{b} + {b_row}]"
        "tileloadd tmm7, [{b} + {b_row} + 64]" "tileloadd tmm5, [{a1} + {row}]"],
    multiply ["tdpbf16ps tmm0, tmm4, tmm6" "tdpbf16ps tmm1, tmm4, tmm7"
        "tdpbf16ps tmm2, tmm5, tmm6" "tdpbf16ps tmm3, tmm5, tmm7"],
    store ["mov {a0}, [{to}]" "tilestored [{a0} + {row}], tmm0"
        "mov {a0}, [{to} + 8]" "tilestored [{a0} + {row}], tmm1"
        "mov {a0}, [{to} + 16]" "tilestored [{a0} + {row}], tmm2"
        "mov {a0}, [{to} + 24]" "tilestored [{a0} + {row}], tmm3"]
}
tiles! {
    /// Two tiles high, one wide.
    tiles_2x1,
    zero ["tilezero tmm0" "tilezero tmm2"],
    load ["tileloadd tmm4, [{a0} + {row}]" "tileloadd tmm6, [{b} + {b_row}]" "tileloadd tmm5, [{a1} + {row}]"],
    multiply ["tdpbf16ps tmm0, tmm4, tmm6" "tdpbf16ps tmm2, tmm5, tmm6"],
    store ["mov {a0}, [{to}]" "tilestored [{a0} + {row}], tmm0"
        "mov {a0}, [{to} + 16]" "tilestored [{a0} + {row}], tmm2"]
}
tiles! {
    /// One tile high, two wide.
    tiles_1x2,
    zero ["tilezero tmm0" "tilezero tmm1"],
    load ["tileloadd tmm4, [{a0} + {row}]" "tileloadd tmm6, [{b} + {b_row}]" "tileloadd tmm7, [{b} + {b_row} + 64]"],
    multiply ["tdpbf16ps tmm0, tmm4, tmm6" "tdpbf16ps tmm1, tmm4, tmm7"],
    store ["mov {a0}, [{to}]" "tilestored [{a0} + {row}], tmm0"
        "mov {a0}, [{to} + 8]" "tilestored [{a0} + {row}], tmm1"]
}
tiles! {
    /// One tile.
    tiles_1x1,
    zero ["tilezero tmm0"],
    load ["tileloadd tmm4, [{a0} + {row}]" "tileloadd tmm6, [{b} + {b_row}]"],
    multiply ["tdpbf16ps tmm0, tmm4, tmm6"],
    store ["mov {a0}, [{to}]" "tilestored [{a0} + {row}], tmm0"]
}
