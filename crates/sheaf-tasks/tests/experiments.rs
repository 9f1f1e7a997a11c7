//! What every experiment rejects, whatever its task, and which older keys it still accepts.

mod common;

use common::{Small, experiment};
use sheaf_learn::config::strict;
use sheaf_learn::task::{Experiment, Loaded, Task, Training};
use sheaf_learn::train::Trainable;
use sheaf_tasks::maze::task::Maze;
use sheaf_tasks::mnist::task::Mnist;
use sheaf_tasks::sudoku::task::Sudoku;

fn refuses_what_makes_no_sense<K: Task>() {
    for (keys, place) in [
        (&["task=chess"][..], "task"),
        (&["iterations.train=0"], "iterations.train"),
        (&["iterations.eval=0"], "iterations.eval"),
        (&["iterations.rounds=0"], "iterations.rounds"),
        (&["iterations.ramp_from=0"], "iterations.ramp_from"),
        (&["iterations.train=20", "iterations.train_max=10"], "iterations.train_max"),
        (&["iterations.gradient=1"], "iterations.gradient"),
        (&["iterations.tolerance=-1"], "iterations.tolerance"),
        (&["iterations.tolerance=nan"], "iterations.tolerance"),
        (&["iterations.adjoint=explicit"], "iterations.adjoint"),
        (&["iterations.adjoint=implicit", "iterations.gradient=8"], "iterations.gradient"),
        (&["train.batch=0"], "train.batch"),
        (&["train.steps=0"], "train.steps"),
        (&["train.loss_window=0"], "train.loss_window"),
        (&["train.learning_rate=0"], "train.learning_rate"),
        (&["train.best_metric=beauty"], "train.best_metric"),
        (&["model.maps=dense"], "model.maps"),
        (&["model.rho_init=0"], "model.rho_init"),
    ] {
        let error = experiment::<K>(keys).check().expect_err(&format!("{} {keys:?}", K::NAME));
        assert_eq!(error.place(), place, "{} {keys:?}: {error}", K::NAME);
    }
    K::published().check().unwrap();
    for metric in K::metrics(&K::published()) {
        experiment::<K>(&[&format!("train.best_metric={metric}")]).check().unwrap();
    }
}

#[test]
fn experiments_that_make_no_sense_are_refused_by_key() {
    refuses_what_makes_no_sense::<Maze>();
    refuses_what_makes_no_sense::<Mnist>();
    refuses_what_makes_no_sense::<Sudoku>();
}

#[test]
fn a_metric_that_is_not_measured_cannot_be_the_best() {
    let error = experiment::<Maze>(&["eval.larger=0", "train.best_metric=solved_37x37"]).check().unwrap_err();
    assert!(error.to_string().contains("one of solved, cell_accuracy"), "{error}");
    experiment::<Maze>(&["eval.larger=10", "train.best_metric=solved_37x37"]).check().unwrap();
}

#[test]
fn a_batch_holds_whole_groups_of_symmetries() {
    let error = experiment::<Maze>(&["train.batch=12"]).check().unwrap_err();
    assert_eq!(error.place(), "train.batch");
    experiment::<Maze>(&["train.batch=12", "data.symmetries=false"]).check().unwrap();
}

#[test]
fn fewer_samples_than_a_batch_are_refused() {
    let few = experiment::<Maze>(&["data.count=20", "data.size=9", "data.min_path=4", "data.test_count=2"]);
    let mut data = Maze::load(&Experiment { ..few.clone() }).unwrap();
    data.train = data.train.first(3);
    let error = Training::<Maze>::with_data(few, data).unwrap_err();
    assert_eq!(error.place(), "training mazes");
    assert!(error.hint_text().is_some());
}

#[test]
fn the_older_name_of_the_fewest_iterations_means_the_same() {
    let text = "[iterations]\ntrain_min = 7\ntrain_max = 9\n";
    let old: Experiment<Maze> = strict::parse("old.toml", text, &[]).unwrap();
    assert_eq!((old.iterations.train, old.iterations.train_max), (7, 9));
    let set = experiment::<Sudoku>(&["iterations.train_min=5"]);
    assert_eq!(set.iterations.train, 5);
    let both: Experiment<Maze> = strict::parse("old.toml", text, &["iterations.train=8".into()]).unwrap();
    assert_eq!(both.iterations.train, 8, "what is set last counts");
    let wrong = strict::parse::<Experiment<Maze>>("old.toml", "[iterations]\ntrain_min = 'few'\n", &[]);
    assert!(wrong.unwrap_err().to_string().contains("old.toml, line 2"));
    assert!(!strict::to_toml(&old).unwrap().contains("train_min"));
}

#[test]
fn an_experiment_written_out_reads_back_as_itself() {
    fn check<K: Task>(keys: &[&str]) {
        let value = experiment::<K>(keys);
        let text = strict::to_toml(&value).unwrap();
        assert_eq!(strict::parse::<Experiment<K>>("written", &text, &[]).unwrap(), value);
    }
    check::<Maze>(&["model.consensus=huber", "model.eta_init=0.02"]);
    check::<Mnist>(&["model.neighbours=4", "iterations.adjoint=implicit"]);
    check::<Sudoku>(&["model.maps=orthonormal", "data.relabel=true"]);
}

#[test]
fn drawn_cg_steps_are_those_of_the_gradient_and_not_of_the_evaluation() {
    let of = |keys: &[&str]| {
        let keys = [Maze::KEYS, &["train.batch=8"], keys].concat();
        let data = Loaded { train: Maze::some(20, 1), test: Maze::some(4, 2), more: None };
        let mut task = Training::<Maze>::with_data(experiment(&keys), data).unwrap();
        let params = task.initial(3);
        let mut grad = vec![0.0; params.len()];
        let loss = task.loss_and_grad(&params, 3, 1, &mut grad).unwrap().loss;
        (loss, grad, task.model().section().cg_steps)
    };
    let (loss, grad, _) = of(&["model.cg_steps=3"]);
    let drawn = of(&["model.cg_steps=5", "iterations.cg_steps_min=3", "iterations.cg_steps_max=3"]);
    assert_eq!(drawn, (loss, grad, 5));
    assert_ne!(drawn.0, of(&["model.cg_steps=5"]).0);
}
