//! `sheaf import` of the authors' parameters of message passing: the states of a traced solve are theirs.
#![cfg(feature = "goldens")]

use std::path::Path;

use assert_cmd::Command;
use safetensors::SafeTensors;
use sheaf_tasks::maze::data::MazeSet;
use sheaf_tasks::sudoku::data::SudokuSet;
use sheaf_tasks::sudoku::{CELLS, Grid, csv};
use sheaf_testkit::golden::{ENCODER, Golden, LOGITS, assert_close_max, assert_iterates};

const SAMPLES: usize = 2;

fn sheaf(folder: &Path, arguments: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sheaf"));
    command.current_dir(folder).args(arguments.split_whitespace()).assert().success();
}

fn bytes(golden: &Golden, name: &str) -> Vec<u8> {
    golden.i32(name).data.iter().map(|&token| token as u8).collect()
}

/// Imports the parameters of a case as those of `experiment`, and traces its samples, which are in `data`.
fn import_and_trace(folder: &Path, case: &str, (task, experiment): (&str, &str), data: &str, rounds: usize) {
    std::fs::write(folder.join("theirs.toml"), experiment).unwrap();
    let from = Golden::root().join(case).join("params.safetensors");
    std::os::unix::fs::symlink(from.canonicalize().unwrap(), folder.join("params.safetensors")).unwrap();
    sheaf(
        folder,
        &format!(
            "import --task {task} --experiment theirs.toml --from params.safetensors --out w.safetensors"
        ),
    );
    let want = Golden::open(case, "trace");
    for s in 0..SAMPLES {
        sheaf(
            folder,
            &format!(
                "trace --weights w.safetensors --data {data} --index {s} --iterations {rounds} --out t.safetensors"
            ),
        );
        let path = folder.join("t.safetensors");
        let got = Golden::read(&path);
        assert_close_max("h0", &got.f64("h0").data, &want.f64("hidden0").select(1, s).data, ENCODER);
        assert_iterates("h", &got.f64("h").data, &want.f64("hidden").select(2, s).data, rounds);
        let last = got.f64("logits").select(0, rounds - 1);
        assert_close_max("logits", &last.data, &want.f64("logits").select(1, s).data, LOGITS);
        let file = std::fs::read(&path).unwrap();
        let predicted = SafeTensors::deserialize(&file).unwrap().tensor("predicted").unwrap().data().to_vec();
        let theirs: Vec<u8> = want.i32("pred").select(0, s).data.iter().map(|&token| token as u8).collect();
        assert_eq!(predicted, theirs, "prediction of sample {s}");
    }
}

#[test]
fn imported_messages_about_mazes_are_the_authors() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = Golden::open("maze_mpnn", "inputs");
    let (inputs, labels) = (bytes(&inputs, "tokens"), bytes(&inputs, "labels"));
    MazeSet { height: 19, width: 19, inputs, labels }.write(&folder.path().join("m.npz")).unwrap();
    let experiment = "task = \"maze\"\n[model]\ncoordination = \"message-passing\"\n\
                      d_v = 84\nmessage_width = 42\n[iterations]\ntrain_max = 0\n";
    import_and_trace(folder.path(), "maze_mpnn", ("maze", experiment), "m.npz", 8);
}

#[test]
fn imported_messages_about_sudoku_are_the_authors() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = Golden::open("sudoku_mpnn", "inputs");
    let grids = |name: &str| -> Vec<Grid> {
        bytes(&inputs, name).chunks_exact(CELLS).map(|cells| cells.try_into().unwrap()).collect()
    };
    let set =
        SudokuSet { puzzles: grids("tokens"), solutions: grids("labels"), ambiguous: vec![false; SAMPLES] };
    let mut file = std::fs::File::create(folder.path().join("s.csv")).unwrap();
    csv::write(&set, &mut file).unwrap();
    // The golden has a narrower state than the published model.
    let experiment = "task = \"sudoku\"\n[model]\ncoordination = \"message-passing\"\n\
                      d_v = 126\nmessage_width = 32\n";
    import_and_trace(folder.path(), "sudoku_mpnn", ("sudoku", experiment), "s.csv", 4);
}
