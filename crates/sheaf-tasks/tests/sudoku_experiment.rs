//! Experiments, batches, training steps, evaluation and the definition of solved.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use sheaf_admm::ErrorKind;
use sheaf_learn::config::strict;
use sheaf_learn::model::evaluate::{Reader, Single, SolveOptions, Solved, solve_all};
use sheaf_learn::task::{Task, Training};
use sheaf_learn::train::Trainable;
use sheaf_tasks::sudoku::Grid;
use sheaf_tasks::sudoku::augment::canonical_key;
use sheaf_tasks::sudoku::csv;
use sheaf_tasks::sudoku::generate::{Kind, generate};
use sheaf_tasks::sudoku::metrics::{Summary, score};
use sheaf_tasks::sudoku::rounds::{Answer, Reading, in_rounds};
use sheaf_tasks::sudoku::solver::{Verdict, solve};
use sheaf_tasks::sudoku::task::{
    BUILTIN, BoardReader, Boards, Sudoku, SudokuConfig, SudokuExperiment, SudokuModel, SudokuWeights, board,
    evaluate,
};

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
        want.model.common.maps = maps.into();
        want.train.checkpoint_every = read.train.checkpoint_every;
        want.data.validation_count = 1_000;
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
        let error = Training::<Sudoku>::new(tiny(&[key])).unwrap_err();
        assert_eq!((error.kind(), error.place()), (ErrorKind::Malformed, place));
    }
    let missing = Training::<Sudoku>::new(tiny(&["data.source=\"/nowhere.csv\""])).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Io);
}

#[test]
fn a_batch_holds_each_puzzle_in_all_its_symmetries() {
    let mut task = Training::<Sudoku>::new(tiny(&[])).unwrap();
    let batch = task.batch_of(1, 7);
    assert_eq!(batch.puzzles.len(), 32);
    for (group, answers) in batch.puzzles.chunks_exact(8).zip(batch.solutions.chunks_exact(8)) {
        assert_eq!(group.iter().map(canonical_key).collect::<HashSet<_>>().len(), 1);
        assert_eq!(group.iter().collect::<HashSet<_>>().len(), 8);
        for (puzzle, solution) in group.iter().zip(answers) {
            assert_eq!(solve(puzzle), Verdict::Unique(*solution));
        }
    }
}

#[test]
fn shuffled_variants_are_still_solved_by_their_solutions_and_new_every_step() {
    let mut task = Training::<Sudoku>::new(tiny(&["data.relabel=true", "data.permute=true"])).unwrap();
    let per_epoch = 10;
    let first = task.batch_of(1, 0).puzzles.clone();
    let batch = task.batch_of(1, per_epoch);
    for (puzzle, solution) in batch.puzzles.iter().zip(&batch.solutions) {
        assert_eq!(solve(puzzle), Verdict::Unique(*solution));
    }
    let keys: HashSet<_> = batch.puzzles.iter().chain(&first).map(canonical_key).collect();
    assert_eq!(keys.len(), 64);
}

#[test]
fn an_epoch_sees_every_puzzle_once_and_a_step_depends_on_nothing_else() {
    let mut task = Training::<Sudoku>::new(tiny(&[])).unwrap();
    let mut seen = HashSet::new();
    for step in 0..10 {
        let batch = task.batch_of(3, step);
        batch.puzzles.chunks_exact(8).for_each(|group| assert!(seen.insert(canonical_key(&group[0]))));
    }
    assert_eq!(seen, task.data().train.keys());
    let again = task.batch_of(3, 4).puzzles.clone();
    let mut other = Training::<Sudoku>::new(tiny(&[])).unwrap();
    assert_eq!(other.batch_of(3, 4).puzzles, again);
    assert_ne!(other.batch_of(4, 4).puzzles, again);
}

#[test]
fn without_symmetries_every_puzzle_of_a_batch_is_another_one() {
    let overrides = ["data.symmetries=false", "data.permute=true", "data.relabel=true", "train.batch=10"];
    let mut task = Training::<Sudoku>::new(tiny(&overrides)).unwrap();
    let keys: HashSet<_> = task.batch_of(1, 0).puzzles.iter().map(canonical_key).collect();
    assert_eq!(keys.len(), 10);
    let mut known = HashSet::new();
    for (puzzle, solution) in (0..4).flat_map(|step| {
        let batch = task.batch_of(1, step);
        batch.puzzles.iter().copied().zip(batch.solutions.iter().copied()).collect::<Vec<_>>()
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
    assert_eq!(
        [0, 1, 4, 7, 8, 1_000].map(|step| ramp.horizon(42, step, 2).iterations),
        [4, 6, 12, 18, 20, 20]
    );
    assert_eq!([0, 8].map(|step| none.horizon(42, step, 2).iterations), [20, 20]);
}

#[test]
fn iterations_are_drawn_from_the_whole_range() {
    let drawn = tiny(&["iterations.train=20", "iterations.train_max=23"]).iterations;
    let seen: BTreeSet<usize> = (0..100).map(|step| drawn.horizon(42, step, 2).iterations).collect();
    assert_eq!(seen, (20..=23).collect());
    assert_ne!(
        (0..20).map(|s| drawn.horizon(1, s, 2).iterations).collect::<Vec<_>>(),
        (0..20).map(|s| drawn.horizon(2, s, 2).iterations).collect::<Vec<_>>()
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
    let task = Training::<Sudoku>::new(tiny(&[&source, "data.count=0"])).unwrap();
    assert_eq!(task.data().test, set.slice(54..60));
    assert_eq!(task.data().train, set.slice(0..54));
    let unique = Training::<Sudoku>::new(tiny(&[&source, "data.count=20", "data.unique_only=true"])).unwrap();
    assert_eq!(unique.data().train, set.first(20).unique());
    let more = Training::<Sudoku>::new(tiny(&[&source, "data.count=20", "data.generated=30"])).unwrap();
    assert_eq!((more.data().train.len(), more.data().train.first(20)), (50, set.first(20)));
    assert!(more.data().train.keys().is_disjoint(&more.data().test.keys()));
    let few = Training::<Sudoku>::new(tiny(&[&source, "data.test_count=60"])).unwrap_err();
    assert!(few.hint_text().unwrap().contains("test_count"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn some_steps_of_descent_lower_the_loss() {
    for maps in ["slot", "low-rank", "orthonormal"] {
        let mut task =
            Training::<Sudoku>::new(tiny(&[&format!("model.maps=\"{maps}\""), "train.batch=16"])).unwrap();
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

fn small_model() -> (SudokuConfig, SudokuModel, Vec<f32>) {
    let mut config = SudokuConfig { channels: 8, decoder_hidden: 16, ..SudokuConfig::default() };
    (config.common.d_v, config.common.d_e) = (18, 2);
    let model = Sudoku::model(&config).unwrap();
    let params = model.init(1);
    (config, model, params)
}

/// The agents' predictions of the boards in one round.
fn read(
    (config, model, params): &(SudokuConfig, SudokuModel, Vec<f32>),
    puzzles: &[Grid],
    options: &SolveOptions,
) -> Vec<Solved<Reading>> {
    let (sheaf, boards) = (board(config).unwrap().sheaf, Boards { puzzles, solutions: &[] });
    solve_all(model, params, &sheaf, &boards, &BoardReader(puzzles), options, &|_| {}).unwrap()
}

#[test]
fn answers_do_not_depend_on_threads_and_agree_with_the_trace() {
    let small = small_model();
    let (config, model, params) = &small;
    let set = generate(Kind::Any, 2, 11);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| read(&small, &set.puzzles, &SolveOptions::fixed(6)))
    };
    let answers = run(1);
    assert_eq!(answers, run(3));
    let (sheaf, boards) = (board(config).unwrap().sheaf, Boards { puzzles: &set.puzzles, solutions: &[] });
    for (i, answer) in answers.iter().enumerate() {
        let single = Single::new(model, params, &sheaf, &boards, i).unwrap();
        let outputs = single.trace(6).unwrap().outputs;
        let last = BoardReader(&set.puzzles).read(i, &outputs[outputs.len() / 6 * 5..]);
        assert_eq!((answer.answer.predicted, answer.iterations), (last.predicted, 6));
    }
    let counted = std::sync::atomic::AtomicUsize::new(0);
    let count = |n| {
        counted.fetch_add(n, std::sync::atomic::Ordering::Relaxed);
    };
    let report = evaluate(config, model, params, &set, &SolveOptions::fixed(6), 1, &count).unwrap();
    assert_eq!((report.summary.boards, report.iterations, counted.into_inner()), (11, 66, 11));
    assert_eq!(report.unique.boards, set.ambiguous.iter().filter(|&&a| !a).count());
}

#[test]
fn a_round_goes_on_from_what_the_one_before_committed() {
    let small = small_model();
    let set = generate(Kind::Minimal, 5, 7);
    let done = std::sync::atomic::AtomicUsize::new(0);
    let count = |n| {
        done.fetch_add(n, std::sync::atomic::Ordering::Relaxed);
    };
    let answers = in_rounds(&set.puzzles, 3, &count, |puzzles, progress| {
        let solved = read(&small, puzzles, &SolveOptions::fixed(4));
        progress(solved.len());
        Ok(solved)
    })
    .unwrap();
    assert_eq!(done.into_inner(), 7);
    for (puzzle, found) in set.puzzles.iter().zip(&answers) {
        // Untrained agents complete no board, so all rounds are run.
        let Answer { predicted, iterations, rounds } = found;
        assert_eq!((*rounds, *iterations), (3, 12));
        let (mut board, mut reading) = (*puzzle, None);
        for left in [2, 1, 0] {
            let alone = read(&small, &[board], &SolveOptions::fixed(4)).remove(0).answer;
            if left > 0 {
                alone.commit(&mut board, left);
            }
            reading = Some(alone);
        }
        assert_eq!(reading.unwrap().predicted, *predicted);
    }
}

#[test]
fn rounds_solve_what_the_trained_agents_do_not_see_at_once() {
    let SudokuWeights { experiment, model, params } = SudokuWeights::builtin(BUILTIN).unwrap();
    let set = generate(Kind::Minimal, 6, 8);
    let solved = |rounds| {
        let options = SolveOptions::fixed(50);
        let score = evaluate(&experiment.model, &model, &params, &set, &options, rounds, &|_| {});
        score.unwrap().summary.solved
    };
    let (at_once, in_rounds) = (solved(1), solved(5));
    assert!(in_rounds > at_once, "{at_once} and {in_rounds} of 8");
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

    // A complete grid that ignores a given is not a solution of this puzzle.
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
