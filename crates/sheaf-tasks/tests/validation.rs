//! Validation splits: what a run evaluates shares no sample with the test set or the training, and the test set stays
//! what it is.

mod common;

use common::experiment;
use sheaf_learn::task::Task;
use sheaf_tasks::maze::PATH;
use sheaf_tasks::maze::data::MazeSet;
use sheaf_tasks::maze::task::Maze;
use sheaf_tasks::mnist::data::ImageSet;
use sheaf_tasks::sudoku::csv;
use sheaf_tasks::sudoku::generate::{Kind, generate};
use sheaf_tasks::sudoku::task::Sudoku;

#[test]
fn validation_mazes_are_neither_test_nor_training_mazes() {
    // There are few mazes of this size, so that a set that is not kept apart would be noticed.
    let common = ["data.size=9", "data.min_path=4", "data.count=200", "data.test_count=40", "eval.larger=3"];
    let plain = Maze::load(&experiment(&common)).unwrap();
    let keys = [&common[..], &["data.validation_count=30"]].concat();
    let validated = experiment::<Maze>(&keys);
    let data = Maze::load(&validated).unwrap();
    assert_eq!((Maze::split(&validated.data), data.test.len(), data.train.len()), ("validation", 30, 200));
    let (test, validation, train) = (plain.test.keys(), data.test.keys(), data.train.keys());
    assert_eq!(validation.len(), 30);
    assert!(validation.is_disjoint(&test) && validation.is_disjoint(&train) && test.is_disjoint(&train));
    let larger =
        |data: &sheaf_learn::task::Loaded<sheaf_tasks::maze::data::MazeSet>| data.more.clone().unwrap();
    assert_ne!(larger(&plain), larger(&data), "larger mazes of validation are others too");
    let far = Maze::load(&experiment(&[&keys[..], &["eval.larger_size=73"]].concat())).unwrap();
    assert_eq!((larger(&far).height, larger(&far).len()), (73, 3));
}

#[test]
fn a_share_of_the_training_mazes_has_long_paths_and_none_of_them_is_held_out() {
    let common = ["data.size=9", "data.min_path=4", "data.count=200", "data.test_count=40", "eval.larger=0"];
    let long = ["data.long_share=0.25", "data.long_path=20"];
    let steps = |set: &MazeSet, i: usize| 1 + set.label(i).iter().filter(|&&token| token == PATH).count();
    for validation in ["data.validation_count=0", "data.validation_count=30"] {
        let plain = Maze::load(&experiment(&[&common[..], &[validation]].concat())).unwrap();
        let data = Maze::load(&experiment(&[&common[..], &long, &[validation]].concat())).unwrap();
        assert_eq!((data.train.len(), &data.test), (200, &plain.test), "what is held out stays");
        assert!((150..200).all(|i| steps(&data.train, i) >= 20));
        assert_eq!(data.train.first(150), plain.train.first(150));
        let held_out = data.test.keys();
        let tests = Maze::load(&experiment(&common)).unwrap().test.keys();
        assert!(data.train.keys().is_disjoint(&held_out) && data.train.keys().is_disjoint(&tests));
    }
    for (key, wrong) in [
        ("data.long_share=1.5", "data.long_share"),
        ("data.long_path=3", "data.long_path"),
        ("data.long_path=1000", "minimum path"),
    ] {
        let other = long.into_iter().find(|other| other.split('=').next() != key.split('=').next());
        let keys = [&common[..], &[key], other.as_slice()].concat();
        assert_eq!(Maze::check(&experiment(&keys)).unwrap_err().place(), wrong);
    }
}

#[test]
fn validation_puzzles_are_neither_test_nor_training_puzzles() {
    let common = ["data.count=60", "data.test_count=20"];
    let plain = Sudoku::load(&experiment(&common)).unwrap();
    let validated = experiment::<Sudoku>(&[&common[..], &["data.validation_count=15"]].concat());
    let data = Sudoku::load(&validated).unwrap();
    assert_eq!((Sudoku::split(&validated.data), data.test.len()), ("validation", 15));
    assert_eq!(data.train, plain.train, "puzzles hardly ever meet, so that the training stays the same");
    assert!(
        data.test.keys().is_disjoint(&plain.test.keys()) && data.test.keys().is_disjoint(&data.train.keys())
    );
}

#[test]
fn validation_puzzles_may_be_of_another_kind() {
    let common = ["data.count=40", "data.test_count=20", "data.validation_count=15"];
    let load = |keys: &[&str]| Sudoku::load(&experiment(&[&common[..], keys].concat())).unwrap();
    let mixed = load(&[]);
    let hard = load(&["data.kind=hard", "data.validation_kind=mixed"]);
    assert_eq!(hard.test, mixed.test);
    assert_eq!(hard.train, load(&["data.kind=hard"]).train);
    assert_ne!(hard.train, mixed.train);
    let tests = load(&["data.kind=hard", "data.validation_count=0"]).test;
    assert!(hard.test.keys().is_disjoint(&tests.keys()));
    for keys in
        [&["data.validation_kind=easy"][..], &["data.validation_kind=full", "data.validation_count=0"]]
    {
        let error = Sudoku::check(&experiment(&[&common[..], keys].concat())).unwrap_err();
        assert_eq!(error.place(), "data.validation_kind", "{error}");
    }
}

#[test]
fn lines_of_a_file_before_its_test_lines_are_for_validation() {
    let set = generate(Kind::Any, 6, 60);
    let path = std::env::temp_dir().join(format!("sheaf-validation-{}.csv", std::process::id()));
    csv::write(&set, &mut std::fs::File::create(&path).unwrap()).unwrap();
    let source = format!("data.source=\"{}\"", path.display());
    let keys = [source.as_str(), "data.count=0", "data.test_count=10", "data.validation_count=15"];
    let data = Sudoku::load(&experiment(&keys)).unwrap();
    assert_eq!((data.train, data.test), (set.slice(0..35), set.slice(35..50)));
    let many = experiment(&[&source, "data.test_count=30", "data.validation_count=30"]);
    let few = Sudoku::load(&many).unwrap_err();
    assert!(few.hint_text().unwrap().contains("validation_count"), "{few}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn the_last_training_pictures_are_for_validation() {
    let images = (0..5u8).flat_map(|k| [k; 4]).collect();
    let mut set = ImageSet { height: 2, width: 2, classes: 5, images, labels: vec![0, 1, 2, 3, 4] };
    assert!(set.split_off(5).is_err());
    let last = set.split_off(2).unwrap();
    assert_eq!((last.labels, last.images), (vec![3, 4], vec![3, 3, 3, 3, 4, 4, 4, 4]));
    assert_eq!((set.labels.clone(), set.len(), last.classes), (vec![0, 1, 2], 3, 5));
}
