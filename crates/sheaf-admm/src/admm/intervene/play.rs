//! A solve with interventions: its parts one after the other, states handed on.

use super::apply::{Acting, Held};
use super::pose::{Part, Posed};
use super::{Interventions, Kind, Shape, scalars};
use crate::admm::{Iteration, Mode, Options, Problem, SolveReport, Start, Workspace};
use crate::error::check_len;
use crate::{Error, ErrorKind, Real, Result};

/// The circumstances of an iteration.
#[derive(Clone, Copy, Debug)]
pub struct Now<'a> {
    /// The input, the removed agents and the cut edges.
    pub part: &'a Part,
    /// The number, in the whole sheaf, of each edge that is left.
    pub edges: &'a [usize],
}

/// How a solve with interventions ended.
#[derive(Clone, Debug)]
pub struct Played<T> {
    /// The last z.
    pub z: Vec<T>, // [states]
    /// The last u.
    pub u: Vec<T>, // [states]
    /// The report of the last part.
    pub report: SolveReport<T>,
    /// Iterations that ran.
    pub iterations: usize,
}

impl<T: Real> Problem<'_, T> {
    /// Solves with interventions. `inputs[0]` is the problem at the start; [`Action::Input`](super::Action::Input)
    /// continues with another one, of the same agents and edges. `see` receives every iteration, with its number counted
    /// from 0 over all parts, and ends the solve by returning `false`. For a single sample; `options` gives the number of
    /// iterations and the balancing.
    pub fn play(
        inputs: &[Problem<'_, T>],
        start: Start<'_, T>,
        options: &Options<T>,
        interventions: &Interventions,
        ws: &mut Workspace<T>,
        see: &mut dyn FnMut(&Iteration<'_, '_, T>, &Now<'_>) -> bool,
    ) -> Result<Played<T>> {
        let Some(first) = inputs.first() else {
            return Err(Error::new(ErrorKind::Shape, "inputs", "at least one problem", "none"));
        };
        let sheaf = first.op.sheaf();
        for (i, problem) in inputs.iter().enumerate() {
            check_len("samples of a solve with interventions", 1, problem.op.samples())?;
            if problem.op.sheaf() != sheaf {
                let (place, want) = (format!("inputs[{i}]"), "the agents and edges of inputs[0]");
                return Err(Error::new(ErrorKind::Shape, place, want, "others"));
            }
        }
        let ends: Vec<(usize, usize)> = sheaf.edge_ends().map(|((u, _), (v, _))| (u, v)).collect();
        let (offsets, iterations) = (sheaf.state_offsets(), options.iterations);
        let kind = Kind::Admm;
        interventions.check(&Shape { kind, offsets, edges: &ends, iterations, inputs: inputs.len() })?;
        let mut z = match start {
            Start::Zeros => vec![T::ZERO; sheaf.state_len()],
            Start::At(z) | Start::Warm { z, .. } => z.to_vec(),
        };
        let mut u = match start {
            Start::Warm { u, .. } => u.to_vec(),
            _ => vec![T::ZERO; sheaf.state_len()],
        };
        if let Some(at) = &interventions.start {
            for (to, given) in [(&mut z, &at.z), (&mut u, &at.u)] {
                if !given.is_empty() {
                    *to = scalars(given);
                }
            }
        }
        let parts = interventions.parts(sheaf.agents(), &ends, iterations);
        Run::new(Acting::new(&interventions.list, offsets), offsets, z, u)
            .all(inputs, &parts, options, ws, see)
    }
}

/// A solve in parts, states handed on.
pub(crate) struct Run<'a, T> {
    acting: Acting<'a, T>,
    offsets: &'a [usize],
    z: Vec<T>,
    u: Vec<T>,
    /// The penalty of every agent in the part before.
    rho: Option<Vec<T>>,
    ran: usize,
}

impl<'a, T: Real> Run<'a, T> {
    /// From this state of agents with these offsets.
    pub fn new(acting: Acting<'a, T>, offsets: &'a [usize], z: Vec<T>, u: Vec<T>) -> Self {
        Self { acting, offsets, z, u, rho: None, ran: 0 }
    }

    /// Runs all parts, or until the observer has seen enough.
    pub fn all(
        mut self,
        inputs: &[Problem<'_, T>],
        parts: &[Part],
        options: &Options<T>,
        ws: &mut Workspace<T>,
        see: &mut dyn FnMut(&Iteration<'_, '_, T>, &Now<'_>) -> bool,
    ) -> Result<Played<T>> {
        let mut report = None;
        for part in parts {
            let (own, goes_on) = self.part(inputs, part, options, ws, see)?;
            report = Some(own);
            if !goes_on {
                break;
            }
        }
        let Self { z, u, ran, .. } = self;
        let report = report.ok_or_else(|| Error::new(ErrorKind::Shape, "parts", "at least one", "none"))?;
        Ok(Played { z, u, report, iterations: ran })
    }

    /// Runs a part; returns whether the observer wants more.
    fn part(
        &mut self,
        inputs: &[Problem<'_, T>],
        part: &Part,
        options: &Options<T>,
        ws: &mut Workspace<T>,
        see: &mut dyn FnMut(&Iteration<'_, '_, T>, &Now<'_>) -> bool,
    ) -> Result<(SolveReport<T>, bool)> {
        let given = &inputs[part.input];
        let posed = Posed::new(given, part)?;
        let problem = posed.problem(given, part)?;
        let agents = self.offsets.len() - 1;
        let rho: Vec<T> = (0..agents).map(|i| problem.rho.of(i)).collect();
        // u is the dual divided by the penalty: the dual stays.
        if let Some(before) = self.rho.replace(rho.clone()) {
            for i in (0..agents).filter(|&i| before[i] != rho[i]) {
                let own = &mut self.u[self.offsets[i]..self.offsets[i + 1]];
                own.iter_mut().for_each(|u| *u *= before[i] / rho[i]);
            }
        }
        let Self { acting, offsets, z, u, .. } = self;
        acting.hold(part, |agent| {
            let own = offsets[agent]..offsets[agent + 1];
            Held { agent, z: z[own.clone()].to_vec(), u: u[own].to_vec() }
        });
        ws.fit(&problem, Mode::Solve);
        let count = part.iterations.len();
        let options = Options { iterations: count, x_only: false, tolerances: None, taped: None, ..*options };
        self.acting.first = part.iterations.start;
        let edges: Vec<usize> = (0..part.cut.len()).filter(|&e| !part.cut[e]).collect();
        let (now, first, mut goes_on) = (Now { part, edges: &edges }, part.iterations.start, true);
        let mut observer = |view: &Iteration<'_, '_, T>| {
            goes_on = see(&Iteration { k: first + view.k, ..*view }, &now);
            goes_on
        };
        let start = Start::Warm { z: &self.z, u: &self.u };
        let report = problem.solve_acting(start, &options, ws, &mut observer, &mut self.acting)?;
        if report.rho_factor != T::ONE {
            self.rho.iter_mut().flatten().for_each(|rho| *rho *= report.rho_factor);
        }
        if !ws.z().is_empty() {
            self.z.copy_from_slice(ws.z());
            self.u.copy_from_slice(ws.u());
        }
        self.ran += report.iterations;
        Ok((report, goes_on))
    }
}
