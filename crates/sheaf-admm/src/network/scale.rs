//! Scaling: x = D x̂, edges times e, costs times c, so that the numbers of the scaled problem are near 1.
//!
//! Ruiz's iteration on the matrix that couples everything, [c·D Q D; E F D]: each round divides a coordinate by the
//! root of the largest entry in its column and an edge by the root of its largest entry; then c makes the costs' slopes
//! near 1. A [`Quadratic`] has a factor per coordinate, any other map one for all of its coordinates. Penalties that the
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
const SETTLED: f64 = 0.01;
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
        let mut scaling = Self::none(net);
        let mut starts = vec![0];
        net.agents.iter().for_each(|a| starts.push(starts[starts.len() - 1] + a.map.dim()));
        let (mut columns, mut rows) = (vec![0.0f64; starts[net.agents.len()]], vec![0.0f64; net.edges.len()]);
        scaling.cost = bounded(1.0 / scaling.slope(net));
        for _ in 0..ROUNDS {
            columns.fill(0.0);
            rows.fill(0.0);
            for ((agent, s), &start) in net.agents.iter().zip(&scaling.states).zip(&starts) {
                if let Some(f) = agent.map.as_quadratic() {
                    let column = &mut columns[start..start + s.len()];
                    curvature(f, |i, j, v| {
                        column[j] = column[j].max((scaling.cost * s[i] * v * s[j]).abs());
                    });
                }
            }
            for (e, edge) in net.edges.iter().enumerate() {
                for (agent, map) in &edge.ends {
                    let (s, start) = (&scaling.states[agent.0], starts[agent.0]);
                    map.each(|_, j, v| {
                        let entry = (scaling.edges[e] * v * s[j]).abs();
                        rows[e] = rows[e].max(entry);
                        columns[start + j] = columns[start + j].max(entry);
                    });
                }
            }
            let mut change = 0.0f64;
            let mut apply = |factor: &mut f64, size: f64| {
                let before = *factor;
                *factor = bounded(before / root(size));
                change = change.max((*factor / before - 1.0).abs());
            };
            for ((agent, s), &start) in net.agents.iter().zip(&mut scaling.states).zip(&starts) {
                let column = &mut columns[start..start + s.len()];
                if agent.map.as_quadratic().is_none() {
                    let all = column.iter().fold(0.0f64, |m, c| m.max(*c));
                    column.fill(all);
                }
                s.iter_mut().zip(column).for_each(|(s, c)| apply(s, *c));
            }
            scaling.edges.iter_mut().zip(&rows).for_each(|(e, r)| apply(e, *r));
            let slope = scaling.slope(net);
            apply(&mut scaling.cost, slope * slope);
            if change < SETTLED {
                break;
            }
        }
        scaling
    }

    /// The size of the scaled costs: the mean of the largest entries of D Q D by column, or the largest |D q|.
    fn slope(&self, net: &Network) -> f64 {
        let (mut sum, mut count, mut linear) = (0.0, 0usize, 0.0f64);
        let mut column = Vec::new();
        for (agent, s) in net.agents.iter().zip(&self.states) {
            let Some(f) = agent.map.as_quadratic() else { continue };
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
