//! Depth-first carving, which generates every maze of the task.
//!
//! Lattice cells are at odd rows and columns, walls everywhere else. From a random cell the carver moves to a random
//! unvisited neighbour, opens the pixel between, and backtracks where there is none. Each cell is entered once through
//! one opened pixel, so the open pixels form a tree: the maze is perfect. Start and goal are two different open pixels
//! (cells or pixels between them). A maze whose path is too short is discarded.
//!
//! | name | shape |
//! | --- | --- |
//! | `input`, `label` | `[height, width]` |
//! | open pixels | 2·(height/2)·(width/2) − 1 |

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::limits::product;
use sheaf_learn::rng::Stream;

use super::data::MAX_PIXELS;
use super::solve::Solver;
use super::{EMPTY, GOAL, START, WALL};

/// Attempts for one maze before giving up. At the published minimum lengths three of four attempts succeed.
const DRAFTS: u64 = 10_000;

/// Size and difficulty of a maze.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MazeShape {
    height: usize,
    width: usize,
    min_path: usize,
}

impl MazeShape {
    /// `height` × `width` pixels, both odd and at least 3, at least 5 in one direction; paths of at least `min_path`
    /// steps, which must be possible for this size.
    pub fn new(height: usize, width: usize, min_path: usize) -> Result<Self> {
        for (name, n) in [("height", height), ("width", width)] {
            if n < 3 || n.is_multiple_of(2) {
                let nearest = if n < 3 { 3 } else { n + 1 };
                return Err(Error::new(ErrorKind::Shape, format!("maze {name}"), "an odd number from 3", n)
                    .hint(format!("walls lie on even rows and columns; try {nearest}")));
            }
        }
        let fits = product(&[height, width], MAX_PIXELS).is_some();
        let Some(cells) = Some(height / 2).filter(|_| fits).map(|n| n * (width / 2)).filter(|&c| c > 1)
        else {
            return Err(Error::new(
                ErrorKind::Shape,
                "maze size",
                format_args!("2 cells or more, and at most {MAX_PIXELS} pixels"),
                format_args!("{height} × {width} pixels"),
            ));
        };
        let longest = 2 * (cells - 1);
        if min_path > longest {
            return Err(Error::new(
                ErrorKind::Infeasible,
                "minimum path",
                format_args!("at most {longest} steps, all a {height} × {width} maze can hold"),
                min_path,
            )
            .hint("about one step per pixel of width is usual; longer paths need a larger maze"));
        }
        Ok(Self { height, width, min_path })
    }

    /// Rows of pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Columns of pixels.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Minimum number of steps of the path.
    pub fn min_path(&self) -> usize {
        self.min_path
    }

    /// One number per shape, so that sets of different shapes use different random streams.
    fn key(&self) -> u64 {
        (self.height as u64) << 42 ^ (self.width as u64) << 21 ^ self.min_path as u64
    }

    /// Pixels of one maze.
    pub fn pixels(&self) -> usize {
        self.height * self.width
    }
}

/// Generates mazes; holds the buffers that carving and path finding reuse.
#[derive(Clone, Debug, Default)]
pub struct Carver {
    trail: Vec<u32>, // pixels of the cells from the first to the current one
    solver: Solver,
}

impl Carver {
    /// Maze number `index` of `seed`; depends only on shape, seed and index.
    ///
    /// Returns the steps of its path. Fails if no attempt reaches the minimum length.
    pub fn draw(
        &mut self,
        shape: &MazeShape,
        seed: u64,
        index: u64,
        input: &mut [u8], // [height, width]
        label: &mut [u8], // [height, width]
    ) -> Result<usize> {
        let mut random = Stream::new(seed, "maze", index, shape.key());
        for _ in 0..DRAFTS {
            self.carve(shape, &mut random, input);
            let start = open_pixel(&mut random, input);
            input[start] = START;
            let goal = open_pixel(&mut random, input);
            input[goal] = GOAL;
            let steps = self.solver.search(input, shape.width, start, goal).unwrap_or(0);
            if steps >= shape.min_path {
                label.copy_from_slice(input);
                self.solver.mark(start, goal, label);
                return Ok(steps);
            }
        }
        let size = format!("{} × {}", shape.height, shape.width);
        Err(Error::new(
            ErrorKind::Infeasible,
            format!("maze {index} of seed {seed}"),
            format_args!("a {size} maze with a path of {} steps", shape.min_path),
            format_args!("none in {DRAFTS} drafts"),
        )
        .hint("ask for a shorter minimum path or a larger maze"))
    }

    /// Fills with walls, then carves a tree of corridors.
    fn carve(&mut self, shape: &MazeShape, random: &mut Stream, input: &mut [u8]) {
        let (height, width) = (shape.height, shape.width);
        input.fill(WALL);
        let first = (2 * random.below(height / 2) + 1) * width + 2 * random.below(width / 2) + 1;
        input[first] = EMPTY;
        self.trail.clear();
        self.trail.push(first as u32);
        while let Some(&cell) = self.trail.last() {
            let cell = cell as usize;
            let (row, column) = (cell / width, cell % width);
            let mut ways = [0isize; 4];
            let mut count = 0;
            let mut offer = |inside: bool, step: isize| {
                if inside && input[cell.wrapping_add_signed(2 * step)] == WALL {
                    ways[count] = step;
                    count += 1;
                }
            };
            offer(row > 1, -(width as isize));
            offer(column + 2 < width, 1);
            offer(row + 2 < height, width as isize);
            offer(column > 1, -1);
            if count == 0 {
                self.trail.pop();
                continue;
            }
            let step = ways[if count == 1 { 0 } else { random.below(count) }];
            let next = cell.wrapping_add_signed(2 * step);
            input[cell.wrapping_add_signed(step)] = EMPTY;
            input[next] = EMPTY;
            self.trail.push(next as u32);
        }
    }
}

/// A random open pixel that is not taken; about every second draw succeeds.
fn open_pixel(random: &mut Stream, input: &[u8]) -> usize {
    loop {
        let pixel = random.below(input.len());
        if input[pixel] == EMPTY {
            return pixel;
        }
    }
}
