//! The readers. An input that is refused is as good as one that is read; only a panic is a finding.

use std::sync::OnceLock;

use sheaf_cli::draw::png::decode;
use sheaf_explore::{Limits, Script, Subject, Want, subject};
use sheaf_files::npz::Npz;
use sheaf_learn::config::{StrictConfig, strict};
use sheaf_learn::task::{Experiment, Task};
use sheaf_learn::train::{CheckpointFile, WeightsFile};
use sheaf_tasks::baselines::cnn::experiment::CnnExperiment;
use sheaf_tasks::maze::data::MazeSet;
use sheaf_tasks::maze::task::Maze;
use sheaf_tasks::maze::{image, text as maze};
use sheaf_tasks::mnist::data::ImageSet;
use sheaf_tasks::mnist::fit;
use sheaf_tasks::mnist::idx::Idx;
use sheaf_tasks::mnist::task::Mnist;
use sheaf_tasks::sudoku::task::Sudoku;
use sheaf_tasks::sudoku::{csv, text as sudoku};

const PLACE: &str = "input";

pub(super) fn maze_text(bytes: &[u8]) {
    let _ = maze::parse(&String::from_utf8_lossy(bytes), PLACE);
}

pub(super) fn png(bytes: &[u8]) {
    if let Ok(picture) = decode(bytes, PLACE) {
        let _ = image::from_pixels(&picture.rgb, picture.height, picture.width, PLACE);
        for as_it_is in [false, true] {
            let _ = fit::from_pixels(&picture.rgb, (picture.height, picture.width), as_it_is, PLACE);
        }
    }
}

pub(super) fn npz(bytes: &[u8]) {
    if let Ok(file) = Npz::from_bytes(bytes.to_vec(), PLACE) {
        let _ = MazeSet::from_npz(&file);
        for name in file.names() {
            let _ = file.array(name);
        }
    }
}

pub(super) fn sudoku_text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = sudoku::looks_like_board(&text);
    if let Ok(board) = sudoku::parse(&text, PLACE) {
        let _ = sudoku::check(board, PLACE);
    }
}

pub(super) fn sudoku_csv(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = csv::parse(PLACE, &text, true);
    let _ = csv::nth(PLACE, &text, bytes.len() % 3);
}

pub(super) fn idx(bytes: &[u8]) {
    let (images, labels) = (Idx::from_bytes(bytes, 3, PLACE), Idx::from_bytes(bytes, 1, PLACE));
    if let Ok(labels) = &labels {
        let shape = vec![labels.bytes.len(), 1, 1];
        let _ = ImageSet::new(Idx { shape, bytes: labels.bytes.clone() }, labels.clone(), PLACE);
    }
    if let Ok(images) = images {
        let count = images.shape[0].min(images.bytes.len());
        let labels = Idx { shape: vec![count], bytes: images.bytes[..count].to_vec() };
        let _ = ImageSet::new(images, labels, PLACE);
    }
}

pub(super) fn weights(bytes: &[u8]) {
    let Ok(file) = WeightsFile::parse(PLACE, bytes.to_vec()) else { return };
    let _ = file.params(&file.layout());
    let about = file.about();
    checked::<Maze>(&about.config);
    let _ = file.tensors().note();
    let _ = CheckpointFile::parse(PLACE, bytes.to_vec()).and_then(|file| file.counters());
}

pub(super) fn experiment(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    checked::<Maze>(&text);
    checked::<Sudoku>(&text);
    checked::<Mnist>(&text);
    if let Ok(experiment) = strict::parse::<CnnExperiment>(PLACE, &text, &[])
        && experiment.check().is_ok()
    {
        written_is_read_again(&experiment);
    }
}

pub(super) fn script(bytes: &[u8]) {
    static SUBJECT: OnceLock<Box<dyn Subject>> = OnceLock::new();
    let Ok(script) = Script::parse(&String::from_utf8_lossy(bytes), PLACE) else { return };
    let text = serde_json::to_string(&script).unwrap_or_default();
    assert_eq!(Script::parse(&text, PLACE).ok().as_ref(), Some(&script), "written is read again");
    let subject = SUBJECT.get_or_init(|| subject::builtin("maze").expect("weights that ship"));
    // Small enough for many cases a second.
    let limits = Limits { iterations: 3, cells: 81, inputs: 3, interventions: 20, numbers: 10_000 };
    let _ = subject.run(&script, &Want { limits, ..Want::everything() });
}

fn checked<K: Task>(text: &str) {
    if let Ok(experiment) = strict::parse::<Experiment<K>>(PLACE, text, &[])
        && experiment.check().is_ok()
    {
        written_is_read_again(&experiment);
    }
}

/// What was accepted must survive being written and read.
fn written_is_read_again<E: StrictConfig + PartialEq + std::fmt::Debug>(experiment: &E) {
    let text = strict::to_toml(experiment).unwrap_or_default();
    match strict::parse::<E>(PLACE, &text, &[]) {
        Ok(again) => assert_eq!(&again, experiment),
        Err(error) => panic!("an accepted experiment cannot be read again: {error}"),
    }
}
