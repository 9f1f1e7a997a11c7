//! The Python package: its tests, a fresh installation, and wheels.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::install::{self, Needs};
use crate::run::{check, command, in_ci, root};

/// The interpreter whose packages the tests use: Debian's CPU build of torch belongs to it.
const SYSTEM: &str = "/usr/bin/python3";
const PACKAGES: &[&str] = &[
    "python3-venv",
    "python3-numpy",
    "python3-scipy",
    "python3-pandas",
    "python3-networkx",
    "python3-matplotlib",
    "python3-pytest",
    "python3-torch",
];
const IMPORTS: &str = "import ensurepip, venv, numpy, scipy, pandas, networkx, matplotlib, pytest, torch";

/// The first lines of the README, in an environment that has nothing but the package.
const SNIPPET: &str = "
import numpy as np, sheaf_admm as sa
net = sa.Network()
a = net.agent(sa.Quadratic(np.eye(2), np.array([-1.0, -7.0])))
b = net.agent(sa.Quadratic(np.eye(3), np.array([-2.0, 3.0, -1.0])))
net.agree(a, np.array([[1.0, 0.0]]), b, np.array([[1.0, 0.0, 0.0]]), offset=np.array([0.5]))
sol = net.solve(tol=1e-9)
print(sa.__file__, sol.status, sol.x(a), sol.x(b))
assert sol.status == 'solved' and abs(sol.x(a)[0] - 1.75) < 1e-6
";

/// Runs the tests with the system's Python; returns why they could not run.
pub fn tests(goldens: Option<PathBuf>) -> Result<Option<String>> {
    let there = || install::runs(SYSTEM, &["-c", IMPORTS]);
    if let Needs::Missing(why) = install::apt("a package of Python", PACKAGES, there)? {
        return Ok(Some(why));
    }
    let (needs, python) =
        install::python_environment(SYSTEM, "python", &root().join("python/requirements.txt"))?;
    if let Needs::Missing(why) = needs {
        return Ok(Some(why));
    }
    with_jax(&python)?;
    fresh()?;
    install_package(&python, &["--no-build-isolation", "--no-deps", "--force-reinstall"], QUICK)?;
    pytest(&python, goldens)?;
    Ok(None)
}

/// The same with current packages, torch included: opcheck, `torch.compile`, a new jax and numpy. Fetches 3 GB. The package is
/// optimised, as in a wheel.
pub fn full(goldens: Option<PathBuf>) -> Result<()> {
    let directory = root().join("target/venv/python-full");
    let python = directory.join("bin/python");
    check(command(SYSTEM).args(["-m", "venv"]).arg(&directory))?;
    let requirements = root().join("python/requirements-full.txt");
    check(pip(&python).args(["install", "--quiet", "-r"]).arg(requirements))?;
    install_package(&python, &["--no-build-isolation", "--no-deps", "--force-reinstall"], SHIPPED)?;
    pytest(&python, goldens)
}

/// Builds a wheel for every Python from 3.10 on, with optimisation, in `target/wheels`.
pub fn wheel() -> Result<()> {
    let (needs, python) =
        install::python_environment(SYSTEM, "python", &root().join("python/requirements.txt"))?;
    if let Needs::Missing(why) = needs {
        anyhow::bail!("{why}");
    }
    check(program(&python).args(["-m", "maturin", "build", "--release", "--locked"]))
}

/// jax is tested where it can be installed; with CI=true it must be.
fn with_jax(python: &Path) -> Result<()> {
    if install::runs(&python.to_string_lossy(), &["-c", "import jax"]) {
        return Ok(());
    }
    let requirements = root().join("python/requirements-jax.txt");
    let installed = check(pip(python).args(["install", "--quiet", "-r"]).arg(requirements));
    match installed {
        Err(error) if in_ci() => Err(error),
        Err(error) => {
            eprintln!("{error:#}\njax is not tested");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// `pip install .` in a new environment, and the first example.
fn fresh() -> Result<()> {
    let directory = root().join("target/venv/python-fresh");
    let python = directory.join("bin/python");
    check(command(SYSTEM).args(["-m", "venv", "--clear"]).arg(&directory))?;
    install_package(&python, &[], QUICK)?;
    // Elsewhere, so that nothing of the tree is imported.
    check(program(&python).args(["-c", SNIPPET]).current_dir(directory))
}

/// Options of maturin: the profile of the other tests, whose compiled dependencies it shares, and that of wheels.
const QUICK: &str = "--profile dev --locked";
const SHIPPED: &str = "--profile release --locked";

/// `pip install .`, built with these options.
fn install_package(python: &Path, options: &[&str], build: &str) -> Result<()> {
    let mut install = pip(python);
    install.args(["install", "--quiet"]).args(options).arg(".");
    // Without build isolation pip starts the maturin of the environment, by its name.
    let before = std::env::var_os("PATH").unwrap_or_default();
    let own = python.parent().map(Path::to_path_buf);
    let path = std::env::join_paths(own.into_iter().chain(std::env::split_paths(&before)))?;
    check(install.env("PATH", path).env("MATURIN_PEP517_ARGS", build))
}

fn pytest(python: &Path, goldens: Option<PathBuf>) -> Result<()> {
    let mut tests = program(python);
    tests.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "python/tests"]);
    check(tests.envs(goldens.map(|directory| ("SHEAF_GOLDENS", directory))))
}

fn program(python: &Path) -> std::process::Command {
    command(&python.to_string_lossy())
}

fn pip(python: &Path) -> std::process::Command {
    let mut pip = program(python);
    pip.args(["-m", "pip", "--disable-pip-version-check"]);
    pip
}
