//! `sheaf solve sudoku`: solves a typed, read or generated puzzle with 27 agents that each see nine cells of it.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::model::evaluate::Moment;
use sheaf_tasks::sudoku::csv;
use sheaf_tasks::sudoku::generate::{Kind, draw};
use sheaf_tasks::sudoku::rounds::{Reading, USUAL, in_rounds};
use sheaf_tasks::sudoku::task::{BoardReader, Boards, Sudoku, SudokuWeights, board};
use sheaf_tasks::sudoku::text::{self, Puzzle};

use super::story::Story;
use crate::args::rounds;
use crate::commands::{Ending, Job, without_effect};
use crate::draw::{export, sudoku};
use crate::tasks::fresh_seed;
use crate::tasks::verbs::Arguments;
use crate::tasks::watch::{Plan, WatchArgs, read_input};

const EXAMPLES: &str = "\
Examples:
  sheaf solve sudoku                                a fresh puzzle
  sheaf solve sudoku --kind minimal --seed 6        a hard one, the same each time
  sheaf solve sudoku --kind minimal --rounds 1      what the agents say at once, without committing
  sheaf solve sudoku PUZZLE                         your own, 81 cells in one word
  sheaf solve sudoku board.txt --animate            one in a file, iteration by iteration
  sheaf solve sudoku test.csv --index 3             one of a file of puzzles
  sheaf solve sudoku --out board.gif                an animation

A puzzle, `.` or 0 for a blank:
  53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79
In a file it may stand in nine lines, with frames of | + - between.";

/// Fill in a Sudoku
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SolveArgs {
    /// A puzzle of 81 cells, a file with a board or with a puzzle in each line, or - for standard input.
    /// Without one a fresh puzzle is drawn
    #[arg(value_name = "PUZZLE|FILE|-")]
    pub puzzle: Option<String>,
    /// Which puzzle of a file with several, from 0
    #[arg(long, value_name = "I", requires = "puzzle")]
    pub index: Option<usize>,
    /// What a fresh puzzle is like
    #[arg(
        long,
        default_value = "mixed",
        value_parser = PossibleValuesParser::new(Kind::ALL.map(Kind::name)),
        conflicts_with = "puzzle"
    )]
    pub kind: String,
    /// Seed of a fresh puzzle; a new one each time if not given
    #[arg(long, conflicts_with = "puzzle")]
    pub seed: Option<u64>,
    /// Rounds of solving, at most. After each the agents commit to the cells they are surest of; with 1 they answer at
    /// once, as `sheaf eval` counts
    #[arg(long, value_name = "R", value_parser = rounds, default_value_t = USUAL)]
    pub rounds: usize,
    /// Options of every task.
    #[command(flatten)]
    pub watch: WatchArgs,
}

/// A puzzle to solve.
#[derive(Debug)]
struct Solve {
    from: From,
    index: Option<usize>,
    rounds: usize,
    plan: Plan,
}

#[derive(Debug)]
enum From {
    Fresh { kind: Kind, seed: u64 },
    Typed(String),
    File(PathBuf),
}

impl Arguments for SolveArgs {
    fn check(self, json: bool) -> Result<Box<dyn Job>> {
        let from = match self.puzzle {
            Some(text) if text::looks_like_board(&text) && !Path::new(&text).exists() => {
                text::parse(&text, "puzzle")?;
                if self.index.is_some() {
                    return Err(without_effect("--index", "a file of puzzles to count in", "a typed puzzle"));
                }
                From::Typed(text)
            }
            Some(path) => From::File(path.into()),
            None if self.index.is_some() => {
                return Err(without_effect("--index", "a file of puzzles to count in", "a fresh puzzle"));
            }
            None => From::Fresh { kind: self.kind.parse()?, seed: self.seed.unwrap_or_else(fresh_seed) },
        };
        let input = match &from {
            From::File(path) => Some(path.as_path()),
            _ => None,
        };
        let plan = self.watch.check::<Sudoku>(json, input, export::check_name)?;
        Ok(Box::new(Solve { from, index: self.index, rounds: self.rounds, plan }))
    }
}

impl Job for Solve {
    /// Reads or generates the puzzle, solves it, and draws the boards.
    fn run(&self) -> Result<Ending> {
        let weights: SudokuWeights = self.plan.load()?;
        let (title, puzzle) = self.puzzle()?;
        let story = self.solve(&weights, title, puzzle)?;
        if let Some(out) = &self.plan.out {
            let first = self.plan.first_frame(story.boards.len());
            sudoku::write(out, &story.puzzle.givens, &story.boards[first..])?;
        }
        if self.plan.animate {
            story.play()?;
        }
        let mut report = story.report(&self.plan)?;
        if let From::Fresh { seed, kind } = self.from {
            report.value("seed", seed).value("kind", kind.name());
        }
        Ok(report.into())
    }
}

impl Solve {
    /// Runs rounds until the board is complete or none is left.
    fn solve(&self, weights: &SudokuWeights, title: String, puzzle: Puzzle) -> Result<Story> {
        let most = weights.experiment.iterations.eval;
        let board = board(&weights.experiment.model)?;
        let givens = [puzzle.givens];
        let mut story = Story::new(title, puzzle);
        let answers = in_rounds(&givens, self.rounds, &|_| {}, |puzzles, _| {
            let (samples, reader) = (Boards { puzzles, solutions: &[] }, BoardReader(puzzles));
            let mut see = |moment: &Moment<'_>| {
                story.boards.extend(moment.outputs.map(|outputs| Reading::of(outputs).predicted));
            };
            let solve = self.plan.watch(weights, &board, &samples, &reader, most, true, &mut see)?;
            Ok(vec![story.round(solve)])
        })?;
        story.rounds = answers[0].rounds;
        Ok(story)
    }

    /// The puzzle and its name in the report.
    fn puzzle(&self) -> Result<(String, Puzzle)> {
        match &self.from {
            From::Fresh { kind, seed } => {
                let drawn = draw(*kind, *seed, 0);
                let title = format!("a fresh one (--kind {} --seed {seed})", kind.name());
                let puzzle = text::check(drawn.puzzle, &title)?;
                Ok((title, puzzle))
            }
            From::Typed(text) => {
                let puzzle = text::check(text::parse(text, "puzzle")?, "puzzle")?;
                Ok(("as typed".into(), puzzle))
            }
            From::File(path) => {
                let (title, bytes) = read_input(path, "a readable file, or a puzzle of 81 cells")?;
                let text = utf8(bytes, &title)?;
                self.choose(title, &text)
            }
        }
    }

    /// The board in a text, or in one of its lines.
    fn choose(&self, title: String, text: &str) -> Result<(String, Puzzle)> {
        let index = self.index.unwrap_or(0);
        let (title, givens) = match (text::parse(text, &title), index) {
            (Ok(givens), 0) => (title, givens),
            (Ok(_), index) => {
                let want = "0, for the one puzzle there";
                return Err(Error::new(ErrorKind::OutOfRange, "--index", want, index));
            }
            // A text with a field of about 81 cells is a file of puzzles; any other text is read as one board.
            (Err(error), index) => {
                let (givens, line) = csv::nth(&title, text, index).unwrap_or(Err(error))?;
                (format!("{title}, line {line}"), givens)
            }
        };
        let puzzle = text::check(givens, &title)?;
        Ok((title, puzzle))
    }
}

fn utf8(bytes: Vec<u8>, place: &str) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| {
        Error::new(
            ErrorKind::Malformed,
            place,
            "a board or a file of puzzles as text",
            "bytes that are no text",
        )
    })
}
