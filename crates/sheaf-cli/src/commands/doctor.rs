//! `sheaf doctor`: what this machine offers, whether the built-in weights are whole, and whether they still solve.

use std::time::Instant;

use serde_json::json;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_kernels::simd::{self, Level};
use sheaf_learn::limits::available_memory;
use sheaf_learn::model::evaluate::SolveOptions;
use sheaf_tasks::builtin;
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::generate;
use sheaf_tasks::maze::task::{self, MazeWeights};

use super::Job;
use crate::report::{Report, count, duration, rounded};

/// Mazes of the self-test, of the size the built-in weights were trained on.
const MAZES: usize = 8;

/// Checks this installation.
pub fn doctor() -> Box<dyn Job> {
    Box::new(|| {
        let mut report = Report::new();
        machine(&mut report);
        weights(&mut report)?;
        self_test(&mut report)?;
        Ok(report)
    })
}

fn machine(report: &mut Report) {
    report.add("version", "version", env!("CARGO_PKG_VERSION"), env!("CARGO_PKG_VERSION"));
    let level = simd::level();
    let kernels = match level {
        Level::Amx => "AVX-512 and AMX",
        Level::Avx512 => "AVX-512",
        Level::Avx2 => "AVX2 and FMA",
        Level::Portable => "portable: no vector instructions that this program has kernels for",
        Level::Plain => "plain loops, as SHEAF_SIMD=plain asks",
    };
    let found = features();
    report.value("features", found.clone());
    report
        .line("cpu", if found.is_empty() { "no known vector instructions".into() } else { found.join(", ") });
    report.add("kernels", "kernels", format!("{level:?}").to_lowercase(), kernels);
    let wish = std::env::var("SHEAF_SIMD").ok();
    if let Some(wish) = &wish {
        report.line("", format!("lowered by SHEAF_SIMD={wish}"));
    }
    let threads = rayon::current_num_threads();
    report.add("threads", "threads", threads, threads.to_string());
    let mb = available_memory().map(|bytes| bytes as f64 / 1e6);
    let text = mb.map_or("unknown".into(), |mb| format!("{} MB free", count(mb as usize)));
    report.add("available_mb", "memory", mb.map(|mb| rounded(mb, 0)), text);
}

/// Vector instructions of this CPU that kernels may use.
fn features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        let all = [
            ("avx2", has!("avx2")),
            ("fma", has!("fma")),
            ("avx512f", has!("avx512f")),
            ("avx512bw", has!("avx512bw")),
            ("avx512dq", has!("avx512dq")),
            ("avx512vl", has!("avx512vl")),
            ("avx512bf16", has!("avx512bf16")),
        ];
        all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}

/// Reads every built-in file; its checksum covers every byte.
fn weights(report: &mut Report) -> Result<()> {
    let mut rows = Vec::new();
    for shipped in &builtin::ALL {
        let (name, file) = (shipped.name, shipped.open()?);
        let parameters = file.layout().len();
        file.params(&file.layout())?;
        report.line("weights", format!("{name}: whole, {} parameters", count(parameters)));
        rows.push(json!({ "name": name, "parameters": parameters, "bytes": shipped.bytes.len() }));
    }
    report.value("weights", rows);
    Ok(())
}

/// Solves mazes that the built-in weights are known to solve.
fn self_test(report: &mut Report) -> Result<()> {
    let weights = MazeWeights::builtin(task::BUILTIN)?;
    let set = generate(&MazeShape::new(19, 19, 18)?, 0, MAZES)?;
    let options = SolveOptions::fixed(weights.experiment.iterations.eval);
    let start = Instant::now();
    let MazeWeights { experiment, model, params } = &weights;
    let solved = task::solve(&experiment.model, model, params, &set, &options, &|_| {})?;
    let right = task::summarise(&set, &solved).solved;
    if right != MAZES {
        let want = format!("{MAZES} mazes solved by the built-in weights");
        return Err(Error::new(ErrorKind::SolverFailed, "self-test", want, right).hint(
            "run it again with SHEAF_SIMD=off; if that passes, report the CPU features above as a defect",
        ));
    }
    let seconds = start.elapsed().as_secs_f64();
    let text = format!("passed: {MAZES} of {MAZES} mazes solved in {}", duration(seconds));
    report.add("self_test", "self-test", true, text).value("seconds", rounded(seconds, 6));
    Ok(())
}
