//! How long and how accurately to solve.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sheaf_admm::ErrorKind;
use sheaf_admm::network::Settings as Inner;

use crate::errors::{Raised, wrong};

/// How a network is solved: the keywords of `Network.solve` and `Network.solver`, as one object.
///
/// `tol` is the absolute and relative tolerance of every residual; `iterations` and `time_limit` (seconds) are limits. `rho` is the
/// first penalty, chosen if not given; `adapt` lets it follow the residuals. `relax` is the over-relaxation, `scale` scales the
/// problem first. `threads` limits the threads of a network of more than 4,096 agents, 0 for one per core; results do not
/// depend on it.
///
/// >>> import sheaf_admm as sa
/// >>> exact = sa.Settings(tol=1e-10, iterations=50_000)
/// >>> net = sa.Network()
/// >>> a = net.agent(sa.Quadratic([[1.0]], [-1.0]))
/// >>> net.solve(exact).x(a).round(6).tolist()
/// [1.0]
#[pyclass(frozen, module = "sheaf_admm", name = "Settings")]
pub struct Settings(Inner);

#[pymethods]
impl Settings {
    #[new]
    #[pyo3(signature = (tol = 1e-6, *, iterations = 10_000, time_limit = None, rho = None, adapt = true, relax = 1.6,
        scale = true, threads = 0))]
    fn new(
        tol: f64,
        iterations: usize,
        time_limit: Option<f64>,
        rho: Option<f64>,
        adapt: bool,
        relax: f64,
        scale: bool,
        threads: usize,
    ) -> PyResult<Self> {
        let time_limit = time_limit.map(seconds).transpose()?;
        let settings =
            Inner { tol, iterations, time_limit, rho, adapt, relax, scale, threads, ..Inner::default() };
        settings.validate().raised()?;
        Ok(Self(settings))
    }

    fn __repr__(&self) -> String {
        let Inner { tol, iterations, relax, threads, .. } = self.0;
        format!("Settings(tol={tol}, iterations={iterations}, relax={relax}, threads={threads}, …)")
    }
}

impl Settings {
    /// The settings of a call: given whole, or by keywords.
    pub fn read(
        py: Python<'_>,
        tol: Option<&Bound<'_, PyAny>>,
        more: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Inner> {
        if let Some(whole) = tol.and_then(|tol| tol.cast::<Self>().ok()) {
            if let Some(name) = more.and_then(|more| more.keys().iter().next()) {
                return Err(wrong(ErrorKind::Unsupported, "settings", "no keyword beside a Settings", name));
            }
            return Ok(whole.get().0);
        }
        let class = py.get_type::<Self>();
        let made = match tol {
            Some(tol) => class.call((tol,), more)?,
            None => class.call((), more)?,
        };
        Ok(made.cast::<Self>()?.get().0)
    }
}

fn seconds(limit: f64) -> PyResult<Duration> {
    let wrong = |_| wrong(ErrorKind::NotPositive, "time_limit", "seconds, 0 or more", limit);
    Duration::try_from_secs_f64(limit).map_err(wrong)
}
