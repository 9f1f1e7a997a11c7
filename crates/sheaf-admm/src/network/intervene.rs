//! Interventions in the solve of a network: the same actions as for any problem, in the network's own agents, edges and
//! units.
//!
//! The solver works on a scaled problem in which some edges are agents of their own. A script knows neither: values are
//! those of x, z and u as the network gives them, agents and pairs of agents those of the network.

use super::compile::{Compiled, Place};
use super::solver::{Solver, problem};
use super::{Network, named};
use crate::admm::intervene::{Acting, Interventions, Kind, Run, Shape};
use crate::admm::{Options, Problem, Workspace};
use crate::error::check_len;
use crate::{Error, ErrorKind, Result};
use sheaf_kernels::pool;

/// An iteration of a solve with interventions. States are in the units of the network, agent after agent.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'s> {
    /// Its number, from 1, as interventions count.
    pub k: usize,
    /// The proposals.
    pub x: &'s [f64], // [numbers of all agents]
    /// The agreement.
    pub z: &'s [f64], // [numbers of all agents]
    /// The scaled duals: what agreement still owes to the proposals.
    pub u: &'s [f64], // [numbers of all agents]
    /// Whether an agent is removed.
    pub removed: &'s [bool], // [agents]
    /// Whether an edge is cut, by hand or because an end is removed.
    pub cut: &'s [bool], // [edges]
}

/// How a solve with interventions ended, in the units of the network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Played {
    /// The last proposals.
    pub x: Vec<f64>,
    /// The last agreement.
    pub z: Vec<f64>,
    /// The last duals.
    pub u: Vec<f64>,
    /// Iterations that ran.
    pub iterations: usize,
}

impl Solver {
    /// Runs this many iterations from the last state, with interventions on the way, and leaves the solver as it is. An
    /// empty list gives the undisturbed run to compare with.
    ///
    /// Actions are those of [`admm::intervene`](crate::admm::intervene). [`Action::Input`](crate::admm::intervene::Action)
    /// n continues with `inputs[n − 1]`, a network of the same agents and edges with other numbers; 0 is this one. ρ is that
    /// of the solver, in scaled units, and is not adapted; γ is a factor of all weights and needs a network whose edges are
    /// all soft. `see` receives every iteration and ends the run by returning `false`.
    ///
    /// ```
    /// use sheaf_admm::admm::intervene::{Action, Agents, Intervention, Interventions, Values, Variable};
    /// use sheaf_admm::network::{Network, Settings};
    /// use sheaf_admm::x_update::Quadratic;
    ///
    /// let mut net = Network::new();
    /// let a = net.agent(Quadratic::new([[1.0]], [-1.0]))?;
    /// let b = net.agent(Quadratic::new([[1.0]], [-5.0]))?;
    /// net.agree(a, [[1.0]], b, [[1.0]])?;
    /// let solver = net.solver(Settings::default())?;
    ///
    /// // At iteration 20 the edge is cut: each agent goes its own way.
    /// let cut = Intervention { k: 20, before: None, action: Action::Cut(vec![[0, 1]]) };
    /// let script = Interventions { start: None, list: vec![cut] };
    /// let mut path = Vec::new();
    /// let end = solver.play(&[], &script, 200, |now| {
    ///     path.push(now.x.to_vec());
    ///     true
    /// })?;
    /// assert!((path[18][0] - 3.0).abs() < 1e-2 && (path[18][1] - 3.0).abs() < 1e-2);
    /// assert!((end.x[0] - 1.0).abs() < 1e-6 && (end.x[1] - 5.0).abs() < 1e-6);
    /// # Ok::<(), sheaf_admm::Error>(())
    /// ```
    pub fn play(
        &self,
        inputs: &[Network],
        interventions: &Interventions,
        iterations: usize,
        mut see: impl FnMut(&Moment<'_>) -> bool,
    ) -> Result<Played> {
        let ends: Vec<(usize, usize)> =
            self.net.edges.iter().map(|e| (e.ends[0].0.0, e.ends[1].0.0)).collect();
        let agents = self.net.agents();
        let offsets = &self.compiled.sheaf.state_offsets()[..=agents];
        let shape = Shape { kind: Kind::Admm, offsets, edges: &ends, iterations, inputs: 1 + inputs.len() };
        interventions.check(&shape)?;
        let others =
            inputs.iter().enumerate().map(|(i, net)| self.other(i, net)).collect::<Result<Vec<_>>>()?;
        let all = std::iter::once(&self.compiled).chain(&others);
        let problems: Vec<Problem<'_, f64>> = all
            .map(|compiled| problem(compiled, &self.z_update, self.rho, self.settings.relax))
            .collect::<Result<_>>()?;
        let origin = self.origins();
        let of_net = interventions.parts(agents, &ends, iterations);
        let parts: Vec<_> =
            of_net.iter().map(|part| part.mapped(self.compiled.maps.len(), &origin)).collect();
        let [z, u] = self.start(interventions);
        let acting = Acting::new(&interventions.list, offsets).in_units(&self.unit);
        let numbers = offsets[agents];
        let mut end =
            Played { x: vec![0.0; numbers], z: vec![0.0; numbers], u: vec![0.0; numbers], iterations: 0 };
        let mut cut = Vec::new();
        let mut watch = |view: &crate::admm::Iteration<'_, '_, f64>,
                         now: &crate::admm::intervene::Now<'_>| {
            for (to, from) in [(&mut end.x, view.x), (&mut end.z, view.z), (&mut end.u, view.u)] {
                to.iter_mut().zip(from).zip(&self.unit).for_each(|((to, from), unit)| *to = unit * from);
            }
            cut.clear();
            cut.extend(self.compiled.places.iter().map(|place| now.part.cut[first(place)]));
            end.iterations = view.k + 1;
            let Played { x, z, u, .. } = &end;
            see(&Moment { k: view.k + 1, x, z, u, removed: &now.part.removed[..agents], cut: &cut })
        };
        let (options, mut ws) = (Options::fixed(iterations), Workspace::default());
        let run = Run::new(acting, self.compiled.sheaf.state_offsets(), z, u);
        pool::with_threads(self.settings.threads, || {
            run.all(&problems, &parts, &options, &mut ws, &mut watch)
        })?;
        Ok(end)
    }

    /// Another input, scaled as this network, so that states keep their meaning.
    fn other(&self, i: usize, net: &Network) -> Result<Compiled> {
        let place = || format!("inputs[{i}]");
        let wrong = |what: &str, got: String| {
            Err(Error::new(ErrorKind::Shape, place(), format!("{what} of this network"), got))
        };
        let within = |e: Error| named(place(), e);
        check_len("agents", self.net.agents(), net.agents()).map_err(within)?;
        check_len("edges", self.net.edges(), net.edges()).map_err(within)?;
        for (id, agent) in net.agent_ids().zip(&net.agents) {
            check_len(&format!("size of agent {}", id.0), self.net.objective(id)?.dim(), agent.map.dim())
                .map_err(within)?;
        }
        for (e, (own, other)) in self.net.edges.iter().zip(&net.edges).enumerate() {
            let pair = |edge: &super::Edge| [edge.ends[0].0.0, edge.ends[1].0.0];
            if pair(own) != pair(other) || own.rows() != other.rows() {
                let got = format!("{:?} with {} rows", pair(other), other.rows());
                return wrong(&format!("the ends and rows of edge {e}"), got);
            }
        }
        let compiled = Compiled::new(net, self.compiled.scaling.clone()).map_err(within)?;
        let same = compiled.sheaf == self.compiled.sheaf && compiled.agreement() == self.compiled.agreement();
        if same { Ok(compiled) } else { wrong("costs of edges of the same kind as those", "others".into()) }
    }

    /// The edge of the network that each edge of the sheaf stands for.
    fn origins(&self) -> Vec<usize> {
        let mut origin = vec![0; self.compiled.sheaf.edge_count()];
        for (e, place) in self.compiled.places.iter().enumerate() {
            let count = if matches!(place, Place::Term { .. }) { 2 } else { 1 };
            origin[first(place)..][..count].fill(e);
        }
        origin
    }

    /// z and u to start from, scaled: those of the solver, or those of the script for the network's agents.
    fn start(&self, interventions: &Interventions) -> [Vec<f64>; 2] {
        let mut states = [self.z.clone(), self.u.clone()];
        if let Some(at) = &interventions.start {
            for (state, given) in states.iter_mut().zip([&at.z, &at.u]) {
                state.iter_mut().zip(given).zip(&self.unit).for_each(|((to, from), unit)| *to = from / unit);
            }
        }
        states
    }
}

/// The first edge of the sheaf that an edge of the network became.
fn first(place: &Place) -> usize {
    let (Place::Native(edge) | Place::Term { edge, .. }) = *place;
    edge
}
