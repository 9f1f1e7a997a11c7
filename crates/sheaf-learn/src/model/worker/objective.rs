//! The local objectives of the current samples, made of head outputs and shared parameters, and their gradients.
//!
//! | family | made of |
//! | --- | --- |
//! | diagonal ones | D, q, and possibly l1 and hi |
//! | tether | h and the scalar β |
//! | dense | Q = diag(D) + V Vᵀ, q |
//! | equality | D, q, A x = b with A shared by all agents and b per agent |
//! | qp | D, q, G x ≤ g with G shared and g per agent, x ≥ 0 |

use sheaf_admm::Real;
use sheaf_admm::x_update::{
    Coefficient, Curvature, Dense, DenseGrad, Diagonal, DiagonalGrad, Equality, EqualityGrad, Objective,
    ObjectiveGrad, Qp, QpGrad, Tether, TetherGrad,
};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::gemm::{Mat, gemm};
use sheaf_kernels::vector::add;

use super::{ChunkGrad, Columns, Setting};
use crate::model::ObjectiveKind;
use crate::model::heads::{DIAG, FACTOR, H, HI, L1, Q, RIGHT};
use crate::model::net::{Decoder, Encoder};

/// What the objectives need beyond the head outputs.
#[derive(Debug, Default)]
pub(super) struct Parts<T: Copy + Default> {
    quad: AlignedVec<T>,   // [agents, d_v, d_v], dense
    rows: Vec<usize>,      // [agents], the number of constraints
    shared: AlignedVec<T>, // [agents, rows, d_v], a copy of A or G per agent
}

impl<T: Real> Parts<T> {
    /// Prepares the objectives of `agents` agents.
    pub fn prepare<E: Encoder, D: Decoder>(
        &mut self,
        at: &Setting<'_, T, E, D>,
        agents: usize,
        columns: &Columns<T>,
    ) {
        let d_v = at.model.section.d_v;
        match at.model.choices.objective {
            ObjectiveKind::Dense => {
                let rank = at.model.section.objective_rank;
                self.quad.ensure(agents * d_v * d_v);
                let blocks = self.quad.chunks_exact_mut(d_v * d_v).take(agents);
                let factors = columns[FACTOR].chunks_exact(d_v * rank);
                for ((quad, v), diag) in blocks.zip(factors).zip(columns[DIAG].chunks_exact(d_v)) {
                    let v = Mat::new(v, d_v, rank);
                    gemm(quad, v, v.t(), T::ONE, T::ZERO);
                    quad.iter_mut().step_by(d_v + 1).zip(diag).for_each(|(q, &d)| *q += d);
                }
            }
            ObjectiveKind::Equality | ObjectiveKind::Qp => {
                let own = &at.params[at.model.constraints()];
                self.rows.resize(agents, 0);
                self.rows.fill(own.len() / d_v);
                self.shared.ensure(agents * own.len());
                let copies = self.shared.chunks_exact_mut(own.len()).take(agents);
                copies.for_each(|copy| copy.copy_from_slice(own));
            }
            _ => {}
        }
    }

    /// The objectives of `agents` agents.
    pub fn objective<'c, E: Encoder, D: Decoder>(
        &'c self,
        at: &Setting<'_, T, E, D>,
        agents: usize,
        columns: &'c Columns<T>,
    ) -> Objective<'c, T> {
        let n = agents * at.model.section.d_v;
        let of = |column: usize| &columns[column][..n];
        let kind = at.model.choices.objective;
        if kind == ObjectiveKind::Tether {
            return Objective::Tether(Tether { anchor: of(H), beta: at.prepared.beta });
        }
        let zero = Some(Coefficient::Scalar(T::ZERO));
        let (quad, q) = (Curvature::Diagonal(of(DIAG)), of(Q));
        let (rows, right) = (&self.rows[..], &columns[RIGHT][..self.rows.iter().sum()]);
        let shared = &self.shared[..right.len() * at.model.section.d_v];
        let plain = Diagonal::new(of(DIAG), q);
        Objective::Diagonal(match kind {
            ObjectiveKind::Dense => {
                let quad = &self.quad[..n * at.model.section.d_v];
                return Objective::Dense(Dense { quad, q });
            }
            ObjectiveKind::Equality => {
                return Objective::Equality(Equality { quad, q, rows, a: shared, b: right });
            }
            ObjectiveKind::Qp => {
                let bounds = Qp { in_rows: rows, g: shared, h: right, lo: zero, ..Qp::new(quad, q) };
                return Objective::Qp(bounds);
            }
            ObjectiveKind::L1Box => Diagonal {
                l1: Some(Coefficient::PerCoordinate(of(L1))),
                lo: zero,
                hi: Some(Coefficient::PerCoordinate(of(HI))),
                ..plain
            },
            ObjectiveKind::NonNegative => Diagonal { lo: zero, ..plain },
            ObjectiveKind::Lasso if at.model.section.l1 > 0.0 => {
                let weight = T::from_f64(at.model.section.l1);
                Diagonal { l1: Some(Coefficient::Scalar(weight)), ..plain }
            }
            _ => plain,
        })
    }
}

/// Gradients of [`Parts`] for a reverse sweep.
#[derive(Debug, Default)]
pub(super) struct PartsGrad<T: Copy + Default> {
    quad: AlignedVec<T>,   // [agents, d_v, d_v]
    shared: AlignedVec<T>, // [agents, rows, d_v]
    beta: T,
}

impl<T: Real> PartsGrad<T> {
    /// Where the solver accumulates the gradients of the objectives: here and in `d_columns`, which are zero.
    pub fn begin<'g, E: Encoder, D: Decoder>(
        &'g mut self,
        at: &Setting<'_, T, E, D>,
        parts: &Parts<T>,
        agents: usize,
        d_columns: &'g mut Columns<T>,
    ) -> ObjectiveGrad<'g, T> {
        let d_v = at.model.section.d_v;
        let n = agents * d_v;
        let boxed = at.model.choices.objective == ObjectiveKind::L1Box;
        let [d_h, d_diag, d_q, d_l1, d_hi, _, _, d_right] = d_columns.each_mut();
        self.beta = T::ZERO;
        match at.model.choices.objective {
            ObjectiveKind::Tether => {
                let (anchor, beta) = (Some(&mut d_h[..n]), Some(&mut self.beta));
                ObjectiveGrad::Tether(TetherGrad { anchor, beta })
            }
            ObjectiveKind::Dense => {
                let quad = Some(zeroed(&mut self.quad, n * d_v));
                ObjectiveGrad::Dense(DenseGrad { quad, q: Some(&mut d_q[..n]) })
            }
            kind @ (ObjectiveKind::Equality | ObjectiveKind::Qp) => {
                let rows: usize = parts.rows.iter().sum();
                let shared = Some(zeroed(&mut self.shared, rows * d_v));
                let (quad, q) = (Some(&mut d_diag[..n]), Some(&mut d_q[..n]));
                let right = Some(&mut d_right[..rows]);
                match kind {
                    ObjectiveKind::Equality => {
                        ObjectiveGrad::Equality(EqualityGrad { quad, q, a: shared, b: right })
                    }
                    _ => ObjectiveGrad::Qp(QpGrad { quad, q, g: shared, h: right, ..QpGrad::default() }),
                }
            }
            _ => ObjectiveGrad::Diagonal(DiagonalGrad {
                diag: Some(&mut d_diag[..n]),
                q: Some(&mut d_q[..n]),
                l1: boxed.then(|| &mut d_l1[..n]),
                hi: boxed.then(|| &mut d_hi[..n]),
                ..DiagonalGrad::default()
            }),
        }
    }

    /// Adjoint of [`Parts::prepare`]: adds to `d_columns` and to the parameters.
    pub fn finish<E: Encoder, D: Decoder>(
        &mut self,
        at: &Setting<'_, T, E, D>,
        agents: usize,
        columns: &Columns<T>,
        d_columns: &mut Columns<T>,
        chunk: &mut ChunkGrad<T>,
    ) {
        let (model, d_v) = (at.model, at.model.section.d_v);
        match model.choices.objective {
            ObjectiveKind::Tether => {
                if let Some(place) = &model.beta {
                    chunk.params[place.start] += self.beta * model.beta(at.params).1;
                }
            }
            ObjectiveKind::Dense => {
                let rank = model.section.objective_rank;
                let [_, d_diag, _, _, _, _, d_factor, _] = d_columns.each_mut();
                let blocks = self.quad.chunks_exact(d_v * d_v).take(agents);
                let factors =
                    columns[FACTOR].chunks_exact(d_v * rank).zip(d_factor.chunks_exact_mut(d_v * rank));
                for ((d_quad, (v, d_v_block)), d_diag) in
                    blocks.zip(factors).zip(d_diag.chunks_exact_mut(d_v))
                {
                    d_diag.iter_mut().zip(d_quad.iter().step_by(d_v + 1)).for_each(|(d, &q)| *d += q);
                    let (d_quad, v) = (Mat::new(d_quad, d_v, d_v), Mat::new(v, d_v, rank));
                    gemm(d_v_block, d_quad, v, T::ONE, T::ONE);
                    gemm(d_v_block, d_quad.t(), v, T::ONE, T::ONE);
                }
            }
            ObjectiveKind::Equality | ObjectiveKind::Qp => {
                let own = &mut chunk.params[model.constraints()];
                self.shared.chunks_exact(own.len()).take(agents).for_each(|d| add(own, d));
            }
            _ => {}
        }
    }
}

/// The first `len` numbers of a buffer, all zero.
pub(super) fn zeroed<T: Real>(buffer: &mut AlignedVec<T>, len: usize) -> &mut [T] {
    buffer.ensure(len);
    buffer[..len].fill(T::ZERO);
    &mut buffer[..len]
}
