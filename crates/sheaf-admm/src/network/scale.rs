//! Scaling: x = D x̂, edges times e, costs times c, so that the numbers of the scaled problem are near 1.
//!
//! Ruiz's iteration on the matrix that couples everything, [c·D Q D; E F D]: each round divides a coordinate by the root of
//! the largest entry in its column and an edge by the root of its largest entry; then c makes the costs' slopes near 1. A [`Quadratic`] has a factor per coordinate, any other map one for all of its coordinates. Penalties that the
//! user gives per agent are one more factor: a penalty ρ_i is a scale 1/√ρ_i.

use super::{Coupling, Network};
use crate::x_update::Quadratic;

/// The factors of a scaled problem.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scaling {
    pub states: Vec<Vec<f64>>, // [agents][d], D
    pub edges: Vec<f64>,       // [edges], e
    pub cost: f64,             // c
}

const ROUNDS: usize = 25;
/// The iteration ends early when no factor changes by more than this.
const SETTLED: f64 = 0.03;
/// No factor leaves [1/LIMIT, LIMIT].
const LIMIT: f64 = 1e8;

impl Scaling {
    /// No scaling at all.
    pub(super) fn none(net: &Network) -> Self {
        let states = net.agents.iter().map(|a| vec![1.0; a.map.dim()]).collect();
        Self { states, edges: vec![1.0; net.edges.len()], cost: 1.0 }
    }

    /// Ruiz's iteration.
    pub(super) fn ruiz(net: &Network) -> Self {
        let mut starts = vec![0];
        net.agents.iter().for_each(|a| starts.push(starts[starts.len() - 1] + a.map.dim()));
        let (n, e) = (starts[net.agents.len()], net.edges.len());
        // One flat vector for all coordinates: edges reach them in any order.
        let mut flat = Flat { starts, states: vec![1.0; n], edges: vec![1.0; e], cost: 1.0 };
        let (mut columns, mut rows) = (vec![0.0f64; n], vec![0.0f64; e]);
        flat.cost = bounded(1.0 / flat.slope(net));
        for _ in 0..ROUNDS {
            flat.sizes(net, &mut columns, &mut rows);
            let mut change = 0.0f64;
            let mut apply = |factor: &mut f64, size: f64| {
                let before = *factor;
                *factor = bounded(before / root(size));
                change = change.max((*factor / before - 1.0).abs());
            };
            flat.states.iter_mut().zip(&columns).for_each(|(s, c)| apply(s, *c));
            flat.edges.iter_mut().zip(&rows).for_each(|(e, r)| apply(e, *r));
            let slope = flat.slope(net);
            apply(&mut flat.cost, slope * slope);
            if change < SETTLED {
                break;
            }
        }
        let states = flat.starts.windows(2).map(|at| flat.states[at[0]..at[1]].to_vec()).collect();
        Self { states, edges: flat.edges, cost: flat.cost }
    }
}

/// The factors while they are found.
struct Flat {
    starts: Vec<usize>, // [agents + 1]
    states: Vec<f64>,
    edges: Vec<f64>,
    cost: f64,
}

impl Flat {
    /// The largest entry of every column and of every edge.
    fn sizes(&self, net: &Network, columns: &mut [f64], rows: &mut [f64]) {
        columns.fill(0.0);
        rows.fill(0.0);
        for (agent, at) in net.agents.iter().zip(self.starts.windows(2)) {
            if let Some(f) = agent.map.as_quadratic() {
                let (s, column) = (&self.states[at[0]..at[1]], &mut columns[at[0]..at[1]]);
                curvature(f, |i, j, v| column[j] = column[j].max((self.cost * s[i] * v * s[j]).abs()));
            }
        }
        for ((edge, &e), row) in net.edges.iter().zip(&self.edges).zip(rows) {
            for (agent, map) in &edge.ends {
                let start = self.starts[agent.0];
                map.each(|_, j, v| {
                    let entry = (e * v * self.states[start + j]).abs();
                    *row = row.max(entry);
                    columns[start + j] = columns[start + j].max(entry);
                });
            }
        }
        for (agent, at) in net.agents.iter().zip(self.starts.windows(2)) {
            if agent.map.as_quadratic().is_none() {
                let column = &mut columns[at[0]..at[1]];
                let all = column.iter().fold(0.0f64, |m, c| m.max(*c));
                column.fill(all);
            }
        }
    }

    /// The size of the scaled costs: the mean of the largest entries of D Q D by column, or the largest |D q|.
    fn slope(&self, net: &Network) -> f64 {
        let (mut sum, mut count, mut linear) = (0.0, 0usize, 0.0f64);
        let mut column = Vec::new();
        for (agent, at) in net.agents.iter().zip(self.starts.windows(2)) {
            let Some(f) = agent.map.as_quadratic() else { continue };
            let s = &self.states[at[0]..at[1]];
            column.clear();
            column.resize(s.len(), 0.0f64);
            curvature(f, |i, j, v| column[j] = column[j].max((self.cost * s[i] * v * s[j]).abs()));
            sum += column.iter().sum::<f64>();
            count += column.len();
            linear = f.q.iter().zip(s).fold(linear, |m, (q, s)| m.max((self.cost * q * s).abs()));
        }
        for (edge, e) in net.edges.iter().zip(&self.edges) {
            if let Coupling::Soft { weight } = edge.coupling {
                (sum, count) = (sum + self.cost * weight / (e * e), count + 1);
            }
        }
        let size = (sum / count.max(1) as f64).max(linear);
        if size > 0.0 && size.is_finite() { size } else { 1.0 }
    }
}

/// Every entry of Q, with what l2 and the tether add.
fn curvature(f: &Quadratic, mut each: impl FnMut(usize, usize, f64)) {
    let lift = f.l2 + f.tether.as_ref().map_or(0.0, |t| t.0);
    f.quad.each(|i, j, v| each(i, j, v + if i == j { lift } else { 0.0 }));
}

fn root(size: f64) -> f64 {
    if size > 0.0 && size.is_finite() { size.sqrt() } else { 1.0 }
}

fn bounded(factor: f64) -> f64 {
    factor.clamp(1.0 / LIMIT, LIMIT)
}
