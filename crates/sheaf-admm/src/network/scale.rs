//! Scaling: x = D x̂, edges times e, costs times c, so that the numbers of the scaled problem are near 1.
//!
//! Ruiz's iteration on the matrix that couples everything, [c·D Q D; E F D]: each round divides a coordinate by the root of
//! the largest entry in its column and an edge by the root of its largest entry; then c makes the costs' slopes near 1. A [`Quadratic`] has a factor per coordinate, any other map one for all of its coordinates. Penalties that the
//! user gives per agent are one more factor: a penalty ρ_i is a scale 1/√ρ_i.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Coupling, Network};
use crate::chunks::{self, Cut, Items};
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
        let mut flat = Flat::new(net);
        let mut costs = flat.costs(net, None);
        costs.add(flat.soft(net));
        flat.cost = bounded(1.0 / costs.slope(flat.cost));
        for _ in 0..ROUNDS {
            let columns = flat.columns();
            let (rows, soft) = flat.edges(net, &columns);
            let mut costs = flat.costs(net, Some(&columns));
            costs.add(soft);
            let before = flat.cost;
            let slope = costs.slope(before);
            flat.cost = bounded(before / root(slope * slope));
            if rows.max(costs.change).max((flat.cost / before - 1.0).abs()) < SETTLED {
                break;
            }
        }
        let states = flat.starts.windows(2).map(|at| flat.states[at[0]..at[1]].to_vec()).collect();
        Self { states, edges: flat.edges, cost: flat.cost }
    }
}

/// The factors while they are found. One flat vector for all coordinates: edges reach them in any order.
struct Flat {
    starts: Vec<usize>, // [agents + 1]
    states: Vec<f64>,   // [n]
    peaks: Vec<f64>,    // [n], the largest entry of D Q D by column; 0 for maps without a Q
    edges: Vec<f64>,    // [edges]
    cost: f64,
}

/// The size of costs before they are multiplied by c.
#[derive(Clone, Copy, Default)]
struct Costs {
    /// Of the largest entries of D Q D by column and of the weights of soft edges.
    sum: f64,
    count: f64,
    /// The largest |D q|.
    linear: f64,
    /// The largest change of a factor.
    change: f64,
}

impl Costs {
    fn add(&mut self, soft: [f64; 2]) {
        self.sum += soft[0];
        self.count += soft[1];
    }

    /// The mean of the largest entries of c D Q D by column, or the largest |c D q|.
    fn slope(&self, cost: f64) -> f64 {
        let size = cost * (self.sum / self.count.max(1.0)).max(self.linear);
        if size > 0.0 && size.is_finite() { size } else { 1.0 }
    }
}

/// Largest numbers that several threads write to: the order does not matter. Numbers at or above 0 are ordered as their bits are.
struct Largest(Vec<AtomicU64>);

impl Largest {
    fn raise(&self, k: usize, value: f64) {
        // Reading is cheaper than raising, and mostly nothing has to be raised. NaN raises nothing.
        if value > self.get(k) {
            self.0[k].fetch_max(value.to_bits(), Ordering::Relaxed);
        }
    }

    fn get(&self, k: usize) -> f64 {
        f64::from_bits(self.0[k].load(Ordering::Relaxed))
    }
}

impl Flat {
    fn new(net: &Network) -> Self {
        let mut starts = vec![0];
        net.agents.iter().for_each(|a| starts.push(starts[starts.len() - 1] + a.map.dim()));
        let n = starts[net.agents.len()];
        let edges = vec![1.0; net.edges.len()];
        Self { starts, states: vec![1.0; n], peaks: vec![0.0; n], edges, cost: 1.0 }
    }

    /// The largest entry of every column of c D Q D.
    fn columns(&self) -> Largest {
        let size = |peak: &f64| (self.cost * peak).max(0.0);
        Largest(self.peaks.iter().map(|peak| AtomicU64::new(size(peak).to_bits())).collect())
    }

    /// Raises the columns to the largest entries of E F D and divides every edge by the root of its own. Returns the largest
    /// change, and sum and count of the weights of soft edges.
    fn edges(&mut self, net: &Network, columns: &Largest) -> (f64, [f64; 2]) {
        let Self { starts, states, edges, .. } = self;
        let count = net.edges.len();
        let one = |run: usize, factors: Items<'_, f64>| {
            let mut found = [0.0f64; 3];
            for (edge, factor) in net.edges[chunks::items(run, count)].iter().zip(factors.0) {
                let (e, mut row) = (*factor, 0.0f64);
                for (agent, map) in &edge.ends {
                    let start = starts[agent.0];
                    map.each(|_, j, v| {
                        let entry = (e * v * states[start + j]).abs();
                        row = row.max(entry);
                        columns.raise(start + j, entry);
                    });
                }
                *factor = bounded(e / root(row));
                found[0] = found[0].max((*factor / e - 1.0).abs());
                add_soft(edge.coupling, *factor, &mut found[1..]);
            }
            Ok(found)
        };
        let join = |total: &mut [f64; 3], own: [f64; 3]| {
            *total = [total[0].max(own[0]), total[1] + own[1], total[2] + own[2]];
        };
        let found = chunks::fold(chunks::item_runs(count), Items(edges), one, join);
        found.map_or((0.0, [0.0; 2]), |[change, sum, count]| (change, [sum, count]))
    }

    /// Sum and count of the weights of soft edges.
    fn soft(&self, net: &Network) -> [f64; 2] {
        let mut found = [0.0; 2];
        net.edges.iter().zip(&self.edges).for_each(|(edge, e)| add_soft(edge.coupling, *e, &mut found));
        found
    }

    /// Divides every coordinate by the root of its column, if columns are given, and measures the costs with the new factors.
    fn costs(&mut self, net: &Network, columns: Option<&Largest>) -> Costs {
        let Self { starts, states, peaks, .. } = self;
        let (agents, starts) = (net.agents.len(), &starts[..]);
        let parts = (Cut::by_agent(states, starts), Cut::by_agent(peaks, starts));
        let one = |chunk: usize, (states, peaks): (Cut<'_, f64>, Cut<'_, f64>)| {
            let mut found = Costs::default();
            let own = chunks::agents(chunk, agents);
            let first = starts[own.start];
            for agent in own {
                let range = starts[agent] - first..starts[agent + 1] - first;
                let (s, peaks) = (&mut states.data[range.clone()], &mut peaks.data[range]);
                let f = net.agents[agent].map.as_quadratic();
                if let Some(columns) = columns {
                    let at = |j: usize| columns.get(starts[agent] + j);
                    let all = (0..s.len()).fold(0.0f64, |m, j| m.max(at(j)));
                    for (j, s) in s.iter_mut().enumerate() {
                        let before = *s;
                        *s = bounded(before / root(if f.is_some() { at(j) } else { all }));
                        found.change = found.change.max((*s / before - 1.0).abs());
                    }
                }
                let Some(f) = f else { continue };
                peaks.fill(0.0);
                curvature(f, |i, j, v| peaks[j] = peaks[j].max((s[i] * v * s[j]).abs()));
                found.sum += peaks.iter().sum::<f64>();
                found.count += peaks.len() as f64;
                found.linear = f.q.iter().zip(&*s).fold(found.linear, |m, (q, s)| m.max((q * s).abs()));
            }
            Ok([found.sum, found.count, found.linear, found.change])
        };
        let join = |total: &mut [f64; 4], own: [f64; 4]| {
            *total = [total[0] + own[0], total[1] + own[1], total[2].max(own[2]), total[3].max(own[3])];
        };
        let found = chunks::fold(chunks::count(agents), parts, one, join);
        found.map_or(Costs::default(), |[sum, count, linear, change]| Costs { sum, count, linear, change })
    }
}

/// Adds the scaled weight of a soft edge to a sum, and 1 to its count.
fn add_soft(coupling: Coupling, e: f64, found: &mut [f64]) {
    if let Coupling::Soft { weight } = coupling {
        found[0] += weight / (e * e);
        found[1] += 1.0;
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
