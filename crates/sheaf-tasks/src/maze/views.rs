//! What each agent sees, and each distinct view once.
//!
//! Agent (k, l) of the grid has its centre at row `patch/2 + k·stride` and column `patch/2 + l·stride`, for as long as
//! the centre is inside; its view is the `patch × patch` pixels from (k·stride, l·stride) on. Pixels beyond the border
//! look like walls and do not count in the loss.
//!
//! A batch has thousands of views and about a hundred distinct ones, so views are packed into one number each, three
//! bits a pixel, first pixel highest: [`DistinctViews`] lists the different numbers in increasing order and says for
//! every agent which one it sees. What is computed from a view alone is computed once per distinct view.
//!
//! | name | shape |
//! | --- | --- |
//! | `tokens`, `labels` | `[samples, height, width]` |
//! | [`DistinctViews::index`] | `[samples, agents]` |
//! | [`DistinctViews::codes`] | `[distinct]` |
//! | one-hot view | `[patch, patch, CLASSES]` |

use sheaf_admm::{Error, ErrorKind, Real, Result};

use super::{CLASSES, UNUSED, WALL};

/// Bits of one pixel in a packed view.
const BITS: usize = 3;

/// Agents laid over a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ViewGrid {
    height: usize,
    width: usize,
    patch: usize,
    stride: usize,
    rows: usize,
    columns: usize,
}

impl ViewGrid {
    /// Agents with `patch × patch` views every `stride` pixels over a `height × width` picture.
    pub fn new(height: usize, width: usize, patch: usize, stride: usize) -> Result<Self> {
        if !(1..=6).contains(&patch) {
            return Err(Error::new(ErrorKind::Unsupported, "patch", "1 to 6 pixels", patch));
        }
        if stride == 0 {
            return Err(Error::new(ErrorKind::NotPositive, "stride", "at least 1 pixel", stride));
        }
        let agents = |pixels: usize| pixels.saturating_sub(patch / 2).div_ceil(stride);
        let (rows, columns) = (agents(height), agents(width));
        if rows == 0 || columns == 0 {
            return Err(Error::new(
                ErrorKind::Shape,
                "picture",
                format_args!("more than {} pixels each way, so that a view has its centre inside", patch / 2),
                format_args!("{height} × {width}"),
            ));
        }
        Ok(Self { height, width, patch, stride, rows, columns })
    }

    /// The published maze agents: 3×3 views, every second pixel.
    pub fn maze(height: usize, width: usize) -> Result<Self> {
        Self::new(height, width, 3, 2)
    }

    /// Rows of pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Columns of pixels.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Pixels of the picture.
    pub fn pixels(&self) -> usize {
        self.height * self.width
    }

    /// Pixels of a view along one side.
    pub fn patch(&self) -> usize {
        self.patch
    }

    /// Pixels of a view.
    pub fn view_pixels(&self) -> usize {
        self.patch * self.patch
    }

    /// Rows of agents.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of agents.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of agents.
    pub fn agents(&self) -> usize {
        self.rows * self.columns
    }

    /// Row and column of the first pixel an agent sees.
    pub fn corner(&self, agent: usize) -> (usize, usize) {
        (agent / self.columns * self.stride, agent % self.columns * self.stride)
    }

    /// Row and column of an agent's centre.
    pub fn centre(&self, agent: usize) -> (usize, usize) {
        let (row, column) = self.corner(agent);
        (row + self.patch / 2, column + self.patch / 2)
    }

    /// How many agents see a pixel: the product of the counts along each side.
    pub fn coverage(&self, row: usize, column: usize) -> usize {
        let along = |pixel: usize, agents: usize| {
            let first = (pixel + 1).saturating_sub(self.patch).div_ceil(self.stride);
            (pixel / self.stride + 1).min(agents).saturating_sub(first)
        };
        along(row, self.rows) * along(column, self.columns)
    }

    /// Picture index of each pixel of an agent's view, `None` beyond the border; row by row.
    pub fn view(&self, agent: usize) -> impl Iterator<Item = Option<usize>> + use<> {
        let Self { height, width, patch, .. } = *self;
        let (top, left) = self.corner(agent);
        (0..patch * patch).map(move |i| {
            let (row, column) = (top + i / patch, left + i % patch);
            (row < height && column < width).then_some(row * width + column)
        })
    }

    /// The packed view of an agent.
    #[inline]
    fn code(&self, tokens: &[u8], agent: usize) -> u128 {
        let (top, left) = self.corner(agent);
        let inside = top + self.patch <= self.height && left + self.patch <= self.width;
        let pack = |code: u128, token: u8| code << BITS | u128::from(token & 7);
        if !inside {
            return self.view(agent).map(|p| p.map_or(WALL, |p| tokens[p])).fold(0, pack);
        }
        (0..self.patch).fold(0, |code, r| {
            tokens[(top + r) * self.width + left..][..self.patch].iter().fold(code, |c, &t| pack(c, t))
        })
    }

    /// The label of every pixel every agent sees. Pixels beyond the border, which the loss leaves out, become
    /// [`UNUSED`], a token no label has.
    pub fn label_patches(
        &self,
        labels: &[u8],      // [height, width]
        patches: &mut [u8], // [agents, patch, patch]
    ) {
        debug_assert_eq!(labels.len(), self.pixels());
        debug_assert_eq!(patches.len(), self.agents() * self.view_pixels());
        for (agent, patch) in patches.chunks_exact_mut(self.view_pixels()).enumerate() {
            for (out, pixel) in patch.iter_mut().zip(self.view(agent)) {
                *out = pixel.map_or(UNUSED, |p| labels[p]);
            }
        }
    }

    /// 1 for the pixels of each view inside the picture, 0 beyond the border.
    pub fn masks<T: Real>(
        &self,
        masks: &mut [T], // [agents, patch, patch]
    ) {
        debug_assert_eq!(masks.len(), self.agents() * self.view_pixels());
        for (agent, mask) in masks.chunks_exact_mut(self.view_pixels()).enumerate() {
            for (out, pixel) in mask.iter_mut().zip(self.view(agent)) {
                *out = if pixel.is_some() { T::ONE } else { T::ZERO };
            }
        }
    }
}

/// The tokens of a packed view, row by row.
pub fn unpack(
    code: u128,
    view: &mut [u8], // [patch, patch]
) {
    let pixels = view.len();
    for (i, token) in view.iter_mut().enumerate() {
        *token = (code >> (BITS * (pixels - 1 - i))) as u8 & 7;
    }
}

/// A packed view as the encoder takes it: one number 1 among zeros for each pixel. Tokens without a class stay zero.
pub fn one_hot<T: Real>(
    code: u128,
    view: &mut [T], // [patch, patch, CLASSES]
) {
    view.fill(T::ZERO);
    let pixels = view.len() / CLASSES;
    for (i, classes) in view.chunks_exact_mut(CLASSES).enumerate() {
        let token = (code >> (BITS * (pixels - 1 - i))) as usize & 7;
        if let Some(class) = classes.get_mut(token) {
            *class = T::ONE;
        }
    }
}

/// The different views of a batch and who sees which; a hash table whose memory is kept from batch to batch.
#[derive(Clone, Debug, Default)]
pub struct DistinctViews {
    index: Vec<u32>,   // [samples, agents]
    codes: Vec<u128>,  // [distinct], increasing
    table: Vec<Place>, // open addressing, a power of two long, at most half full
    batch: u32,        // places stamped with another number are free
    order: Vec<u32>,   // [distinct]: where each sorted code was seen first
    rank: Vec<u32>,    // [distinct]: where each code seen has gone
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    code: u128,
    number: u32,
    batch: u32,
}

impl DistinctViews {
    /// Collects the views of all agents of all samples. The result depends on the pictures alone.
    pub fn collect(
        &mut self,
        grid: &ViewGrid,
        tokens: &[u8], // [samples, height, width]
    ) {
        debug_assert!(tokens.len().is_multiple_of(grid.pixels()));
        self.clear();
        for picture in tokens.chunks_exact(grid.pixels()) {
            for agent in 0..grid.agents() {
                let number = self.number_of(grid.code(picture, agent));
                self.index.push(number);
            }
        }
        self.sort();
    }

    /// For each agent the place of its view in [`codes`](Self::codes), `[samples, agents]`.
    pub fn index(&self) -> &[u32] {
        &self.index
    }

    /// The different packed views in increasing order, `[distinct]`; see [`unpack`] and [`one_hot`].
    pub fn codes(&self) -> &[u128] {
        &self.codes
    }

    /// Number of different views.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Whether nothing has been collected.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    fn clear(&mut self) {
        self.index.clear();
        self.codes.clear();
        if self.table.is_empty() {
            self.table.resize(1024, Place::default());
        }
        self.batch = self.batch.wrapping_add(1);
        if self.batch == 0 {
            // The stamps have gone round once: places of 2^32 batches ago would look taken.
            self.table.fill(Place::default());
            self.batch = 1;
        }
    }

    /// The number of a view in the order of first sight.
    #[inline]
    fn number_of(&mut self, code: u128) -> u32 {
        let place = find(&self.table, self.batch, code);
        if self.table[place].batch == self.batch {
            return self.table[place].number;
        }
        let number = self.codes.len() as u32;
        self.codes.push(code);
        self.table[place] = Place { code, number, batch: self.batch };
        if 2 * self.codes.len() > self.table.len() {
            self.grow();
        }
        number
    }

    #[cold]
    fn grow(&mut self) {
        let size = 4 * self.table.len();
        self.table.clear();
        self.table.resize(size, Place::default());
        for (number, &code) in self.codes.iter().enumerate() {
            let place = find(&self.table, self.batch, code);
            self.table[place] = Place { code, number: number as u32, batch: self.batch };
        }
    }

    /// Renumbers from the order of first sight to increasing codes, so that the order of samples does not matter.
    fn sort(&mut self) {
        let Self { index, codes, order, rank, .. } = self;
        order.clear();
        order.extend(0..codes.len() as u32);
        order.sort_unstable_by_key(|&number| codes[number as usize]);
        rank.clear();
        rank.resize(codes.len(), 0);
        for (sorted, &number) in order.iter().enumerate() {
            rank[number as usize] = sorted as u32;
        }
        index.iter_mut().for_each(|number| *number = rank[*number as usize]);
        codes.sort_unstable();
    }
}

/// Where a code is, or the free place where it belongs.
#[inline]
fn find(table: &[Place], batch: u32, code: u128) -> usize {
    let mixed = (code as u64 ^ (code >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut place = (mixed >> (64 - table.len().trailing_zeros())) as usize;
    while table[place].batch == batch && table[place].code != code {
        place = (place + 1) & (table.len() - 1);
    }
    place
}
