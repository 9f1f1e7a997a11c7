//! `sheaf figure`: figures of samples, runs and results.

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_figures::asynchronous::{self as out_of_step, asynchronous};
use sheaf_figures::class_emergence::class_emergence;
use sheaf_figures::compare::compare;
use sheaf_figures::curves::{Learning, learning_curves};
use sheaf_figures::dynamics::dynamics;
use sheaf_figures::evolution::{SHOWN, evolution};
use sheaf_figures::sizes::sizes;
use sheaf_figures::trajectories::trajectories;
use sheaf_figures::views::views;
use sheaf_figures::{Chosen, Figure, Format, Story};
use sheaf_reproduce::sweeps;

use super::{Job, check_out};
use crate::args::{FigureArgs, FigureName};
use crate::progress::Waiting;
use crate::report::Report;
use crate::tasks::Source;

/// Side of the mazes of the paper's figure of dynamics.
const DYNAMICS_SIZE: usize = 37;

/// Checks the arguments; the job solves, draws and writes.
pub fn figure(args: FigureArgs) -> Result<Box<dyn Job>> {
    Format::of(&args.out)?;
    check_options(&args)?;
    let name = args.name;
    let builtin = match name {
        FigureName::ClassEmergence => "builtin:mnist",
        FigureName::SudokuEvolution => "builtin:sudoku",
        _ => "builtin:maze",
    };
    let weights = Source::parse(args.weights.as_deref().unwrap_or(builtin))?;
    let with = args.with.as_deref().map(Source::parse).transpose()?;
    let sources = [Some(&weights), with.as_ref()].into_iter().flatten().filter_map(Source::path);
    check_out(&args.out, sources.chain(args.data.as_deref()))?;
    Ok(Box::new(move || {
        let waiting = Waiting::new("drawing");
        let drawn = draw(&args, &weights, with.as_ref())?;
        drawn.write(&args.out)?;
        drop(waiting);
        let mut report = Report::new();
        report.value("figure", clap::ValueEnum::to_possible_value(&name).map(|v| v.get_name().to_string()));
        report.written(&args.out);
        Ok(report)
    }))
}

/// Refuses options that the figure does not read, and misses those that it needs.
fn check_options(args: &FigureArgs) -> Result<()> {
    let of_results = matches!(args.name, FigureName::Sizes | FigureName::Asynchronous);
    let of_sample = !of_results && args.name != FigureName::LearningCurve;
    let needs = |option: &str, what: &str| {
        Err(Error::new(ErrorKind::Malformed, option, what, "nothing")
            .hint("`sheaf figure --help` has examples"))
    };
    let refused = |option: &str, want: &str| {
        Err(Error::new(ErrorKind::Unsupported, option, want, "another figure").hint("leave the option out"))
    };
    match args.name {
        FigureName::LearningCurve if args.runs.is_empty() => return needs("--runs", "folders of runs"),
        _ if of_results && args.from.is_none() => return needs("--from", "a results folder"),
        FigureName::Compare if args.with.is_none() => return needs("--with", "other weights"),
        _ => {}
    }
    if args.with.is_some() && args.name != FigureName::Compare {
        return refused("--with", "figure compare");
    }
    if !args.runs.is_empty() && args.name != FigureName::LearningCurve {
        return refused("--runs", "figure learning-curve");
    }
    if args.from.is_some() && !of_results {
        return refused("--from", "figure sizes or asynchronous");
    }
    if !of_sample && (args.weights.is_some() || args.data.is_some()) {
        return refused("--weights and --data", "a figure of one sample");
    }
    let how = args.size.is_some() || args.iterations.is_some() || !args.at.is_empty();
    if !of_sample && how {
        return refused("--size, --iterations and --at", "a figure of one sample");
    }
    if !args.at.is_empty() && matches!(args.name, FigureName::Trajectories | FigureName::Views) {
        return refused("--at", "a figure of some iterations");
    }
    Ok(())
}

fn draw(args: &FigureArgs, weights: &Source, with: Option<&Source>) -> Result<Figure> {
    let size = args.size.or((args.name == FigureName::Dynamics).then_some(DYNAMICS_SIZE));
    let chosen = match &args.data {
        Some(path) => Chosen::File { path: path.clone(), index: args.index },
        None => Chosen::Fresh { seed: args.seed, size },
    };
    let story = |source: &Source| {
        let weights = source.open()?;
        let task = weights.about().task.as_str();
        if with.is_some_and(|with| std::ptr::eq(with, source)) && !["maze", "mnist", "sudoku"].contains(&task)
        {
            return Err(Error::new(ErrorKind::Unsupported, "--with", "weights of agents", task)
                .hint("figures of a sample show agents; a network has none"));
        }
        // Pictures and boards have sizes of their own.
        let chosen = match (&chosen, weights.about().task.as_str()) {
            (Chosen::Fresh { seed, .. }, task) if args.size.is_none() && task != "maze" => {
                Chosen::Fresh { seed: *seed, size: None }
            }
            _ => chosen.clone(),
        };
        let story = Story::of(&weights, &chosen, args.iterations)?;
        match args.at.iter().find(|&&k| story.iterations > 0 && k > story.iterations) {
            Some(k) => Err(Error::new(
                ErrorKind::OutOfRange,
                "--at",
                format!("iterations from 1 to {}", story.iterations),
                k,
            )
            .hint("--iterations K runs more of them")),
            None => Ok(story),
        }
    };
    let shown = if args.at.is_empty() { &SHOWN[..] } else { &args.at };
    match args.name {
        FigureName::Evolution => evolution(&story(weights)?, shown),
        FigureName::SudokuEvolution => {
            let story = story(weights)?;
            match story.scene.task() {
                "sudoku" => evolution(&story, shown),
                other => Err(Error::new(ErrorKind::Unsupported, "--weights", "weights of Sudoku", other)
                    .hint("`sheaf figure evolution` shows every task")),
            }
        }
        FigureName::Dynamics => dynamics(&story(weights)?, shown),
        FigureName::Trajectories => trajectories(&story(weights)?),
        FigureName::Views => views(&story(weights)?),
        FigureName::ClassEmergence => class_emergence(&story(weights)?, shown),
        FigureName::LearningCurve => {
            let runs: Result<Vec<Learning>> = args.runs.iter().map(|run| Learning::read(run)).collect();
            learning_curves(&runs?)
        }
        FigureName::Sizes => {
            let found = sweeps::read(args.from.as_deref().unwrap_or(args.out.as_path()))?;
            sizes(&found.sweeps, found.most, found.note)
        }
        FigureName::Asynchronous => {
            asynchronous(&out_of_step::read(args.from.as_deref().unwrap_or(args.out.as_path()))?)
        }
        FigureName::Compare => {
            let other = with.unwrap_or(weights);
            let (a, b) = (story(weights)?, story(other)?);
            compare((&weights.label(), &a), (&other.label(), &b), shown)
        }
    }
}
