//! `sheaf solve sudoku`: a puzzle typed, read or drawn at random, solved by 27 agents that each see nine cells of it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use clap::builder::PossibleValuesParser;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::io_error;
use sheaf_tasks::sudoku::csv;
use sheaf_tasks::sudoku::evaluate::{Settling, settled_after};
use sheaf_tasks::sudoku::experiment::SudokuExperiment;
use sheaf_tasks::sudoku::generate::{Kind, draw};
use sheaf_tasks::sudoku::model::{SudokuModel, SudokuTrace};
use sheaf_tasks::sudoku::rounds::Reading;
use sheaf_tasks::sudoku::text::{self, Puzzle};
use sheaf_tasks::sudoku::views::VIEWS;
use sheaf_tasks::sudoku::weights::SudokuWeights;
use sheaf_tasks::sudoku::{CLASSES, Grid};

use super::story::Story;
use crate::args::positive;
use crate::commands::check_out;
use crate::draw::{export, sudoku};
use crate::progress::Waiting;
use crate::report::Report;
use crate::tasks::{Source, fresh_seed};

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

/// What can be typed.
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
    /// Run exactly so many iterations in each round instead of stopping when the agents have settled on a complete board
    #[arg(long, value_name = "K", value_parser = positive)]
    pub iterations: Option<usize>,
    /// Rounds of negotiation, at most; the experiment's number if not given. After each the agents commit to the cells
    /// they are surest of
    #[arg(long, value_name = "R", value_parser = positive)]
    pub rounds: Option<usize>,
    /// Show the board filling in, iteration by iteration
    #[arg(long)]
    pub animate: bool,
    /// Also write a picture (.png), an animation (.gif) or vectors (.svg, moving with --animate)
    #[arg(long, value_name = "FILE.png|.gif|.svg")]
    pub out: Option<PathBuf>,
    /// Weights to use
    #[arg(long, value_name = "FILE|builtin:sudoku", default_value = "builtin:sudoku")]
    pub weights: String,
}

/// A puzzle to solve.
#[derive(Debug)]
pub struct Solve {
    from: From,
    index: Option<usize>,
    iterations: Option<usize>,
    rounds: Option<usize>,
    animate: bool,
    out: Option<PathBuf>,
    weights: Source,
}

/// All rounds, one after the other.
struct Negotiated {
    trace: SudokuTrace<f32>,
    rounds: usize,
    /// Whether every round came to rest; where nobody said how long it takes, on a complete board.
    settled: bool,
}

#[derive(Debug)]
enum From {
    Fresh { kind: Kind, seed: u64 },
    Typed(String),
    File(PathBuf),
    StandardInput,
}

impl Solve {
    /// Checks what was typed; with `json` nothing moves on the screen.
    pub fn check(args: SolveArgs, json: bool) -> Result<Self> {
        let from = match args.puzzle {
            Some(text) if text == "-" => From::StandardInput,
            Some(text) if text::looks_like_board(&text) && !Path::new(&text).exists() => {
                text::parse(&text, "puzzle")?;
                From::Typed(text)
            }
            Some(path) => From::File(path.into()),
            None => From::Fresh { kind: args.kind.parse()?, seed: args.seed.unwrap_or_else(fresh_seed) },
        };
        if let Some(out) = &args.out {
            export::check_name(out)?;
            check_out(out)?;
        }
        Ok(Self {
            from,
            index: args.index,
            iterations: args.iterations,
            rounds: args.rounds,
            animate: args.animate && !json,
            out: args.out,
            weights: Source::parse(&args.weights)?,
        })
    }

    /// Reads or draws the puzzle, solves it, draws the boards.
    pub fn run(&self) -> Result<Report> {
        let SudokuWeights { experiment, model, params } = SudokuWeights::load(&self.weights.open()?)?;
        let (title, puzzle) = self.puzzle()?;
        let waiting = Waiting::new("solving");
        let start = Instant::now();
        let Negotiated { trace, rounds, settled } =
            self.negotiate(&experiment, &model, &params, puzzle.givens);
        let seconds = start.elapsed().as_secs_f64();
        drop(waiting);
        let iterations = trace.boards.len();
        let story = Story {
            title,
            puzzle: &puzzle,
            trace: &trace,
            iterations,
            rounds,
            asked: self.iterations.is_some(),
            settled,
        };
        if let Some(out) = &self.out {
            let still = out.extension().is_some_and(|e| e.eq_ignore_ascii_case("svg")) && !self.animate;
            let first = if still { iterations - 1 } else { 0 };
            sudoku::write(out, &puzzle.givens, &trace.boards[first..iterations])?;
        }
        if self.animate {
            story.play()?;
        }
        let mut report = story.report(seconds);
        if let From::Fresh { seed, kind } = self.from {
            report.value("seed", seed).value("kind", kind.name());
        }
        if let Some(out) = &self.out {
            report.written(out);
        }
        Ok(report)
    }

    /// Rounds until the board is complete or none is left.
    fn negotiate(
        &self,
        experiment: &SudokuExperiment,
        model: &SudokuModel,
        params: &[f32],
        mut board: Grid,
    ) -> Negotiated {
        let limit = self.iterations.unwrap_or(experiment.iterations.eval);
        let mut all = Negotiated { trace: SudokuTrace::default(), rounds: 0, settled: true };
        for left in (0..self.rounds.unwrap_or(experiment.iterations.rounds)).rev() {
            let mut trace = model.trace(params, &board, limit);
            let settled = settled_after(&trace.z, model.state_len(), Settling::default());
            let read = |k: usize| Reading::of(&trace.logits[(k - 1) * VIEWS * CLASSES..][..VIEWS * CLASSES]);
            // Who has settled on a board that is not complete may still move, if slowly.
            let done = settled.filter(|&k| self.iterations.is_none() && read(k).completes(&board));
            let end = done.unwrap_or(limit);
            let reading = read(end);
            trace.truncate(end);
            all.trace.append(trace);
            all.rounds += 1;
            all.settled &= if self.iterations.is_some() { settled.is_some() } else { done.is_some() };
            if reading.completes(&board) {
                break;
            }
            if left > 0 {
                reading.commit(&mut board, left);
            }
        }
        all
    }

    /// The puzzle and what to call it.
    fn puzzle(&self) -> Result<(String, Puzzle)> {
        let (title, text) = match &self.from {
            From::Fresh { kind, seed } => {
                let drawn = draw(*kind, *seed, 0);
                let title = format!("a fresh one (--kind {} --seed {seed})", kind.name());
                let puzzle = text::check(drawn.puzzle, &title)?;
                return Ok((title, puzzle));
            }
            From::Typed(text) => {
                let puzzle = text::check(text::parse(text, "puzzle")?, "puzzle")?;
                return Ok(("as typed".into(), puzzle));
            }
            From::File(path) => {
                let read = std::fs::read(path)
                    .map_err(|e| io_error(path, "a readable file, or a puzzle of 81 cells", &e))?;
                (path.display().to_string(), utf8(read, &path.display().to_string())?)
            }
            From::StandardInput => {
                let (title, mut read) = ("standard input", Vec::new());
                let told = std::io::stdin().lock().read_to_end(&mut read);
                told.map_err(|e| io_error(Path::new(title), "a puzzle that can be read", &e))?;
                (title.to_string(), utf8(read, title)?)
            }
        };
        self.choose(title, &text)
    }

    /// The board a text shows, or one of its lines.
    fn choose(&self, title: String, text: &str) -> Result<(String, Puzzle)> {
        let board = text::parse(text, &title);
        match (&board, self.index) {
            (Ok(givens), None | Some(0)) => return Ok((title.clone(), text::check(*givens, &title)?)),
            (Ok(_), Some(index)) => return Err(beyond(index, 1)),
            _ => {}
        }
        // Whatever holds a field of 81 cells somewhere is a file of puzzles; anything else was meant as one board.
        let boards =
            |line: &str| line.split([',', ';', '\t', ' ']).any(|f| csv::parse_board(unquoted(f)).is_ok());
        let lines: Vec<(usize, &str)> = text.lines().enumerate().filter(|(_, line)| boards(line)).collect();
        if lines.is_empty() {
            return Err(board.err().unwrap_or_else(|| beyond(0, 0)));
        }
        let index = self.index.unwrap_or(0);
        let Some((number, line)) = lines.get(index) else { return Err(beyond(index, lines.len())) };
        let title = format!("{title}, line {}", number + 1);
        let fields = line.split([',', ';', '\t', ' ']).map(unquoted);
        let givens = fields.filter_map(|f| csv::parse_board(f).ok()).next().unwrap_or([0; 81]);
        let puzzle = text::check(givens, &title)?;
        Ok((title, puzzle))
    }
}

fn unquoted(field: &str) -> &str {
    field.trim().trim_matches('"')
}

fn beyond(index: usize, count: usize) -> Error {
    let want = match count {
        0 | 1 => "0, for the one puzzle there".to_string(),
        n => format!("0 to {}, for the {n} puzzles there", n - 1),
    };
    Error::new(ErrorKind::OutOfRange, "--index", want, index)
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
