//! `sheaf data mnist`: the four original files, from a mirror or from a folder.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_tasks::mnist::data::{ImageSet, Split};
use sheaf_tasks::mnist::download::{self, FILES, Fetched, MIRRORS_VARIABLE, Progress};

use crate::commands::Job;
use crate::progress::Bar;
use crate::report::{Report, count};
use crate::tasks::verbs::Arguments;

const EXAMPLES: &str = "\
Examples:
  sheaf data mnist --out data/mnist
  sheaf data mnist --out data/mnist --mirror https://example.org/mnist
  sheaf data mnist --out data/fashion --from ~/Downloads/fashion-mnist

A download that was cut off continues where it stopped; every file is checked by its SHA-256.
--from takes any set of IDX files, gzipped or not: MNIST, Fashion-MNIST, EMNIST, your own.";

/// Fetch the MNIST digits, or take another set of IDX files
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DataArgs {
    /// The folder to write to; files that are there and right are kept
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Take the files from this folder instead of a mirror
    #[arg(long, value_name = "DIR", conflicts_with = "mirror")]
    pub from: Option<PathBuf>,
    /// Address of a folder that has the files; may be repeated, tried in order [default: two well-known ones, or
    /// those in the variable SHEAF_MNIST_MIRRORS]
    #[arg(long, value_name = "URL")]
    pub mirror: Vec<String>,
}

impl Arguments for DataArgs {
    fn check(self, _json: bool) -> Result<Box<dyn Job>> {
        let Self { out, from, mirror } = self;
        if out.exists() && !out.is_dir() {
            let place = out.display().to_string();
            return Err(Error::new(ErrorKind::Unsupported, place, "a folder", "a file"));
        }
        let mirrors = if mirror.is_empty() { download::mirrors() } else { mirror };
        if let Some(bad) = mirrors.iter().find(|m| !(m.starts_with("http://") || m.starts_with("https://"))) {
            let want = "an address with https:// or http://";
            let hint =
                format!("a folder of this machine is named by --from; {MIRRORS_VARIABLE} lists mirrors");
            return Err(Error::new(ErrorKind::Malformed, "--mirror", want, bad).hint(hint));
        }
        Ok(Box::new(move || bring(&out, from.as_deref(), &mirrors)))
    }
}

/// Fetches or copies the files.
fn bring(out: &Path, from: Option<&Path>, mirrors: &[String]) -> Result<Report> {
    let mut report = Report::new();
    report.value("task", "mnist");
    match from {
        Some(from) => {
            let original = download::from_dir(from, out)?;
            let text = match original {
                true => "the original MNIST files, byte for byte",
                false => "another set than the original MNIST; taken as it is",
            };
            report.add("original", "files", original, text);
        }
        None => fetch(out, mirrors, &mut report)?,
    }
    for (split, key, label) in [(Split::Train, "train", "training"), (Split::Test, "test", "test")] {
        let set = ImageSet::read(out, split)?;
        let (n, h, w) = (set.len(), set.height, set.width);
        let text = format!("{} pictures of {h} × {w} pixels, {} classes", count(n), set.classes);
        report.add(key, label, n, text);
        if split == Split::Test {
            report.value("height", h).value("width", w).value("classes", set.classes);
        }
    }
    report.written(out);
    Ok(report)
}

fn fetch(out: &Path, mirrors: &[String], report: &mut Report) -> Result<()> {
    let total: u64 = FILES.iter().map(|f| f.bytes).sum();
    let bar = Bar::styled("fetching", total, "{prefix} {bar:32} {bytes}/{total_bytes} {msg} {eta} left");
    let before = |name: &str| -> u64 { FILES.iter().take_while(|f| f.name != name).map(|f| f.bytes).sum() };
    let fetched = download::download(out, mirrors, &mut |p: Progress<'_>| {
        bar.set(before(p.file) + p.done, || p.file.to_string());
    })?;
    bar.clear();
    let came = fetched.iter().filter(|t| **t != Fetched::Present).count();
    let resumed = fetched.iter().any(|t| matches!(t, Fetched::Downloaded { resumed } if *resumed > 0));
    let text = match (came, resumed) {
        (0, _) => "all there already, checksums right".to_string(),
        (n, true) => format!("{n} fetched, continued from an earlier attempt; checksums right"),
        (n, false) => format!("{n} fetched, {} there already; checksums right", fetched.len() - n),
    };
    report.add("original", "files", true, text);
    let list: Vec<_> = FILES
        .iter()
        .zip(&fetched)
        .map(|(file, fetched)| {
            let (state, resumed) = match fetched {
                Fetched::Present => ("present", 0),
                Fetched::Downloaded { resumed } => ("downloaded", *resumed),
            };
            json!({ "name": file.name, "bytes": file.bytes, "state": state, "resumed_bytes": resumed })
        })
        .collect();
    report.value("files", list);
    Ok(())
}
