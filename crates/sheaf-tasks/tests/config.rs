//! Configuration errors name file, line, key and a remedy; valid files are read correctly.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sheaf_admm::ErrorKind;
use sheaf_learn::config::strict::{self, StrictConfig};
use sheaf_learn::config::{DecayKind, OnNanKind, TrainSection};
use sheaf_learn::train::{Decay, OnNan};
use sheaf_tasks::baselines::cnn::experiment::CnnExperiment;
use sheaf_tasks::maze::task::MazeExperiment;
use sheaf_tasks::mnist::task::MnistExperiment;
use sheaf_tasks::sudoku::task::SudokuExperiment;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Experiment {
    name: String,
    limit: Option<u64>,
    sizes: Vec<SizeSection>,
    solver: Solver,
    free: BTreeMap<String, i64>,
    train: TrainSection,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct SizeSection {
    height: usize,
    width: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Solver {
    #[default]
    Exact,
    Cg {
        iterations: usize,
    },
}

impl StrictConfig for Experiment {
    fn all_keys_example() -> Self {
        Self { limit: Some(1), sizes: vec![SizeSection::default()], ..Self::default() }
    }

    fn more_keys() -> &'static [&'static str] {
        &["solver.iterations"]
    }
}

fn parse(text: &str, overrides: &[&str]) -> sheaf_admm::Result<Experiment> {
    let overrides: Vec<String> = overrides.iter().map(|s| s.to_string()).collect();
    strict::parse("exp.toml", text, &overrides)
}

fn error(text: &str, overrides: &[&str]) -> String {
    let error = parse(text, overrides).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    error.to_string()
}

#[test]
fn a_good_file_means_what_it_says_and_the_rest_is_default() {
    let text = "name = 'x'\nlimit = 5\nsolver = { kind = 'cg', iterations = 7 }\n[free]\nanything = 3\n\
                [[sizes]]\nheight = 19\n[[sizes]]\nwidth = 37\n[train]\nlearning_rate = 1\non_nan = 'rollback'\n";
    let got = parse(text, &[]).unwrap();
    assert_eq!((got.name.as_str(), got.limit, &got.solver), ("x", Some(5), &Solver::Cg { iterations: 7 }));
    assert_eq!(got.sizes[0], SizeSection { height: 19, width: 0 });
    assert_eq!((got.sizes[1].width, got.free["anything"]), (37, 3));
    assert_eq!((got.train.learning_rate, got.train.on_nan), (1.0, OnNanKind::Rollback));
    assert_eq!(got.train.batch, TrainSection::default().batch);
    assert_eq!(parse("", &[]).unwrap(), Experiment::default());
}

#[test]
fn the_written_out_configuration_reads_back_as_itself() {
    let mut value = Experiment::all_keys_example();
    value.train.learning_rate = 0.1 + 0.2;
    let text = strict::to_toml(&value).unwrap();
    assert!(text.contains("warmup = 200"), "defaults are written out");
    assert_eq!(parse(&text, &[]).unwrap(), value);
}

#[test]
fn unknown_keys_are_named_with_their_line_and_the_nearest_known_one() {
    assert_eq!(
        error("name = 'x'\n\n[train]\nsteps = 3\nlerning_rate = 0.1\n", &[]),
        "exp.toml, line 5: expected a known key, got `train.lerning_rate`\n\
         hint: did you mean `train.learning_rate`?"
    );
    assert!(error("[trian]\nsteps = 3\n", &[]).contains("line 1: expected a known key, got `trian`"));
    let misplaced = error("\nlearning_rate = 0.1\n", &[]);
    assert!(misplaced.contains("line 2") && misplaced.contains("did you mean `train.learning_rate`?"));
    let far = error("[train]\nmomentum = 0.9\n", &[]);
    assert!(far.contains("known keys here: ") && far.contains("weight_decay"), "{far}");
    let listed = error("[[sizes]]\nheight = 1\n[[sizes]]\nheigth = 1\n", &[]);
    assert!(listed.contains("line 4") && listed.contains("`sizes[1].heigth`"), "{listed}");
    assert!(error("solver = { kind = 'cg', iteratons = 7 }", &[]).contains("`solver.iteratons`"));
}

#[test]
fn values_of_the_wrong_kind_name_key_expected_and_got() {
    let batch = error("[train]\nbatch = 'many'\n", &[]);
    assert_eq!(batch, "exp.toml, line 2: key `train.batch`: expected an integer, got a string \"many\"");
    assert!(error("[train]\nbatch = 12.5\n", &[]).contains("expected an integer, got a number 12.5"));
    assert!(error("\ntrain = 3\n", &[]).contains("line 2: key `train`: expected a table, got an integer 3"));
    assert!(error("name = true\n", &[]).contains("key `name`: expected a string, got true"));
    assert!(
        error("sizes = [3]\n", &[]).contains("line 1: key `sizes[0]`: expected a table, got an integer 3")
    );
    let negative = error("[train]\nbatch = -1\n", &[]);
    assert!(negative.contains("line 2: key `train.batch`") && negative.contains("-1"), "{negative}");
}

#[test]
fn a_mistyped_choice_names_the_choices_and_the_nearest() {
    let text = error("[train]\non_nan = 'rolback'\n", &[]);
    assert!(text.contains("line 2: key `train.on_nan`"), "{text}");
    assert!(text.contains("`stop`") && text.ends_with("hint: did you mean `rollback`?"), "{text}");
}

#[test]
fn text_that_is_not_toml_names_the_line() {
    let text = error("name = 'x'\n[train\nsteps = 3\n", &[]);
    assert!(text.starts_with("exp.toml, line 2: expected valid TOML"), "{text}");
    let twice = error("name = 'x'\nname = 'y'\n", &[]);
    assert!(twice.starts_with("exp.toml, line 2: expected valid TOML"), "{twice}");
}

#[test]
fn overrides_replace_what_the_file_says_and_are_checked_like_it() {
    let file = "name = 'x'\n[train]\nsteps = 3\n";
    let set = ["train.steps=7", "name = 12", "train.decay=cosine", "limit=4", "free.new=2", "train.ema=0"];
    let got = parse(file, &set).unwrap();
    assert_eq!((got.train.steps, got.name.as_str(), got.train.decay), (7, "12", DecayKind::Cosine));
    assert_eq!((got.limit, got.free["new"], got.train.ema), (Some(4), 2, 0.0));
    assert_eq!(parse("", &["name=a = b"]).unwrap().name, "a = b");
    assert_eq!(parse("", &["sizes=[{height=3}]"]).unwrap().sizes[0].height, 3);
    assert_eq!(
        error(file, &["train.stesp=7"]),
        "--set train.stesp=7: expected a known key, got `train.stesp`\nhint: did you mean `train.steps`?"
    );
    assert!(
        error(file, &["train.steps=many"])
            .starts_with("--set train.steps=many: key `train.steps`: expected an")
    );
    assert!(error(file, &["train.steps"]).contains("expected key=value"));
    assert!(error(file, &["train..steps=1"]).contains("a dotted key"));
    assert!(error(file, &["name.inner=1"]).contains("`name` to be a table"));
}

#[test]
fn the_train_section_becomes_checked_options() {
    let section = TrainSection {
        decay: DecayKind::Cosine,
        decay_floor: 1e-5,
        clip: 0.0,
        on_nan: OnNanKind::Rollback,
        best_metric: String::new(),
        ..TrainSection::default()
    };
    let options = section.options().unwrap();
    assert_eq!(options.schedule.decay, Decay::Cosine { end: 31_250, floor: 1e-5 });
    assert_eq!((options.clip, options.on_nan, options.best_metric), (None, OnNan::Rollback, None));
    let published = TrainSection::default().options().unwrap();
    assert_eq!(
        (published.clip, published.schedule.at(0), published.schedule.at(200)),
        (Some(1.0), 0.0, 3e-4)
    );
    assert_eq!((published.adamw.weight_decay, published.ema), (1e-6, 0.999));
}

#[test]
fn nonsense_in_the_train_section_names_its_key() {
    let base = TrainSection::default;
    for (section, key) in [
        (TrainSection { learning_rate: -1.0, ..base() }, "train.learning_rate"),
        (TrainSection { learning_rate: f64::NAN, ..base() }, "train.learning_rate"),
        (TrainSection { learning_rate: f64::INFINITY, ..base() }, "train.learning_rate"),
        (TrainSection { weight_decay: -1e-3, ..base() }, "train.weight_decay"),
        (TrainSection { steps: 0, ..base() }, "train.steps"),
        (TrainSection { batch: 0, ..base() }, "train.batch"),
        (TrainSection { loss_window: 0, ..base() }, "train.loss_window"),
        (TrainSection { log_every: 0, ..base() }, "train.log_every"),
        (TrainSection { keep_checkpoints: 0, ..base() }, "train.keep_checkpoints"),
        (TrainSection { clip: -1.0, ..base() }, "train.clip"),
        (TrainSection { ema: 1.0, ..base() }, "train.ema"),
        (TrainSection { checkpoint_minutes: -1.0, ..base() }, "train.checkpoint_minutes"),
        (TrainSection { decay: DecayKind::Linear, decay_floor: 1.0, ..base() }, "train.decay_floor"),
        (TrainSection { decay: DecayKind::Linear, warmup: 40_000, ..base() }, "train.warmup"),
        (TrainSection { seed: u64::MAX, ..base() }, "train.seed"),
    ] {
        assert_eq!(section.options().unwrap_err().place(), key);
    }
}

#[test]
fn a_section_takes_what_it_leaves_out_from_its_own_experiment() {
    let text = "task = \"mnist\"\n[train]\nsteps = 3\n";
    let pictures: MnistExperiment = strict::parse("exp.toml", text, &[]).unwrap();
    let usual = MnistExperiment::default().train;
    assert_eq!(pictures.train.steps, 3);
    assert_eq!(
        (pictures.train.best_metric, pictures.train.loss_window),
        ("accuracy".into(), usual.loss_window)
    );
    let changed: MnistExperiment = strict::parse("exp.toml", "", &["train.steps=4".into()]).unwrap();
    assert_eq!((changed.train.steps, changed.train.learning_rate), (4, usual.learning_rate));
}

#[test]
fn every_experiment_that_ships_is_understood_and_makes_a_model() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut tasks = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let task =
            text.lines().find_map(|l| l.strip_prefix("task = ")).unwrap().trim_matches('"').to_string();
        let checked = match task.as_str() {
            "maze" => strict::read::<MazeExperiment>(&path, &[]).unwrap().check(),
            "sudoku" => strict::read::<SudokuExperiment>(&path, &[]).unwrap().check(),
            "mnist" => strict::read::<MnistExperiment>(&path, &[]).unwrap().check(),
            _ => strict::read::<CnnExperiment>(&path, &[]).unwrap().check(),
        };
        assert!(checked.is_ok(), "{}: {checked:?}", path.display());
        tasks.push(task);
    }
    tasks.sort();
    tasks.dedup();
    assert_eq!(tasks, ["maze", "mnist", "mnist-cnn", "sudoku"]);
}
