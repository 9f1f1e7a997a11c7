//! Maps of distinct views, and their adjoint.

use sheaf_admm::sheaf::{LowRank, LowRankGrad, Sheaf, compose_low_rank, compose_low_rank_vjp, pack_view};
use sheaf_admm::{Real, Result};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::tiles::tile_stacks;
use sheaf_kernels::vector::add;

use super::{Form, ModelMaps};
use crate::model::heads::{Headed, Heads};

/// Number of views whose factors are held at a time before they are packed.
const BLOCK: usize = 64;

/// Maps of the distinct views of some samples.
#[derive(Clone, Debug, Default)]
pub struct MapTable<T: Copy + Default> {
    pub(super) views: usize,
    pub(super) a: AlignedVec<T>, // [views, slots, d_e, rank]; of BLOCK views where they are packed
    pub(super) b: AlignedVec<T>, // [views, slots, d_v, rank]; likewise
    pub(super) stacks: AlignedVec<T>, // [views, d_v, ld]
    pub(super) tiles: AlignedVec<T>, // [views, tile_len]
    pub(super) packed: AlignedVec<T>, // [views, view_len]
}

/// Their gradients.
#[derive(Clone, Debug, Default)]
pub struct MapTableGrad<T: Copy + Default> {
    /// Of A.
    pub a: AlignedVec<T>,
    /// Of B.
    pub b: AlignedVec<T>,
    pub(super) stacks: AlignedVec<T>, // [views, d_v, ld], or [agents, d_v, ld]
}

impl<T: Real> MapTableGrad<T> {
    /// All of them.
    pub(in crate::model) fn slices(&mut self) -> [&mut [T]; 3] {
        [&mut self.a, &mut self.b, &mut self.stacks]
    }
}

impl ModelMaps {
    /// The maps of `views` views, from the head outputs.
    pub fn tabulate<T: Real>(
        &self,
        params: &[T],
        sheaf: &Sheaf,
        heads: &Heads,
        headed: &Headed<T>,
        views: usize,
        t: &mut MapTable<T>,
    ) -> Result<()> {
        t.views = views;
        let (a_len, b_len) = heads.factor_lens();
        let held = if self.form == Form::Packed { views.min(BLOCK) } else { views };
        t.a.ensure(held * a_len);
        t.b.ensure(held * b_len);
        match self.form {
            Form::None | Form::Agents => Ok(()),
            Form::Packed => self.pack(params, sheaf, heads, headed, t),
            Form::Stacks => {
                heads.factors(params, 0..views, headed, &mut t.a[..views * a_len], &mut t.b[..views * b_len]);
                let u = sheaf.as_uniform().expect("learned maps have one size");
                t.stacks.ensure(views * u.d_v * u.ld);
                let stacks = &mut t.stacks[..views * u.d_v * u.ld];
                compose_low_rank(
                    sheaf,
                    &self.low_rank(params, &t.a[..views * a_len], &t.b[..views * b_len]),
                    stacks,
                )?;
                if sheaf.tile_len() > 0 {
                    t.tiles.ensure(views * sheaf.tile_len());
                    tile_stacks(stacks, &mut t.tiles);
                }
                Ok(())
            }
            Form::Shared => {
                heads.factors(params, 0..views, headed, &mut t.a[..views * a_len], &mut t.b[..views * b_len]);
                Ok(())
            }
        }
    }

    fn pack<T: Real>(
        &self,
        params: &[T],
        sheaf: &Sheaf,
        heads: &Heads,
        headed: &Headed<T>,
        t: &mut MapTable<T>,
    ) -> Result<()> {
        let shape = self.shape(sheaf)?;
        let view_len = shape.view_len();
        t.packed.ensure(t.views * view_len);
        if view_len == 0 {
            return Ok(());
        }
        let (a_len, b_len) = heads.factor_lens();
        for first in (0..t.views).step_by(BLOCK) {
            let last = (first + BLOCK).min(t.views);
            let (a, b) = (&mut t.a[..(last - first) * a_len], &mut t.b[..(last - first) * b_len]);
            heads.factors(params, first..last, headed, a, b);
            let packed = t.packed[first * view_len..last * view_len].chunks_exact_mut(view_len);
            for ((a, b), view) in a.chunks_exact(a_len).zip(b.chunks_exact(b_len)).zip(packed) {
                pack_view(shape, a, b, self.scale(), view)?;
            }
        }
        Ok(())
    }

    fn low_rank<'a, T: Real>(&self, params: &'a [T], a: &'a [T], b: &'a [T]) -> LowRank<'a, T> {
        let base = &params[self.base.clone()];
        LowRank { base, a, b, gate: None, rank: self.rank, scale: self.scale(), index: &[] }
    }

    /// Adjoint of [`tabulate`](Self::tabulate) as far as the maps go: fills `table.a` and `table.b`, adds to the base.
    pub fn tabulate_vjp<T: Real>(
        &self,
        params: &[T],
        sheaf: &Sheaf,
        heads: &Heads,
        t: &MapTable<T>,
        table: &mut MapTableGrad<T>,
        d_params: &mut [T],
    ) -> Result<()> {
        if self.form == Form::Agents {
            let d_own = &mut d_params[self.base.clone()];
            let rows = d_own.len() / self.agents;
            let stacks = table.stacks.chunks_exact(self.stack_len(sheaf));
            let mut agents = stacks.zip(d_own.chunks_exact_mut(rows));
            return agents.try_for_each(|(stack, rows)| Sheaf::unpack_stack_add(stack, self.d_v, rows));
        }
        if self.form != Form::Stacks || !self.trained() {
            return Ok(());
        }
        let (a_len, b_len) = heads.factor_lens();
        let u = sheaf.as_uniform().expect("learned maps have one size");
        let MapTableGrad { a, b, stacks } = table;
        let low = self.low_rank(params, &t.a[..t.views * a_len], &t.b[..t.views * b_len]);
        let base = &mut d_params[self.base.clone()];
        let (a, b) = (&mut a[..t.views * a_len], &mut b[..t.views * b_len]);
        let mut grad = LowRankGrad { base, a, b, gate: None };
        compose_low_rank_vjp(sheaf, &low, &stacks[..t.views * u.d_v * u.ld], &mut grad)
    }

    /// Zeros for this many views.
    pub fn reset_grad<T: Real>(
        &self,
        sheaf: &Sheaf,
        heads: &Heads,
        views: usize,
        table: &mut MapTableGrad<T>,
    ) {
        let (a_len, b_len) = heads.factor_lens();
        let u = sheaf.as_uniform().expect("learned maps have one size");
        let stacks = match self.form {
            Form::Stacks => views * u.d_v * u.ld,
            Form::Agents => self.agents * u.d_v * u.ld,
            _ => 0,
        };
        for (buffer, len) in
            [(&mut table.a, views * a_len), (&mut table.b, views * b_len), (&mut table.stacks, stacks)]
        {
            buffer.ensure(len);
            buffer[..len].fill(T::ZERO);
        }
    }
}

impl<T: Real> MapTableGrad<T> {
    /// Adds gradients of the same views from another table.
    pub fn add(&mut self, other: &Self) {
        add(&mut self.a, &other.a);
        add(&mut self.b, &other.b);
        add(&mut self.stacks, &other.stacks);
    }
}
