//! `sheaf solve`: one problem, solved and drawn.

use sheaf_admm::Result;

use super::{Ending, Job};
use crate::args::SolveTask;
use crate::tasks::{maze, mnist, sudoku};

/// A problem to solve, of any task.
#[derive(Debug)]
pub enum Solve {
    /// A maze.
    Maze(maze::solve::Solve),
    /// A Sudoku.
    Sudoku(sudoku::solve::Solve),
    /// A picture.
    Mnist(mnist::solve::Solve),
}

impl Solve {
    /// Checks what was typed; with `json` nothing is drawn.
    pub fn check(task: SolveTask, json: bool) -> Result<Self> {
        Ok(match task {
            SolveTask::Maze(args) => Self::Maze(maze::solve::Solve::check(args, json)?),
            SolveTask::Sudoku(args) => Self::Sudoku(sudoku::solve::Solve::check(args, json)?),
            SolveTask::Mnist(args) => Self::Mnist(mnist::solve::Solve::check(args, json)?),
        })
    }
}

impl Job for Solve {
    fn run(&self) -> Result<Ending> {
        match self {
            Self::Maze(job) => job.run().map(Ending::Done),
            Self::Sudoku(job) => job.run().map(Ending::Done),
            Self::Mnist(job) => job.run().map(Ending::Done),
        }
    }
}
