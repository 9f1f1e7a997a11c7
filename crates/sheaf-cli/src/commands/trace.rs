//! `sheaf trace`: every iteration of one solve, as a file of arrays.

use std::collections::HashMap;
use std::path::PathBuf;

use safetensors::tensor::{Dtype, TensorView, serialize};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::write_whole;

use super::{Ending, Job, check_out};
use crate::args::TraceArgs;
use crate::progress::Waiting;
use crate::tasks::{Source, TraceRequest};

/// A solve to write down.
#[derive(Debug)]
pub struct Trace {
    weights: Source,
    request: TraceRequest,
    out: PathBuf,
}

impl Trace {
    /// Checks what was typed.
    pub fn check(args: TraceArgs) -> Result<Self> {
        check_out(&args.out)?;
        let iterations = args.iterations;
        let request = TraceRequest { data: args.data, index: args.index, iterations };
        Ok(Self { weights: Source::parse(&args.weights)?, request, out: args.out })
    }
}

impl Job for Trace {
    fn run(&self) -> Result<Ending> {
        let (weights, task) = self.weights.open_with_task()?;
        let waiting = Waiting::new("tracing");
        let arrays = task.trace(&weights, &self.request)?;
        let about = HashMap::from([
            ("format".to_string(), "sheaf-admm trace".to_string()),
            ("version".to_string(), "1".to_string()),
            ("task".to_string(), task.name().to_string()),
            ("config".to_string(), weights.about().config.clone()),
            ("index".to_string(), self.request.index.to_string()),
        ]);
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
        write_whole(&self.out, &serialize(views, Some(about)).map_err(failed)?)?;
        drop(waiting);
        let mut report = arrays.report;
        let named: Vec<String> = all.iter().map(|(name, _, shape, _)| format!("{name} {shape:?}")).collect();
        report.add("arrays", "arrays", named.clone(), named.join(", ")).written(&self.out);
        Ok(report.into())
    }
}
