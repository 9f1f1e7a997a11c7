//! Changes between solves that need no new factorisation: q, bounds, right sides, offsets; and the state to start from.

use std::sync::Arc;

use super::compile::Place;
use super::hints::{NO_PLACE, hinted, key_of};
use super::solver::Solver;
use super::{AgentId, EdgeId};
use crate::error::{check_finite, check_len};
use crate::x_update::{Duals, Proximal, Quadratic};
use crate::{Error, ErrorKind, Result};

/// What a solve ends with and another can start from: agreement, multipliers and penalty.
///
/// ```
/// use sheaf_admm::network::{Network, Settings};
/// use sheaf_admm::x_update::Quadratic;
///
/// let mut net = Network::new();
/// let a = net.agent(Quadratic::new([[1.0]], [-1.0]))?;
/// let b = net.agent(Quadratic::new([[1.0]], [-5.0]))?;
/// net.agree(a, [[1.0]], b, [[1.0]])?;
/// let mut first = net.solver(Settings::default())?;
/// first.solve()?;
/// let mut second = net.solver(Settings::default())?;
/// second.start_from(&first.state())?;
/// assert!(second.solve()?.iterations() <= 2);
/// # Ok::<(), sheaf_admm::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub(super) z: Vec<f64>,
    pub(super) u: Vec<f64>,
    pub(super) rho: f64,
}

impl Solver {
    /// Replaces q of a quadratic agent.
    pub fn update_q(&mut self, agent: AgentId, q: &[f64]) -> Result<()> {
        self.quadratic(agent)?.set_q(q).map_err(of_update)?;
        let (f, scaled, d, c) = self.pair(agent)?;
        scaled.set_scaled_q(f, d, c);
        Ok(())
    }

    /// Replaces the right side b of A x = b of a quadratic agent.
    pub fn update_equal(&mut self, agent: AgentId, b: &[f64]) -> Result<()> {
        self.quadratic(agent)?.set_equal(b).map_err(of_update)?;
        self.pair(agent)?.1.set_equal(b)
    }

    /// Replaces the limits of G x ≤ g of a quadratic agent.
    pub fn update_at_most(&mut self, agent: AgentId, limit: &[f64]) -> Result<()> {
        self.quadratic(agent)?.set_at_most(limit).map_err(of_update)?;
        self.pair(agent)?.1.set_at_most(limit)
    }

    /// Replaces the bounds of a quadratic agent. They stay finite where they were finite, and infinite elsewhere.
    pub fn update_bounds(&mut self, agent: AgentId, lo: &[f64], hi: &[f64]) -> Result<()> {
        self.quadratic(agent)?.set_bounds(lo, hi).map_err(of_update)?;
        let (f, scaled, d, _) = self.pair(agent)?;
        scaled.set_scaled_bounds(f, d);
        Ok(())
    }

    /// Replaces the offset of an edge.
    pub fn update_offset(&mut self, edge: EdgeId, offset: &[f64]) -> Result<()> {
        let Some(own) = self.net.edges.get_mut(edge.0) else {
            let expected = format!("an edge below {}", self.net.edges.len());
            return Err(Error::new(ErrorKind::OutOfRange, "edge", expected, edge.0)
                .hint("use an EdgeId that this network returned"));
        };
        let checked = check_len("offset", own.offset.len(), offset.len());
        checked.and_then(|()| check_finite("offset", offset)).map_err(|e| hinted(e, Some("offset")))?;
        own.offset.copy_from_slice(offset);
        self.place_offset(edge.0)
    }

    /// The multipliers of a quadratic agent's own constraints at the last solution, in the units it was given in. Solves
    /// the agent's problem once more.
    ///
    /// ```
    /// use sheaf_admm::network::{Network, Settings};
    /// use sheaf_admm::x_update::Quadratic;
    ///
    /// // Two plants make 3 together, the cheaper one at most 1.
    /// let mut net = Network::new();
    /// let cheap = net.agent(Quadratic::new([[1.0]], [0.0]).bounds([0.0], [1.0]))?;
    /// let dear = net.agent(Quadratic::new([[2.0]], [0.0]))?;
    /// net.edge(sheaf_admm::network::Edge::new(cheap, [[1.0]], dear, [[-1.0]]).offset([3.0]))?;
    /// let mut solver = net.solver(Settings { tol: 1e-9, ..Settings::default() })?;
    /// solver.solve()?;
    /// // The next unit costs 4 at the dear plant and would cost 1 at the cheap one.
    /// assert!((solver.duals(cheap)?.upper[0] - 3.0).abs() < 1e-6);
    /// # Ok::<(), sheaf_admm::Error>(())
    /// ```
    pub fn duals(&self, agent: AgentId) -> Result<Duals> {
        self.net.objective(agent)?;
        self.check_current("duals")?;
        let scaled = self.compiled.maps[agent.0].as_quadratic().ok_or_else(|| no_quadratic(agent))?;
        let (d, c) = (&self.compiled.scaling.states[agent.0], self.compiled.scaling.cost);
        let at =
            self.compiled.sheaf.state_offsets()[agent.0]..self.compiled.sheaf.state_offsets()[agent.0 + 1];
        let v: Vec<f64> = self.z[at.clone()].iter().zip(&self.u[at]).map(|(z, u)| z - u).collect();
        let mut duals = scaled.duals(self.rho, &v)?;
        duals.equal.iter_mut().chain(&mut duals.at_most).for_each(|nu| *nu /= c);
        duals.lower.iter_mut().zip(d).for_each(|(nu, d)| *nu /= c * d);
        duals.upper.iter_mut().zip(d).for_each(|(nu, d)| *nu /= c * d);
        Ok(duals)
    }

    /// The state of the last solve, for another solver of a network of the same shape.
    pub fn state(&self) -> State {
        let c = self.compiled.scaling.cost;
        let z = self.z.iter().zip(self.unit.iter()).map(|(z, unit)| unit * z).collect();
        let u = self.u.iter().zip(self.unit.iter()).map(|(u, unit)| self.rho * u / (unit * c)).collect();
        State { z, u, rho: self.rho }
    }

    /// Starts the next solve from this state: agreement, multipliers and penalty.
    pub fn start_from(&mut self, state: &State) -> Result<()> {
        let lens = check_len("state: z", self.z.len(), state.z.len())
            .and_then(|()| check_len("state: u", self.u.len(), state.u.len()));
        lens.map_err(|e| e.hint("a state fits networks with the same agents and kinds of edges"))?;
        (self.rho, self.current) = (state.rho, false);
        for k in 0..self.z.len() {
            self.z[k] = state.z[k] / self.unit[k];
            self.u[k] = state.u[k] * self.unit[k] * self.compiled.scaling.cost / state.rho;
        }
        Ok(())
    }

    /// Starts the next solve from these x, one agent after another, with no multipliers.
    pub fn start_at(&mut self, x: &[f64]) -> Result<()> {
        let checked = check_len("start", self.solution.x.len(), x.len());
        checked.and_then(|()| check_finite("start", x)).map_err(|e| hinted(e, Some("x")))?;
        self.current = false;
        self.u.fill(0.0);
        self.z[..x.len()].iter_mut().zip(x).zip(self.unit.iter()).for_each(|((z, x), unit)| *z = x / unit);
        self.start_terms(x);
        Ok(())
    }

    /// Edges that are agents of their own start where their ends are.
    fn start_terms(&mut self, x: &[f64]) {
        let Self { net, compiled, solution, z, .. } = self;
        for ((edge, place), e) in net.edges.iter().zip(&compiled.places).zip(&compiled.scaling.edges) {
            let Place::Term { agent, .. } = *place else { continue };
            let (start, rows) = (compiled.sheaf.state_offsets()[agent], edge.rows());
            let own = &mut z[start..start + 2 * rows];
            own.fill(0.0);
            for (half, (end, map)) in own.chunks_exact_mut(rows).zip(&edge.ends) {
                let x = &x[solution.starts[end.0]..];
                map.each(|row, col, v| half[row] += e * v * x[col]);
            }
        }
    }

    /// Gives a clone objectives of its own, so that both can be updated.
    pub(super) fn detach(&mut self) {
        self.net.detach();
        for map in &mut self.compiled.maps {
            if let Some(own) = map.detached() {
                *map = own;
            }
        }
    }

    /// The quadratic of an agent, as given.
    fn quadratic(&mut self, agent: AgentId) -> Result<&mut Quadratic> {
        self.net.objective(agent)?;
        own(&mut self.net.agents[agent.0].map, agent)
    }

    /// The quadratic as given, which has changed, the scaled one, and its factors.
    fn pair(&mut self, agent: AgentId) -> Result<(&Quadratic, &mut Quadratic, &[f64], f64)> {
        self.current = false;
        let Self { net, compiled, .. } = self;
        let scaled = own(&mut compiled.maps[agent.0], agent)?;
        let given = net.agents[agent.0].map.as_quadratic().ok_or_else(|| no_quadratic(agent))?;
        Ok((given, scaled, &compiled.scaling.states[agent.0], compiled.scaling.cost))
    }

    /// Writes an edge's offset into the scaled problem.
    fn place_offset(&mut self, edge: usize) -> Result<()> {
        (self.moved, self.contradiction, self.current) = (true, None, false);
        let Self { net, compiled, .. } = self;
        let (e, given) = (compiled.scaling.edges[edge], &net.edges[edge].offset);
        match compiled.places[edge] {
            Place::Native(native) => {
                let at = compiled.edge_starts[native]..compiled.edge_starts[native + 1];
                compiled.offsets[at].iter_mut().zip(given).for_each(|(own, b)| *own = e * b);
                Ok(())
            }
            Place::Term { agent, .. } => {
                let term = Arc::get_mut(&mut compiled.maps[agent]).and_then(|map| map.offset_mut());
                let Some(own) = term else { return Ok(()) };
                own.iter_mut().zip(given).for_each(|(own, b)| *own = e * b);
                Ok(())
            }
        }
    }
}

fn own(map: &mut Arc<dyn Proximal<f64>>, agent: AgentId) -> Result<&mut Quadratic> {
    Arc::get_mut(map).and_then(|map| map.as_quadratic_mut()).ok_or_else(|| no_quadratic(agent))
}

/// A mistake of new numbers for an agent.
fn of_update(error: Error) -> Error {
    if error.kind() == ErrorKind::Shape && error.hint_text().is_none() {
        return error.hint(NO_PLACE);
    }
    let key = key_of(&error);
    hinted(error, key)
}

fn no_quadratic(agent: AgentId) -> Error {
    Error::new(ErrorKind::Unsupported, format!("agent {}", agent.0), "a quadratic", "another map")
        .hint("only quadratics can be updated; make a new solver for other changes")
}

#[cfg(test)]
mod tests {
    use crate::Matrix;
    use crate::network::{Edge, Network, Settings};
    use crate::x_update::Quadratic;
    use crate::z_update::FACTORED;

    #[test]
    fn no_update_factorises_the_consensus_step_again() {
        for soft in [false, true] {
            let mut net = Network::new();
            let agents: Vec<_> = (0..4)
                .map(|i| {
                    let f = Quadratic::new(Matrix::identity(2), [i as f64, -1.0]);
                    net.agent(f.bounds([-9.0; 2], [9.0; 2]).equal([[1.0, 2.0]], [0.1])).unwrap()
                })
                .collect();
            let mut last = None;
            for i in 0..4 {
                let edge = Edge::new(agents[i], [[1.0, 0.5]], agents[(i + 1) % 4], [[0.2, 1.0]]);
                last = Some(net.edge(if soft { edge.soft(2.0) } else { edge }).unwrap());
            }
            let mut solver = net.solver(Settings { adapt: false, ..Settings::default() }).unwrap();
            let before = FACTORED.get();
            solver.solve().unwrap();
            assert_eq!(FACTORED.get(), before + 1, "soft {soft}");
            solver.update_q(agents[0], &[2.0, 3.0]).unwrap();
            solver.update_bounds(agents[1], &[-1.0; 2], &[1.0; 2]).unwrap();
            solver.update_equal(agents[2], &[0.3]).unwrap();
            solver.update_offset(last.unwrap(), &[0.2]).unwrap();
            assert!(solver.solve().unwrap().is_solved());
            assert_eq!(FACTORED.get(), before + 1, "soft {soft}");
        }
    }
}
