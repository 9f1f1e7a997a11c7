//! `sheaf data`: sets of samples as files.

use sheaf_admm::Result;

use super::{Ending, Job};
use crate::args::DataTask;
use crate::tasks::{maze, mnist, sudoku};

/// Data sets to make, of any task.
#[derive(Debug)]
pub enum Data {
    /// Mazes.
    Maze(maze::data::Data),
    /// Puzzles.
    Sudoku(sudoku::data::Data),
    /// Pictures of digits.
    Mnist(mnist::data::Data),
}

impl Data {
    /// Checks what was typed.
    pub fn check(task: DataTask) -> Result<Self> {
        Ok(match task {
            DataTask::Maze(args) => Self::Maze(maze::data::Data::check(args)?),
            DataTask::Sudoku(args) => Self::Sudoku(sudoku::data::Data::check(args)?),
            DataTask::Mnist(args) => Self::Mnist(mnist::data::Data::check(args)?),
        })
    }
}

impl Job for Data {
    fn run(&self) -> Result<Ending> {
        match self {
            Self::Maze(job) => job.run().map(Ending::Done),
            Self::Sudoku(job) => job.run().map(Ending::Done),
            Self::Mnist(job) => job.run().map(Ending::Done),
        }
    }
}
