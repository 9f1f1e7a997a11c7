//! The differentiable layer: K iterations of ADMM for a batch, and their reverse.
//!
//! | file | holds |
//! | --- | --- |
//! | `spec` | choices: iterations, consensus, adjoint |
//! | `inputs` | arrays of a call, their shapes |
//! | `views`, `work`, `parts` | stacks of maps; one part of the batch; the sum of all parts |
//!
//! `backward` solves again with a tape and then runs the reverse sweep, sample after sample: nothing of size
//! batch × iterations is ever stored, and no state passes from one call to another.

mod inputs;
mod parts;
mod spec;
mod views;
mod work;

use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;
use sheaf_admm::sheaf::{Maps, SharedMaps, SharedStack, Sheaf, SheafOp, Uniform};
use sheaf_admm::z_update::{CgStart, Exact};
use sheaf_admm::{ErrorKind, Result};
use sheaf_kernels::vector::add;

use crate::arrays::{Held, array};
use crate::errors::{Raised, wrong};
use crate::graph::Graph;
use crate::run::{Stop, run};
use inputs::{Given, Inputs, NAMES, Number, SLOTS, Slot, Views};
use parts::{joined, parts};
use spec::{Consensus, Spec};
use work::{Buffers, Call, TILE};

/// Shared maps with more numbers than this are prepared once, as one matrix for all agents.
const LARGE: usize = 1024;

/// K iterations of sheaf ADMM as a function of numpy arrays, with its reverse.
///
/// `sheaf_admm.torch` and `sheaf_admm.jax` wrap it; see there for what each array is.
///
/// >>> import numpy as np, sheaf_admm as sa
/// >>> layer = sa.Layer(sa.Graph(2, [(0, 1)]), d_v=1, d_e=1, iterations=200, hard=True, consensus="exact")
/// >>> arrays = dict(q=np.array([[[-1.0], [-5.0]]]), diag=np.ones((1, 2, 1)),
/// ...               maps=np.ones((1, 1, 1)), rho=np.array(1.0))
/// >>> x = layer.forward(arrays)             # [window, batch, agents, d_v]
/// >>> x.round(6).ravel().tolist()
/// [3.0, 3.0]
/// >>> grads = layer.backward(arrays, np.ones_like(x), ["q"])
/// >>> grads["q"].round(6).ravel().tolist()  # both agents follow the mean of −q
/// [-1.0, -1.0]
#[pyclass(frozen, subclass, module = "sheaf_admm", name = "Layer")]
pub struct Layer {
    spec: Spec,
    sheaf: Sheaf,
    u: Uniform,
    threads: Option<usize>,
    arguments: Arguments,
    single: OnceLock<Exact<f32>>,
    double: OnceLock<Exact<f64>>,
}

/// What `Layer(…)` was given, for pickle: the graph, d_v, d_e, iterations, and options by name.
struct Arguments {
    positional: (Py<Graph>, usize, usize, usize),
    options: Py<PyDict>,
}

#[pymethods]
impl Layer {
    #[new]
    #[pyo3(signature = (graph, d_v, d_e, iterations, *, hard = false, consensus = "cg", steps = 5, tolerance = 0.0,
        relax = 1.0, window = 1, adjoint = None, adjoint_tolerance = 0.0, threads = None))]
    fn new(
        graph: &Bound<'_, Graph>,
        d_v: usize,
        d_e: usize,
        iterations: usize,
        hard: bool,
        consensus: &str,
        steps: usize,
        tolerance: f64,
        relax: f64,
        window: usize,
        adjoint: Option<&Bound<'_, PyAny>>,
        adjoint_tolerance: f64,
        threads: Option<usize>,
    ) -> PyResult<Self> {
        let (name, consensus) = (consensus, Spec::consensus(consensus)?);
        let how = adjoint.map_or(Ok(spec::How::Unrolled), Spec::how)?;
        let implicit_tolerance = adjoint_tolerance;
        let spec =
            Spec { iterations, window, consensus, steps, tolerance, hard, relax, how, implicit_tolerance };
        spec.check()?;
        let options = PyDict::new(graph.py());
        options.set_item("hard", hard)?;
        options.set_item("consensus", name)?;
        options.set_item("steps", steps)?;
        options.set_item("tolerance", tolerance)?;
        options.set_item("relax", relax)?;
        options.set_item("window", window)?;
        options.set_item("adjoint", adjoint)?;
        options.set_item("adjoint_tolerance", adjoint_tolerance)?;
        options.set_item("threads", threads)?;
        let positional = (graph.clone().unbind(), d_v, d_e, iterations);
        let arguments = Arguments { positional, options: options.unbind() };
        let even = graph.get().even().raised()?;
        let sheaf = Sheaf::uniform(&even, d_v, d_e).raised()?;
        let none = || wrong(ErrorKind::Shape, "graph", "at least one agent and one edge", "none");
        let u = sheaf.as_uniform().filter(|u| u.slots > 0).ok_or_else(none)?;
        let (single, double) = (OnceLock::new(), OnceLock::new());
        Ok(Self { spec, sheaf, u, threads, arguments, single, double })
    }

    /// The last `window` proposals x, `[window, batch, agents, d_v]`, in the type of `arrays["q"]`.
    fn forward<'py>(&self, py: Python<'py>, arrays: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
        if is_double(arrays)? {
            self.solve(py, &self.double, arrays)
        } else {
            self.solve(py, &self.single, arrays)
        }
    }

    /// The gradients of the inputs in `wanted`, given that of x. Solves again.
    fn backward<'py>(
        &self,
        py: Python<'py>,
        arrays: &Bound<'py, PyDict>,
        d_x: &Bound<'py, PyAny>,
        wanted: Vec<String>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut flags = [false; SLOTS];
        for name in wanted {
            let slot = NAMES.iter().position(|known| **known == name);
            let unknown = || wrong(ErrorKind::Unsupported, "wanted", NAMES.join(", "), format!("`{name}`"));
            flags[slot.ok_or_else(unknown)?] = true;
        }
        match is_double(arrays)? {
            true => self.reverse(py, &self.double, arrays, d_x, flags),
            false => self.reverse(py, &self.single, arrays, d_x, flags),
        }
    }

    /// Slots of an agent.
    #[getter]
    fn slots(&self) -> usize {
        self.u.slots
    }

    /// Number of agents.
    #[getter]
    fn agents(&self) -> usize {
        self.sheaf.agents()
    }

    /// Iterates that `forward` returns.
    #[getter]
    fn window(&self) -> usize {
        self.spec.window
    }

    fn __getnewargs_ex__(&self, py: Python<'_>) -> ((Py<Graph>, usize, usize, usize), Py<PyDict>) {
        let (graph, d_v, d_e, iterations) = &self.arguments.positional;
        ((graph.clone_ref(py), *d_v, *d_e, *iterations), self.arguments.options.clone_ref(py))
    }

    fn __repr__(&self) -> String {
        let (Uniform { d_v, d_e, .. }, k) = (self.u, self.spec.iterations);
        format!("Layer(agents={}, d_v={d_v}, d_e={d_e}, iterations={k})", self.sheaf.agents())
    }
}

/// Whether the numbers of a call are doubles; `q` decides.
fn is_double(arrays: &Bound<'_, PyDict>) -> PyResult<bool> {
    let Some(q) = arrays.get_item("q")? else {
        return Err(wrong(ErrorKind::Unsupported, "q", "the linear term of the objectives", "nothing"));
    };
    Ok(q.getattr("dtype")
        .and_then(|dtype| dtype.getattr("itemsize")?.extract::<usize>())
        .is_ok_and(|s| s == 8))
}

impl Layer {
    fn call<'a, T: Number>(
        &'a self,
        plan: &OnceLock<Exact<T>>,
        inputs: Inputs<'a, T>,
        wanted: [bool; SLOTS],
        stop: &'a Stop,
    ) -> Result<Call<'a, T>> {
        let (sheaf, u, spec) = (&self.sheaf, self.u, &self.spec);
        let large = u.slots * u.d_e * u.d_v > LARGE || spec.consensus == Consensus::Orthonormal;
        let mut shared = None;
        if let (Some(maps), Views::One, true) = (inputs.get(Slot::Maps), inputs.views, large) {
            let mut stack = SharedStack::default();
            stack.prepare(maps, u.d_v)?;
            shared = Some(stack);
        }
        let one_penalty = inputs.get(Slot::Rho).is_none_or(|rho| rho.len() == 1);
        let steps = matches!(spec.consensus, Consensus::Cg(start) if start != CgStart::Warm);
        let (gamma, eta) = (inputs.number(Slot::Gamma), inputs.number(Slot::Eta));
        let make = |gram| spec.z_update(sheaf, gamma, eta, gram, plan);
        let mut z_update = make(false)?;
        if let (Some(stack), true) = (&shared, !spec.hard && one_penalty && steps) {
            // The same steps in the space of projections, with half the products, where the graph allows it.
            let gram = make(true)?;
            if gram.validate(&SheafOp::new(sheaf, Maps::Shared(SharedMaps::new(stack)))?).is_ok() {
                z_update = gram;
            }
        }
        let rows = |slot: Slot| match inputs.rows(slot, u.d_v) {
            0 => Vec::new(),
            rows => vec![rows; TILE * sheaf.agents()],
        };
        let (eq_rows, in_rows) = (rows(Slot::EqB), rows(Slot::InH));
        Ok(Call { spec, sheaf, u, inputs, z_update, eq_rows, in_rows, shared, wanted, stop })
    }

    fn solve<'py, T: Number + Buffers>(
        &self,
        py: Python<'py>,
        plan: &OnceLock<Exact<T>>,
        arrays: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let given = Given::<T>::read(&self.spec, self.u, self.sheaf.agents(), arrays)?;
        let inputs = given.inputs(self.sheaf.state_len())?;
        let x = run(py, self.threads, |stop| {
            let call = self.call(plan, inputs, [false; SLOTS], stop)?;
            let each = parts(inputs.samples).into_par_iter();
            let all = each.map(|part| T::with_worker(|worker| call.forward(part, worker)));
            let all = all.collect::<Result<Vec<Vec<T>>>>()?;
            let window = self.spec.window;
            let rows = (0..window)
                .flat_map(|w| all.iter().map(move |x| &x[w * x.len() / window..][..x.len() / window]));
            Ok(rows.collect::<Vec<&[T]>>().concat())
        })?;
        let shape = [self.spec.window, inputs.samples, self.sheaf.agents(), self.u.d_v];
        array(py, &shape, x)
    }

    fn reverse<'py, T: Number + Buffers>(
        &self,
        py: Python<'py>,
        plan: &OnceLock<Exact<T>>,
        arrays: &Bound<'py, PyDict>,
        d_x: &Bound<'py, PyAny>,
        wanted: [bool; SLOTS],
    ) -> PyResult<Bound<'py, PyDict>> {
        let given = Given::<T>::read(&self.spec, self.u, self.sheaf.agents(), arrays)?;
        let inputs = given.inputs(self.sheaf.state_len())?;
        let d_x = Held::<T>::read("gradient of x", d_x)?;
        let shape = [self.spec.window, inputs.samples, self.sheaf.agents(), self.u.d_v];
        if d_x.shape() != shape {
            let (expected, got) = (format!("{shape:?}"), format!("{:?}", d_x.shape()));
            return Err(wrong(ErrorKind::Shape, "gradient of x", expected, got));
        }
        let d_x = d_x.values()?;
        let grads = run(py, self.threads, |stop| {
            let call = self.call(plan, inputs, wanted, stop)?;
            sheaf_admm::error::check_finite("gradient of x", d_x)?;
            let each = parts(inputs.samples).into_par_iter();
            let all = each.map(|part| T::with_worker(|worker| call.backward(part, d_x, worker)));
            let mut all = all.collect::<Result<Vec<_>>>()?;
            if let (Some(stack), true) = (&call.shared, wanted[Slot::Maps as usize]) {
                let (first, others) = all.split_at_mut(1);
                for part in others {
                    add(&mut first[0].stack.g, &part.stack.g);
                    add(&mut first[0].stack.c, &part.stack.c);
                }
                stack.vjp(&first[0].stack, &mut first[0].grads[Slot::Maps as usize])?;
            }
            let slots = parts::ALL.into_iter().filter(|&slot| wanted[slot as usize]);
            Ok(slots.map(|slot| (slot as usize, joined(&inputs, slot, &all))).collect::<Vec<_>>())
        })?;
        let out = PyDict::new(py);
        for (slot, grad) in grads {
            if let Some(shape) = given.shape(slot) {
                out.set_item(NAMES[slot], array(py, shape, grad)?)?;
            }
        }
        Ok(out)
    }
}
