//! `sheaf data maze`: sets of mazes with their paths, or the whole published suite.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::io_error;
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::{MazeSet, check_count, generate_distinct, train_test_split};
use sheaf_tasks::maze::suite;
use sheaf_tasks::maze::text::TRAINED_SIZE;

use crate::commands::{Job, check_out};
use crate::progress::{Bar, Waiting};
use crate::report::{Report, count};
use crate::tasks::verbs::Arguments;

const EXAMPLES: &str = "\
Examples:
  sheaf data maze --size 19 --count 1000 --min-path 18 --seed 0 --out test.npz
  sheaf data maze --size 37 --count 1000 --out large.npz
  sheaf data maze --suite --out mazes/

Arrays `inputs` and `labels`, uint8 [n, height, width]: 1 wall, 2 empty, 3 start, 4 goal, 5 path.
No maze is a rotation or reflection of another one of the set.
1000 mazes of size 19 and seed 0 are the test set of experiments/maze.toml.";

/// Draw mazes with their paths
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DataArgs {
    /// Rows of a maze, and columns unless --width is given; odd
    #[arg(long, value_name = "N", default_value_t = TRAINED_SIZE, conflicts_with = "suite")]
    pub size: usize,
    /// Columns of a maze; odd
    #[arg(long, value_name = "W", conflicts_with = "suite")]
    pub width: Option<usize>,
    /// How many mazes
    #[arg(long, value_name = "N", required_unless_present = "suite", conflicts_with = "suite")]
    pub count: Option<usize>,
    /// Minimum length of a path in steps; the longer side less one if not given
    #[arg(long, value_name = "STEPS", conflicts_with = "suite")]
    pub min_path: Option<usize>,
    /// Seed of the mazes
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Leave out mazes that this file holds, also rotated or reflected
    #[arg(long, value_name = "FILE.npz", conflicts_with = "suite")]
    pub exclude: Option<PathBuf>,
    /// All published sets: train, test, larger and longer ones, and the sweep of sizes
    #[arg(long)]
    pub suite: bool,
    /// The file to write; with --suite a folder
    #[arg(long, value_name = "FILE.npz|DIR")]
    pub out: PathBuf,
}

/// Default minimum path length: one less than the longer side, as in the published sets.
pub fn default_min_path(height: usize, width: usize) -> usize {
    height.max(width).saturating_sub(1)
}

impl Arguments for DataArgs {
    fn check(self, _json: bool) -> Result<Box<dyn Job>> {
        let Self { seed, out, .. } = self;
        if self.suite {
            return Ok(Box::new(move || all(seed, &out)));
        }
        let (height, width) = (self.size, self.width.unwrap_or(self.size));
        let min_path = self.min_path.unwrap_or(default_min_path(height, width));
        let shape = MazeShape::new(height, width, min_path)?;
        let count = self.count.unwrap_or(0);
        if count == 0 {
            return Err(Error::new(ErrorKind::NotPositive, "--count", "1 or more mazes", count));
        }
        check_count(&shape, count)?;
        let exclude = self.exclude;
        check_out(&out, exclude.as_deref())?;
        Ok(Box::new(move || one(&shape, count, seed, exclude.as_deref(), &out)))
    }
}

fn one(shape: &MazeShape, wanted: usize, seed: u64, exclude: Option<&Path>, out: &Path) -> Result<Report> {
    let mut taken = match exclude {
        Some(path) => MazeSet::read(path)?.keys(),
        None => HashSet::new(),
    };
    let waiting = Waiting::new("drawing mazes");
    let set = generate_distinct(shape, seed, wanted, &mut taken)?;
    set.write(out)?;
    drop(waiting);
    let (h, w) = (set.height, set.width);
    let mut report = Report::new();
    report.add("samples", "mazes", set.len(), format!("{} of {h} × {w} pixels", count(set.len())));
    report.value("height", h).value("width", w).value("seed", seed);
    let least = shape.min_path();
    report.add("min_path", "paths", least, format!("{least} steps or more"));
    report.written(out);
    Ok(report)
}

/// Writes every published set to a file of its own.
fn all(seed: u64, folder: &Path) -> Result<Report> {
    std::fs::create_dir_all(folder).map_err(|e| io_error(folder, "to create the folder", &e))?;
    let sets = suite::evaluation_sets()?;
    let bar = Bar::new("drawing mazes", sets.len() as u64 + 1);
    let (mut rows, mut table) = (Vec::new(), String::new());
    let mut save = |name: &str, set: &MazeSet, min_path: usize| {
        let file = folder.join(format!("{name}.npz"));
        set.write(&file)?;
        bar.add(1);
        let (n, h, w) = (set.len(), set.height, set.width);
        table +=
            &format!("{name:<12} {:>7} mazes of {h:>2} × {w:>2}, paths from {min_path} steps\n", count(n));
        rows.push(json!({ "name": name, "samples": n, "height": h, "width": w, "min_path": min_path,
                          "out": file.display().to_string() }));
        Ok::<_, Error>(())
    };
    let shape = suite::training_shape()?;
    let (train, test) = train_test_split(&shape, seed, suite::TRAIN_COUNT, suite::TEST_COUNT)?;
    save("train", &train, shape.min_path())?;
    let mut taken = train.keys();
    for set in &sets {
        // The test set is drawn together with the training set; the 19 × 19 sweep must avoid both.
        let mazes = if set.name == "test" {
            taken.extend(test.keys());
            test.clone()
        } else {
            generate_distinct(&set.shape, seed, set.count, &mut taken)?
        };
        save(&set.name, &mazes, set.shape.min_path())?;
    }
    let mut report = Report::new();
    report.above(table).value("seed", seed).value("sets", rows).written(folder);
    Ok(report)
}
