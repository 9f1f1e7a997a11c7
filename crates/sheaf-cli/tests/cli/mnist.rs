//! MNIST commands on tiny generated sets, without network access.

use std::path::Path;

use sheaf_learn::config::strict;
use sheaf_learn::task::Task;
use sheaf_learn::train::{TensorFile, WeightsFile};
use sheaf_tasks::mnist::pen;
use sheaf_tasks::mnist::task::{Mnist, MnistConfig, MnistExperiment};

use super::support::{fails, file, json, ok};

/// Pixels of a side; 16 agents stand on 12 × 12.
pub const SIDE: usize = 12;

/// A model of agents small enough to train in a moment.
pub const TINY: &str = r#"task = "mnist"
[data]
dir = "set"
[model]
d_v = 8
d_e = 4
hidden = 16
rank = 2
[iterations]
train = 4
eval = 6
[train]
steps = 20
batch = 16
warmup = 2
eval_every = 10
checkpoint_every = 10
log_every = 5
[eval]
test = 0
long = 10
"#;

/// A convolutional network of similar size.
pub const NETWORK: &str = r#"task = "mnist-cnn"
[data]
dir = "set"
[model]
kernels = [3, 3]
channels = [4, 8]
pools = 1
bins = 3
hidden = 16
[train]
steps = 20
batch = 16
warmup = 2
eval_every = 10
checkpoint_every = 10
"#;

/// Bytes of an IDX file.
fn idx(shape: &[usize], bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0, 0, 8, shape.len() as u8];
    shape.iter().for_each(|&n| out.extend((n as u32).to_be_bytes()));
    out.extend_from_slice(bytes);
    out
}

/// A folder with drawn digits: 60 for training, 20 held out.
pub fn make_set(folder: &Path, name: &str, side: usize) {
    let dir = folder.join(name);
    std::fs::create_dir(&dir).unwrap();
    for (split, count, seed) in [("train", 60, 1), ("t10k", 20, 2)] {
        let set = pen::digits(count, side, seed).unwrap();
        file(&dir, &format!("{split}-images-idx3-ubyte"), idx(&[count, side, side], &set.images));
        file(&dir, &format!("{split}-labels-idx1-ubyte"), idx(&[count], &set.labels));
    }
}

#[test]
fn data_train_resume_eval_trace_export_inspect() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    make_set(here, "raw", SIDE);
    file(here, "tiny.toml", TINY);

    let taken = json(here, "data mnist --from raw --out set");
    assert_eq!((taken["train"].as_u64(), taken["test"].as_u64()), (Some(60), Some(20)));
    assert_eq!((taken["original"].as_bool(), taken["height"].as_u64()), (Some(false), Some(12)));

    let trained = json(here, "train tiny.toml --out run --threads 1");
    assert_eq!((trained["step"].as_u64(), trained["interrupted"].as_bool()), (Some(20), Some(false)));
    assert!(trained["eval"]["accuracy"].is_number() && trained["eval"]["accuracy_long"].is_number());
    assert_eq!(json(here, "train --resume --out run")["step"].as_u64(), Some(20));

    let eval = json(here, "eval --weights run/final.safetensors --data set");
    for key in ["accuracy", "accuracy_spread", "samples_per_s", "seconds", "peak_rss_mb"] {
        assert!(eval[key].is_number(), "{key}: {eval}");
    }
    assert_eq!((eval["samples"].as_u64(), eval["iterations"].as_u64()), (Some(20), Some(6)));
    assert_eq!((eval["shift"].as_str(), eval["draws"].as_u64()), (Some("none"), Some(1)));
    let train = json(here, "eval --weights run/final.safetensors --data set --split train --count 7");
    assert_eq!((train["samples"].as_u64(), train["split"].as_str()), (Some(7), Some("train")));
    let one = json(here, "eval --weights run/final.safetensors --data set --shift noise:0.2 --draws 3");
    assert_eq!(one["accuracies"].as_array().unwrap().len(), 3);

    let settled =
        json(here, "eval --weights run/final.safetensors --data set --until-settled --max-iterations 300");
    assert!(settled["iterations"].as_f64().unwrap() < 300.0, "{settled}");

    let all = "eval --weights run/final.safetensors --data set --shifts published --draws 2 --iterations 2";
    let table = json(here, all);
    let rows = table["shifts"].as_array().unwrap();
    assert_eq!((rows.len(), &table["accuracy"]), (9, &rows[0]["accuracy"]));
    assert_eq!((rows[3]["shift"].as_str(), rows[3]["draws"].as_u64()), (Some("pad:16"), Some(1)));
    assert_eq!((rows[8]["shift"].as_str(), rows[8]["draws"].as_u64()), (Some("noise:0.2"), Some(2)));
    let text = ok(here, all);
    assert!(text.contains("drop:0.05") && text.contains("(2 draws of 20)"), "{text}");

    let traced =
        "trace --weights run/final.safetensors --data set --index 3 --iterations 5 --out t.safetensors";
    let output = json(here, traced);
    assert_eq!((output["agents"].as_u64(), output["label"].as_u64()), (Some(16), Some(3)));
    let trace = TensorFile::read(&here.join("t.safetensors")).unwrap();
    let shape = |name: &str| trace.info(name).unwrap().1.to_vec();
    assert_eq!([shape("x"), shape("z"), shape("u")], [[5, 16, 8], [5, 16, 8], [5, 16, 8]]);
    assert_eq!((shape("logits"), shape("votes"), shape("input")), (vec![5, 16, 10], vec![10], vec![12, 12]));

    json(here, "export --weights run/final.safetensors --half --out half.safetensors");
    let halved = json(here, "eval --weights half.safetensors --data set");
    let differs = (halved["accuracy"].as_f64().unwrap() - eval["accuracy"].as_f64().unwrap()).abs();
    assert!(differs <= 0.05, "{halved}");
    let shown = ok(here, "inspect half.safetensors --history");
    assert!(shown.contains("d_v = 8") && shown.contains("F16") && shown.contains("history:"), "{shown}");
}

#[test]
fn the_network_is_trained_and_evaluated_in_the_same_way() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    make_set(here, "set", SIDE);
    file(here, "net.toml", NETWORK);
    let trained = json(here, "train net.toml --out run");
    assert_eq!((trained["task"].as_str(), trained["step"].as_u64()), (Some("mnist-cnn"), Some(20)));
    let table = json(here, "eval --weights run/best.safetensors --data set --shifts published --draws 2");
    assert_eq!(table["shifts"].as_array().unwrap().len(), 9);
    assert!(table["iterations"].is_null() && table["accuracy"].is_number());
    for kind in ["train --batch 8", "eval --batch 4"] {
        let row = json(here, &format!("bench {kind} --task mnist-cnn --size 12 --seconds 0.1"));
        assert!(
            row["samples_per_s"].as_f64().unwrap() > 0.0 && row["ns_per_agent_iteration"].is_null(),
            "{row}"
        );
    }
}

#[test]
fn a_picture_is_told_from_a_pen_a_set_and_a_file_and_the_vote_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    make_set(here, "set", 28);
    let drawn = ok(here, "solve mnist --digit 1 --seed 4 --iterations 12");
    let lines: Vec<&str> = drawn.lines().collect();
    assert!(lines[14].chars().count() >= 28 + 2 + 27 && drawn.contains("--digit 1 --seed 4"), "{drawn}");
    let output = json(here, "solve mnist --digit 1 --seed 4 --iterations 12");
    assert_eq!((output["agents"].as_u64(), output["iterations"].as_u64()), (Some(81), Some(12)));
    assert_eq!((output["label"].as_u64(), output["seed"].as_u64()), (Some(1), Some(4)));
    let votes: f64 = output["votes"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).sum();
    assert!((votes - 1.0).abs() < 1e-4, "{output}");
    assert_eq!(output["votes_curve"].as_array().unwrap().len(), 12);
    assert!(output["agents_for_class"].as_u64().unwrap() <= 81 && output["decided"].as_u64().unwrap() >= 1);

    let indexed = json(here, "solve mnist 3 --data set --iterations 5 --out vote.gif");
    assert_eq!((indexed["label"].as_u64(), indexed["out"].as_str()), (Some(3), Some("vote.gif")));
    assert!(std::fs::read(here.join("vote.gif")).unwrap().starts_with(b"GIF89a"));
    ok(here, "solve mnist 3 --data set --split train --iterations 2 --out vote.png");
    // The drawn picture, with both panels, can be read like any other picture.
    let output = ok(here, "solve mnist vote.png --iterations 2");
    assert!(output.contains("scaled and centred in 28 × 28"), "{output}");
    assert!(json(here, "solve mnist vote.png --iterations 2")["label"].is_null());
}

#[test]
fn parameters_under_the_authors_names_become_weights() {
    imported(
        &MnistConfig::default(),
        "task = \"mnist\"\n",
        1_081_835,
        "ClassificationDecoder_0/cls_output/kernel",
    );
}

#[test]
fn parameters_of_message_passing_under_the_authors_names_become_weights() {
    let text = include_str!("../../../../experiments/mnist-mpnn.toml");
    let experiment: MnistExperiment = strict::parse("experiment", text, &[]).unwrap();
    let name = "GraphClassificationHead_0/cls_output/kernel";
    imported(&experiment.model, text, 198_027, name);
}

/// Writes random parameters of a model under the authors' names and imports them.
fn imported(config: &MnistConfig, experiment: &str, parameters: u64, a_name: &str) {
    use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    let model = Mnist::model(config).unwrap();
    let params: Vec<f32> = model.init(4);
    let tensor = |e: &sheaf_learn::params::ParamEntry| {
        let bytes: Vec<u8> = params[e.range.clone()].iter().flat_map(|v| v.to_le_bytes()).collect();
        (Mnist::authors_name(model.layout(), &e.name).unwrap(), e.shape.clone(), bytes)
    };
    let tensors: Vec<_> = model.layout().entries().iter().map(tensor).collect();
    assert!(tensors.iter().any(|(name, ..)| name == a_name));
    let views = tensors.iter().map(|(n, s, b)| (n, TensorView::new(Dtype::F32, s.clone(), b).unwrap()));
    serialize_to_file(views, None, &here.join("theirs")).unwrap();
    file(here, "own.toml", experiment);
    let output = json(here, "import --task mnist --from theirs --experiment own.toml --out w.safetensors");
    assert_eq!(output["parameters"].as_u64(), Some(parameters));
    let weights = WeightsFile::read(&here.join("w.safetensors")).unwrap();
    assert!(weights.params(model.layout()).unwrap() == params);
}

#[test]
fn the_built_in_weights_can_be_inspected_and_measured() {
    let here = Path::new(".");
    for task in ["mnist", "mnist-cnn"] {
        assert_eq!(json(here, &format!("inspect builtin:{task}"))["task"].as_str(), Some(task));
    }
    let parts = ["laplacian --batch 2", "forward --batch 2", "reverse --batch 3"];
    for kind in ["train --batch 8", "eval --batch 4", "solve"].into_iter().chain(parts) {
        let row = json(here, &format!("bench {kind} --task mnist --size 12 --iterations 3 --seconds 0.1"));
        assert_eq!((row["agents"].as_u64(), row["iterations"].as_u64()), (Some(16), Some(3)));
        assert!(row["ns_per_agent_iteration"].as_f64().unwrap() > 0.0, "{row}");
    }
}

#[test]
fn mistakes_with_pictures_are_said_clearly() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    for (name, side) in [("set", SIDE), ("cut", SIDE), ("sizes", SIDE), ("labels", SIDE), ("foreign", SIDE)] {
        make_set(here, name, side);
    }
    let images = |name: &str| here.join(name).join("t10k-images-idx3-ubyte");
    let whole = std::fs::read(images("set")).unwrap();
    std::fs::write(images("cut"), &whole[..whole.len() / 2]).unwrap();
    let other = pen::digits(20, 16, 1).unwrap();
    std::fs::write(images("sizes"), idx(&[20, 16, 16], &other.images)).unwrap();
    std::fs::write(images("labels"), idx(&[19, SIDE, SIDE], &whole[16..16 + 19 * SIDE * SIDE])).unwrap();
    std::fs::write(images("foreign"), "<html>not found</html>").unwrap();
    std::fs::create_dir(here.join("empty")).unwrap();
    file(here, "tiny.toml", TINY);
    file(here, "net.toml", NETWORK);
    file(here, "broken.png", b"\x89PNG\r\n\x1a\nnothing");
    ok(here, "train tiny.toml --out agents --set train.steps=1 --set train.warmup=0");
    ok(here, "train net.toml --out network --set train.steps=1 --set train.warmup=0");
    ok(here, "data maze --size 7 --count 1 --out mazes.npz");
    let (agents, network) = ("--weights agents/final.safetensors", "--weights network/final.safetensors");
    let commands = [
        "train tiny.toml --out run --set data.dir=nowhere".to_string(),
        "train tiny.toml --out run --set data.dir=empty".into(),
        "train tiny.toml --out run --set data.dir=cut".into(),
        "train tiny.toml --out run --set data.dir=sizes".into(),
        "train tiny.toml --out run --set model.classes=4".into(),
        format!("eval {agents} --data nowhere"),
        format!("eval {agents} --data labels"),
        format!("eval {agents} --data foreign"),
        format!("eval {agents} --data set --shift blur:3"),
        format!("eval {agents} --data set --shift drop:1.5"),
        format!("eval {agents} --data set --shift pad"),
        format!("eval {network} --data set --until-settled"),
        format!("eval {network} --data set --iterations 5"),
        "eval --weights builtin:maze --data mazes.npz --shift pad:4".into(),
        format!("trace {agents} --data set --index 20 --out t.safetensors"),
        format!("trace {network} --data set --out t.safetensors"),
        "import --task mnist-cnn --from agents/final.safetensors --out w.safetensors".into(),
        "solve mnist missing.png".into(),
        "solve mnist broken.png".into(),
        "solve mnist 20 --data set".into(),
        "solve mnist 0".into(),
        "solve mnist --out vote.svg".into(),
        "solve mnist --digit 10".into(),
        "data mnist --out set --mirror ftp://example.org".into(),
        "data mnist --out tiny.toml".into(),
        "data mnist --out copy --from cut".into(),
    ];
    let said: String = commands.iter().map(|c| format!("$ sheaf {c}\n{}\n", fails(here, c))).collect();
    insta::assert_snapshot!(said);
    assert!(!here.join("run").exists() && !here.join("copy").exists(), "nothing was begun");
}

#[test]
fn a_mirror_that_does_not_answer_is_named_with_what_else_can_be_done() {
    let dir = tempfile::tempdir().unwrap();
    // No server listens on port 1 of this machine.
    let output = fails(dir.path(), "data mnist --out set --mirror http://127.0.0.1:1/mnist");
    assert!(output.starts_with("exit 1\n"), "{output}");
    for part in ["http://127.0.0.1:1/mnist/train-images-idx3-ubyte.gz", "hint: ", "--from DIR"] {
        assert!(output.contains(part), "`{part}` in {output}");
    }
}
