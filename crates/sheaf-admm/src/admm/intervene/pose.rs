//! Actions on the problem: they divide a solve into parts, each with a problem of its own.

use std::ops::Range;

use super::{Action, Interventions};
use crate::admm::Problem;
use crate::sheaf::{Sheaf, SheafOp};
use crate::x_update::Penalty;
use crate::z_update::{Agreement, Cg, CgStart, Exact, Gram, REFRESH, Stop, ZUpdate};
use crate::{Error, ErrorKind, Real, Result};

/// Some iterations on one problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The iterations, from 0.
    pub iterations: Range<usize>,
    /// The number of the input.
    pub input: usize,
    /// Whether an agent is removed.
    pub removed: Vec<bool>, // [agents]
    /// Whether an edge is cut, by hand or because an end is removed.
    pub cut: Vec<bool>, // [edges]
    /// ρ, if it was changed.
    pub rho: Option<f64>,
    /// γ, if it was changed.
    pub gamma: Option<f64>,
    /// α, if it was changed.
    pub relaxation: Option<f64>,
    /// Steps of the consensus solver, if they were changed.
    pub steps: Option<usize>,
    by_hand: Vec<bool>, // [edges]
}

impl Interventions {
    /// The parts of a solve of agents with edges between these pairs.
    pub fn parts(&self, agents: usize, edges: &[(usize, usize)], iterations: usize) -> Vec<Part> {
        let mut part = Part {
            iterations: 0..iterations,
            input: 0,
            removed: vec![false; agents],
            cut: vec![false; edges.len()],
            rho: None,
            gamma: None,
            relaxation: None,
            steps: None,
            by_hand: vec![false; edges.len()],
        };
        let mut changes: Vec<_> = self.list.iter().filter(|one| !one.action.changes_states()).collect();
        changes.sort_by_key(|one| one.k);
        let mut parts = Vec::new();
        for one in changes {
            let first = one.k - 1;
            if first > part.iterations.start {
                parts.push(Part { iterations: part.iterations.start..first, ..part.clone() });
                part.iterations.start = first;
            }
            part.change(&one.action, edges);
        }
        parts.push(part);
        parts
    }
}

impl Part {
    fn change(&mut self, action: &Action, edges: &[(usize, usize)]) {
        let count = self.removed.len();
        match action {
            Action::Remove(agents) => agents.numbers(count).into_iter().for_each(|i| self.removed[i] = true),
            Action::Restore(agents) => {
                agents.numbers(count).into_iter().for_each(|i| self.removed[i] = false)
            }
            Action::Cut(pairs) => self.mark(pairs, edges, true),
            Action::Join(pairs) => self.mark(pairs, edges, false),
            Action::Rho(value) => self.rho = Some(*value),
            Action::Gamma(value) => self.gamma = Some(*value),
            Action::Relaxation(value) => self.relaxation = Some(*value),
            Action::Steps(count) => self.steps = Some(*count),
            Action::Input(number) => self.input = *number,
            Action::Set { .. } | Action::Noise { .. } | Action::Scale { .. } | Action::Pin { .. } => {}
        }
        for (e, &(u, v)) in edges.iter().enumerate() {
            self.cut[e] = self.by_hand[e] || self.removed[u] || self.removed[v];
        }
    }

    fn mark(&mut self, pairs: &[[usize; 2]], edges: &[(usize, usize)], cut: bool) {
        for (mark, &(u, v)) in self.by_hand.iter_mut().zip(edges) {
            if pairs.contains(&[u, v]) || pairs.contains(&[v, u]) {
                *mark = cut;
            }
        }
    }

    /// The same part of a problem with more agents and other edges: agents beyond the known ones are never removed, and
    /// edge e is cut if edge `origin[e]` is.
    pub(crate) fn mapped(&self, agents: usize, origin: &[usize]) -> Self {
        let mut removed = self.removed.clone();
        removed.resize(agents, false);
        let pick = |marks: &[bool]| origin.iter().map(|&e| marks[e]).collect();
        Self { removed, cut: pick(&self.cut), by_hand: pick(&self.by_hand), ..self.clone() }
    }

    /// The sheaf without the edges that are cut; `None` if none are.
    pub fn sheaf(&self, whole: &Sheaf) -> Result<Option<Sheaf>> {
        self.cut.contains(&true).then(|| whole.without_edges(|e| self.cut[e])).transpose()
    }
}

/// What a part of a solve owns beside the given problem.
#[derive(Debug)]
pub(super) struct Posed<T> {
    sheaf: Option<Sheaf>,
    offsets: Vec<T>,
    weights: Vec<T>,
    z_update: ZUpdate<T>,
}

impl<T: Real> Posed<T> {
    /// Prepares a part of a solve of `given`.
    pub fn new(given: &Problem<'_, T>, part: &Part) -> Result<Self> {
        let (op, whole) = (&given.op, given.op.sheaf());
        let sheaf = part.sheaf(whole)?;
        let dims = |e: usize| {
            whole.edges()[e].start as usize..(whole.edges()[e].start + whole.edges()[e].dim) as usize
        };
        let kept = (0..whole.edge_count()).filter(|&e| !part.cut[e]);
        let (mut offsets, mut weights) = (Vec::new(), Vec::new());
        if let Some(all) = op.offsets() {
            kept.clone().for_each(|e| offsets.extend_from_slice(&all[dims(e)]));
        }
        if let Some(all) = op.edge_weights() {
            weights.extend(kept.map(|e| all[e]));
        }
        let current = sheaf.as_ref().unwrap_or(whole);
        let mut z_update = given.z_update.clone();
        if let Some(gamma) = part.gamma {
            set_gamma(&mut z_update, T::from_f64(gamma))?;
        }
        if let Some(steps) = part.steps {
            set_steps(&mut z_update, steps)?;
        }
        if sheaf.is_some() {
            fit(&mut z_update, current);
        }
        Ok(Self { sheaf, offsets, weights, z_update })
    }

    /// The problem of the part.
    pub fn problem<'s>(&'s self, given: &Problem<'s, T>, part: &Part) -> Result<Problem<'s, T>> {
        let op = match &self.sheaf {
            None => given.op,
            Some(sheaf) => {
                let mut op = SheafOp::new(sheaf, *given.op.maps())?;
                if given.op.offsets().is_some() {
                    op = op.with_offsets(&self.offsets)?;
                }
                if given.op.edge_weights().is_some() {
                    op = op.with_edge_weights(&self.weights)?;
                }
                op
            }
        };
        let rho = part.rho.map_or(given.rho, |rho| Penalty::Scalar(T::from_f64(rho)));
        let relax = part.relaxation.map_or(given.relax, T::from_f64);
        let problem = Problem { op, rho, relax, z_update: &self.z_update, ..given.clone() };
        problem.validate()?;
        Ok(problem)
    }
}

/// The same solver with another price of disagreement.
fn set_gamma<T: Real>(solver: &mut ZUpdate<T>, to: T) -> Result<()> {
    let agreement = match solver {
        ZUpdate::Cg(s) => &mut s.agreement,
        ZUpdate::Descent(s) => &mut s.agreement,
        ZUpdate::Asynchronous(s) => &mut s.descent.agreement,
        ZUpdate::EdgeSpace(s) => &mut s.agreement,
        ZUpdate::Exact(s) => &mut s.agreement,
        ZUpdate::Gram(s) => &mut s.agreement,
        ZUpdate::Orthonormal(s) => &mut s.agreement,
        ZUpdate::Potential(s) => {
            s.gamma = to;
            return Ok(());
        }
    };
    match agreement {
        Agreement::Soft { gamma } => {
            *gamma = to;
            Ok(())
        }
        Agreement::Hard => {
            let expected = "soft agreement, where disagreement has a price";
            Err(Error::new(ErrorKind::Unsupported, "gamma", expected, "hard agreement"))
        }
    }
}

/// The same solver with another number of steps.
fn set_steps<T: Real>(solver: &mut ZUpdate<T>, to: usize) -> Result<()> {
    let stop = match solver {
        ZUpdate::Cg(s) => &mut s.stop,
        ZUpdate::Descent(s) => &mut s.stop,
        ZUpdate::Asynchronous(s) => &mut s.descent.stop,
        ZUpdate::EdgeSpace(s) => &mut s.stop,
        ZUpdate::Potential(s) => &mut s.stop,
        ZUpdate::Gram(s) => &mut s.stop,
        ZUpdate::Exact(_) | ZUpdate::Orthonormal(_) => {
            let expected = "a solver that iterates";
            return Err(Error::new(ErrorKind::Unsupported, "steps", expected, "a closed form"));
        }
    };
    *stop = match *stop {
        Stop::Steps(_) => Stop::Steps(to),
        Stop::Tolerance { absolute, relative, .. } => Stop::Tolerance { absolute, relative, max_steps: to },
    };
    Ok(())
}

/// Steps and relative tolerance of the solver that replaces a closed form where edges are missing.
const REPLACEMENT: (usize, f64) = (200, 1e-6);

/// A solver that was made for the whole sheaf, made for what is left of it. Solutions are the same ones.
fn fit<T: Real>(solver: &mut ZUpdate<T>, sheaf: &Sheaf) {
    let agreement = match solver {
        ZUpdate::Exact(s) => {
            *solver = ZUpdate::Exact(Exact::new(sheaf, s.agreement));
            return;
        }
        ZUpdate::Orthonormal(s) if !sheaf.has_cliques() => s.agreement,
        // The same steps on the states. Hard, both start so that nothing of z_prev remains.
        ZUpdate::Gram(Gram { agreement, stop, guard, tikhonov }) if !sheaf.has_cliques() => {
            let (start, refresh) = (CgStart::Zero, REFRESH);
            let (agreement, stop, guard, tikhonov) = (*agreement, *stop, *guard, *tikhonov);
            *solver = ZUpdate::Cg(Cg { agreement, stop, start, guard, tikhonov, refresh });
            return;
        }
        _ => return,
    };
    let (max_steps, relative) = REPLACEMENT;
    let stop = Stop::Tolerance { absolute: T::ZERO, relative: T::from_f64(relative), max_steps };
    let (guard, tikhonov) = (T::ZERO, T::ZERO);
    *solver = ZUpdate::Cg(Cg {
        stop,
        start: CgStart::Warm,
        guard,
        tikhonov,
        ..Cg::published(agreement, max_steps)
    });
}
