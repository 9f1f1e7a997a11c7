//! `sheaf trace`: every iteration of one solve, as a file of arrays.

use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView, serialize};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::write_whole;

use super::{Job, check_out};
use crate::args::TraceArgs;
use crate::progress::Waiting;
use crate::tasks::{Source, TraceArrays, TraceRequest};

/// Checks the arguments; the job solves and writes.
pub fn trace(args: TraceArgs) -> Result<Box<dyn Job>> {
    let TraceArgs { data, index, iterations, out, .. } = args;
    let weights = Source::parse(&args.weights)?;
    check_out(&out, weights.path().into_iter().chain([data.as_path()]))?;
    let request = TraceRequest { data, index, iterations };
    Ok(Box::new(move || {
        let (weights, task) = weights.open_with_task()?;
        let waiting = Waiting::new("tracing");
        let mut arrays = task.trace(&weights, &request)?;
        let about = [
            ("format", "sheaf-admm trace"),
            ("version", "1"),
            ("task", task.name()),
            ("config", &weights.about().config),
            ("index", &request.index.to_string()),
        ];
        let named = write(&out, &arrays, &about)?;
        drop(waiting);
        arrays.report.add("arrays", "arrays", named.clone(), named.join(", ")).written(&out);
        Ok(arrays.report)
    }))
}

/// Writes the arrays to a file; returns their names and shapes.
fn write(out: &Path, arrays: &TraceArrays, about: &[(&str, &str)]) -> Result<Vec<String>> {
    let about: HashMap<_, _> =
        about.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let floats = arrays.floats.iter().map(|(name, shape, values)| {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        (*name, Dtype::F32, shape.clone(), bytes)
    });
    let tokens = arrays.bytes.iter().map(|(name, shape, v)| (*name, Dtype::U8, shape.clone(), v.clone()));
    let all: Vec<_> = floats.chain(tokens).collect();
    let failed = |e| Error::new(ErrorKind::Malformed, "trace", "arrays that fit their shapes", e);
    let views = all.iter().map(|(name, dtype, shape, bytes)| {
        Ok((*name, TensorView::new(*dtype, shape.clone(), bytes).map_err(failed)?))
    });
    let views: Vec<_> = views.collect::<Result<_>>()?;
    write_whole(out, &serialize(views, Some(about)).map_err(failed)?)?;
    Ok(all.iter().map(|(name, _, shape, _)| format!("{name} {shape:?}")).collect())
}
