//! The two scalar types that everything is generic over.

use std::fmt::{Debug, Display, LowerExp};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// `f32` (training, inference) or `f64` (references, finite differences).
pub trait Real:
    Copy
    + Default
    + PartialOrd
    + PartialEq
    + Debug
    + Display
    + LowerExp
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + Sum<Self>
    + crate::gemm::Gemm
    + crate::stack::StackKernels
    + crate::low_rank::LowRankBf16
    + crate::exchange::ExchangeKernel
    + crate::activation::Activations
    + crate::sparse::SparseCholesky
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Positive infinity.
    const INFINITY: Self;
    /// Distance from 1 to the next number.
    const EPSILON: Self;
    /// The smallest positive number with all its digits.
    const MIN_POSITIVE: Self;

    /// Rounds an `f64` to this type.
    fn from_f64(value: f64) -> Self;
    /// Widens to `f64`.
    fn to_f64(self) -> f64;
    /// Square root.
    fn sqrt(self) -> Self;
    /// e to this power.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// ln(1 + self), accurate near 0.
    fn ln_1p(self) -> Self;
    /// exp(self) − 1, accurate near 0.
    fn exp_m1(self) -> Self;
    /// Hyperbolic tangent.
    fn tanh(self) -> Self;
    /// Absolute value.
    fn abs(self) -> Self;
    /// The larger of two; if one is NaN, the other.
    fn max(self, other: Self) -> Self;
    /// The smaller of two; if one is NaN, the other.
    fn min(self, other: Self) -> Self;
    /// self · a + b with one rounding.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// Whether the number is neither NaN nor infinite.
    fn is_finite(self) -> bool;
    /// Bytes of a number.
    const BYTES: usize;
    /// Writes numbers as bytes, in the order of the machine. Stops with the shorter of both.
    fn to_bytes(values: &[Self], to: &mut [u8]);
    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    fn from_bytes(bytes: &[u8], to: &mut [Self]);
}

macro_rules! real {
    ($t:ident) => {
        impl Real for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const INFINITY: Self = $t::INFINITY;
            const EPSILON: Self = $t::EPSILON;
            const MIN_POSITIVE: Self = $t::MIN_POSITIVE;
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $t::sqrt(self)
            }
            #[inline(always)]
            fn exp(self) -> Self {
                $t::exp(self)
            }
            #[inline(always)]
            fn ln(self) -> Self {
                $t::ln(self)
            }
            #[inline(always)]
            fn ln_1p(self) -> Self {
                $t::ln_1p(self)
            }
            #[inline(always)]
            fn exp_m1(self) -> Self {
                $t::exp_m1(self)
            }
            #[inline(always)]
            fn tanh(self) -> Self {
                $t::tanh(self)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $t::abs(self)
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                $t::max(self, other)
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                $t::min(self, other)
            }
            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self {
                $t::mul_add(self, a, b)
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                $t::is_finite(self)
            }
            const BYTES: usize = size_of::<$t>();
            fn to_bytes(values: &[Self], to: &mut [u8]) {
                for (to, v) in to.chunks_exact_mut(Self::BYTES).zip(values) {
                    to.copy_from_slice(&v.to_ne_bytes());
                }
            }
            fn from_bytes(bytes: &[u8], to: &mut [Self]) {
                for (to, b) in to.iter_mut().zip(bytes.chunks_exact(Self::BYTES)) {
                    *to = $t::from_ne_bytes(b.try_into().expect("the bytes of a number"));
                }
            }
        }
    };
}

real!(f32);
real!(f64);
