//! A solver that is kept, and variants of one problem.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;
use sheaf_admm::admm::intervene::{Intervention, Interventions, StartAt};
use sheaf_admm::network::{AgentId, EdgeId, Solver as Inner, State as Saved};
use sheaf_admm::{ErrorKind, Result};

use super::solution::Solution;
use super::{Names, Network};
use crate::arrays::{array, tensor, vector};
use crate::errors::{Raised, within, wrong, wrong_hint};
use crate::run::{Stop, run};

/// A network that is ready to be solved again and again: the next solve starts where the last one ended.
///
/// >>> import numpy as np, sheaf_admm as sa
/// >>> net = sa.Network()
/// >>> a, b = (net.agent(sa.Quadratic([[1.0]], [q])) for q in (-1.0, -5.0))
/// >>> _ = net.agree(a, [[1.0]], b, [[1.0]])
/// >>> solver = net.solver(tol=1e-9)
/// >>> solver.solve().x(a).round(6).tolist()
/// [3.0]
/// >>> solver.update_q(a, [-3.0])            # nothing is factorised again
/// >>> solver.solve().x(a).round(6).tolist()
/// [4.0]
#[pyclass(module = "sheaf_admm", name = "Solver")]
pub struct Solver {
    pub inner: Inner,
    pub names: Names,
}

/// Where a solve ended, for another one to start from.
#[pyclass(frozen, module = "sheaf_admm", name = "State")]
pub struct State(Saved);

/// Arrays by agent or edge, if any.
type Given<'a, 'py> = Option<&'a Bound<'py, PyDict>>;

/// Names the part of an agent.
type PartOf = fn(AgentId) -> Part;

/// One change of a variant: of which part, and the new numbers.
#[derive(Clone, Copy)]
enum Part {
    Q(AgentId),
    Equal(AgentId),
    AtMost(AgentId),
    Bounds(AgentId), // lo, then hi
    Offset(EdgeId),
}

struct Change {
    part: Part,
    len: usize,
    values: Vec<f64>, // [variants, len]
}

impl Change {
    /// This and another of the same size as one, variant by variant.
    fn beside(self, other: &Self) -> PyResult<Self> {
        let Self { part, len, values } = self;
        if len != other.len {
            return Err(wrong(ErrorKind::Shape, "upper bounds", format!("{len} numbers"), other.len));
        }
        let pairs = values.chunks(len.max(1)).zip(other.values.chunks(len.max(1)));
        let values = pairs.flat_map(|(a, b)| [a, b].concat()).collect();
        Ok(Self { part, len: 2 * len, values })
    }
}

#[pymethods]
impl Solver {
    /// Solves from the last state.
    pub fn solve(&mut self, py: Python<'_>) -> PyResult<Solution> {
        let inner = &mut self.inner;
        run(py, None, |stop| inner.solve_with(|_| !stop.is_set()).map(|_| ()))?;
        Ok(Solution { solver: Arc::new(self.inner.clone()), names: self.names.clone() })
    }

    /// Runs so many iterations from the last state with interventions on the way, and leaves the solver as it is: a dictionary
    /// of arrays, `x`, `z` and `u` `[iterations, numbers of all agents]` in the units of the network, `removed`
    /// `[iterations, agents]` and `cut` `[iterations, edges]`. `script` is a list of interventions as in docs/explore.md, or a
    /// dictionary with `start` and `interventions`; `inputs` are networks of the same agents and edges for `{"input": 1}`. An
    /// empty list gives the undisturbed run.
    ///
    /// >>> import sheaf_admm as sa
    /// >>> net = sa.Network()
    /// >>> a, b = (net.agent(sa.Quadratic([[1.0]], [q])) for q in (-1.0, -5.0))
    /// >>> _ = net.agree(a, [[1.0]], b, [[1.0]])
    /// >>> film = net.solver().play([{"k": 20, "do": {"cut": [[0, 1]]}}], 200)
    /// >>> film["x"][18].round(1).tolist(), film["x"][-1].round(4).tolist()
    /// ([3.0, 3.0], [1.0, 5.0])
    #[pyo3(signature = (script, iterations, *, inputs = None))]
    fn play<'py>(
        &self,
        py: Python<'py>,
        script: &Bound<'py, PyAny>,
        iterations: usize,
        inputs: Option<Vec<PyRef<'py, Network>>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let script = interventions(script)?;
        let inputs: Vec<_> = inputs.into_iter().flatten().map(|net| net.inner.clone()).collect();
        let (inner, mut states, mut marks) =
            (&self.inner, [const { Vec::new() }; 3], [const { Vec::new() }; 2]);
        let ran = run(py, None, |stop| {
            let end = inner.play(&inputs, &script, iterations, |now| {
                let each = states.iter_mut().zip([now.x, now.z, now.u]);
                each.for_each(|(all, now)| all.extend_from_slice(now));
                let each = marks.iter_mut().zip([now.removed, now.cut]);
                each.for_each(|(all, now)| all.extend_from_slice(now));
                !stop.is_set()
            })?;
            Ok(end.iterations)
        })?;
        let out = PyDict::new(py);
        for (name, values) in ["x", "z", "u"].into_iter().zip(states) {
            out.set_item(name, array(py, &[ran, values.len() / ran.max(1)], values)?)?;
        }
        for (name, values) in ["removed", "cut"].into_iter().zip(marks) {
            out.set_item(name, array(py, &[ran, values.len() / ran.max(1)], values)?)?;
        }
        Ok(out)
    }

    /// Solves variants of the network, in parallel. Each of `q`, `equal`, `at_most` (by agent) and `offset` (by edge) is a
    /// dictionary of arrays `[variants, …]`, and `bounds` (by agent) of pairs of them. Returns one solution for every
    /// variant.
    #[pyo3(signature = (*, q = None, equal = None, at_most = None, bounds = None, offset = None, threads = None))]
    fn solve_variants(
        &self,
        py: Python<'_>,
        q: Given<'_, '_>,
        equal: Given<'_, '_>,
        at_most: Given<'_, '_>,
        bounds: Given<'_, '_>,
        offset: Given<'_, '_>,
        threads: Option<usize>,
    ) -> PyResult<Vec<Solution>> {
        let (mut changes, mut count) = (Vec::new(), None);
        let agents: [(&str, Given<'_, '_>, PartOf); 3] =
            [("q", q, Part::Q), ("equal", equal, Part::Equal), ("at_most", at_most, Part::AtMost)];
        for (name, given, part) in agents {
            for (key, value) in given.into_iter().flatten() {
                changes.push(change(name, part(self.names.agent(&key)?), &value, &mut count)?);
            }
        }
        for (key, value) in bounds.into_iter().flatten() {
            let part = Part::Bounds(self.names.agent(&key)?);
            let lo = change("lower bounds", part, &value.get_item(0)?, &mut count)?;
            let hi = change("upper bounds", part, &value.get_item(1)?, &mut count)?;
            changes.push(lo.beside(&hi)?);
        }
        for (key, value) in offset.into_iter().flatten() {
            changes.push(change("offset", Part::Offset(self.names.edge(&key)?), &value, &mut count)?);
        }
        let Some(count) = count else {
            return Err(wrong(ErrorKind::Shape, "variants", "arrays [variants, …], at least one", "none"));
        };
        let inner = &self.inner;
        let all = run(py, threads, |stop| {
            let one =
                |i: usize| variant(inner, &changes, i, stop).map_err(|e| within(&format!("variant {i}"), &e));
            (0..count).into_par_iter().map(one).collect::<Result<Vec<Inner>>>()
        })?;
        let solution = |solver| Solution { solver: Arc::new(solver), names: self.names.clone() };
        Ok(all.into_iter().map(solution).collect())
    }

    /// Replaces q of a quadratic agent.
    fn update_q(&mut self, agent: &Bound<'_, PyAny>, q: &Bound<'_, PyAny>) -> PyResult<()> {
        let id = self.names.agent(agent)?;
        self.inner.update_q(id, &vector("q", q, None)?).raised()
    }

    /// Replaces the right side b of A x = b.
    fn update_equal(&mut self, agent: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<()> {
        let id = self.names.agent(agent)?;
        self.inner.update_equal(id, &vector("b", b, None)?).raised()
    }

    /// Replaces the limits g of G x ≤ g.
    fn update_at_most(&mut self, agent: &Bound<'_, PyAny>, g: &Bound<'_, PyAny>) -> PyResult<()> {
        let id = self.names.agent(agent)?;
        self.inner.update_at_most(id, &vector("g", g, None)?).raised()
    }

    /// Replaces the bounds; finite where they were finite.
    fn update_bounds(
        &mut self,
        agent: &Bound<'_, PyAny>,
        lo: &Bound<'_, PyAny>,
        hi: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let id = self.names.agent(agent)?;
        self.inner.update_bounds(id, &vector("lo", lo, None)?, &vector("hi", hi, None)?).raised()
    }

    /// Replaces the offset of an edge.
    fn update_offset(&mut self, edge: &Bound<'_, PyAny>, offset: &Bound<'_, PyAny>) -> PyResult<()> {
        let id = self.names.edge(edge)?;
        self.inner.update_offset(id, &vector("offset", offset, None)?).raised()
    }

    /// Forgets the last state: the next solve starts from 0.
    fn reset(&mut self) {
        self.inner.reset();
    }

    /// The state of the last solve.
    fn state(&self) -> State {
        State(self.inner.state())
    }

    /// Starts the next solve from a state of a network of the same shape.
    fn start_from(&mut self, state: &State) -> PyResult<()> {
        self.inner.start_from(&state.0).raised()
    }

    /// Starts the next solve from these x, agent after agent.
    fn start_at(&mut self, x: &Bound<'_, PyAny>) -> PyResult<()> {
        self.inner.start_at(&vector("start", x, None)?).raised()
    }
}

/// Interventions from a list or a dictionary of Python.
fn interventions(script: &Bound<'_, PyAny>) -> PyResult<Interventions> {
    let py = script.py();
    let keywords = PyDict::new(py);
    keywords.set_item("default", py.import("sheaf_admm._models")?.getattr("plain")?)?;
    let text: String = py.import("json")?.call_method("dumps", (script,), Some(&keywords))?.extract()?;
    let text = match script.cast::<PyDict>() {
        Ok(_) => text,
        Err(_) => format!("{{\"interventions\": {text}}}"),
    };
    let read: std::result::Result<Script, _> = serde_json::from_str(&text);
    let Script { start, interventions: list } = read.map_err(|e| {
        let hint = "docs/explore.md lists the actions";
        wrong_hint(ErrorKind::Malformed, "interventions", "a list of interventions", e, hint)
    })?;
    Ok(Interventions { start, list })
}

/// A script without its task: that is the network.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    #[serde(default)]
    start: Option<StartAt>,
    #[serde(default)]
    interventions: Vec<Intervention>,
}

fn change(name: &str, part: Part, value: &Bound<'_, PyAny>, count: &mut Option<usize>) -> PyResult<Change> {
    let (shape, values) = tensor(name, value)?;
    let &[variants, len] = shape.as_slice() else {
        return Err(wrong(ErrorKind::Shape, name, "[variants, numbers]", format!("{shape:?}")));
    };
    match *count {
        Some(before) if before != variants => {
            Err(wrong(ErrorKind::Shape, name, format!("{before} variants, as before"), variants))
        }
        _ if variants == 0 => Err(wrong(ErrorKind::Shape, name, "at least 1 variant", "an empty batch")),
        _ => {
            *count = Some(variants);
            Ok(Change { part, len, values })
        }
    }
}

/// Variant `i`, solved from the state of `solver`.
fn variant(solver: &Inner, changes: &[Change], i: usize, stop: &Stop) -> Result<Inner> {
    stop.check()?;
    let mut own = solver.variant();
    for Change { part, len, values } in changes {
        let values = &values[i * len..][..*len];
        match *part {
            Part::Q(agent) => own.update_q(agent, values)?,
            Part::Equal(agent) => own.update_equal(agent, values)?,
            Part::AtMost(agent) => own.update_at_most(agent, values)?,
            Part::Bounds(agent) => own.update_bounds(agent, &values[..len / 2], &values[len / 2..])?,
            Part::Offset(edge) => own.update_offset(edge, values)?,
        }
    }
    own.solve_with(|_| !stop.is_set())?;
    stop.check()?;
    Ok(own)
}
