//! The setting in which samples are solved, and the problem it defines.

use sheaf_admm::admm::Problem;
use sheaf_admm::sheaf::Sheaf;
use sheaf_admm::x_update::{Coefficient, Diagonal, Objective, Penalty, Tether};
use sheaf_admm::{Real, Result};
use sheaf_kernels::aligned::AlignedVec;

use crate::model::heads::{COLUMNS, DIAG, H, HI, L1, Q, RHO};
use crate::model::maps::MapIndex;
use crate::model::net::{Decoder, Encoder};
use crate::model::tables::Tables;
use crate::model::{Model, ObjectiveKind, Prepared};

/// The setting in which samples are solved: a model, its parameters, and the tables of their views.
#[derive(Debug)]
pub struct Setting<'a, T: Real, E: Encoder, D: Decoder> {
    /// The model.
    pub model: &'a Model<E, D>,
    /// Its parameters.
    pub params: &'a [T],
    /// The agents.
    pub sheaf: &'a Sheaf,
    /// What depends only on the parameters.
    pub prepared: &'a Prepared<T, D>,
    /// What depends on the views.
    pub tables: &'a Tables<T, E, D>,
}

impl<T: Real, E: Encoder, D: Decoder> Clone for Setting<'_, T, E, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Real, E: Encoder, D: Decoder> Copy for Setting<'_, T, E, D> {}

impl<T: Real, E: Encoder, D: Decoder> Setting<'_, T, E, D> {
    /// Whether a column of the heads is read.
    pub(super) fn reads(&self, column: usize) -> bool {
        let c = &self.model.choices;
        match column {
            H => c.start_at_h || c.objective == ObjectiveKind::Tether,
            _ => self.model.heads.width_of(column) > 0,
        }
    }

    fn objective<'c>(&self, columns: &'c [AlignedVec<T>; COLUMNS], n: usize) -> Objective<'c, T> {
        let of = |column: usize| &columns[column][..n];
        if self.model.choices.objective == ObjectiveKind::Tether {
            return Objective::Tether(Tether { anchor: of(H), beta: self.prepared.beta });
        }
        let plain = Diagonal::new(of(DIAG), of(Q));
        let zero = Some(Coefficient::Scalar(T::ZERO));
        Objective::Diagonal(match self.model.choices.objective {
            ObjectiveKind::L1Box => Diagonal {
                l1: Some(Coefficient::PerCoordinate(of(L1))),
                lo: zero,
                hi: Some(Coefficient::PerCoordinate(of(HI))),
                ..plain
            },
            ObjectiveKind::NonNegative => Diagonal { lo: zero, ..plain },
            ObjectiveKind::Lasso if self.model.section.l1 > 0.0 => {
                let weight = T::from_f64(self.model.section.l1);
                Diagonal { l1: Some(Coefficient::Scalar(weight)), ..plain }
            }
            _ => plain,
        })
    }

    pub(super) fn problem<'c>(
        &'c self,
        index: &'c [u32],
        columns: &'c [AlignedVec<T>; COLUMNS],
        maps: &'c MapIndex<T>,
    ) -> Result<Problem<'c, T>> {
        let agents = index.len();
        let n = agents * self.model.section.d_v;
        Ok(Problem {
            op: self.model.maps.op(self.sheaf, &self.prepared.maps, &self.tables.maps, index, maps)?,
            objective: self.objective(columns, n),
            z_update: self.prepared.z_update(),
            rho: match self.model.choices.per_agent {
                true => Penalty::PerAgent(&columns[RHO][..agents]),
                false => Penalty::Scalar(self.prepared.rho),
            },
            relax: T::from_f64(self.model.section.relaxation),
        })
    }
}
