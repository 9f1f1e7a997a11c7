//! Agents on a grid over a picture, each with a square view.
//!
//! Agent (k, l) has its centre at row `patch/2 + k·stride` and column `patch/2 + l·stride`, as long as the centre is
//! inside the picture; its view is the `patch × patch` pixels starting at (k·stride, l·stride). The task chooses the
//! value of pixels beyond the border.

use sheaf_admm::{Error, ErrorKind, Real, Result};

/// A grid of agents over a picture.
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
        if !(1..=64).contains(&patch) {
            return Err(Error::new(ErrorKind::Unsupported, "patch", "1 to 64 pixels", patch));
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

    /// Row and column of the first pixel of an agent's view.
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

    /// Writes the views of all agents on a picture, with `outside` beyond the border.
    pub fn views<P: Copy, V: Copy>(
        &self,
        picture: &[P], // [height, width]
        outside: V,
        value: impl Fn(P) -> V,
        out: &mut [V], // [agents, patch, patch]
    ) {
        let Self { height, width, patch, .. } = *self;
        for (agent, view) in out.chunks_exact_mut(patch * patch).enumerate() {
            let (top, left) = self.corner(agent);
            for (r, line) in view.chunks_exact_mut(patch).enumerate() {
                let inside = if top + r < height { (width - left).min(patch) } else { 0 };
                let from = if inside > 0 { &picture[(top + r) * width + left..][..inside] } else { &[] };
                line.iter_mut().zip(from).for_each(|(to, &from)| *to = value(from));
                line[inside..].fill(outside);
            }
        }
    }

    /// Averages, for each pixel, the `channels` values of the agents that see it. Pixels that no agent sees become
    /// zero.
    pub fn average<T: Real>(
        &self,
        channels: usize,
        outputs: &[T],     // [agents, patch, patch, channels]
        picture: &mut [T], // [height, width, channels]
    ) {
        picture.fill(T::ZERO);
        for (agent, view) in outputs.chunks_exact(self.view_pixels() * channels).enumerate() {
            for (numbers, pixel) in view.chunks_exact(channels).zip(self.view(agent)) {
                let Some(pixel) = pixel else { continue };
                let sums = picture[pixel * channels..][..channels].iter_mut();
                sums.zip(numbers).for_each(|(sum, &n)| *sum += n);
            }
        }
        for (pixel, numbers) in picture.chunks_exact_mut(channels).enumerate() {
            let seen = self.coverage(pixel / self.width, pixel % self.width);
            if seen > 1 {
                let share = T::from_f64(seen as f64);
                numbers.iter_mut().for_each(|sum| *sum /= share);
            }
        }
    }
}
