//! The catalogue of tables: every row can be run, and the document of results is what the records give.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sheaf_reproduce::plan::{State, choose};
use sheaf_reproduce::record::{Record, Status};
use sheaf_reproduce::report;
use sheaf_reproduce::report::results::Results;
use sheaf_reproduce::tables::{self, Variant};
use sheaf_reproduce::task::DataPlaces;
use sheaf_reproduce::{Plan, Request, Scale};

fn request(tables: &[&str], only: &[&str], scale: Scale, out: &Path) -> Request {
    let own = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    Request {
        tables: choose(&own(tables), &own(only)).unwrap(),
        scale,
        seeds: vec![42],
        out: out.into(),
        places: DataPlaces { mnist: "nowhere".into(), sudoku: None },
        rollback: false,
        command: "test".into(),
        commit: "unknown".into(),
    }
}

#[test]
fn every_experiment_of_every_table_is_valid_at_every_scale() {
    let folder = tempfile::tempdir().unwrap();
    for scale in Scale::ALL {
        let plan = Plan::new(request(&["all"], &[], scale, folder.path())).unwrap();
        assert!(plan.runs.len() > 90, "{}", plan.runs.len());
        assert!(plan.runs.iter().all(|run| plan.state(run) == State::Missing));
        for run in &plan.runs {
            let record = Record {
                steps: run.prepared.train.steps,
                published_steps: run.published_steps,
                batch: run.prepared.train.batch,
                ..Record::default()
            };
            let reduced = scale.reduction(&[&record]);
            assert_eq!(reduced.is_empty(), scale == Scale::Full, "{}: {reduced}", run.name);
            // A thousand held-out samples take longer than all steps of a quick run.
            let small = run.prepared.config.contains("\ntest = 8\n");
            assert!(small || scale != Scale::Quick, "{}: {}", run.name, run.prepared.config);
        }
    }
}

#[test]
fn tables_share_runs_and_variants_of_a_name_are_the_same() {
    let mut known: BTreeMap<String, Variant> = BTreeMap::new();
    for table in tables::all() {
        for row in &table.rows {
            assert_eq!(row.cells.len(), table.columns.len(), "{}: {}", table.name, row.name);
            for cell in row.cells.iter().flatten() {
                let before = known.entry(cell.variant.name.clone()).or_insert_with(|| cell.variant.clone());
                assert_eq!(*before, cell.variant, "{}", table.name);
                assert!(!cell.variant.text().is_empty(), "{}", cell.variant.file);
            }
        }
    }
    let stalks = tables::all().into_iter().find(|table| table.name == "stalks").unwrap();
    assert_eq!(stalks.rows.iter().map(|row| row.cells.len()).sum::<usize>(), 30);
}

#[test]
fn unknown_tables_and_rows_are_refused_with_the_known_ones() {
    let error = choose(&["maze".into()], &[]).unwrap_err();
    assert!(error.to_string().contains("maze-baselines, sudoku-baselines"), "{error}");
    let error = choose(&["maze-baselines".into()], &["pm".into()]).unwrap_err();
    assert!(error.to_string().contains("pm-max, pm-mean, cm-max"), "{error}");
    assert!(error.to_string().contains("hint: a label of a report"), "{error}");
}

#[test]
fn only_takes_rows_their_labels_and_experiments() {
    let folder = tempfile::tempdir().unwrap();
    let names = |tables: &[&str], only: &[&str]| -> Vec<String> {
        let plan = Plan::new(request(tables, only, Scale::Full, folder.path())).unwrap();
        plan.runs.into_iter().map(|run| run.name).collect()
    };
    assert_eq!(names(&["sizes"], &["maze"]), ["maze-s42"]);
    assert_eq!(names(&["sizes"], &["n-19"]), ["maze-s42", "maze-mpnn-pm-max-s42"]);
    assert_eq!(names(&["maze-baselines"], &["MPNN (PM; max)"]), ["maze-mpnn-pm-max-s42"]);
    assert_eq!(names(&["ablations"], &["k = 5"]), ["mnist-k-5-s42", "maze-k-5-s42", "sudoku-k-5-s42"]);
    // Every row of a report can be asked for by what the report calls it.
    for table in tables::all() {
        for row in &table.rows {
            let found = choose(&[table.name.into()], std::slice::from_ref(&row.label)).unwrap();
            assert!(found[0].rows.contains(row), "{}: {}", table.name, row.label);
        }
    }
    assert_eq!(names(&["stalks"], &["maze-shared-10-16"]), ["maze-shared-10-16-s42"]);
    let both = choose(&["maze-baselines".into(), "sizes".into()], &["maze".into()]).unwrap();
    assert_eq!(both.iter().map(|table| table.rows.len()).collect::<Vec<_>>(), [1, 15]);
    // A name means one thing: no row is called like an experiment.
    let all = tables::all();
    let rows = || all.iter().flat_map(|table| &table.rows);
    assert!(rows().flat_map(|row| row.experiments()).all(|name| rows().all(|row| !row.is_called(name))));
}

#[test]
fn a_report_without_records_says_that_nothing_was_run() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("results")).unwrap();
    let results = Results::read(&folder.path().join("results")).unwrap();
    let text = report::text(&tables::all(), &results, &Scale::ALL).unwrap();
    assert!(
        text.contains("| Sheaf-ADMM | not run / 99.9 ± 0.1 | not run / 98.1 ± 1.2 | not run / 4.5 ± 1.1 |"),
        "{text}"
    );
    assert!(Results::read(&folder.path().join("none")).is_err());
}

#[test]
fn a_row_shows_the_largest_scale_that_was_run_and_says_how_much_was_reduced() {
    let folder = tempfile::tempdir().unwrap();
    let table = choose(&["maze-baselines".into()], &["cm-max".into()]).unwrap();
    // From the smallest scale to the largest: each takes the place of the one before.
    for (scale, steps) in Scale::ALL.into_iter().rev().zip([8, 3_125, 15_625, 31_250]) {
        let run = "maze-mpnn-cm-max-s42".to_string();
        let values =
            BTreeMap::from([("solved".to_string(), steps as f64 / 1e5), ("samples".into(), 1_000.0)]);
        let record = Record {
            scale: scale.name().into(),
            steps,
            published_steps: 31_250,
            evals: [("test".to_string(), values)].into(),
            run: run.clone(),
            ..Record::default()
        };
        record.write(&Record::folder(folder.path(), scale.name(), &run)).unwrap();
        let results = Results::read(folder.path()).unwrap();
        let text = report::text(&table, &results, &Scale::ALL).unwrap();
        // No value of a reduced run can be taken for one of the published schedule.
        let value = format!("{:.1}", steps as f64 / 1e3);
        let cell = match scale {
            Scale::Full => format!("{value} [1]"),
            Scale::Quick => format!("*{value} [1, quick]*"),
            _ => format!("{value} [1, {}]", scale.name()),
        };
        assert!(text.contains(&format!("| {cell} / 35.1 ± 37.2 |")), "{text}");
        assert!(text.contains(&format!("| {} |", scale.reduction(&[&record]))), "{text}");
    }
}

#[test]
fn learning_curves_are_drawn_task_by_task_and_quick_runs_apart() {
    let folder = tempfile::tempdir().unwrap();
    let table = choose(&["ablations".into()], &["k-1".into(), "k-2".into()]).unwrap();
    for (scale, run) in [
        (Scale::Full, "maze-k-1-s42"),
        (Scale::Tenth, "maze-k-2-s42"),
        (Scale::Tenth, "mnist-k-1-s42"),
        (Scale::Quick, "mnist-k-2-s42"),
    ] {
        let place = Record::folder(folder.path(), scale.name(), run);
        let record = Record { scale: scale.name().into(), run: run.into(), ..Record::default() };
        record.write(&place).unwrap();
        std::fs::write(place.join("metrics.jsonl"), "{\"step\":1,\"samples\":8,\"loss\":0.5}\n").unwrap();
    }
    report::write(&table, &Results::read(folder.path()).unwrap(), &Scale::ALL, folder.path()).unwrap();
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    let drawings: Vec<&str> = page.split("<figure>").skip(1).collect();
    let held = |drawing: &&str| ["maze-k-1-s42", "maze-k-2-s42"].map(|run| drawing.contains(run));
    assert_eq!(drawings.iter().map(held).collect::<Vec<_>>(), [[true; 2], [false; 2], [false; 2]]);
    assert!(drawings[2].contains("mnist-k-2-s42") && drawings[2].contains("of quick runs"));
}

#[test]
fn the_command_of_a_quick_run_makes_that_run() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let results = Results::read(&root.join("results")).unwrap();
    let text = report::text(&tables::all(), &results, &[Scale::Quick]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for line in text.lines().filter(|line| line.contains(" | quick | ")) {
        let run = line.trim_start_matches("| ").split(" |").next().unwrap();
        let command = line.split('`').nth(1).unwrap();
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(words[..2], ["sheaf", "reproduce"], "{line}");
        let after = |option: &str| words.iter().position(|w| *w == option).map(|at| words[at + 1]);
        let only: Vec<&str> = after("--only").into_iter().collect();
        let seed = after("--seeds").unwrap().parse().unwrap();
        let scale = Scale::named(after("--scale").unwrap()).unwrap();
        let mut request = request(&[words[2]], &only, scale, folder.path());
        request.seeds = vec![seed];
        let plan = Plan::new(request).unwrap();
        let made: Vec<&str> = plan.runs.iter().map(|planned| planned.name.as_str()).collect();
        assert_eq!(made, [run], "{command}");
        seen += 1;
    }
    assert!(seen > 70, "{seen}");
}

#[test]
fn the_command_of_a_training_that_failed_makes_the_steps_of_its_scale() {
    let folder = tempfile::tempdir().unwrap();
    let run = "maze-mpnn-cm-max-s42".to_string();
    let record = Record {
        scale: "tenth".into(),
        published_steps: 31_250,
        status: Status::Failed,
        error: "the disk is full".into(),
        experiment: "maze-mpnn-cm-max".into(),
        seed: 42,
        run: run.clone(),
        ..Record::default()
    };
    record.write(&Record::folder(folder.path(), "tenth", &run)).unwrap();
    let results = Results::read(folder.path()).unwrap();
    let text = report::text(&tables::all(), &results, &Scale::ALL).unwrap();
    let command =
        "`sheaf train experiments/maze-mpnn-cm-max.toml --set train.steps=3125 --seed 42 --out RUN`";
    assert!(text.contains(command), "{text}");
}

/// `SHEAF_UPDATE_RESULTS=1` writes the document anew.
#[test]
fn the_document_of_results_is_what_the_records_give() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let results = Results::read(&root.join("results")).unwrap();
    let text = report::text(&tables::all(), &results, &Scale::ALL).unwrap();
    let path = root.join("docs/results.md");
    if std::env::var_os("SHEAF_UPDATE_RESULTS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap();
    assert!(there == text, "docs/results.md is not what `sheaf reproduce all --from results` writes");
}
