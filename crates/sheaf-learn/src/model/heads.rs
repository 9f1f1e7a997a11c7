//! From features to the local problem of an agent: start, objective, penalty, factors of its maps.
//!
//! ```text
//! h = layer_norm(· f_h)     D = softplus(· f) + 1e-4     q = · f     l1 = softplus(· f)     hi = softplus(· f)
//! rho = softplus(· f)       V = · f     b = · f     g = softplus(· f)     A = · norm(f)     B = · norm(f)
//! ```
//!
//! With [gates](super::gates), A is multiplied by them.
//!
//! | array | shape |
//! | --- | --- |
//! | f, f_h | views, width or h_width |
//! | h, D, q, l1, hi | views, d_v |
//! | rho | views, 1 |
//! | V | views, d_v, objective_rank |
//! | b, g | views, objective_rows |
//! | A, B | views, slots, d_e or d_v, rank |

use sheaf_admm::Real;
use sheaf_kernels::Precision;
use sheaf_kernels::aligned::AlignedVec;

use super::gates::{Gates, Open};
use super::section::{Choices, MapKind, ModelSection, ObjectiveKind};
use super::spec::{LoraNorm, LoraStart, Spec};
use crate::nn::{Init, LayerNorm, Linear, RmsNorm, activation};
use crate::params::ParamLayout;
use crate::rng::Stream;

/// Added to softplus, so that every objective is strictly convex.
const DIAG_FLOOR: f64 = 1e-4;

/// Columns of the head outputs: h, D, q, l1, hi, rho, V, b.
pub const COLUMNS: usize = 8;
/// The start.
pub const H: usize = 0;
/// D.
pub const DIAG: usize = 1;
/// q.
pub const Q: usize = 2;
/// l1 weights.
pub const L1: usize = 3;
/// Upper bounds.
pub const HI: usize = 4;
/// Penalties, one per view.
pub const RHO: usize = 5;
/// V of the dense objective Q = diag(D) + V Vᵀ.
pub const FACTOR: usize = 6;
/// Right sides of the constraints: b of the equalities, g of the inequalities.
pub const RIGHT: usize = 7;

/// The layers.
#[derive(Clone, Debug)]
pub struct Heads {
    columns: [Option<Linear>; COLUMNS],
    h_norm: LayerNorm,
    low_rank: Option<(Norm, Linear, Linear)>,
    gates: Option<Gates>,
    start: LoraStart,
    own_h: bool,
    inequalities: bool,
    l1_init: f64,
    upper_init: f64,
    rho_init: f64,
}

#[derive(Clone, Debug)]
enum Norm {
    Layer(LayerNorm),
    Rms(RmsNorm),
}

/// Head outputs of some views, and what their adjoint needs.
#[derive(Clone, Debug, Default)]
pub struct Headed<T: Copy + Default> {
    /// h, D, q, l1, hi, rho, V, b; those without a head are empty.
    pub columns: [AlignedVec<T>; COLUMNS],
    raw: [AlignedVec<T>; COLUMNS],
    f_norm: AlignedVec<T>, // [views, width]
    d_head: AlignedVec<T>, // [views, the widest head]
    d_norm: AlignedVec<T>, // [views, width]
    open: Open<T>,
}

impl Heads {
    /// Declares the parameters.
    pub fn new(
        layout: &mut ParamLayout,
        section: &ModelSection,
        choices: &Choices,
        spec: &Spec,
        width: usize,
        h_width: Option<usize>,
    ) -> Self {
        let d_v = section.d_v;
        let quadratic = choices.admm() && !choices.tether();
        let is = |kind: ObjectiveKind| choices.admm() && choices.objective == kind;
        let (boxed, dense) = (is(ObjectiveKind::L1Box), is(ObjectiveKind::Dense));
        let constrained = is(ObjectiveKind::Equality) || is(ObjectiveKind::Qp);
        let h = Linear::new(layout, "encoder/h", h_width.unwrap_or(width), d_v, true);
        let h_norm = LayerNorm::new(layout, "encoder/h_norm", d_v);
        let mut head = |wanted: bool, name: &str, output: usize| {
            wanted.then(|| Linear::new(layout, &format!("encoder/{name}"), width, output, true))
        };
        let columns = [
            Some(h),
            head(quadratic, "diag", d_v),
            head(quadratic, "q", d_v),
            head(boxed, "l1", d_v),
            head(boxed, "upper", d_v),
            head(choices.admm() && choices.per_agent, "rho", 1),
            head(dense, "factor", d_v * section.objective_rank),
            head(constrained, "right", section.objective_rows),
        ];
        let low_rank = (choices.admm() && choices.maps == MapKind::LowRank).then(|| {
            let factors = spec.slots * section.rank;
            let name = "encoder/low_rank_norm";
            let norm = match spec.lora_norm {
                LoraNorm::Layer => Norm::Layer(LayerNorm::new(layout, name, width)),
                LoraNorm::Rms => Norm::Rms(RmsNorm::new(layout, name, width)),
            };
            let a = Linear::new(layout, "encoder/low_rank_a", width, factors * section.d_e, true);
            let b = Linear::new(layout, "encoder/low_rank_b", width, factors * d_v, true);
            (norm, a, b)
        });
        let gated = low_rank.is_some() && section.gates;
        let gates = gated.then(|| Gates::new(layout, width, spec.slots));
        Self {
            columns,
            h_norm,
            low_rank,
            gates,
            start: spec.lora_start,
            own_h: h_width.is_some(),
            inequalities: is(ObjectiveKind::Qp),
            l1_init: section.l1_init,
            upper_init: section.upper_init,
            rho_init: section.rho_init,
        }
    }

    /// Sets the precision of the products, forward and adjoint.
    pub fn set_precision(&mut self, precision: Precision) {
        let factors = self.low_rank.iter_mut().flat_map(|(_, a, b)| [a, b]);
        self.columns.iter_mut().flatten().chain(factors).for_each(|head| head.set_precision(precision));
        self.gates.iter_mut().for_each(|gates| gates.set_precision(precision));
    }

    /// Writes the initial values.
    pub fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        for (k, head) in self.columns.iter().enumerate() {
            let Some(head) = head else { continue };
            let constant = match k {
                L1 => Some(self.l1_init),
                HI => Some(self.upper_init),
                RHO => Some(self.rho_init),
                RIGHT if self.inequalities => Some(self.upper_init),
                _ => None,
            };
            match constant {
                Some(start) => head.init_with(params, Init::Zeros, Init::InverseSoftplus(start), stream),
                None => head.init(params, stream),
            }
            if k == H {
                self.h_norm.init(params);
            }
        }
        if let Some((norm, a, b)) = &self.low_rank {
            norm.init(params);
            let (zero, other, a_first) = match self.start {
                LoraStart::ZeroA => (a, b, true),
                LoraStart::ZeroB => (b, a, false),
            };
            if a_first {
                zero.init_with(params, Init::Zeros, Init::Zeros, stream);
                other.init(params, stream);
            } else {
                other.init(params, stream);
                zero.init_with(params, Init::Zeros, Init::Zeros, stream);
            }
        }
        if let Some(gates) = &self.gates {
            gates.init(params, stream);
        }
    }

    /// Whether a column is the output of its linear layer, without softplus.
    fn is_plain(&self, column: usize) -> bool {
        matches!(column, Q | FACTOR) || (column == RIGHT && !self.inequalities)
    }

    /// Width of a column; 0 if there is no head.
    pub fn width_of(&self, column: usize) -> usize {
        self.columns[column].as_ref().map_or(0, Linear::output)
    }

    /// Sizes of A and B of a view; 0 without a LoRA update.
    pub fn factor_lens(&self) -> (usize, usize) {
        self.low_rank.as_ref().map_or((0, 0), |(_, a, b)| (a.output(), b.output()))
    }

    /// Fills the columns. Saves: everything private in `out`.
    pub fn forward<T: Real>(&self, params: &[T], views: usize, f: &[T], f_h: &[T], out: &mut Headed<T>) {
        for (k, head) in self.columns.iter().enumerate() {
            let Some(head) = head else { continue };
            let n = views * head.output();
            out.columns[k].ensure(n);
            out.raw[k].ensure(n);
            let (raw, column) = (&mut out.raw[k][..n], &mut out.columns[k][..n]);
            match k {
                H => {
                    head.forward(params, f_h, raw);
                    self.h_norm.forward(params, raw, column);
                }
                _ if self.is_plain(k) => head.forward(params, f, column),
                _ => {
                    head.forward(params, f, raw);
                    activation::softplus(raw, column);
                }
            }
            if k == DIAG {
                column.iter_mut().for_each(|d| *d += T::from_f64(DIAG_FLOOR));
            }
        }
        if let Some((norm, ..)) = &self.low_rank {
            out.f_norm.ensure(f.len());
            norm.forward(params, f, &mut out.f_norm[..f.len()]);
        }
        if let Some(gates) = &self.gates {
            gates.forward(params, &out.f_norm[..f.len()], views, &mut out.open);
        }
    }

    /// The factors A and B of the views `range`, after [`forward`](Self::forward).
    pub fn factors<T: Real>(
        &self,
        params: &[T],
        range: std::ops::Range<usize>,
        headed: &Headed<T>,
        a: &mut [T],
        b: &mut [T],
    ) {
        if let Some((norm, a_head, b_head)) = &self.low_rank {
            let f_norm = &headed.f_norm[range.start * norm.dim()..range.end * norm.dim()];
            a_head.forward(params, f_norm, a);
            b_head.forward(params, f_norm, b);
        }
        if let Some(gates) = &self.gates {
            gates.apply(range, &headed.open, a);
        }
    }

    /// Adjoint of [`forward`](Self::forward) and [`factors`](Self::factors): adds to `d_f`, `d_f_h` and `d_params`.
    /// Where h has no features of its own, its share goes to `d_f`.
    pub fn vjp<T: Real>(
        &self,
        params: &[T],
        views: usize,
        f: &[T],
        f_h: &[T],
        headed: &mut Headed<T>,
        d_columns: &[AlignedVec<T>; COLUMNS],
        (d_a, d_b): (&[T], &[T]),
        d_f: &mut [T],
        d_f_h: &mut [T],
        d_params: &mut [T],
    ) {
        let Headed { raw, f_norm, d_head, d_norm, open, .. } = headed;
        if let Some((norm, a, b)) = &self.low_rank {
            d_norm.ensure(f.len());
            let (f_norm, d_norm) = (&f_norm[..f.len()], &mut d_norm[..f.len()]);
            d_norm.fill(T::ZERO);
            let d_a = match &self.gates {
                Some(gates) => gates.vjp(params, a, f_norm, d_a, open, d_norm, d_params),
                None => d_a,
            };
            a.vjp(params, f_norm, d_a, Some(d_norm), d_params);
            b.vjp(params, f_norm, d_b, Some(d_norm), d_params);
            norm.vjp(params, f, d_norm, d_f, d_params);
        }
        d_head.ensure(views * self.columns.iter().flatten().map(Linear::output).max().unwrap_or(0));
        for (k, head) in self.columns.iter().enumerate() {
            let Some(head) = head else { continue };
            let n = views * head.output();
            let (d_column, d_head) = (&d_columns[k][..n], &mut d_head[..n]);
            d_head.fill(T::ZERO);
            match k {
                H => {
                    self.h_norm.vjp(params, &raw[k][..n], d_column, Some(d_head), d_params);
                    let to = if self.own_h { &mut *d_f_h } else { &mut *d_f };
                    head.vjp(params, f_h, d_head, Some(to), d_params);
                }
                _ if self.is_plain(k) => head.vjp(params, f, d_column, Some(d_f), d_params),
                _ => {
                    activation::softplus_vjp(&raw[k][..n], d_column, d_head);
                    head.vjp(params, f, d_head, Some(d_f), d_params);
                }
            }
        }
    }
}

impl Norm {
    fn init<T: Real>(&self, params: &mut [T]) {
        match self {
            Self::Layer(norm) => norm.init(params),
            Self::Rms(norm) => norm.init(params),
        }
    }

    fn dim(&self) -> usize {
        match self {
            Self::Layer(norm) => norm.dim(),
            Self::Rms(norm) => norm.dim(),
        }
    }

    fn forward<T: Real>(&self, params: &[T], x: &[T], y: &mut [T]) {
        match self {
            Self::Layer(norm) => norm.forward(params, x, y),
            Self::Rms(norm) => norm.forward(params, x, y),
        }
    }

    fn vjp<T: Real>(&self, params: &[T], x: &[T], d_y: &[T], d_x: &mut [T], d_params: &mut [T]) {
        match self {
            Self::Layer(norm) => norm.vjp(params, x, d_y, Some(d_x), d_params),
            Self::Rms(norm) => norm.vjp(params, x, d_y, Some(d_x), d_params),
        }
    }
}
