//! Shortest paths by breadth-first search, and the structure of a maze.
//!
//! Every pixel that is not a wall is open; steps go to the four neighbours. A *perfect* maze is one tree: all open
//! pixels are connected and there is exactly one path between any two, so the shortest path is the only path.
//!
//! | name | shape |
//! | --- | --- |
//! | `tokens` | `[height, width]` |
//! | `came_from`, `queue` | `[height · width]`, kept in [`Solver`] between calls |

use super::{EMPTY, GOAL, PATH, START, WALL};

/// No pixel: not reached yet.
const NOWHERE: u32 = u32::MAX;

/// Buffers of a breadth-first search, reused from maze to maze.
#[derive(Clone, Debug, Default)]
pub struct Solver {
    came_from: Vec<u32>, // [height · width]: the pixel before, itself for the start, NOWHERE if not reached
    queue: Vec<u32>,     // [height · width]: pixels in the order they were reached
}

/// The structure of a picture as a maze.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure {
    /// Pixels with the start token.
    pub starts: usize,
    /// Pixels with the goal token.
    pub goals: usize,
    /// Pixels that are not walls.
    pub open: usize,
    /// Connected components of open pixels; 1 in a perfect maze.
    pub pieces: usize,
    /// Independent loops: steps that could be walled up without disconnecting anything; 0 in a perfect maze.
    pub loops: usize,
    /// Open pixels on the outer border.
    pub border_openings: usize,
}

impl Structure {
    /// One tree over the open pixels.
    pub fn is_perfect(&self) -> bool {
        self.pieces == 1 && self.loops == 0
    }
}

impl Solver {
    /// Steps of a shortest path between two open pixels, or `None` if walls separate them.
    ///
    /// Ties between equally short paths go to the one found first with neighbours in the order N, E, S, W.
    pub fn search(
        &mut self,
        tokens: &[u8], // [height, width]
        width: usize,
        start: usize,
        goal: usize,
    ) -> Option<usize> {
        self.came_from.clear();
        self.came_from.resize(tokens.len(), NOWHERE);
        self.queue.clear();
        self.flood(tokens, width, start, Some(goal));
        (self.came_from[goal] != NOWHERE).then(|| self.walk_back(start, goal).count())
    }

    /// Writes the label of a maze: the input with the path's inner cells as [`PATH`]. Returns the number of steps, or
    /// `None` (and the plain input as label) if start or goal is missing or walls separate them.
    pub fn label(
        &mut self,
        input: &[u8], // [height, width]
        width: usize,
        label: &mut [u8], // [height, width]
    ) -> Option<usize> {
        label.copy_from_slice(input);
        let start = input.iter().position(|&t| t == START)?;
        let goal = input.iter().position(|&t| t == GOAL)?;
        let steps = self.search(input, width, start, goal)?;
        self.mark(start, goal, label);
        Some(steps)
    }

    /// Marks the inner cells of the path found by the last [`search`](Self::search).
    pub(super) fn mark(&self, start: usize, goal: usize, label: &mut [u8]) {
        for pixel in self.walk_back(start, goal) {
            if label[pixel] == EMPTY {
                label[pixel] = PATH;
            }
        }
    }

    /// Analyses a picture as a maze.
    pub fn examine(
        &mut self,
        tokens: &[u8], // [height, width]
        width: usize,
    ) -> Structure {
        let height = tokens.len().checked_div(width).unwrap_or(0);
        self.came_from.clear();
        self.came_from.resize(tokens.len(), NOWHERE);
        self.queue.clear();
        let (mut pieces, mut joins, mut border_openings) = (0, 0, 0);
        for (pixel, _) in tokens.iter().enumerate().filter(|&(_, &t)| t != WALL) {
            let (row, column) = (pixel / width, pixel % width);
            joins += usize::from(column + 1 < width && tokens[pixel + 1] != WALL);
            joins += usize::from(row + 1 < height && tokens[pixel + width] != WALL);
            border_openings +=
                usize::from(row == 0 || column == 0 || row + 1 == height || column + 1 == width);
            if self.came_from[pixel] == NOWHERE {
                pieces += 1;
                self.flood(tokens, width, pixel, None);
            }
        }
        let open = self.queue.len();
        let count = |token| tokens.iter().filter(|&&t| t == token).count();
        let loops = joins + pieces - open;
        Structure { starts: count(START), goals: count(GOAL), open, pieces, loops, border_openings }
    }

    /// Visits everything connected to `start`, or stops at `goal`.
    fn flood(&mut self, tokens: &[u8], width: usize, start: usize, goal: Option<usize>) {
        let mut next = self.queue.len();
        self.came_from[start] = start as u32;
        self.queue.push(start as u32);
        while next < self.queue.len() && goal.is_none_or(|g| self.came_from[g] == NOWHERE) {
            let pixel = self.queue[next] as usize;
            next += 1;
            for neighbour in neighbours(pixel, width, tokens.len()).into_iter().flatten() {
                if tokens[neighbour] != WALL && self.came_from[neighbour] == NOWHERE {
                    self.came_from[neighbour] = pixel as u32;
                    self.queue.push(neighbour as u32);
                }
            }
        }
    }

    /// From the goal back to the pixel after the start.
    fn walk_back(&self, start: usize, goal: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(goal), |&pixel| Some(self.came_from[pixel] as usize))
            .take_while(move |&pixel| pixel != start)
    }
}

/// The pixels north, east, south and west of one, where they exist.
#[inline]
pub(super) fn neighbours(pixel: usize, width: usize, pixels: usize) -> [Option<usize>; 4] {
    let column = pixel % width;
    [
        pixel.checked_sub(width),
        (column + 1 < width).then_some(pixel + 1),
        (pixel + width < pixels).then_some(pixel + width),
        (column > 0).then(|| pixel - 1),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(lines: &[&str]) -> (Vec<u8>, usize) {
        let token = |c| match c {
            '#' => WALL,
            'S' => START,
            'G' => GOAL,
            '*' => PATH,
            _ => EMPTY,
        };
        (lines.iter().flat_map(|l| l.chars().map(token)).collect(), lines[0].len())
    }

    #[test]
    fn the_label_keeps_start_and_goal_and_marks_what_lies_between() {
        let (input, width) = picture(&["#####", "#S  #", "###.#", "#G  #", "#####"]);
        let (expected, _) = picture(&["#####", "#S**#", "###*#", "#G**#", "#####"]);
        let mut label = vec![0; input.len()];
        assert_eq!(Solver::default().label(&input, width, &mut label), Some(6));
        assert_eq!(label, expected);
    }

    #[test]
    fn a_short_cut_through_a_loop_is_taken() {
        let (input, width) = picture(&["S.G", ".#.", "..."]);
        let mut label = vec![0; input.len()];
        let mut solver = Solver::default();
        assert_eq!(solver.label(&input, width, &mut label), Some(2));
        assert_eq!(solver.examine(&input, width).loops, 1);
        assert!(!solver.examine(&input, width).is_perfect());
    }

    #[test]
    fn walls_between_start_and_goal_are_noticed() {
        let (input, width) = picture(&["S#G"]);
        let mut label = vec![0; 3];
        let mut solver = Solver::default();
        assert_eq!(solver.label(&input, width, &mut label), None);
        let structure = solver.examine(&input, width);
        assert_eq!((structure.pieces, structure.open, structure.border_openings), (2, 2, 2));
    }

    #[test]
    fn a_row_does_not_continue_at_the_other_side() {
        let (input, width) = picture(&["#S#", "###", "G##"]);
        assert_eq!(Solver::default().label(&input, width, &mut [0; 9]), None);
        let (input, width) = picture(&["##S", "G##"]);
        assert_eq!(Solver::default().label(&input, width, &mut [0; 6]), None);
    }
}
