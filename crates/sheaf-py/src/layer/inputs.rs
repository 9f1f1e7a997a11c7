//! The numbers of a call, checked against the layer.
//!
//! | name | shape |
//! | --- | --- |
//! | q, diag, start | `[B, N, d_v]` |
//! | quad | `[B, N, d_v, d_v]` |
//! | l1, l2, lo, hi | one number, or `[B, N, d_v]` |
//! | eq_a, eq_b | equalities A x = b of an agent: `[B, N, m, d_v]`, `[B, N, m]` |
//! | in_g, in_h | inequalities G x ≤ h: `[B, N, p, d_v]`, `[B, N, p]` |
//! | maps | `[S, d_e, d_v]`, `[N, S, d_e, d_v]`, `[B, N, S, d_e, d_v]`; with index `[V, S, d_e, d_v]` |
//! | base | `[S, d_e, d_v]` or `[1, d_e, d_v]` |
//! | a, b | `[…, S, d_e, r]`, `[…, S, d_v, r]`, leading sizes as for maps |
//! | index | int64 or int32 `[B, N]` |
//! | rho | one number, or `[N]`;  gamma, eta: one number |

use numpy::Element;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sheaf_admm::sheaf::Uniform;
use sheaf_admm::x_update::Coefficient;
use sheaf_admm::{ErrorKind, Real};

use super::spec::{Consensus, Spec};
use crate::arrays::Held;
use crate::errors::{wrong, wrong_hint};

/// A number that numpy and the solver know: f32 or f64.
pub trait Number: Real + Element {}

impl Number for f32 {}
impl Number for f64 {}

/// Names of the differentiable inputs, in the order of [`Slot`].
pub const NAMES: [&str; SLOTS] = [
    "q", "diag", "quad", "l1", "l2", "lo", "hi", "eq_a", "eq_b", "in_g", "in_h", "maps", "base", "a", "b",
    "rho", "gamma", "eta", "start",
];
pub const SLOTS: usize = 19;

/// The differentiable inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Q,
    Diag,
    Quad,
    L1,
    L2,
    Lo,
    Hi,
    EqA,
    EqB,
    InG,
    InH,
    Maps,
    Base,
    A,
    B,
    Rho,
    Gamma,
    Eta,
    Start,
}

/// The family of the objectives, by the inputs that are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// diag, l1, l2, a box.
    Diagonal,
    /// quad alone.
    Dense,
    /// Equalities alone, on diag or quad.
    Equality,
    /// Inequalities, or a box beside equalities or quad.
    Qp,
}

/// Which maps an agent of a sample has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Views {
    One,
    PerAgent,
    PerSample,
    Index(Vec<u32>), // [B, N]
}

/// Arrays of a call. They keep the interpreter's objects alive.
pub struct Given<'py, T: Element> {
    held: [Option<Held<'py, T>>; SLOTS],
    views: Views,
    samples: usize,
    scale: Option<f64>,
}

/// The numbers of a call.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a, T> {
    pub values: [Option<&'a [T]>; SLOTS],
    pub views: &'a Views,
    pub samples: usize,
    /// Numbers of one sample.
    pub states: usize,
    /// Rank of the factors; 0 for maps in full.
    pub rank: usize,
    /// The factor before A·Bᵀ.
    pub scale: T,
}

impl<'a, T: Real> Inputs<'a, T> {
    pub fn get(&self, slot: Slot) -> Option<&'a [T]> {
        self.values[slot as usize]
    }

    /// The family of the objectives.
    pub fn family(&self) -> Family {
        let has = |slot: Slot| self.get(slot).is_some();
        let (equal, bounded) = (has(Slot::EqA), has(Slot::Lo) || has(Slot::Hi));
        match (has(Slot::Quad), has(Slot::InG)) {
            (_, true) => Family::Qp,
            (quad, false) if bounded && (quad || equal) => Family::Qp,
            (_, false) if equal => Family::Equality,
            (true, false) => Family::Dense,
            (false, false) => Family::Diagonal,
        }
    }

    /// Rows of the constraints of an agent: of `EqB` or `InH`.
    pub fn rows(&self, slot: Slot, d_v: usize) -> usize {
        let agents = self.samples * self.states / d_v.max(1);
        self.get(slot).map_or(0, |values| values.len() / agents.max(1))
    }

    /// The numbers of an input for one sample, where it has its own for every sample.
    pub fn each(&self, slot: Slot) -> usize {
        self.get(slot).map_or(0, |values| values.len() / self.samples.max(1))
    }

    pub fn number(&self, slot: Slot) -> Option<T> {
        self.get(slot).map(|values| values[0])
    }

    /// Whether an input has numbers of its own for every sample.
    pub fn spreads(&self, slot: Slot) -> bool {
        let many = self.get(slot).is_some_and(|values| values.len() > 1);
        match slot {
            Slot::Q | Slot::Diag | Slot::Quad | Slot::Start => true,
            Slot::EqA | Slot::EqB | Slot::InG | Slot::InH => true,
            Slot::L1 | Slot::L2 | Slot::Lo | Slot::Hi => many || self.states * self.samples == 1,
            Slot::Maps | Slot::A | Slot::B => *self.views == Views::PerSample,
            Slot::Base | Slot::Rho | Slot::Gamma | Slot::Eta => false,
        }
    }

    /// A weight or bound of the samples from `first` on.
    pub fn coefficient(&self, slot: Slot, first: usize, count: usize) -> Option<Coefficient<'a, T>> {
        let values = self.get(slot)?;
        Some(match self.spreads(slot) {
            true => Coefficient::PerCoordinate(&values[first * self.states..][..count * self.states]),
            false => Coefficient::Scalar(values[0]),
        })
    }
}

impl<'py, T: Number> Given<'py, T> {
    /// Reads and checks the arrays of a call.
    pub fn read(spec: &Spec, u: Uniform, agents: usize, arrays: &Bound<'py, PyDict>) -> PyResult<Self> {
        let mut held: [Option<Held<'py, T>>; SLOTS] = [const { None }; SLOTS];
        let (mut index, mut scale) = (None, None);
        for (key, value) in arrays.iter() {
            let key: String = key.extract()?;
            match NAMES.iter().position(|name| *name == key) {
                _ if value.is_none() => {}
                Some(slot) => held[slot] = Some(Held::read(&key, &value)?),
                None if key == "index" => index = Some(value),
                None if key == "scale" => scale = Some(value.extract()?),
                None => {
                    let known = format!("{}, index or scale", NAMES.join(", "));
                    return Err(wrong(
                        ErrorKind::Unsupported,
                        "arrays of a layer",
                        known,
                        format!("`{key}`"),
                    ));
                }
            }
        }
        let shape = |slot: Slot| held[slot as usize].as_ref().map(Held::shape);
        let samples = match shape(Slot::Q) {
            Some(&[samples, n, d]) if n == agents && d == u.d_v => samples,
            got => {
                let expected = format!("[batch, {agents}, {}]", u.d_v);
                let got = got.map_or("nothing".into(), |shape| format!("{shape:?}"));
                return Err(wrong_hint(
                    ErrorKind::Shape,
                    "q",
                    expected,
                    got,
                    "the batch comes first; it may be 1",
                ));
            }
        };
        if samples == 0 {
            return Err(wrong(ErrorKind::Shape, "q", "a batch of at least 1 sample", "an empty batch"));
        }
        let names = held.iter().zip(NAMES).filter(|(held, _)| held.is_some());
        let here: Vec<&str> = names.map(|(_, name)| name).collect();
        check_choice(spec, &here)?;
        let expect = Expect { u, agents, samples };
        for (slot, held) in held.iter().enumerate().filter(|(_, held)| held.is_some()) {
            let got = held.as_ref().map_or(&[][..], Held::shape);
            expect.check(NAMES[slot], got)?;
        }
        for (matrix, side) in [(Slot::EqA, Slot::EqB), (Slot::InG, Slot::InH)] {
            if let (Some(rows), Some(numbers)) = (shape(matrix), shape(side))
                && rows[2] != numbers[2]
            {
                let expected = format!("{} rows, as {}", rows[2], NAMES[matrix as usize]);
                return Err(wrong(ErrorKind::Shape, NAMES[side as usize], expected, numbers[2]));
            }
        }
        let leading = match (shape(Slot::Maps), shape(Slot::A), shape(Slot::B)) {
            (Some(maps), None, None) => maps,
            (None, Some(a), Some(b)) => {
                let own = |shape: &[usize]| shape[..shape.len() - 3].to_vec();
                if own(a) != own(b) || a.last() != b.last() {
                    let expected = format!("sizes as those of a, {a:?}");
                    return Err(wrong(ErrorKind::Shape, "b", expected, format!("{b:?}")));
                }
                a
            }
            _ => {
                let expected = "maps, or base with factors a and b";
                return Err(wrong(ErrorKind::Unsupported, "maps of a layer", expected, here.join(", ")));
            }
        };
        let views = expect.views(&leading[..leading.len() - 3], index)?;
        Ok(Self { held, views, samples, scale })
    }

    /// The numbers.
    pub fn inputs(&self, states: usize) -> PyResult<Inputs<'_, T>> {
        let mut values = [None; SLOTS];
        for (to, held) in values.iter_mut().zip(&self.held) {
            *to = held.as_ref().map(Held::values).transpose()?;
        }
        let last = |slot: Slot| self.held[slot as usize].as_ref().and_then(|h| h.shape().last().copied());
        let rank = last(Slot::A).unwrap_or(0);
        let scale = T::from_f64(self.scale.unwrap_or(1.0 / rank.max(1) as f64));
        Ok(Inputs { values, views: &self.views, samples: self.samples, states, rank, scale })
    }

    /// The shape of an input.
    pub fn shape(&self, slot: usize) -> Option<&[usize]> {
        self.held[slot].as_ref().map(Held::shape)
    }
}

/// Rejects inputs that the choices of the layer do not read.
fn check_choice(spec: &Spec, here: &[&str]) -> PyResult<()> {
    let has = |name: &str| here.contains(&name);
    let missing =
        |place: &str, expected: &str| Err(wrong(ErrorKind::Unsupported, place, expected, "nothing"));
    let extra = |place: &str, why: &str| Err(wrong(ErrorKind::Unsupported, place, why, "an array"));
    match () {
        () if !has("rho") => missing("rho", "the penalty"),
        () if !spec.hard && !has("gamma") => missing("gamma", "the price of disagreement of a soft layer"),
        () if spec.hard && has("gamma") => extra("gamma", "none: this layer is hard"),
        () if has("eta") && spec.consensus != Consensus::Descent => {
            extra("eta", "none: only consensus=\"descent\" has a step size")
        }
        () if has("eq_a") != has("eq_b") => missing("eq_a", "eq_a and eq_b together"),
        () if has("in_g") != has("in_h") => missing("in_g", "in_g and in_h together"),
        () if has("quad") && has("diag") => extra("quad", "none beside diag: the curvature is given once"),
        () if (has("quad") || has("eq_a") || has("in_g")) && (has("l1") || has("l2")) => {
            extra("l1 and l2", "none beside quad, eq_a or in_g: they belong to diagonal objectives")
        }
        () if !has("quad") && !has("diag") => missing("diag", "the curvature of the objectives, or quad"),
        () if has("base") != (has("a") && has("b")) => missing("base", "base, a and b together"),
        () => Ok(()),
    }
}

/// The sizes that shapes are checked against.
struct Expect {
    u: Uniform,
    agents: usize,
    samples: usize,
}

impl Expect {
    fn check(&self, name: &str, got: &[usize]) -> PyResult<()> {
        let Self { u: Uniform { d_v, d_e, slots, .. }, agents: n, samples } = *self;
        let state = [samples, n, d_v];
        let tail = |want: &[usize]| {
            (3..=5).contains(&got.len())
                && got[got.len() - 3..got.len() - 1] == *want
                && got.last() != Some(&0)
        };
        let (fits, expected) = match name {
            "q" | "diag" | "start" => (got == state, format!("{state:?}")),
            "quad" => (got == [samples, n, d_v, d_v], format!("{:?}", [samples, n, d_v, d_v])),
            "l1" | "l2" | "lo" | "hi" => (got.is_empty() || got == state, format!("[] or {state:?}")),
            "rho" => (got.is_empty() || got == [n], format!("[] or [{n}]")),
            "gamma" | "eta" => (got.is_empty(), "[], one number".into()),
            "eq_a" | "in_g" => {
                let fits =
                    matches!(got, &[b, agents, rows, d] if (b, agents, d) == (samples, n, d_v) && rows > 0);
                (fits, format!("[{samples}, {n}, rows, {d_v}]"))
            }
            "eq_b" | "in_h" => {
                let fits = matches!(got, &[b, agents, rows] if (b, agents) == (samples, n) && rows > 0);
                (fits, format!("[{samples}, {n}, rows]"))
            }
            "base" => {
                let fits = matches!(got, &[s, e, v] if (s == slots || s == 1) && e == d_e && v == d_v);
                (fits, format!("[{slots}, {d_e}, {d_v}] or [1, {d_e}, {d_v}]"))
            }
            "a" => (tail(&[slots, d_e]), format!("[…, {slots}, {d_e}, rank]")),
            "b" => (tail(&[slots, d_v]), format!("[…, {slots}, {d_v}, rank]")),
            _ => {
                let fits = tail(&[slots, d_e]) && got.last() == Some(&d_v);
                (fits, format!("[{slots}, {d_e}, {d_v}] after nothing, [{n}] or [{samples}, {n}]"))
            }
        };
        if fits { Ok(()) } else { Err(wrong(ErrorKind::Shape, name, expected, format!("{got:?}"))) }
    }

    /// The meaning of the leading sizes of the maps.
    fn views(&self, leading: &[usize], index: Option<Bound<'_, PyAny>>) -> PyResult<Views> {
        let Self { agents, samples, .. } = *self;
        match (leading, index) {
            (&[views], Some(index)) => self.index(views, &index),
            (_, Some(_)) => {
                let got = format!("leading sizes {leading:?}");
                Err(wrong(ErrorKind::Shape, "maps with an index", "one leading size, the views", got))
            }
            (&[], None) => Ok(Views::One),
            (&[n], None) if n == agents => Ok(Views::PerAgent),
            (&[b, n], None) if (b, n) == (samples, agents) => Ok(Views::PerSample),
            (got, None) => {
                let expected = format!("leading sizes [], [{agents}] or [{samples}, {agents}]");
                let hint = "maps of distinct views need an index [batch, agents]";
                Err(wrong_hint(ErrorKind::Shape, "maps", expected, format!("{got:?}"), hint))
            }
        }
    }

    fn index(&self, views: usize, index: &Bound<'_, PyAny>) -> PyResult<Views> {
        let numpy = index.py().import("numpy")?;
        let held = Held::<i64>::read("index", &numpy.call_method1("ascontiguousarray", (index, "int64"))?)?;
        if held.shape() != [self.samples, self.agents] {
            let expected = format!("[{}, {}]", self.samples, self.agents);
            return Err(wrong(ErrorKind::Shape, "index", expected, format!("{:?}", held.shape())));
        }
        let number = |&v: &i64| u32::try_from(v).ok().filter(|&v| (v as usize) < views);
        let all: Option<Vec<u32>> = held.values()?.iter().map(number).collect();
        all.map(Views::Index).ok_or_else(|| {
            wrong(
                ErrorKind::OutOfRange,
                "index",
                format!("views from 0 to {}", views.saturating_sub(1)),
                "others",
            )
        })
    }
}
