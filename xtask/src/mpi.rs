//! Several processes: the tests that start `mpirun`.

use std::process::Command;

use anyhow::Result;

use crate::install::{self, Needs, runs};
use crate::run::check;

/// Open MPI, and libclang, with which its bindings are made.
const PACKAGES: &[&str] = &["libopenmpi-dev", "openmpi-bin", "libclang-14-dev"];

/// Runs the tests; `build` is `cargo test` with the features of the other tests and that of MPI.
pub fn tests(build: &mut Command) -> Result<Needs> {
    let there = || runs("mpirun", &["--version"]) && runs("mpicc", &["--version"]) && has_libclang();
    let needs = install::apt("Open MPI or libclang", PACKAGES, there)?;
    if needs == Needs::Met {
        check(build)?;
    }
    Ok(needs)
}

/// Whether the library is where the binding generator looks for it.
fn has_libclang() -> bool {
    let named = |path: &std::path::Path| {
        std::fs::read_dir(path).is_ok_and(|files| {
            files.flatten().any(|file| {
                let name = file.file_name();
                let name = name.to_string_lossy();
                (name.starts_with("libclang.so") || name.starts_with("libclang-")) && name.contains(".so")
            })
        })
    };
    let llvm = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let llvm = llvm.filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("llvm-")));
    std::env::var_os("LIBCLANG_PATH").is_some()
        || llvm.map(|path| path.join("lib")).any(|path| named(&path))
        || ["/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu"].iter().any(|path| named(path.as_ref()))
}
