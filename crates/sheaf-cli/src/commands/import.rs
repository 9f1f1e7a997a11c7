//! `sheaf import`: converts parameters under the authors' names to weights under ours.

use safetensors::tensor::Dtype;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::{Precision, TensorFile, WeightsMeta, save_weights};

use super::{Job, check_out};
use crate::args::ImportArgs;
use crate::report::{Report, count};
use crate::tasks::{self, AuthorsModel, Task};

/// Possible prefixes of a name. The first match wins, so the running average comes before the rest.
const PREFIXES: [&str; 4] = ["ema_params/", "params/", "param/", ""];

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
            params.extend(file.tensor(
                &name,
                &shape.unwrap_or(entry.shape.clone()),
                &[Dtype::F32, Dtype::F16],
            )?);
        }
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
