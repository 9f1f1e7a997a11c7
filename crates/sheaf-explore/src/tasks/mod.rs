//! Mazes, Sudoku and pictures, as an experiment uses them: inputs, geometry, answers.

mod maze;
mod mnist;
mod sudoku;

pub use maze::MazeInput;
pub use mnist::PictureInput;
pub use sudoku::BoardInput;

use serde_json::Value;
use sheaf_admm::Result;
use sheaf_admm::sheaf::Sheaf;
use sheaf_learn::model::{Samples, ViewGrid};
use sheaf_learn::task::Task;

use crate::script::Limits;

/// Where things are, in units of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Geometry {
    /// Rows of cells.
    pub height: usize,
    /// Columns of cells.
    pub width: usize,
    /// Centre of every agent: row and column.
    pub agents: Vec<[f32; 2]>,
    /// Cells that an agent sees, if they form a square: its side.
    pub patch: usize,
}

impl Geometry {
    /// Agents on a grid of views.
    fn of(grid: &ViewGrid) -> Self {
        let centre = |agent| {
            let (row, column) = grid.centre(agent);
            [row as f32, column as f32]
        };
        let agents = (0..grid.agents()).map(centre).collect();
        Self { height: grid.height(), width: grid.width(), agents, patch: grid.patch() }
    }
}

/// The answer after one iteration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The class of every cell; of every agent where agents vote.
    pub classes: Vec<u8>,
    /// How sure the agents are of it, 0 to 255.
    pub sure: Vec<u8>,
    /// The mean vote, where agents vote.
    pub votes: Vec<f32>,
    /// Whether the answer is complete and right by the rules of the task, or by its label where there is one.
    pub right: bool,
}

/// The samples of an experiment on their agents.
pub trait Field: Sync {
    /// The agents.
    fn sheaf(&self) -> &Sheaf;
    /// All inputs.
    fn samples(&self) -> &dyn Samples;
    /// Where things are.
    fn geometry(&self) -> Geometry;
    /// The cells of an input, as the page draws them.
    fn cells(&self, input: usize) -> Vec<u8>;
    /// The label of an input, if there is one: the class of every cell, or the class.
    fn label(&self, input: usize) -> Option<Vec<u8>>;
    /// The answer to an input, from the outputs of the agents.
    fn read(&self, input: usize, outputs: &[f32]) -> Answer;
    /// The answer in words.
    fn tell(&self, input: usize, answer: &Answer) -> String;
    /// Names of the slots of an agent.
    fn slots(&self) -> Vec<String>;
    /// What is unusual about the input.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A task that can be explored.
pub trait Explorable: Task {
    /// The samples of an experiment: the input at the start and all others.
    fn field(config: &Self::Config, input: &Value, more: &[Value], limits: &Limits)
    -> Result<Box<dyn Field>>;
}

/// A probability as a byte.
fn byte(probability: f32) -> u8 {
    (probability.clamp(0.0, 1.0) * 255.0).round() as u8
}
