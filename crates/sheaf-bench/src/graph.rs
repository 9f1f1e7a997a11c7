//! Graphs of agents.

use sheaf_learn::rng::Stream;

/// An undirected graph: every pair once.
pub type Pairs = Vec<(u32, u32)>;

/// Every point joined to its `k` nearest, for points that are uniform in the unit square. The degree is a little above k:
/// nearness is not mutual.
pub fn nearest_in_the_plane(agents: usize, k: usize, seed: u64) -> Pairs {
    let mut rng = Stream::new(seed, "plane", agents as u64, k as u64);
    let points: Vec<[f64; 2]> = (0..agents).map(|_| [rng.uniform(), rng.uniform()]).collect();
    // About two points in a cell.
    let side = ((agents as f64 / 2.0).sqrt() as usize).max(1);
    let cell = |p: &[f64; 2]| p.map(|x| ((x * side as f64) as usize).min(side - 1));
    let mut starts = vec![0usize; side * side + 1];
    let index = |c: [usize; 2]| c[1] * side + c[0];
    points.iter().for_each(|p| starts[index(cell(p)) + 1] += 1);
    (0..side * side).for_each(|c| starts[c + 1] += starts[c]);
    let (mut next, mut order) = (starts.clone(), vec![0u32; agents]);
    for (i, p) in points.iter().enumerate() {
        order[next[index(cell(p))]] = i as u32;
        next[index(cell(p))] += 1;
    }
    let (mut pairs, mut near) = (Vec::with_capacity(agents * (k + 2) / 2), Vec::new());
    for (i, p) in points.iter().enumerate() {
        let [cx, cy] = cell(p);
        let mut ring = 1;
        loop {
            near.clear();
            for y in cy.saturating_sub(ring)..=(cy + ring).min(side - 1) {
                for x in cx.saturating_sub(ring)..=(cx + ring).min(side - 1) {
                    for &j in &order[starts[index([x, y])]..starts[index([x, y]) + 1]] {
                        let q = points[j as usize];
                        let distance = (p[0] - q[0]).powi(2) + (p[1] - q[1]).powi(2);
                        if j as usize != i {
                            near.push((distance, j));
                        }
                    }
                }
            }
            near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            // Whatever is closer than `ring` cells has been seen.
            let safe = (ring as f64 / side as f64).powi(2);
            if near.len() >= k && near[k - 1].0 <= safe || ring >= side {
                break;
            }
            ring += 1;
        }
        pairs.extend(near.iter().take(k).map(|&(_, j)| ((i as u32).min(j), (i as u32).max(j))));
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// The union of `degree`/2 random rings through all agents: regular but for the few edges that two rings share.
pub fn regular(agents: usize, degree: usize, seed: u64) -> Pairs {
    let mut pairs = Vec::with_capacity(agents * degree / 2);
    for ring in 0..degree / 2 {
        let mut rng = Stream::new(seed, "ring", agents as u64, ring as u64);
        let mut order: Vec<u32> = (0..agents as u32).collect();
        (1..agents).rev().for_each(|i| order.swap(i, rng.below(i + 1)));
        for i in 0..agents {
            let (a, b) = (order[i], order[(i + 1) % agents]);
            if a != b {
                pairs.push((a.min(b), a.max(b)));
            }
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_the_plane_are_the_nearest() {
        let (agents, k) = (300, 8);
        let pairs = nearest_in_the_plane(agents, k, 1);
        let mut rng = Stream::new(1, "plane", agents as u64, k as u64);
        let points: Vec<[f64; 2]> = (0..agents).map(|_| [rng.uniform(), rng.uniform()]).collect();
        for i in 0..agents {
            let far =
                |j: usize| (points[i][0] - points[j][0]).powi(2) + (points[i][1] - points[j][1]).powi(2);
            let mut all: Vec<usize> = (0..agents).filter(|&j| j != i).collect();
            all.sort_by(|&a, &b| far(a).total_cmp(&far(b)));
            for &j in &all[..k] {
                assert!(pairs.binary_search(&((i.min(j)) as u32, (i.max(j)) as u32)).is_ok());
            }
        }
        let degree = 2.0 * pairs.len() as f64 / agents as f64;
        assert!((8.0..12.0).contains(&degree), "{degree}");
    }

    #[test]
    fn rings_make_a_graph_of_nearly_equal_degrees() {
        let pairs = regular(1000, 10, 3);
        assert!(pairs.len() <= 5000 && pairs.len() > 4950);
    }
}
