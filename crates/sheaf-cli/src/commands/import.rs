//! `sheaf import`: converts parameters under the authors' names to weights under ours.

use std::collections::HashSet;

use safetensors::tensor::Dtype;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::{Precision, TensorFile, WeightsMeta, save_weights};

use super::{Job, check_out};
use crate::args::ImportArgs;
use crate::report::{Report, count};
use crate::tasks::{self, AuthorsModel, Task};

/// Possible prefixes of a name. The first match wins, so the running average comes before the rest.
const PREFIXES: [&str; 4] = ["ema_params/", "params/", "param/", ""];

/// What to do about parameters that do not fit the model.
const HINT: &str = "the parameters belong to a model with other keys: --experiment FILE.toml names it";

/// Checks the arguments; the job reads the parameters and writes them as weights.
pub fn import(args: ImportArgs) -> Result<Box<dyn Job>> {
    let ImportArgs { from, experiment, out, .. } = args;
    check_out(&out, experiment.as_deref().into_iter().chain([from.as_path()]))?;
    let task = tasks::find("--task", &args.task)?;
    Ok(Box::new(move || {
        let AuthorsModel { layout, names, config } = task.authors_model(experiment.as_deref())?;
        let file = TensorFile::read(&from)?;
        let prefix = prefix_of(task, &file, &names)?;
        let mut params = Vec::with_capacity(layout.len());
        for (entry, name) in layout.entries().iter().zip(&names) {
            let name = format!("{prefix}{name}");
            // The authors' arrays may have axes of length 1 that ours leave out.
            let axes = |shape: &[usize]| shape.iter().copied().filter(|&n| n != 1).collect::<Vec<_>>();
            let theirs = file.info(&name).map(|(_, shape)| shape.to_vec());
            let shape = theirs.filter(|shape| axes(shape) == axes(&entry.shape));
            let shape = shape.unwrap_or_else(|| entry.shape.clone());
            let values = file.tensor(&name, &shape, &[Dtype::F32, Dtype::F16]).map_err(|e| e.hint(HINT))?;
            params.extend(values);
        }
        all_taken(&file, prefix, &names)?;
        // The file name alone: its folder on this machine means nothing elsewhere.
        let name = from.file_name().unwrap_or_default().to_string_lossy();
        let record = serde_json::json!({ "imported_from": name, "prefix": prefix });
        let about = WeightsMeta { task: task.name().into(), config, record: record.to_string() };
        save_weights(&out, &layout, &params, &about, Precision::F32)?;
        let mut report = Report::new();
        report.value("task", task.name()).value("prefix", prefix);
        let text = format!("{} tensors, {} numbers", names.len(), count(params.len()));
        report.add("parameters", "imported", params.len(), text);
        let shown = if prefix.is_empty() { "none" } else { prefix };
        report.value("tensors", names.len()).line("prefix", shown).written(&out);
        Ok(report)
    }))
}

/// Refuses a file with parameters that the model does not have: without them it would be another model. Where names stand
/// alone, only those in a module of the model count; a file may hold other things.
fn all_taken(file: &TensorFile, prefix: &str, names: &[String]) -> Result<()> {
    let module = |name: &str| name.split('/').next().unwrap_or_default().to_string();
    let known: HashSet<&str> = names.iter().map(String::as_str).collect();
    let modules: HashSet<String> = names.iter().map(|name| module(name)).collect();
    let tensors = file.names();
    let left: Vec<&str> = tensors
        .iter()
        .filter_map(|name| name.strip_prefix(prefix))
        .filter(|name| !known.contains(name) && (!prefix.is_empty() || modules.contains(&module(name))))
        .collect();
    let Some(first) = left.first() else { return Ok(()) };
    let want = format!("the {} tensors of the model and no others", names.len());
    let got = match left.len() {
        1 => format!("`{prefix}{first}` too"),
        more => format!("`{prefix}{first}` and {} more", more - 1),
    };
    Err(Error::new(ErrorKind::Malformed, file.place(), want, got).hint(HINT))
}

/// The prefix of the names in this file.
fn prefix_of(task: &dyn Task, file: &TensorFile, names: &[String]) -> Result<&'static str> {
    let has = |prefix: &&str| names.iter().any(|name| file.info(&format!("{prefix}{name}")).is_some());
    PREFIXES.into_iter().find(has).ok_or_else(|| {
        let want = format!("parameters of the {} model, such as `{}`", task.name(), names[0]);
        let got = file.names().first().map_or("no tensors".into(), |n| format!("`{n}` and others"));
        Error::new(ErrorKind::Malformed, file.place(), want, got)
            .hint("names may stand alone or after param/, params/ or ema_params/")
    })
}
