//! What all tasks share: samples in blocks, traces, and the local problems of the agents.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sheaf_admm::sheaf::{AgentGraph, Connectivity, Sheaf};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::model::evaluate::{Reader, Single, SolveOptions, Traced};
use sheaf_learn::model::heads::{DIAG, H, HI, L1, Q, RHO};
use sheaf_learn::model::{ConsensusKind, Decoder, Encoder, MapKind, Model, ObjectiveKind, Samples, Worker};

use crate::arrays::{Held, array};
use crate::errors::{wrong, wrong_hint};
use crate::graph::Graph;
use crate::run::run;

/// Samples that are solved between two looks at signals: fewer where a sample takes longer.
pub fn block(options: &SolveOptions, agents: usize) -> usize {
    const USUAL: usize = 128 * 100 * 81;
    (USUAL / (options.iterations.max(1) * agents.max(1))).clamp(16, 128)
}

/// Samples of one size: numbers, and the shape of one.
pub struct Images<'py, T: numpy::Element> {
    held: Held<'py, T>,
    /// Number of samples.
    pub count: usize,
    pub height: usize,
    pub width: usize,
    /// Whether the first axis was left out.
    pub single: bool,
}

impl<'py, T: numpy::Element + Copy> Images<'py, T> {
    /// `[n, height, width]`, or one `[height, width]`.
    pub fn read(name: &str, object: &Bound<'py, PyAny>) -> PyResult<Self> {
        let held = Held::<T>::read(name, object)?;
        let (count, height, width, single) = match *held.shape() {
            [count, height, width] => (count, height, width, false),
            [height, width] => (1, height, width, true),
            ref other => {
                let (expected, got) = ("[n, height, width] or [height, width]", format!("{other:?}"));
                return Err(wrong(ErrorKind::Shape, name, expected, got));
            }
        };
        if count * height * width == 0 {
            return Err(wrong(ErrorKind::Shape, name, "at least 1 sample", "an empty batch"));
        }
        Ok(Self { held, count, height, width, single })
    }

    pub fn values(&self) -> PyResult<&[T]> {
        self.held.values()
    }

    /// The shape of the answers, given that of one.
    pub fn shape(&self, one: &[usize]) -> Vec<usize> {
        let first = if self.single { None } else { Some(self.count) };
        first.into_iter().chain(one.iter().copied()).collect()
    }

    /// Fails unless there is exactly one sample.
    pub fn need_one(&self, name: &str) -> PyResult<()> {
        if self.count == 1 {
            return Ok(());
        }
        Err(wrong(ErrorKind::Shape, name, "one sample", format!("{} samples", self.count)))
    }
}

/// Every iteration of a solve of sample 0, as arrays; `answer` reads the outputs after one iteration.
pub fn trace<'py, E: Encoder, D: Decoder, R: Reader>(
    py: Python<'py>,
    model: &Model<E, D>,
    params: &[f32],
    sheaf: &Sheaf,
    samples: &(dyn Samples + Send),
    reader: &R,
    iterations: usize,
    predicted: impl FnOnce(Vec<R::Answer>) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (n, d_v, outputs) = (sheaf.agents(), model.section().d_v, model.decoder().outputs());
    let (traced, answers) = run(py, None, |_| {
        let traced = Single::new(model, params, sheaf, samples, 0)?.trace(iterations)?;
        let answers: Vec<R::Answer> = traced.outputs.chunks(n * outputs).map(|o| reader.read(0, o)).collect();
        Ok((traced, answers))
    })?;
    let Traced { h0, states, admm, outputs: logits } = traced;
    let k = states.len() / (n * d_v);
    let out = PyDict::new(py);
    out.set_item("logits", array(py, &[logits.len() / (n * outputs), n, outputs], logits)?)?;
    if model.choices().admm() {
        for (name, values) in [("x", admm.x), ("z", admm.z), ("u", admm.u)] {
            out.set_item(name, array(py, &[k, n, d_v], values)?)?;
        }
        out.set_item("primal", array(py, &[k, n], admm.primal)?)?;
        out.set_item("dual", array(py, &[k, n], admm.dual)?)?;
        out.set_item("edge_rms", array(py, &[k], admm.edge_rms)?)?;
    } else {
        out.set_item("h", array(py, &[k, n, d_v], states)?)?;
    }
    out.set_item("start", array(py, &[h0.len() / d_v, d_v], h0)?)?;
    out.set_item("predicted", predicted(answers)?)?;
    Ok(out)
}

/// The answer to sample 0 from its states x `[agents, d_v]`.
pub fn decode<E: Encoder, D: Decoder, R: Reader>(
    py: Python<'_>,
    model: &Model<E, D>,
    params: &[f32],
    sheaf: &Sheaf,
    samples: &(dyn Samples + Send),
    reader: &R,
    x: &Bound<'_, PyAny>,
) -> PyResult<R::Answer> {
    let x = Held::<f32>::read("x", x)?;
    let expected = [sheaf.agents(), model.section().d_v];
    if x.shape() != expected {
        return Err(wrong(ErrorKind::Shape, "x", format!("{expected:?}"), format!("{:?}", x.shape())));
    }
    let x = x.values()?;
    run(py, None, |_| {
        let single = Single::new(model, params, sheaf, samples, 0)?;
        let (at, index) = single.setting();
        let mut worker = Worker::default();
        worker.decode(&at, index, x);
        Ok(reader.read(0, &worker.outputs()[..index.len() * model.decoder().outputs()]))
    })
}

/// The arrays of a layer: name, shape, numbers.
type Arrays = Vec<(&'static str, Vec<usize>, Vec<f32>)>;

/// The local problems of sample 0: the arrays of a layer for a batch of one, and its options.
pub fn problem<'py, E: Encoder, D: Decoder>(
    py: Python<'py>,
    model: &Model<E, D>,
    params: &[f32],
    sheaf: &Sheaf,
    samples: &(dyn Samples + Send),
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let (section, choices) = (model.section(), model.choices());
    let consensus = match choices.consensus {
        ConsensusKind::Cg | ConsensusKind::Gram => "cg",
        ConsensusKind::CgCarried => "cg-carried",
        ConsensusKind::CgWarm => "cg-warm",
        ConsensusKind::Exact => "exact",
        _ => return Err(unsupported(&format!("consensus = \"{}\"", section.consensus))),
    };
    let found = run(py, None, |_| arrays(model, params, sheaf, samples))?;
    let (arrays, options) = (PyDict::new(py), PyDict::new(py));
    for (name, shape, values) in found {
        arrays.set_item(name, array(py, &shape, values)?)?;
    }
    if choices.maps == MapKind::LowRank {
        arrays.set_item("scale", section.alpha / section.rank as f64)?;
    }
    options.set_item("d_v", section.d_v)?;
    options.set_item("d_e", section.d_e)?;
    options.set_item("consensus", consensus)?;
    options.set_item("steps", section.cg_steps)?;
    options.set_item("tolerance", section.cg_tolerance)?;
    options.set_item("hard", choices.hard)?;
    options.set_item("relax", section.relaxation)?;
    Ok((arrays, options))
}

fn arrays<E: Encoder, D: Decoder>(
    model: &Model<E, D>,
    params: &[f32],
    sheaf: &Sheaf,
    samples: &(dyn Samples + Send),
) -> Result<Arrays> {
    let (section, choices) = (model.section(), model.choices());
    let (n, d_v, d_e) = (sheaf.agents(), section.d_v, section.d_e);
    let slots = sheaf.as_uniform().map_or(0, |u| u.slots);
    let single = Single::new(model, params, sheaf, samples, 0)?;
    let (at, index) = single.setting();
    let columns = &at.tables.headed().columns;
    let gather = |from: &[f32], len: usize| -> Vec<f32> {
        index.iter().flat_map(|&v| from[v as usize * len..][..len].iter().copied()).collect()
    };
    let state = || vec![1, n, d_v];
    let mut out: Arrays =
        vec![("q", state(), gather(&columns[Q], d_v)), ("diag", state(), gather(&columns[DIAG], d_v))];
    out.push(match choices.per_agent {
        true => ("rho", vec![n], gather(&columns[RHO], 1)),
        false => ("rho", vec![], vec![model.rho(params).0]),
    });
    match choices.objective {
        ObjectiveKind::L1Box => {
            out.push(("l1", state(), gather(&columns[L1], d_v)));
            out.push(("hi", state(), gather(&columns[HI], d_v)));
            out.push(("lo", vec![], vec![0.0]));
        }
        ObjectiveKind::NonNegative => out.push(("lo", vec![], vec![0.0])),
        ObjectiveKind::Lasso => out.push(("l1", vec![], vec![section.l1 as f32])),
        ObjectiveKind::Quadratic => {}
        _ => return Err(refused(&format!("objective = \"{}\"", section.objective))),
    }
    if choices.start_at_h {
        out.push(("start", state(), gather(&columns[H], d_v)));
    }
    if !choices.hard {
        out.push(("gamma", vec![], vec![section.gamma as f32]));
    }
    let entries = model.layout().entries().iter().filter(|e| e.name == "maps" || e.name.starts_with("maps/"));
    if section.balancing {
        return Err(refused("balancing = true"));
    }
    if matches!(choices.maps, MapKind::Orthonormal | MapKind::Identity) {
        return Err(refused(&format!("maps = \"{}\"", section.maps)));
    }
    let base: Vec<f32> = entries.flat_map(|e| params[e.range.clone()].iter().copied()).collect();
    let count = base.len() / (d_e * d_v);
    if choices.maps == MapKind::LowRank {
        let (a, b) = at.tables.factors(model, params);
        let rank = section.rank;
        out.push(("base", vec![count, d_e, d_v], base));
        out.push(("a", vec![1, n, slots, d_e, rank], gather(&a, slots * d_e * rank)));
        out.push(("b", vec![1, n, slots, d_v, rank], gather(&b, slots * d_v * rank)));
    } else {
        let all = base.iter().copied().cycle().take(slots * d_e * d_v).collect();
        out.push(("maps", vec![slots, d_e, d_v], all));
    }
    Ok(out)
}

fn refused(got: &str) -> Error {
    let expected = "a model of diagonal objectives whose maps are parameters";
    Error::new(ErrorKind::Unsupported, "local problems", expected, got).hint("trace the model instead")
}

fn unsupported(got: &str) -> PyErr {
    wrong_hint(
        ErrorKind::Unsupported,
        "local problems",
        "consensus by conjugate gradients or exact",
        got,
        "trace the model instead",
    )
}

/// The graph of agents on a grid, as Python takes it.
pub fn grid(rows: usize, columns: usize, connectivity: Connectivity) -> Result<Graph> {
    Ok(Graph { inner: AgentGraph::grid(rows, columns, connectivity)? })
}
