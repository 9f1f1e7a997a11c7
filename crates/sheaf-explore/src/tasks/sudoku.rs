//! Sudoku boards.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sheaf_admm::sheaf::Sheaf;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::limits::at_most;
use sheaf_learn::model::Samples;
use sheaf_tasks::sudoku::generate::{Kind, draw};
use sheaf_tasks::sudoku::metrics::completes;
use sheaf_tasks::sudoku::rounds::Reading;
use sheaf_tasks::sudoku::solver::{Verdict, conflicts, solve};
use sheaf_tasks::sudoku::task::{Boards, Sudoku, SudokuBoard, SudokuConfig, board};
use sheaf_tasks::sudoku::{CELLS, Grid, UNITS, text};

use super::{Answer, Explorable, Field, Geometry, byte};
use crate::script::{self, Limits};

/// A board of a script: drawn from a seed or typed, then changed. Rows and columns count from 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BoardInput {
    /// Seed of a fresh puzzle; 0 if nothing is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Kind of a fresh puzzle, as `sheaf data sudoku` knows them; `singles` if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// A typed board.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Digits to give: row, column, digit; 0 takes one away.
    pub set: Vec<[usize; 3]>,
}

impl BoardInput {
    fn grid(&self, place: &str, first: Option<&Grid>) -> Result<Grid> {
        let mut grid = match (&self.text, self.seed, first) {
            (Some(_), Some(_), _) => {
                return Err(Error::new(ErrorKind::Malformed, place, "`seed` or `text`", "both"));
            }
            (Some(typed), None, _) => {
                at_most(&format!("{place}.text"), "bytes", 1 << 12, typed.len())?;
                text::parse(typed, place)?
            }
            (None, None, Some(first)) if self.kind.is_none() => *first,
            (None, seed, _) => {
                let kind: Kind = self.kind.as_deref().unwrap_or("singles").parse()?;
                draw(kind, seed.unwrap_or(0), 0).puzzle
            }
        };
        for &[row, column, digit] in &self.set {
            if row > 8 || column > 8 || digit > 9 {
                let (expected, got) = ("rows and columns 0 to 8, digits 0 to 9", [row, column, digit]);
                return Err(Error::new(
                    ErrorKind::OutOfRange,
                    format!("{place}.set"),
                    expected,
                    format!("{got:?}"),
                ));
            }
            grid[9 * row + column] = digit as u8;
        }
        Ok(grid)
    }
}

struct Puzzles {
    board: SudokuBoard,
    puzzles: Vec<Grid>,
    solutions: Vec<Option<Grid>>,
    notes: Vec<String>,
}

impl Explorable for Sudoku {
    fn field(
        config: &SudokuConfig,
        input: &Value,
        more: &[Value],
        _limits: &Limits,
    ) -> Result<Box<dyn Field>> {
        let first = script::input::<BoardInput>("input", input)?.grid("input", None)?;
        let mut puzzles = vec![first];
        for (i, value) in more.iter().enumerate() {
            let place = format!("inputs[{i}]");
            puzzles.push(script::input::<BoardInput>(&place, value)?.grid(&place, Some(&first))?);
        }
        let (mut notes, mut solutions) = (Vec::new(), Vec::new());
        for (i, puzzle) in puzzles.iter().enumerate() {
            // A search of a board with a contradiction, or with few givens, may take long, and says little.
            let given = puzzle.iter().filter(|&&d| d != 0).count();
            let (solution, note) = match given {
                _ if conflicts(puzzle).contains(&true) => (None, Some("two equal digits meet in a unit")),
                0..17 => (None, Some("fewer than 17 givens: more than one solution")),
                _ => match solve(puzzle) {
                    Verdict::Contradictory => (None, Some("no solution")),
                    Verdict::Unique(solution) => (Some(solution), None),
                    Verdict::Ambiguous(..) => (None, Some("more than one solution")),
                },
            };
            solutions.push(solution);
            notes.extend(note.filter(|_| i == 0).map(String::from));
        }
        Ok(Box::new(Puzzles { board: board(config)?, puzzles, solutions, notes }))
    }
}

impl Samples for Puzzles {
    fn len(&self) -> usize {
        self.puzzles.len()
    }

    fn views(&self, i: usize, out: &mut [f32]) {
        Boards { puzzles: &self.puzzles, solutions: &[] }.views(i, out);
    }

    fn targets(&self, _i: usize, out: &mut sheaf_learn::model::Targets) {
        out.labels.clear();
    }
}

impl Field for Puzzles {
    fn sheaf(&self) -> &Sheaf {
        &self.board.sheaf
    }

    fn samples(&self) -> &dyn Samples {
        self
    }

    /// Rows stand right of the board, columns below it, boxes in the corner between.
    fn geometry(&self) -> Geometry {
        let place = |unit: usize| match unit {
            0..9 => [unit as f32, 9.4],
            9..18 => [9.4, (unit - 9) as f32],
            _ => [9.4 + 0.85 * ((unit - 18) / 3) as f32, 9.4 + 0.85 * ((unit - 18) % 3) as f32],
        };
        Geometry { height: 9, width: 9, agents: (0..UNITS).map(place).collect(), patch: 0 }
    }

    fn cells(&self, input: usize) -> Vec<u8> {
        self.puzzles[input].to_vec()
    }

    fn label(&self, input: usize) -> Option<Vec<u8>> {
        self.solutions[input].map(|solution| solution.to_vec())
    }

    fn read(&self, input: usize, outputs: &[f32]) -> Answer {
        let reading = Reading::of(outputs);
        let sure = reading.sure.iter().map(|&p| byte(p as f32)).collect();
        let right = completes(&self.puzzles[input], &reading.predicted);
        Answer { classes: reading.predicted.to_vec(), sure, votes: Vec::new(), right }
    }

    fn tell(&self, input: usize, answer: &Answer) -> String {
        let wrong = self.solutions[input]
            .map(|solution| (0..CELLS).filter(|&cell| solution[cell] != answer.classes[cell]).count());
        match (answer.right, wrong) {
            (true, _) => "solved: every unit holds every digit".into(),
            (false, Some(wrong)) => format!("not solved: {wrong} of 81 cells differ from the solution"),
            (false, None) => "not a complete board".into(),
        }
    }

    fn slots(&self) -> Vec<String> {
        (1..=9).map(|k| format!("cell {k}")).collect()
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}
