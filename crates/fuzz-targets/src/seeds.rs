//! Inputs to start from, made by the writers of the library where there are any.

use sheaf_cli::draw::canvas::Canvas;
use sheaf_cli::draw::png::encode;
use sheaf_files::npz::{Array, Values, to_bytes};
use sheaf_learn::config::strict::to_toml;
use sheaf_learn::params::ParamLayout;
use sheaf_learn::task::Task;
use sheaf_learn::train::{Precision, WeightsMeta, encode_weights};
use sheaf_tasks::baselines::cnn::experiment::CnnExperiment;
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::generate;
use sheaf_tasks::maze::task::Maze;
use sheaf_tasks::mnist::task::Mnist;
use sheaf_tasks::sudoku::csv;
use sheaf_tasks::sudoku::generate::{Kind, generate as puzzles};
use sheaf_tasks::sudoku::task::Sudoku;

const MAZE: &str = "#######\n#S#   #\n# # # #\n#   #G#\n#######\n";
const BOARD: &str = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79";

fn texts(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|text| text.as_bytes().to_vec()).collect()
}

pub(super) fn maze_text() -> Vec<Vec<u8>> {
    let painted = MAZE.replace('#', "█");
    texts(&[MAZE, &painted, "  #####\n  #S G#\n  #####", "###\n#S#\n#G#\n###\n###\r\n"])
}

pub(super) fn png() -> Vec<Vec<u8>> {
    let pixels: Vec<u8> = (0..49).map(|i| (i % 5) as u8).collect();
    let canvas = Canvas { height: 7, width: 7, pixels };
    encode(&canvas).into_iter().collect()
}

pub(super) fn npz() -> Vec<Vec<u8>> {
    let shape = || MazeShape::new(7, 7, 4);
    let Ok(set) = shape().and_then(|shape| generate(&shape, 1, 3)) else { return Vec::new() };
    let array = |values: Vec<u8>| Array::new(vec![3, 7, 7], Values::U8(values));
    let numbers = Array::new(vec![2, 2], Values::F64(vec![0.5; 4]));
    let (Ok(inputs), Ok(labels), Ok(numbers)) = (array(set.inputs), array(set.labels), numbers) else {
        return Vec::new();
    };
    let both = to_bytes(&[("inputs", &inputs), ("labels", &labels)]);
    let other = to_bytes(&[("inputs", &numbers), ("x", &labels)]);
    both.into_iter().chain(other).collect()
}

pub(super) fn sudoku_text() -> Vec<Vec<u8>> {
    let rows: Vec<&str> = (0..9).map(|row| &BOARD[9 * row..9 * row + 9]).collect();
    let framed = rows.join(" |\n").replace('.', "_");
    texts(&[BOARD, &rows.join("\n"), &framed, &"0".repeat(81)])
}

pub(super) fn sudoku_csv() -> Vec<Vec<u8>> {
    let mut file = Vec::new();
    let _ = csv::write(&puzzles(Kind::Any, 3, 4), &mut file);
    let mut named = b"\xef\xbb\xbfpuzzle,solution\n".to_vec();
    named.extend_from_slice(&file);
    let mut all = texts(&[BOARD, "id;quiz;answer\n1;;\n"]);
    all.extend([file, named]);
    all
}

pub(super) fn idx() -> Vec<Vec<u8>> {
    let images = [&[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 2][..], &[7; 12]].concat();
    let labels = [&[0, 0, 8, 1, 0, 0, 0, 4][..], &[1, 2, 3, 0]].concat();
    // The same labels, stored in a gzip member.
    let packed = [
        &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 12, 0, 0xf3, 0xff][..],
        &labels,
        &[0, 0, 0, 0, 12, 0, 0, 0],
    ]
    .concat();
    vec![images, labels, packed]
}

pub(super) fn weights() -> Vec<Vec<u8>> {
    let mut layout = ParamLayout::new();
    layout.add("encoder/kernel", &[2, 3]);
    layout.add("rho", &[]);
    let config = "task = \"maze\"\n[model]\nd_v = 4\nd_e = 2\n".to_string();
    let about = WeightsMeta { task: "maze".into(), config, record: "{\"seed\":42}".into() };
    let sealed = encode_weights(&layout, &[0.5; 7], &about, Precision::F16);
    // The old format without a checksum, so that mutations reach what a checksum would hide.
    let open = |format: &str, more: &str| {
        let header = format!(
            "{{\"__metadata__\":{{\"config\":\"task = \\\"maze\\\"\",\"format\":\"sheaf-admm {format}\",{more}\
             \"record\":\"{{}}\",\"task\":\"maze\",\"version\":\"1\"}},\"ema/w\":{{\"dtype\":\"F32\",\
             \"shape\":[1,2],\"data_offsets\":[0,8]}}}}"
        );
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 8]].concat()
    };
    let counters = r#""counters":"{\"step\":1,\"samples\":1,\"seed\":1,\"elapsed_seconds\":0.5,\"skipped\":0,
        \"rollbacks\":0,\"window_loss\":0,\"window_steps\":0,\"best\":null}","history":"{}","#;
    let counters: String = counters.lines().map(str::trim_start).collect();
    sealed.into_iter().chain([open("weights", ""), open("checkpoint", &counters)]).collect()
}

pub(super) fn script() -> Vec<Vec<u8>> {
    let of = |input: &str, more: &str, actions: &str| {
        format!(
            "{{\"task\":\"maze\",\"iterations\":3,\"input\":{input},\"inputs\":[{more}],\"interventions\":[{actions}]}}"
        )
    };
    let states = r#"{"k":1,"do":{"set":{"of":"z","agents":[1,2],"coordinates":[0],"to":[1.5]}}},
        {"k":2,"before":"end","do":{"noise":{"of":"u","agents":{"share":0.5,"seed":1},"deviation":0.5,"seed":2}}},
        {"k":2,"do":{"pin":{"of":"x","agents":"all","to":0.5,"until":3}}}"#;
    let problem = r#"{"k":1,"do":{"cut":[[0,1]]}},{"k":2,"do":{"remove":[3]}},{"k":3,"do":{"restore":"all"}},
        {"k":2,"do":{"rho":0.5}},{"k":2,"do":{"gamma":2}},{"k":3,"do":{"steps":2}},{"k":3,"do":{"input":1}}"#;
    texts(&[
        &of(r#"{"seed":1,"size":9}"#, "", states),
        &of(r#"{"seed":2,"size":7}"#, r#"{"goal":[1,1],"open":[[2,2]]}"#, problem),
        &of(&format!("{{\"text\":{MAZE:?}}}"), "", ""),
        "{\"task\":\"sudoku\"}",
    ])
}

pub(super) fn experiment() -> Vec<Vec<u8>> {
    let all = [
        to_toml(&Maze::published()),
        to_toml(&Sudoku::published()),
        to_toml(&Mnist::published()),
        to_toml(&CnnExperiment::default()),
    ];
    let mut found: Vec<Vec<u8>> = all.into_iter().flatten().map(String::into_bytes).collect();
    found.extend(texts(&[
        "task = \"maze\"\n[train]\nsteps = 3\nbatch = 8\n",
        "task = \"sudoku\"\ndata = {}\n",
    ]));
    found
}
