//! Reports: the paper's tables with its values beside ours, learning curves, and every run with its command.

pub mod document;
pub mod results;

use std::collections::BTreeMap;
use std::path::Path;

use sheaf_admm::Result;
use sheaf_figures::curves::{Learning, learning_curves};
use sheaf_learn::train::file::{io_error, write_whole};

use crate::Scale;
use crate::record::{Record, Status};
use crate::scale::grouped;
use crate::tables::{Cell, Row, Table};
use document::{Block, html, markdown};
use results::{Results, mean_and_deviation};

/// The title of every report.
const TITLE: &str = "Results: the paper's tables, reproduced";
/// Most curves of one drawing; more cannot be told apart.
const CURVES: usize = 7;

/// Writes `report.md` and `report.html` of some tables to a folder. `scales` are looked for in this order.
pub fn write(tables: &[Table], results: &Results, scales: &[Scale], out: &Path) -> Result<()> {
    std::fs::create_dir_all(out).map_err(|e| io_error(out, "a folder that can be made", &e))?;
    let blocks = blocks(tables, results, scales)?;
    write_whole(&out.join("report.md"), markdown(&blocks).as_bytes())?;
    write_whole(&out.join("report.html"), html(TITLE, &blocks).as_bytes())
}

/// The report as Markdown.
pub fn text(tables: &[Table], results: &Results, scales: &[Scale]) -> Result<String> {
    Ok(markdown(&blocks(tables, results, scales)?))
}

fn blocks(tables: &[Table], results: &Results, scales: &[Scale]) -> Result<Vec<Block>> {
    let mut blocks = vec![
        Block::Heading(1, TITLE.into()),
        Block::Text(
            "Written by `sheaf reproduce`, never by hand: `sheaf reproduce all --from results/ --out DIR` rebuilds it \
             from the records in `results/`. Each cell is *ours / the paper's*, as mean ± standard deviation over the \
             seeds, whose number stands in brackets. Beside it stands the scale of a run that was reduced, such as \
             [1, half]; *values in italics* with [1, quick] come from a few steps that test the machinery, and are not \
             comparable with anything. Times are those of the runs behind a row, training and all evaluations; rows \
             that share a run share its time."
                .into(),
        ),
    ];
    for table in tables {
        blocks.push(Block::Heading(2, table.title.into()));
        blocks.push(table_block(table, results, scales));
        let command = format!("`sheaf reproduce {} --out DIR`. {}", table.name, table.notes);
        blocks.push(Block::Text(command.trim_end().into()));
        blocks.extend(curves(table, results, scales)?);
    }
    blocks.extend(runs(tables, results));
    Ok(blocks)
}

fn table_block(table: &Table, results: &Results, scales: &[Scale]) -> Block {
    let grouped = table.rows.iter().any(|row| !row.group.is_empty());
    let mut titles: Vec<String> = if grouped { vec!["part".into()] } else { Vec::new() };
    titles.push("row".into());
    titles.extend(table.columns.iter().cloned());
    titles.extend(["time", "remarks"].map(String::from));
    let rows = table.rows.iter().map(|row| {
        let mut cells: Vec<String> = if grouped { vec![row.group.into()] } else { Vec::new() };
        cells.push(row.label.clone());
        cells.extend(row.cells.iter().map(|cell| match cell {
            Some(cell) => cell_text(cell, results, scales),
            None => String::new(),
        }));
        cells.extend(summary(table, row, results, scales));
        cells
    });
    Block::Table(titles, rows.collect())
}

/// Ours and the paper's value of a cell.
fn cell_text(cell: &Cell, results: &Results, scales: &[Scale]) -> String {
    let percent = if cell.metric.is_share() { 100.0 } else { 1.0 };
    let scale = results.best_scale(&cell.variant, &cell.eval, scales);
    let records = scale.map_or(Vec::new(), |scale| results.of(scale, &cell.variant.name));
    let values = scale
        .map_or(Vec::new(), |scale| results.values(scale, &cell.variant.name, &cell.eval, cell.metric.key()));
    let failed = records.iter().any(|record| record.status == Status::Failed);
    let ours = match mean_and_deviation(&values) {
        Some((mean, deviation)) => {
            let spread =
                if values.len() > 1 { format!(" ± {:.1}", percent * deviation) } else { String::new() };
            let value = format!("{:.1}{spread}", percent * mean);
            match (values.len(), scale) {
                // What must not be taken for a result does not look like one.
                (seeds, Some(Scale::Quick)) => format!("*{value} [{seeds}, quick]*"),
                (seeds, Some(Scale::Full) | None) => format!("{value} [{seeds}]"),
                (seeds, Some(scale)) => format!("{value} [{seeds}, {}]", scale.name()),
            }
        }
        None if failed => "failed".into(),
        None if records.iter().any(|r| r.evals.contains_key(&cell.eval)) => match scale {
            Some(Scale::Quick) => "*none solved [quick]*".into(),
            _ => "none solved".into(),
        },
        None if records.is_empty() => "not run".into(),
        None => "unfinished".into(),
    };
    match cell.paper {
        Some((value, Some(deviation))) => format!("{ours} / {value:.1} ± {deviation:.1}"),
        Some((value, None)) => format!("{ours} / {value:.1}"),
        None => ours,
    }
}

/// Time of a row's runs, and what a reader must know of them: how much they were reduced, and why one failed.
fn summary(table: &Table, row: &Row, results: &Results, scales: &[Scale]) -> [String; 2] {
    let (mut seconds, mut parts): (f64, Vec<Part<'_>>) = (0.0, Vec::new());
    let cells =
        || table.columns.iter().zip(&row.cells).filter_map(|(column, cell)| Some((column, cell.as_ref()?)));
    for (column, cell) in cells() {
        let Some(scale) = results.best_scale(&cell.variant, &cell.eval, scales) else { continue };
        let at = parts.iter().position(|part| part.scale == scale).unwrap_or_else(|| {
            parts.push(Part { scale, columns: Vec::new(), records: Vec::new() });
            parts.len() - 1
        });
        parts[at].columns.push(column);
        for record in results.of(scale, &cell.variant.name) {
            if !parts[at].records.iter().any(|known| known.run == record.run) {
                parts[at].records.push(record);
                seconds += record.train_seconds + record.eval_seconds;
            }
        }
    }
    let mut remarks = Vec::new();
    for Part { scale, columns, records } in &parts {
        let reduced = scale.reduction(records);
        // Where only some columns were reduced, it says which.
        let whose =
            if columns.len() < cells().count() { format!("{}: ", columns.join(", ")) } else { String::new() };
        remarks.extend((!reduced.is_empty()).then(|| format!("{whose}{reduced}")));
        let failed = records.iter().filter(|record| record.status == Status::Failed);
        remarks.extend(failed.map(|record| format!("{} failed: {}", record.run, record.error)));
    }
    let time = if parts.is_empty() { String::new() } else { duration(seconds) };
    [time, remarks.join("; ")]
}

/// The columns of a row that were run at the same scale, and their runs.
struct Part<'a> {
    scale: Scale,
    columns: Vec<&'a str>,
    records: Vec<&'a Record>,
}

/// Learning curves of the runs of a table, the first seed of each, in drawings of a few curves. Tasks have drawings of
/// their own, and so have quick runs, which would be a dot beside the curve of a whole schedule.
fn curves(table: &Table, results: &Results, scales: &[Scale]) -> Result<Vec<Block>> {
    let mut found: BTreeMap<(bool, &str), Vec<Learning>> = BTreeMap::new();
    for cell in table.cells() {
        let Some(scale) = results.best_scale(&cell.variant, &cell.eval, scales) else { continue };
        let Some(record) = results.of(scale, &cell.variant.name).first().copied() else { continue };
        let folder = Record::folder(&results.folder, &record.scale, &record.run);
        let group = found.entry((scale == Scale::Quick, cell.variant.data())).or_default();
        if !group.iter().any(|known| known.name == record.run) && folder.join("metrics.jsonl").is_file() {
            group.push(Learning::read(&folder)?);
        }
    }
    let mut blocks = Vec::new();
    for ((quick, _), group) in found.iter().filter(|(_, group)| !group.is_empty()) {
        // As many in each drawing, so that no curve is left alone in the last one.
        let drawings = group.len().div_ceil(CURVES);
        for part in group.chunks(group.len().div_ceil(drawings)) {
            let whose = if *quick { " of quick runs, which are not comparable" } else { "" };
            let caption = format!(
                "Learning curves{whose}: training loss (logarithmic), and the metric on held-out samples during training."
            );
            blocks.push(Block::Drawing(learning_curves(part)?.svg().to_string(), caption));
        }
    }
    Ok(blocks)
}

/// Every run of the tables: what it was, how long it took, and the command that repeats it.
fn runs(tables: &[Table], results: &Results) -> Vec<Block> {
    let cells = || tables.iter().flat_map(Table::cells);
    let needed = |record: &&Record| cells().any(|cell| record.run == cell.variant.run(record.seed));
    let records: Vec<&Record> = results.all().filter(needed).collect();
    if records.is_empty() {
        return vec![Block::Heading(2, "Runs".into()), Block::Text("None.".into())];
    }
    let titles =
        ["run", "scale", "steps", "parameters", "training", "evaluation", "commit", "state", "command"];
    let row = |record: &&Record| {
        let state = match record.status {
            Status::Finished => "finished".to_string(),
            Status::Unfinished => "unfinished".to_string(),
            Status::Failed => format!("failed: {}", record.error),
        };
        vec![
            record.run.clone(),
            record.scale.clone(),
            format!("{} of {}", grouped(record.steps), grouped(record.published_steps)),
            grouped(record.parameters as u64),
            duration(record.train_seconds),
            duration(record.eval_seconds),
            record.commit.clone(),
            state,
            format!("`{}`", command(tables, record)),
        ]
    };
    let mut machines: Vec<&str> = records.iter().map(|record| record.machine.as_str()).collect();
    machines.sort_unstable();
    machines.dedup();
    vec![
        Block::Heading(2, "Runs".into()),
        Block::Text(format!("Machine: {}.", machines.join("; "))),
        Block::Table(titles.map(String::from).to_vec(), records.iter().map(row).collect()),
    ]
}

/// The command that repeats a run: its training alone, or, where much more than the steps was reduced, training and
/// evaluation in the first table that has it.
fn command(tables: &[Table], record: &Record) -> String {
    let Record { experiment, seed, scale, steps, published_steps, left_out, .. } = record;
    let on_nan = if *left_out > 0 { " --on-nan rollback" } else { "" };
    if *scale == Scale::Quick.name() {
        let own = |cell: &&Cell| record.run == cell.variant.run(*seed);
        let found =
            tables.iter().find_map(|table| Some((table.name, &table.cells().find(own)?.variant.name)));
        let (table, only) =
            found.map_or(("all", String::new()), |(table, name)| (table, format!(" --only {name}")));
        return format!("sheaf reproduce {table}{only} --scale quick --seeds {seed}{on_nan} --out DIR");
    }
    let set: String = record.set.iter().map(|key| format!(" --set {key}")).collect();
    // A training that has not ended has made the steps of its scale when it ends.
    let made = match (*steps, Scale::named(scale)) {
        (0, Some(scale)) => scale.steps(*published_steps),
        (made, _) => made,
    };
    let steps = match made == *published_steps {
        true => String::new(),
        false => format!(" --set train.steps={made}"),
    };
    format!("sheaf train experiments/{experiment}.toml{set}{steps} --seed {seed}{on_nan} --out RUN")
}

/// A time as people say it.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s > 0.0 && s < 0.5 => "under 1 s".into(),
        s if s < 60.0 => format!("{s:.0} s"),
        s if s < 3600.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
