//! The vector instructions of this CPU, detected once at run time, and the macro that compiles one plain loop for each
//! of them.
//!
//! The environment variable `SHEAF_SIMD` lowers the level: `avx512` caps at AVX-512, `avx2` at AVX2, `off` forces the level of a CPU without
//! this crate's kernels, `plain` forces the plain reference loops, products included.

use std::sync::OnceLock;

/// A set of vector instructions. Levels are ordered: a CPU that has one has all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The plain reference loops, easy to check by reading; tests compare the other levels with them.
    Plain,
    /// Available on every CPU of the target: the same loops, but products by the `gemm` crate, which may allocate.
    Portable,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ and VL, in addition to AVX2 and FMA.
    Avx512,
    /// AMX tiles and AVX-512 BF16, in addition to AVX-512: for products with bf16 operands alone.
    Amx,
}

/// The level kernels run at: the best the CPU has, unless `SHEAF_SIMD` lowers it. Read once, then cached.
#[inline]
pub fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| cap(detect(), std::env::var("SHEAF_SIMD").ok().as_deref()))
}

/// Applies the value of `SHEAF_SIMD`; unknown values change nothing.
fn cap(detected: Level, wish: Option<&str>) -> Level {
    match wish {
        Some("plain") => Level::Plain,
        Some("off") => detected.min(Level::Portable),
        Some("avx2") => detected.min(Level::Avx2),
        Some("avx512") => detected.min(Level::Avx512),
        _ => detected,
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Level {
    use std::arch::is_x86_feature_detected as has;
    if !(has!("avx2") && has!("fma")) {
        Level::Portable
    } else if !(has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl")) {
        Level::Avx2
    } else if crate::bf16::amx::detect() {
        Level::Amx
    } else {
        Level::Avx512
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Level {
    Level::Portable
}

/// Compiles a plain loop once per [`Level`](crate::simd::Level) and picks one at run time.
///
/// `kernel! { pub fn name, name_at<T>(x: &[T]) = body; }` makes `name(x)`, which runs at [`level`](crate::simd::level),
/// and `name_at(limit, x)`, which runs at most at `limit` (tests compare levels with it). `body` is a safe
/// `#[inline(always)]` function whose last generic argument is `const FMA: bool`: true where a fused multiply-add is
/// one instruction (elsewhere `mul_add` is a slow library call; see [`fma`](crate::simd::fma)). `<T>` is left out for
/// `f32` kernels. The only unsafe calls are the macro's own, so that crates which use it write none.
#[macro_export]
macro_rules! kernel {
    ($(#[$meta:meta])* $vis:vis fn $name:ident, $at:ident $(<$t:ident>)? ($($arg:ident: $ty:ty),* $(,)?)
        = $body:ident;) => {
        $(#[$meta])*
        #[inline]
        $vis fn $name $(<$t: $crate::Real>)? ($($arg: $ty),*) {
            $at($crate::simd::level(), $($arg),*)
        }

        #[allow(unsafe_code)]
        #[inline]
        fn $at $(<$t: $crate::Real>)? (limit: $crate::simd::Level, $($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                use $crate::simd::{Level, level};
                #[target_feature(enable = "avx2,fma")]
                fn avx2 $(<$t: $crate::Real>)? ($($arg: $ty),*) {
                    $body::<$($t,)? true>($($arg),*)
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
                fn avx512 $(<$t: $crate::Real>)? ($($arg: $ty),*) {
                    $body::<$($t,)? true>($($arg),*)
                }
                match limit.min(level()) {
                    // SAFETY: the level is never above what was detected, so the CPU has these instructions;
                    // the function is otherwise safe code.
                    Level::Amx | Level::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    Level::Avx2 => return unsafe { avx2($($arg),*) },
                    Level::Plain | Level::Portable => {}
                }
            }
            let _ = limit;
            $body::<$($t,)? false>($($arg),*)
        }
    };
}
pub use kernel;

/// `a·b + c`, fused where `FMA` is true, that is, where this is one instruction.
#[inline(always)]
pub fn fma<T: crate::Real, const FMA: bool>(a: T, b: T, c: T) -> T {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_lowers_the_level_and_never_raises_it() {
        assert_eq!(cap(Level::Avx512, Some("plain")), Level::Plain);
        assert_eq!(cap(Level::Avx512, Some("off")), Level::Portable);
        assert_eq!(cap(Level::Avx512, Some("avx2")), Level::Avx2);
        assert_eq!(cap(Level::Portable, Some("avx2")), Level::Portable);
        assert_eq!(cap(Level::Avx2, Some("avx512")), Level::Avx2);
        assert_eq!(cap(Level::Avx512, None), Level::Avx512);
        assert_eq!(cap(Level::Amx, Some("avx512")), Level::Avx512);
        assert_eq!(cap(Level::Amx, None), Level::Amx);
    }
}
