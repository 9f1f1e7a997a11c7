//! What each agent sees, and each distinct view once.
//!
//! Agents stand on a grid (see [`ViewGrid`]) and see `patch × patch` pixels; beyond the border is black. In a batch of
//! digits two agents of three see nothing but black, and most other views are seen by one agent alone: a batch of 128
//! has 10,368 views and about 3,300 distinct ones. What is computed from a view alone is computed once per distinct
//! view, and its gradient is added up over all who see it.
//!
//! Views are numbered in the order of first sight, the black one first, so that the views first seen in one piece of
//! the batch have consecutive numbers. A piece of the batch adds its gradients to rows of its own: those of the views
//! it saw first, and one *extra* row for each older view it meets. Pieces then never write to the same row, and the
//! extra rows are added to their views' in a fixed order.
//!
//! | name | shape |
//! | --- | --- |
//! | `images` | `[samples, height, width]` |
//! | [`DistinctViews::index`] | `[samples, agents]` |
//! | [`DistinctViews::patches`] | `[distinct, patch, patch]` |

use std::ops::Range;

use sheaf_admm::Real;

pub use crate::maze::views::ViewGrid;

/// The number of the black view.
pub const BLACK: u32 = 0;

/// The different views of a batch and who sees which; memory is kept from batch to batch.
#[derive(Clone, Debug, Default)]
pub struct DistinctViews<T> {
    index: Vec<u32>,   // [samples, agents]
    patches: Vec<T>,   // [distinct, patch²]
    len: usize,        // distinct
    firsts: Vec<u32>,  // [samples + 1]: views seen before each sample
    table: Vec<Place>, // open addressing, a power of two long, at most half full
    batch: u32,        // places stamped with another number are free
    view: Vec<T>,      // [patch²], the one being looked up
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    hash: u64,
    number: u32,
    batch: u32,
}

impl<T: Real> DistinctViews<T> {
    /// Collects the views of all agents of all samples; agents marked in `dropped` see black.
    pub fn collect(
        &mut self,
        grid: &ViewGrid,
        images: &[T],             // [samples, height, width]
        dropped: Option<&[bool]>, // [samples, agents]
    ) {
        debug_assert!(images.len().is_multiple_of(grid.pixels()));
        self.clear(grid.view_pixels());
        for (sample, image) in images.chunks_exact(grid.pixels()).enumerate() {
            self.firsts.push(if sample == 0 { 0 } else { self.len as u32 });
            for agent in 0..grid.agents() {
                let black = dropped.is_some_and(|d| d[sample * grid.agents() + agent]);
                let seen = !black && self.look(grid, image, agent);
                let number = if seen { self.number_of() } else { BLACK };
                self.index.push(number);
            }
        }
        self.firsts.push(self.len as u32);
    }

    /// For each agent the number of its view, `[samples, agents]`.
    pub fn index(&self) -> &[u32] {
        &self.index
    }

    /// The different views, `[distinct, patch²]`.
    pub fn patches(&self) -> &[T] {
        &self.patches
    }

    /// Number of different views; at least one, the black view, once anything was collected.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing has been collected.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The views first seen in these samples. The black view counts as seen in sample 0.
    pub fn first_seen(&self, samples: Range<usize>) -> Range<usize> {
        self.firsts[samples.start] as usize..self.firsts[samples.end] as usize
    }

    fn clear(&mut self, pixels: usize) {
        self.index.clear();
        self.firsts.clear();
        self.patches.clear();
        self.patches.resize(pixels, T::ZERO);
        self.view.resize(pixels, T::ZERO);
        self.len = 1;
        if self.table.is_empty() {
            self.table.resize(1 << 14, Place::default());
        }
        self.batch = self.batch.wrapping_add(1);
        if self.batch == 0 {
            // The stamps have gone round once: places of 2^32 batches ago would look taken.
            self.table.fill(Place::default());
            self.batch = 1;
        }
    }

    /// Copies an agent's view; false where it is black.
    #[inline]
    fn look(&mut self, grid: &ViewGrid, image: &[T], agent: usize) -> bool {
        let mut seen = false;
        for (to, pixel) in self.view.iter_mut().zip(grid.view(agent)) {
            *to = pixel.map_or(T::ZERO, |p| image[p]);
            seen |= *to != T::ZERO;
        }
        seen
    }

    /// The number of the view last looked at.
    fn number_of(&mut self) -> u32 {
        let hash = hash(&self.view);
        let place = self.find(hash);
        if self.table[place].batch == self.batch {
            return self.table[place].number;
        }
        let number = self.len as u32;
        self.len += 1;
        self.patches.extend_from_slice(&self.view);
        self.table[place] = Place { hash, number, batch: self.batch };
        if 2 * self.len > self.table.len() {
            self.grow();
        }
        number
    }

    /// Where the view last looked at is, or the free place where it belongs.
    #[inline]
    fn find(&self, hash: u64) -> usize {
        let (pixels, last) = (self.view.len(), self.table.len() - 1);
        let mut place = home(hash, self.table.len());
        loop {
            let at = self.table[place];
            let same = || self.patches[at.number as usize * pixels..][..pixels] == self.view[..];
            if at.batch != self.batch || (at.hash == hash && same()) {
                return place;
            }
            place = (place + 1) & last;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = 4 * self.table.len();
        let old = std::mem::replace(&mut self.table, vec![Place::default(); size]);
        for at in old.into_iter().filter(|at| at.batch == self.batch) {
            let mut place = home(at.hash, size);
            while self.table[place].batch == self.batch {
                place = (place + 1) & (size - 1);
            }
            self.table[place] = at;
        }
    }
}

fn hash<T: Real>(view: &[T]) -> u64 {
    view.iter().fold(0x9e37_79b9_7f4a_7c15, |h: u64, p| {
        (h.rotate_left(23) ^ p.to_f64().to_bits()).wrapping_mul(0xff51_afd7_ed55_8ccd)
    })
}

/// Where the search for a hash begins in a table of this size, a power of two.
fn home(hash: u64, size: usize) -> usize {
    (hash >> (64 - size.trailing_zeros())) as usize
}

/// Which gradient rows the pieces of a batch write to; see the module's introduction.
#[derive(Clone, Debug, Default)]
pub struct GradRows {
    rows: Vec<u32>,         // [samples, agents]: row within the piece
    own: Vec<u32>,          // [pieces + 1]: first view of each piece
    extra: Vec<u32>,        // [pieces + 1]: first extra row of each piece
    extra_view: Vec<u32>,   // [extras]: the view each extra row belongs to
    stamp: Vec<(u32, u32)>, // [distinct]: (piece, row within the piece) of the last meeting
}

impl GradRows {
    /// Assigns rows for pieces of `per_piece` samples.
    pub fn assign<T: Real>(&mut self, views: &DistinctViews<T>, agents: usize, per_piece: usize) {
        let samples = views.index.len() / agents;
        self.rows.clear();
        self.own.clear();
        self.extra.clear();
        self.extra_view.clear();
        self.stamp.clear();
        self.stamp.resize(views.len, (u32::MAX, 0));
        for first in (0..samples).step_by(per_piece) {
            let last = (first + per_piece).min(samples);
            let (piece, own) = (self.own.len() as u32, views.first_seen(first..last));
            let before = self.extra_view.len();
            self.own.push(own.start as u32);
            self.extra.push(before as u32);
            for &view in &views.index[first * agents..last * agents] {
                let at = &mut self.stamp[view as usize];
                if at.0 != piece {
                    let row = if view as usize >= own.start {
                        view as usize - own.start
                    } else {
                        self.extra_view.push(view);
                        own.len() + self.extra_view.len() - 1 - before
                    };
                    *at = (piece, row as u32);
                }
                self.rows.push(at.1);
            }
        }
        self.own.push(views.len as u32);
        self.extra.push(self.extra_view.len() as u32);
    }

    /// The row, within its piece, of every agent's gradient, `[samples, agents]`.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Rows of a whole gradient table: one for every view, then the extra ones.
    pub fn len(&self) -> usize {
        self.own.last().map_or(0, |&n| n as usize) + self.extra_view.len()
    }

    /// Whether nothing was assigned.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The view each extra row belongs to.
    pub fn extra_views(&self) -> &[u32] {
        &self.extra_view
    }

    /// Cuts a table `[len, width]` into each piece's own rows and extra rows.
    pub fn cut<'t, T>(&self, table: &'t mut [T], width: usize) -> Vec<PieceRows<'t, T>> {
        let views = self.own.last().map_or(0, |&n| n as usize);
        let (mut own, mut extra) = table[..self.len() * width].split_at_mut(views * width);
        let pieces = self.own.len().saturating_sub(1);
        let mut cut = Vec::with_capacity(pieces);
        for piece in 0..pieces {
            let count = |starts: &[u32]| (starts[piece + 1] - starts[piece]) as usize * width;
            let (mine, rest) = own.split_at_mut(count(&self.own));
            own = rest;
            let (more, rest) = extra.split_at_mut(count(&self.extra));
            extra = rest;
            cut.push(PieceRows { own: mine, extra: more, width });
        }
        cut
    }
}

/// The rows of a gradient table that one piece of a batch writes to.
#[derive(Debug)]
pub struct PieceRows<'t, T> {
    own: &'t mut [T],
    extra: &'t mut [T],
    width: usize,
}

impl<T: Real> PieceRows<'_, T> {
    /// All zeros.
    pub fn clear(&mut self) {
        self.own.fill(T::ZERO);
        self.extra.fill(T::ZERO);
    }

    /// A row, counted as [`GradRows::rows`] does.
    #[inline]
    pub fn row(&mut self, row: u32) -> &mut [T] {
        let start = row as usize * self.width;
        if start < self.own.len() {
            &mut self.own[start..start + self.width]
        } else {
            &mut self.extra[start - self.own.len()..][..self.width]
        }
    }
}
