//! From data to trained weights and their export, as a user would proceed.

use sheaf_learn::task::Task;
use sheaf_learn::train::{TensorFile, WeightsFile};
use sheaf_tasks::maze::data::MazeSet;
use sheaf_tasks::maze::task::{Maze, MazeConfig};

use super::support::{TINY, fails, file, json, ok};

#[test]
fn data_train_resume_eval_trace_inspect_import() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "tiny.toml", TINY);

    let drawn = json(here, "data maze --size 7 --width 9 --count 12 --min-path 4 --seed 9 --out mazes.npz");
    assert_eq!((drawn["samples"].as_u64(), drawn["width"].as_u64()), (Some(12), Some(9)));
    let set = MazeSet::read(&here.join("mazes.npz")).unwrap();
    assert_eq!((set.len(), set.height, set.width), (12, 7, 9));
    assert_eq!(set.keys().len(), 12, "no maze is a variant of another");
    json(
        here,
        "data maze --size 7 --width 9 --count 12 --min-path 4 --seed 9 --exclude mazes.npz --out b.npz",
    );
    let other = MazeSet::read(&here.join("b.npz")).unwrap();
    assert!(other.keys().is_disjoint(&set.keys()), "the same seed, but nothing of the excluded file");

    let trained = json(here, "train tiny.toml --out run --threads 1");
    assert_eq!((trained["step"].as_u64(), trained["interrupted"].as_bool()), (Some(20), Some(false)));
    assert!(trained["eval"]["solved"].is_number() && trained["loss"].is_number());
    let names = ["config.toml", "metrics.jsonl", "best.safetensors", "final.safetensors", "checkpoints"];
    names.iter().for_each(|name| assert!(here.join("run").join(name).exists(), "{name}"));
    let metrics = std::fs::read_to_string(here.join("run/metrics.jsonl")).unwrap();
    assert!(metrics.lines().all(|l| serde_json::from_str::<serde_json::Value>(l).is_ok()));
    // A finished run stays finished.
    let again = json(here, "train --resume --out run");
    assert_eq!(again["step"].as_u64(), Some(20));

    let eval = json(here, "eval --weights run/final.safetensors --data mazes.npz");
    for key in ["solved", "valid", "accuracy", "cell_accuracy", "samples_per_s", "peak_rss_mb", "ever_solved"]
    {
        assert!(eval[key].is_number(), "{key}: {eval}");
    }
    assert_eq!((eval["samples"].as_u64(), eval["iterations"].as_f64()), (Some(12), Some(5.0)));
    let settled = json(
        here,
        "eval --weights run/final.safetensors --data mazes.npz --until-settled --max-iterations 60 --no-first-solve",
    );
    assert!(settled["iterations"].as_f64().unwrap() <= 60.0 && settled["ever_solved"].is_null());

    let traced =
        "trace --weights run/final.safetensors --data mazes.npz --index 3 --iterations 6 --out t.safetensors";
    assert_eq!(json(here, traced)["agents"].as_u64(), Some(12));
    let trace = TensorFile::read(&here.join("t.safetensors")).unwrap();
    let shape = |name: &str| trace.info(name).unwrap().1.to_vec();
    assert_eq!([shape("x"), shape("z"), shape("u")], [[6, 12, 4], [6, 12, 4], [6, 12, 4]]);
    assert_eq!([shape("primal"), shape("dual")], [[6, 12], [6, 12]]);
    assert_eq!((shape("edge_rms"), shape("logits")), (vec![6], vec![6, 12, 3, 3, 6]));
    let numbers = |name| trace.tensor(name, &[6], &[safetensors::Dtype::F32]).unwrap();
    assert_eq!(numbers("edge_rms"), numbers("consistency"), "the older name, for one version");

    let shown = ok(here, "inspect run/best.safetensors --history");
    assert!(shown.contains("d_v = 4") && shown.contains("decoder/out/kernel") && shown.contains("history:"));
    let checkpoint = json(here, "inspect run/checkpoints/step-00000020.safetensors");
    assert_eq!((checkpoint["kind"].as_str(), checkpoint["step"].as_u64()), (Some("checkpoint"), Some(20)));

    // A checkpoint gives the same results as the weights written at its step.
    let of_checkpoint =
        json(here, "eval --weights run/checkpoints/step-00000020.safetensors --data mazes.npz");
    assert_eq!(of_checkpoint["cell_accuracy"], eval["cell_accuracy"]);
    json(here, "export --weights run/checkpoints/step-00000020.safetensors --out w.safetensors");
    let read = |name: &str| WeightsFile::read(&here.join(name)).unwrap();
    let (last, exported) = (read("run/final.safetensors"), read("w.safetensors"));
    assert_eq!(last.params(&last.layout()).unwrap(), exported.params(&last.layout()).unwrap());
    assert_eq!(last.about().config, exported.about().config);
    json(here, "export --weights w.safetensors --half --out h.safetensors");
    let (halved, exact) = (read("h.safetensors"), exported.params(&last.layout()).unwrap());
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= a.abs() / 1024.0 + 1e-7;
    assert!(exact.iter().zip(&halved.params(&last.layout()).unwrap()).all(near));
    let ten = "run/checkpoints/step-00000010.safetensors";
    let output =
        json(here, &format!("export --weights w.safetensors --mix {ten} --share 0.25 --out m.safetensors"));
    assert_eq!(output["share"], 0.25);
    let (mixed, other) = (read("m.safetensors"), read(ten).params(&last.layout()).unwrap());
    assert_ne!(exact, other);
    let mean = |a: f32, b: f32| (0.75 * f64::from(a) + 0.25 * f64::from(b)) as f32;
    let expected: Vec<f32> = exact.iter().zip(other).map(|(&a, b)| mean(a, b)).collect();
    assert_eq!(mixed.params(&last.layout()).unwrap(), expected);
    let record: serde_json::Value = serde_json::from_str(&mixed.about().record).unwrap();
    assert_eq!(
        (&record["parts"][0]["share"], &record["parts"][0]["record"]["step"]),
        (&0.75.into(), &20.into())
    );
}

#[test]
fn exported_weights_keep_a_changed_key_and_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    json(
        here,
        "export --weights builtin:mnist --set model.cg_steps=8 --set model.alpha=0.5 --out w.safetensors",
    );
    let changed = WeightsFile::read(&here.join("w.safetensors")).unwrap();
    assert!(
        changed.about().config.contains("cg_steps = 8\n") && changed.about().config.contains("alpha = 0.5\n")
    );
    let record: serde_json::Value = serde_json::from_str(&changed.about().record).unwrap();
    assert_eq!(record["set"], serde_json::json!(["model.cg_steps=8", "model.alpha=0.5"]));
    json(here, "export --weights builtin:mnist --out same.safetensors");
    let same = WeightsFile::read(&here.join("same.safetensors")).unwrap();
    assert_eq!(changed.params(&changed.layout()).unwrap(), same.params(&same.layout()).unwrap());
    assert_eq!(record["of"], serde_json::from_str::<serde_json::Value>(&same.about().record).unwrap());
    assert!(ok(here, "inspect w.safetensors --history").contains("set: model.cg_steps=8"));
}

#[test]
fn exported_weights_must_fit_the_changed_keys() {
    let dir = tempfile::tempdir().unwrap();
    for (set, named) in [
        ("model.d_v=16", "encoder"),      // other parameters
        ("model.cg_stepz=8", "cg_steps"), // no such key
        ("model.cg_steps=-1", "cg_steps"),
        ("model.cg_steps", "no `=`"),
        ("task=sudoku", "a key of the same task"),
    ] {
        let said =
            fails(dir.path(), &format!("export --weights builtin:maze --set {set} --out w.safetensors"));
        assert!(said.contains(named), "{set}: {said}");
        assert!(!dir.path().join("w.safetensors").exists());
    }
}

#[test]
fn weights_of_another_model_have_no_mean() {
    let dir = tempfile::tempdir().unwrap();
    let said = fails(dir.path(), "export --weights builtin:maze --mix builtin:mnist --out m.safetensors");
    assert!(said.contains("task of builtin:mnist") && said.contains("hint:"), "{said}");
    let said =
        fails(dir.path(), "export --weights builtin:maze --mix builtin:maze --share 1.5 --out m.safetensors");
    assert!(said.contains("--share") && said.contains("1.5"), "{said}");
    assert!(!dir.path().join("m.safetensors").exists());
}

#[test]
fn parameters_under_the_authors_names_come_back_as_the_same_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    let model = Maze::model(&MazeConfig::default()).unwrap();
    let params: Vec<f32> = model.init(4);
    let average: Vec<f32> = params.iter().map(|p| p + 1.0).collect();
    for (file, groups) in [
        ("alone", vec![("", &params)]),
        ("param", vec![("param/", &params)]),
        ("both", vec![("params/", &average), ("ema_params/", &params)]),
    ] {
        let entries = model.layout().entries();
        let mut tensors = Vec::new();
        for (prefix, values) in groups {
            for entry in entries {
                let bytes: Vec<u8> =
                    values[entry.range.clone()].iter().flat_map(|v| v.to_le_bytes()).collect();
                let name = format!("{prefix}{}", Maze::authors_name(model.layout(), &entry.name).unwrap());
                tensors.push((name, entry.shape.clone(), bytes));
            }
        }
        use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
        let views = tensors.iter().map(|(n, s, b)| (n, TensorView::new(Dtype::F32, s.clone(), b).unwrap()));
        serialize_to_file(views, None, &here.join(file)).unwrap();
        let output = json(here, &format!("import --task maze --from {file} --out w.safetensors"));
        assert_eq!(output["parameters"].as_u64(), Some(181_859));
        let weights = sheaf_learn::train::WeightsFile::read(&here.join("w.safetensors")).unwrap();
        assert!(weights.params(model.layout()).unwrap() == params, "{file}");
        assert_eq!(json(here, "inspect w.safetensors")["record"]["imported_from"].as_str(), Some(file));
    }
}

#[test]
fn the_built_in_weights_can_be_inspected_and_measured() {
    let here = std::path::Path::new(".");
    let output = json(here, "inspect builtin:maze");
    assert_eq!((output["task"].as_str(), output["parameters"].as_u64()), (Some("maze"), Some(181_859)));
    for kind in
        ["train --batch 8", "eval --batch 4", "solve", "laplacian --batch 2", "forward", "reverse --batch 3"]
    {
        let row = json(here, &format!("bench {kind} --task maze --size 7 --iterations 3 --seconds 0.1"));
        assert_eq!((row["agents"].as_u64(), row["iterations"].as_u64()), (Some(9), Some(3)));
        for key in ["samples_per_s", "ns_per_agent_iteration", "peak_rss_mb"] {
            assert!(row[key].as_f64().unwrap() > 0.0, "{key}: {row}");
        }
    }
    // Message passing has no maps: all kinds but that of the Laplacian are measured.
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/maze-mpnn-cm-max.toml");
    let all =
        json(here, &format!("bench --experiment {file} --size 7 --iterations 3 --batch 2 --seconds 0.1"));
    let kinds: Vec<&str> =
        all["rows"].as_array().unwrap().iter().filter_map(|row| row["kind"].as_str()).collect();
    assert_eq!(kinds, ["eval", "solve", "train", "forward", "reverse"]);
    let scaling = json(here, "bench scaling --task maze --size 19 --iterations 2 --seconds 0.1");
    assert_eq!(scaling["rows"].as_array().unwrap().len(), 5);
}
