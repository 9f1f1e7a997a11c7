//! Sudoku through the tool: data, training, evaluation, traces, imports, measurements.

use sheaf_learn::task::Task;
use sheaf_learn::train::{TensorFile, WeightsFile};
use sheaf_tasks::sudoku::csv;
use sheaf_tasks::sudoku::task::{Sudoku, SudokuConfig};

use super::support::{fails, file, json, ok};

/// A quick experiment: 27 agents with small states.
pub const TINY: &str = r#"task = "sudoku"
[data]
count = 40
test_count = 6
[model]
d_v = 18
d_e = 2
channels = 8
token_hidden = 4
channel_hidden = 8
decoder_hidden = 16
[iterations]
train = 4
eval = 5
ramp_from = 2
ramp_steps = 6
[train]
steps = 12
batch = 16
warmup = 2
eval_every = 6
checkpoint_every = 6
log_every = 3
"#;

#[test]
fn data_train_resume_eval_trace_inspect() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "tiny.toml", TINY);

    let drawn = json(here, "data sudoku --count 20 --kind any --seed 9 --out puzzles.csv");
    assert_eq!((drawn["samples"].as_u64(), drawn["kind"].as_str()), (Some(20), Some("any")));
    let set = csv::read(&here.join("puzzles.csv"), false).unwrap().set;
    let ambiguous = set.ambiguous.iter().filter(|&&a| a).count() as u64;
    assert_eq!((set.len(), drawn["ambiguous"].as_u64()), (20, Some(ambiguous)));
    json(here, "data sudoku --count 30 --kind any --seed 9 --out more.csv");
    let [short, long] = ["puzzles.csv", "more.csv"].map(|f| std::fs::read_to_string(here.join(f)).unwrap());
    assert!(long.starts_with(&short), "a longer set begins with the shorter one");

    let trained = json(here, "train tiny.toml --out run --threads 1");
    assert_eq!((trained["step"].as_u64(), trained["interrupted"].as_bool()), (Some(12), Some(false)));
    for key in ["solved", "valid", "cell_accuracy", "blank_accuracy"] {
        assert!(trained["eval"][key].is_number(), "{key}: {trained}");
    }
    assert_eq!(json(here, "train --resume --out run")["step"].as_u64(), Some(12));

    let weights = "--weights run/final.safetensors --data puzzles.csv";
    let eval = json(here, &format!("eval {weights}"));
    for key in
        ["solved", "valid", "accuracy", "cell_accuracy", "blank_accuracy", "samples_per_s", "peak_rss_mb"]
    {
        assert!(eval[key].is_number(), "{key}: {eval}");
    }
    assert_eq!((eval["samples"].as_u64(), eval["iterations"].as_f64()), (Some(20), Some(5.0)));
    // At once, whatever the experiment says of rounds, which are reported beside.
    assert!(eval["rounds_solved"].is_null() && eval["rounds"].is_null(), "{eval}");
    let rounds = json(here, &format!("eval {weights} --rounds 3"));
    assert_eq!(
        (&rounds["blank_accuracy"], &rounds["iterations"]),
        (&eval["blank_accuracy"], &eval["iterations"])
    );
    assert!(
        rounds["rounds_solved"].is_number() && rounds["rounds_iterations"].as_f64().unwrap() > 5.0,
        "{rounds}"
    );
    assert_eq!(rounds["most_rounds"].as_u64(), Some(3));
    let settled = json(here, &format!("eval {weights} --until-settled --max-iterations 60"));
    assert!(settled["iterations"].as_f64().unwrap() <= 60.0, "{settled}");

    let traced = json(here, &format!("trace {weights} --index 3 --iterations 6 --out t.safetensors"));
    assert_eq!(traced["agents"].as_u64(), Some(27));
    let trace = TensorFile::read(&here.join("t.safetensors")).unwrap();
    let shape = |name: &str| trace.info(name).unwrap().1.to_vec();
    assert_eq!([shape("x"), shape("z"), shape("u")], [[6, 27, 18], [6, 27, 18], [6, 27, 18]]);
    assert_eq!([shape("primal"), shape("dual")], [[6, 27], [6, 27]]);
    assert_eq!([shape("logits"), shape("boards")], [vec![6, 27, 9, 10], vec![6, 9, 9]]);

    let shown = ok(here, "inspect run/best.safetensors --history");
    assert!(shown.contains("ramp_steps = 6") && shown.contains("decoder/out/kernel"), "{shown}");
    let checkpoint = json(here, "inspect run/checkpoints/step-00000012.safetensors");
    assert_eq!((checkpoint["task"].as_str(), checkpoint["step"].as_u64()), (Some("sudoku"), Some(12)));
}

/// The same puzzle in three formats, and lines that are not puzzles.
const FOREIGN: &str = "\
id,quizzes,solutions,rating
1,530070000600195000098000060800060003400803001700020006060000280000419005000080079,,3
2,53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79,534678912672195348198342567859761423426853791713924856961537284287419635345286179,1
3,5300700006,,
4,550070000600195000098000060800060003400803001700020006060000280000419005000080079,,
5,53007000060019500009800006080006000340080300170002000606000028000041900500008007x,,
6,530070000600195000098000060800060003400803001700020006060000280000419005000080079,434678912672195348198342567859761423426853791713924856961537284287419635345286179,
";

#[test]
fn puzzles_from_elsewhere_are_completed_and_bad_lines_named() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "foreign.csv", FOREIGN);
    insta::assert_snapshot!(
        "sudoku_bad_lines",
        fails(here, "data sudoku --from foreign.csv --out clean.csv")
    );
    assert!(!here.join("clean.csv").exists());
    let output = json(here, "data sudoku --from foreign.csv --skip-bad --out clean.csv");
    assert_eq!((output["samples"].as_u64(), output["completed"].as_u64()), (Some(2), Some(1)));
    let bad: Vec<u64> =
        output["bad"].as_array().unwrap().iter().map(|b| b["line"].as_u64().unwrap()).collect();
    assert_eq!(bad, [4, 5, 6, 7]);
    let clean = std::fs::read_to_string(here.join("clean.csv")).unwrap();
    let lines: Vec<&str> = clean.lines().collect();
    assert_eq!(lines[0], lines[1], "dots and zeros, stored and found solutions are the same");
    let text = ok(here, "data sudoku --from foreign.csv --skip-bad --out clean.csv");
    assert!(text.contains("4 bad lines: line 4: puzzle: 10 cells instead of 81"), "{text}");
    json(here, "data sudoku --from clean.csv --out again.csv");
    assert_eq!(std::fs::read_to_string(here.join("again.csv")).unwrap(), clean);
}

#[test]
fn both_published_variants_can_be_imported() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "low.toml", "task = \"sudoku\"\n[model]\nmaps = \"low-rank\"\n");
    for (maps, more, numbers) in [("slot", "", 543_025), ("low-rank", "--experiment low.toml", 2_029_233)] {
        let mut config = SudokuConfig::default();
        config.common.maps = maps.into();
        let model = Sudoku::model(&config).unwrap();
        let params: Vec<f32> = model.init(4);
        let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = model
            .layout()
            .entries()
            .iter()
            .map(|e| {
                let bytes = params[e.range.clone()].iter().flat_map(|v| v.to_le_bytes()).collect();
                (
                    format!("params/{}", Sudoku::authors_name(model.layout(), &e.name).unwrap()),
                    e.shape.clone(),
                    bytes,
                )
            })
            .collect();
        use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
        let views = tensors.iter().map(|(n, s, b)| (n, TensorView::new(Dtype::F32, s.clone(), b).unwrap()));
        serialize_to_file(views, None, &here.join("theirs")).unwrap();
        if maps == "low-rank" {
            // Without its LoRA updates it would be another model.
            let text = fails(here, "import --task sudoku --from theirs --out x.safetensors");
            assert!(
                text.contains("47 tensors of the model and no others") && text.contains("--experiment"),
                "{text}"
            );
            assert!(!here.join("x.safetensors").exists());
        }
        let output = json(here, &format!("import --task sudoku --from theirs {more} --out w.safetensors"));
        assert_eq!(output["parameters"].as_u64(), Some(numbers));
        let weights = WeightsFile::read(&here.join("w.safetensors")).unwrap();
        assert!(weights.params(model.layout()).unwrap() == params, "{maps}");
    }
}

#[test]
fn the_model_of_any_experiment_can_be_measured() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "tiny.toml", TINY);
    let parts = ["laplacian --batch 2", "forward --batch 2", "reverse --batch 3"];
    for kind in ["train --batch 8", "eval --batch 4", "solve"].into_iter().chain(parts) {
        let more = "--task sudoku --experiment tiny.toml --iterations 3 --seconds 0.05";
        let row = json(here, &format!("bench {kind} {more}"));
        assert_eq!((row["agents"].as_u64(), row["iterations"].as_u64()), (Some(27), Some(3)));
        assert!(row["samples_per_s"].as_f64().unwrap() > 0.0, "{row}");
    }
    let output = json(here, "inspect builtin:sudoku");
    assert_eq!(output["task"].as_str(), Some("sudoku"));
}
