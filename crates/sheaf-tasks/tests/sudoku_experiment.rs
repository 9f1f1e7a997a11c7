//! Experiments, batches, training steps, evaluation and what counts as solved.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use sheaf_admm::ErrorKind;
use sheaf_learn::config::strict;
use sheaf_learn::train::Trainable;
use sheaf_tasks::sudoku::augment::canonical_key;
use sheaf_tasks::sudoku::csv;
use sheaf_tasks::sudoku::evaluate::{EvalOptions, Settling, answer, evaluate};
use sheaf_tasks::sudoku::experiment::{SudokuExperiment, SudokuTask};
use sheaf_tasks::sudoku::generate::{Kind, generate};
use sheaf_tasks::sudoku::metrics::{Summary, score};
use sheaf_tasks::sudoku::model::{SudokuConfig, SudokuModel};
use sheaf_tasks::sudoku::rounds::Reading;
use sheaf_tasks::sudoku::solver::{Verdict, solve};
use sheaf_tasks::sudoku::weights::SudokuWeights;

const TINY: &str = "
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
train = 3
eval = 4
[train]
batch = 32
steps = 10
";

fn tiny(overrides: &[&str]) -> SudokuExperiment {
    let overrides: Vec<String> = overrides.iter().map(ToString::to_string).collect();
    strict::parse("tiny", TINY, &overrides).unwrap()
}

#[test]
fn the_published_experiments_are_valid_and_differ_in_their_maps() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    for (file, maps) in
        [("sudoku", "slot"), ("sudoku-lowrank", "low-rank"), ("sudoku-orthonormal", "orthonormal")]
    {
        let read: SudokuExperiment = strict::read(&folder.join(format!("{file}.toml")), &[]).unwrap();
        read.check().unwrap();
        let mut want = SudokuExperiment::default();
        want.model.maps = maps.into();
        want.train.checkpoint_every = read.train.checkpoint_every;
        assert_eq!(read, want, "{file}");
    }
}

#[test]
fn experiments_without_meaning_are_refused() {
    for (key, place) in [
        ("task=\"maze\"", "task"),
        ("train.batch=36", "train.batch"),
        ("data.count=3", "data.count"),
        ("data.test_count=0", "data.test_count"),
        ("iterations.eval=0", "iterations.eval"),
        ("iterations.ramp_from=0", "iterations.ramp_from"),
        ("model.maps=\"dense\"", "model.maps"),
    ] {
        let error = SudokuTask::new(tiny(&[key])).unwrap_err();
        assert_eq!((error.kind(), error.place()), (ErrorKind::Malformed, place));
    }
    let missing = SudokuTask::new(tiny(&["data.source=\"/nowhere.csv\""])).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Io);
}

#[test]
fn a_batch_holds_each_puzzle_in_all_its_symmetries() {
    let mut task = SudokuTask::new(tiny(&[])).unwrap();
    let (puzzles, solutions) = task.batch_of(1, 7);
    assert_eq!(puzzles.len(), 32);
    for (group, answers) in puzzles.chunks_exact(8).zip(solutions.chunks_exact(8)) {
        assert_eq!(group.iter().map(canonical_key).collect::<HashSet<_>>().len(), 1);
        assert_eq!(group.iter().collect::<HashSet<_>>().len(), 8);
        for (puzzle, solution) in group.iter().zip(answers) {
            assert_eq!(solve(puzzle), Verdict::Unique(*solution));
        }
    }
}

#[test]
fn shuffled_variants_are_still_solved_by_their_solutions_and_new_every_step() {
    let mut task = SudokuTask::new(tiny(&["data.relabel=true", "data.permute=true"])).unwrap();
    let per_epoch = 10;
    let (first, _) = task.batch_of(1, 0);
    let first = first.to_vec();
    let (puzzles, solutions) = task.batch_of(1, per_epoch);
    for (puzzle, solution) in puzzles.iter().zip(solutions) {
        assert_eq!(solve(puzzle), Verdict::Unique(*solution));
    }
    let keys: HashSet<_> = puzzles.iter().chain(&first).map(canonical_key).collect();
    assert_eq!(keys.len(), 64);
}

#[test]
fn an_epoch_sees_every_puzzle_once_and_a_step_depends_on_nothing_else() {
    let mut task = SudokuTask::new(tiny(&[])).unwrap();
    let mut seen = HashSet::new();
    for step in 0..10 {
        let (puzzles, _) = task.batch_of(3, step);
        puzzles.chunks_exact(8).for_each(|group| assert!(seen.insert(canonical_key(&group[0]))));
    }
    assert_eq!(seen, task.train_set().keys());
    let again = task.batch_of(3, 4).0.to_vec();
    let mut other = SudokuTask::new(tiny(&[])).unwrap();
    assert_eq!(other.batch_of(3, 4).0, again);
    assert_ne!(other.batch_of(4, 4).0, again);
}

#[test]
fn without_symmetries_every_puzzle_of_a_batch_is_another_one() {
    let overrides = ["data.symmetries=false", "data.permute=true", "data.relabel=true", "train.batch=10"];
    let mut task = SudokuTask::new(tiny(&overrides)).unwrap();
    let keys: HashSet<_> = task.batch_of(1, 0).0.iter().map(canonical_key).collect();
    assert_eq!(keys.len(), 10);
    let mut known = HashSet::new();
    for (puzzle, solution) in (0..4).flat_map(|step| {
        let (puzzles, solutions) = task.batch_of(1, step);
        puzzles.iter().copied().zip(solutions.iter().copied()).collect::<Vec<_>>()
    }) {
        assert_eq!(solve(&puzzle), Verdict::Unique(solution));
        known.insert(puzzle.iter().filter(|&&d| d != 0).count());
    }
    assert!(known.len() > 5, "puzzles of all kinds: {known:?} givens");
}

#[test]
fn iterations_rise_from_the_first_to_the_last_step_of_the_ramp() {
    let with = |ramp_steps| tiny(&["iterations.train=20", "iterations.ramp_from=4", ramp_steps]).iterations;
    let (ramp, none) = (with("iterations.ramp_steps=8"), with("iterations.ramp_steps=0"));
    assert_eq!([0, 1, 4, 7, 8, 1_000].map(|step| ramp.at(42, step)), [4, 6, 12, 18, 20, 20]);
    assert_eq!([0, 8].map(|step| none.at(42, step)), [20, 20]);
}

#[test]
fn iterations_are_drawn_from_the_whole_range() {
    let drawn = tiny(&["iterations.train=20", "iterations.train_max=23"]).iterations;
    let seen: BTreeSet<usize> = (0..100).map(|step| drawn.at(42, step)).collect();
    assert_eq!(seen, (20..=23).collect());
    assert_ne!(
        (0..20).map(|s| drawn.at(1, s)).collect::<Vec<_>>(),
        (0..20).map(|s| drawn.at(2, s)).collect::<Vec<_>>()
    );
}

#[test]
fn puzzles_come_from_a_file_and_its_last_lines_are_for_testing() {
    let set = generate(Kind::Any, 6, 60);
    let folder = std::env::temp_dir().join(format!("sheaf-sudoku-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("puzzles.csv");
    csv::write(&set, &mut std::fs::File::create(&path).unwrap()).unwrap();
    let source = format!("data.source=\"{}\"", path.display());
    let task = SudokuTask::new(tiny(&[&source, "data.count=0"])).unwrap();
    assert_eq!(task.test_set(), &set.slice(54..60));
    assert_eq!(task.train_set(), &set.slice(0..54));
    let unique = SudokuTask::new(tiny(&[&source, "data.count=20", "data.unique_only=true"])).unwrap();
    assert_eq!(unique.train_set(), &set.first(20).unique());
    let more = SudokuTask::new(tiny(&[&source, "data.count=20", "data.generated=30"])).unwrap();
    assert_eq!((more.train_set().len(), more.train_set().first(20)), (50, set.first(20)));
    assert!(more.train_set().keys().is_disjoint(&more.test_set().keys()));
    let few = SudokuTask::new(tiny(&[&source, "data.test_count=60"])).unwrap_err();
    assert!(few.hint_text().unwrap().contains("test_count"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn some_steps_of_descent_lower_the_loss() {
    for maps in ["slot", "low-rank", "orthonormal"] {
        let mut task = SudokuTask::new(tiny(&[&format!("model.maps=\"{maps}\""), "train.batch=16"])).unwrap();
        let mut params = task.initial(1);
        let mut grad = vec![0.0; params.len()];
        let first = task.loss_and_grad(&params, 1, 0, &mut grad).unwrap();
        assert_eq!((first.samples, first.bad_sample), (16, None));
        for _ in 0..60 {
            task.loss_and_grad(&params, 1, 0, &mut grad).unwrap();
            params.iter_mut().zip(&grad).for_each(|(p, g)| *p -= 0.01 * g.signum());
        }
        let last = task.loss_and_grad(&params, 1, 0, &mut grad).unwrap();
        assert!(last.loss < 0.9 * first.loss, "{maps}: {} to {}", first.loss, last.loss);
        let metrics = task.evaluate(&params).unwrap();
        let names: Vec<_> = metrics.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["solved", "valid", "cell_accuracy", "blank_accuracy"]);
        assert!(metrics.iter().all(|(_, value)| (0.0..=1.0).contains(value)));
    }
}

fn small_model() -> (SudokuModel, Vec<f32>) {
    let config = SudokuConfig { d_v: 18, d_e: 2, channels: 8, decoder_hidden: 16, ..SudokuConfig::default() };
    let model = SudokuModel::new(config).unwrap();
    let params = model.init(1);
    (model, params)
}

#[test]
fn answers_do_not_depend_on_threads_and_agree_with_the_trace() {
    let (model, params) = small_model();
    let set = generate(Kind::Any, 2, 11);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| answer(&model, &params, &set.puzzles, &EvalOptions::fixed(6), &|_| {}))
    };
    let answers = run(1);
    assert_eq!(answers, run(3));
    for (puzzle, answer) in set.puzzles.iter().zip(&answers) {
        assert_eq!(answer.predicted, model.trace(&params, puzzle, 6).boards[5]);
        assert_eq!(answer.iterations, 6);
    }
    let counted = std::sync::atomic::AtomicUsize::new(0);
    let count = |n| {
        counted.fetch_add(n, std::sync::atomic::Ordering::Relaxed);
    };
    let report = evaluate(&model, &params, &set, &EvalOptions::fixed(6), &count);
    assert_eq!((report.summary.boards, report.iterations, counted.into_inner()), (11, 66, 11));
    assert_eq!(report.unique.boards, set.ambiguous.iter().filter(|&&a| !a).count());
}

#[test]
fn a_round_goes_on_from_what_the_one_before_committed() {
    let (model, params) = small_model();
    let set = generate(Kind::Minimal, 5, 7);
    let options = EvalOptions { rounds: 3, ..EvalOptions::fixed(4) };
    let done = std::sync::atomic::AtomicUsize::new(0);
    let count = |n| {
        done.fetch_add(n, std::sync::atomic::Ordering::Relaxed);
    };
    let answers = answer(&model, &params, &set.puzzles, &options, &count);
    assert_eq!(done.into_inner(), 7);
    for (puzzle, found) in set.puzzles.iter().zip(&answers) {
        // Untrained agents complete no board, so all rounds are run.
        assert_eq!((found.rounds, found.iterations), (3, 12));
        let (mut board, mut reading) = (*puzzle, None);
        for left in [2, 1, 0] {
            let trace = model.trace(&params, &board, 4);
            let read = Reading::of(&trace.logits[trace.logits.len() / 4 * 3..]);
            if left > 0 {
                read.commit(&mut board, left);
            }
            reading = Some(read);
        }
        assert_eq!(reading.unwrap().predicted, found.predicted);
    }
}

#[test]
fn rounds_solve_what_the_trained_agents_do_not_see_at_once() {
    let SudokuWeights { model, params, .. } = SudokuWeights::builtin().unwrap();
    let set = generate(Kind::Minimal, 6, 8);
    let solved = |rounds| {
        let options = EvalOptions { rounds, ..EvalOptions::fixed(50) };
        evaluate(&model, &params, &set, &options, &|_| {}).summary.solved
    };
    let (at_once, in_rounds) = (solved(1), solved(5));
    assert!(in_rounds > at_once, "{at_once} and {in_rounds} of 8");
}

#[test]
fn a_settled_board_keeps_the_answer_it_had() {
    let (model, params) = small_model();
    let set = generate(Kind::Mixed, 3, 6);
    let settling = Some(Settling { fraction: 0.2, patience: 2 });
    let options = EvalOptions { iterations: 200, settling, rounds: 1 };
    let answers = answer(&model, &params, &set.puzzles, &options, &|_| {});
    assert!(answers.iter().any(|a| a.iterations < 200));
    for (puzzle, found) in set.puzzles.iter().zip(&answers) {
        let fixed = EvalOptions::fixed(found.iterations);
        let alone = answer(&model, &params, std::slice::from_ref(puzzle), &fixed, &|_| {});
        assert_eq!(alone[0].predicted, found.predicted);
    }
    let never =
        EvalOptions { settling: Some(Settling { fraction: 0.0, patience: 1 }), ..EvalOptions::fixed(9) };
    let answers = answer(&model, &params, &set.puzzles, &never, &|_| {});
    assert!(answers.iter().all(|a| a.iterations == 9));
}

#[test]
fn solved_valid_and_accuracies_mean_what_they_say() {
    let set = generate(Kind::Any, 4, 200);
    let i = (0..200).find(|&i| set.ambiguous[i]).unwrap();
    let (puzzle, solution) = (&set.puzzles[i], &set.solutions[i]);
    let right = score(puzzle, solution, solution);
    assert!(right.solved && right.valid && right.right_cells == 81 && right.right_blanks == right.blanks);

    let Verdict::Ambiguous(a, b) = solve(puzzle) else { panic!("it is ambiguous") };
    let other = if &a == solution { b } else { a };
    let valid = score(puzzle, solution, &other);
    assert!(!valid.solved && valid.valid && valid.right_blanks < valid.blanks);

    // A complete grid that ignores a given is no solution of this puzzle.
    let given = puzzle.iter().position(|&d| d != 0).unwrap();
    let swapped = solution.map(|d| {
        if d == solution[given] {
            d % 9 + 1
        } else if d == solution[given] % 9 + 1 {
            solution[given]
        } else {
            d
        }
    });
    assert!(!score(puzzle, solution, &swapped).valid);
    let mut blank = *solution;
    blank[80] = 0;
    let incomplete = score(puzzle, solution, &blank);
    assert!(!incomplete.valid && incomplete.right_cells == 80);

    let (mut left, mut right_part, mut all) = (Summary::default(), Summary::default(), Summary::default());
    left.add(&right);
    right_part.add(&incomplete);
    [right, incomplete].iter().for_each(|s| all.add(s));
    left.merge(&right_part);
    assert_eq!(left, all);
    assert_eq!((all.solved_rate(), all.valid_rate(), all.cell_accuracy()), (0.5, 0.5, 161.0 / 162.0));
}
