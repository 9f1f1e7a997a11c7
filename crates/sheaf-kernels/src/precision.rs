//! The precision of the operands of matrix products.

/// How the operands of a product are rounded before they are multiplied. Sums, and everything that is not a product,
/// keep the precision of the scalar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Not at all: the operands as they are.
    #[default]
    Full,
    /// To bfloat16, eight significant bits with the range of `f32`; the sums are `f32`. For products of `f32` only.
    Bf16,
}

impl Precision {
    /// The name in experiments, options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "f32",
            Self::Bf16 => "bf16",
        }
    }

    /// Whether this CPU multiplies in this precision by instructions of its own. Where it does not, bf16 products give
    /// the same bits by plain loops, which are several times slower than products of `f32`.
    pub fn is_fast(self) -> bool {
        self == Self::Full || super::bf16::has_instructions()
    }
}
