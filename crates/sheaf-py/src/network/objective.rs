//! Objectives of agents.

use std::sync::Arc;

use pyo3::prelude::*;
use sheaf_admm::ErrorKind;
use sheaf_admm::x_update::{self as x, Norm, Proximal};

use crate::arrays::{matrix, tensor, vector};
use crate::errors::{Raised, wrong};

/// ½ xᵀQx + qᵀx and what is added to it: the objective of one agent.
///
/// Q is a symmetric matrix (numpy or `scipy.sparse`) or its diagonal. Every method returns a new objective with one more
/// term: `l1(weights)`, `l2(weight)`, `tether(beta, anchor)`, `bounds(lo, hi)`, `equal(A, b)` for A x = b and
/// `at_most(G, g)` for G x ≤ g. A number stands for the same number everywhere.
///
/// >>> import numpy as np, sheaf_admm as sa
/// >>> f = sa.Quadratic(np.eye(2), [-1.0, -7.0]).bounds(0, 5).equal([[1.0, 1.0]], [6.0])
/// >>> net = sa.Network()
/// >>> a = net.agent(f)
/// >>> net.solve(tol=1e-9).x(a).round(6).tolist()
/// [1.0, 5.0]
#[pyclass(frozen, module = "sheaf_admm", name = "Quadratic")]
#[derive(Clone)]
pub struct Quadratic {
    pub inner: x::Quadratic,
    pub shapes: Shapes,
}

/// How gradients of the matrices look to the caller.
#[derive(Clone, Default)]
pub struct Shapes {
    pub quad: Layout,
    pub equal: Layout,
    pub at_most: Layout,
}

/// How a matrix was given.
#[derive(Clone, Debug, Default)]
pub enum Layout {
    #[default]
    None,
    Dense(usize, usize),
    Diagonal(usize),
    Sparse(usize, usize, Vec<(usize, usize)>),
}

impl Layout {
    /// Of a matrix, and the object it was read from.
    pub fn of(object: &Bound<'_, PyAny>, matrix: &sheaf_admm::Matrix) -> PyResult<Self> {
        let (rows, cols) = (matrix.rows(), matrix.cols());
        if object.hasattr("tocoo")? {
            let coo = object.call_method0("tocoo")?;
            let row: Vec<usize> = coo.getattr("row")?.call_method0("tolist")?.extract()?;
            let col: Vec<usize> = coo.getattr("col")?.call_method0("tolist")?.extract()?;
            return Ok(Self::Sparse(rows, cols, row.into_iter().zip(col).collect()));
        }
        let dims: usize = object.py().import("numpy")?.call_method1("ndim", (object,))?.extract()?;
        Ok(if dims == 1 { Self::Diagonal(rows) } else { Self::Dense(rows, cols) })
    }
}

impl Quadratic {
    fn dim(&self) -> usize {
        Proximal::<f64>::dim(&self.inner)
    }
}

#[pymethods]
impl Quadratic {
    #[new]
    fn new(#[allow(non_snake_case)] Q: &Bound<'_, PyAny>, q: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (quad, q) = (matrix("Q", Q, true)?, vector("q", q, None)?);
        let shapes = Shapes { quad: Layout::of(Q, &quad)?, ..Shapes::default() };
        let inner = x::Quadratic::new(quad, q);
        Proximal::<f64>::validate(&inner).raised()?;
        Ok(Self { inner, shapes })
    }

    /// qᵀx alone.
    #[staticmethod]
    fn linear(q: &Bound<'_, PyAny>) -> PyResult<Self> {
        let inner = x::Quadratic::linear(vector("q", q, None)?);
        let shapes = Shapes { quad: Layout::Diagonal(Proximal::<f64>::dim(&inner)), ..Shapes::default() };
        Ok(Self { inner, shapes })
    }

    /// 0, for constraints alone.
    #[staticmethod]
    fn zero(dim: usize) -> Self {
        let shapes = Shapes { quad: Layout::Diagonal(dim), ..Shapes::default() };
        Self { inner: x::Quadratic::zero(dim), shapes }
    }

    /// Adds Σ w |x|.
    fn l1(&self, weights: &Bound<'_, PyAny>) -> PyResult<Self> {
        let weights = vector("l1", weights, Some(self.dim()))?;
        Ok(Self { inner: self.inner.clone().l1(weights), shapes: self.shapes.clone() })
    }

    /// Adds w/2 ‖x‖².
    fn l2(&self, weight: f64) -> Self {
        Self { inner: self.inner.clone().l2(weight), shapes: self.shapes.clone() }
    }

    /// Adds β/2 ‖x − h‖².
    fn tether(&self, beta: f64, anchor: &Bound<'_, PyAny>) -> PyResult<Self> {
        let anchor = vector("anchor", anchor, Some(self.dim()))?;
        Ok(Self { inner: self.inner.clone().tether(beta, anchor), shapes: self.shapes.clone() })
    }

    /// Requires lo ≤ x ≤ hi; infinite where there is no bound.
    fn bounds(&self, lo: &Bound<'_, PyAny>, hi: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (lo, hi) = (vector("lo", lo, Some(self.dim()))?, vector("hi", hi, Some(self.dim()))?);
        Ok(Self { inner: self.inner.clone().bounds(lo, hi), shapes: self.shapes.clone() })
    }

    /// Requires A x = b.
    fn equal(&self, #[allow(non_snake_case)] A: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<Self> {
        let rows = matrix("A", A, false)?;
        let shapes = Shapes { equal: Layout::of(A, &rows)?, ..self.shapes.clone() };
        let b = vector("b", b, Some(rows.rows()))?;
        Ok(Self { inner: self.inner.clone().equal(rows, b), shapes })
    }

    /// Requires G x ≤ g.
    fn at_most(&self, #[allow(non_snake_case)] G: &Bound<'_, PyAny>, g: &Bound<'_, PyAny>) -> PyResult<Self> {
        let rows = matrix("G", G, false)?;
        let shapes = Shapes { at_most: Layout::of(G, &rows)?, ..self.shapes.clone() };
        let g = vector("g", g, Some(rows.rows()))?;
        Ok(Self { inner: self.inner.clone().at_most(rows, g), shapes })
    }

    fn __repr__(&self) -> String {
        format!("Quadratic(dim={})", self.dim())
    }
}

/// An objective that is not a quadratic. Made by `Huber`, `Logistic`, `Ball`, `Simplex` and `SecondOrderCone`.
#[pyclass(frozen, module = "sheaf_admm", name = "Objective")]
pub struct Objective {
    pub map: Arc<dyn Proximal<f64>>,
    name: &'static str,
}

#[pymethods]
impl Objective {
    fn __repr__(&self) -> String {
        format!("{}(dim={})", self.name, self.map.dim())
    }
}

fn objective(name: &'static str, map: impl Proximal<f64> + 'static) -> PyResult<Objective> {
    map.validate().raised()?;
    Ok(Objective { map: Arc::new(map), name })
}

/// w Σ U(x − c), U quadratic up to δ and linear beyond.
#[pyfunction]
#[pyo3(name = "Huber", signature = (centre, weight = 1.0, delta = 1.0))]
pub fn huber(centre: &Bound<'_, PyAny>, weight: f64, delta: f64) -> PyResult<Objective> {
    objective("Huber", x::Huber { weight, delta, centre: vector("centre", centre, None)? })
}

/// w Σ log(1 + exp(−y aᵀx)) + l2/2 ‖x‖² over observations with features a and labels y of −1 or 1.
#[pyfunction]
#[pyo3(name = "Logistic", signature = (features, labels, weight = 1.0, l2 = 0.0))]
pub fn logistic(
    features: &Bound<'_, PyAny>,
    labels: &Bound<'_, PyAny>,
    weight: f64,
    l2: f64,
) -> PyResult<Objective> {
    let (shape, features) = tensor("features", features)?;
    let &[_, dim] = shape.as_slice() else {
        return Err(wrong(ErrorKind::Shape, "features", "[observations, d]", format!("{shape:?}")));
    };
    let labels = vector("labels", labels, None)?;
    objective("Logistic", x::Logistic { dim, features, labels, weight, l2 })
}

/// ‖x − c‖ ≤ r in the norm `"l1"`, `"l2"` or `"linf"`.
#[pyfunction]
#[pyo3(name = "Ball", signature = (centre, radius, norm = "l2"))]
pub fn ball(centre: &Bound<'_, PyAny>, radius: f64, norm: &str) -> PyResult<Objective> {
    let norm = match norm {
        "l1" => Norm::L1,
        "l2" => Norm::L2,
        "linf" => Norm::LInf,
        other => return Err(wrong(ErrorKind::Unsupported, "norm", "\"l1\", \"l2\" or \"linf\"", other)),
    };
    objective("Ball", x::Ball { norm, radius, centre: vector("centre", centre, None)? })
}

/// x ≥ 0 and Σ x = r.
#[pyfunction]
#[pyo3(name = "Simplex", signature = (dim, total = 1.0))]
pub fn simplex(dim: usize, total: f64) -> PyResult<Objective> {
    objective("Simplex", x::Simplex { dim, total })
}

/// ‖(x₁, …)‖ ≤ x₀.
#[pyfunction]
#[pyo3(name = "SecondOrderCone")]
pub fn second_order_cone(dim: usize) -> PyResult<Objective> {
    objective("SecondOrderCone", x::SecondOrderCone { dim })
}
