//! Reverse Cuthill–McKee: number the vertices of a graph so that neighbours have close numbers.
//!
//! A factorisation that fills the space between a row's first entry and the diagonal then has little fill-in.

/// The vertices in their new order, each once. `neighbours[v]` lists the vertices next to v, in any order, with
/// repetitions allowed, with or without v itself.
pub fn reverse_cuthill_mckee(neighbours: &[Vec<usize>]) -> Vec<usize> {
    let mut order = Vec::with_capacity(neighbours.len());
    let mut seen = vec![false; neighbours.len()];
    for v in 0..neighbours.len() {
        if !seen[v] {
            let start = rim(neighbours, v);
            walk(neighbours, start, &mut seen, &mut order);
        }
    }
    order.reverse();
    order
}

/// Appends the component of `start` breadth first, neighbours by growing degree. Returns where the last level begins
/// in `order`, and how many levels there are.
fn walk(
    neighbours: &[Vec<usize>],
    start: usize,
    seen: &mut [bool],
    order: &mut Vec<usize>,
) -> (usize, usize) {
    let mut level = order.len();
    let mut levels = 0;
    seen[start] = true;
    order.push(start);
    loop {
        let end = order.len();
        for k in level..end {
            let first = order.len();
            for &next in &neighbours[order[k]] {
                if !seen[next] {
                    seen[next] = true;
                    order.push(next);
                }
            }
            order[first..].sort_by_key(|&v| neighbours[v].len());
        }
        levels += 1;
        if order.len() == end {
            return (level, levels);
        }
        level = end;
    }
}

/// A vertex at the rim of the component of `v`: walks to a farthest vertex until the distance stops growing.
fn rim(neighbours: &[Vec<usize>], v: usize) -> usize {
    let (mut best, mut most) = (v, 0);
    loop {
        let mut order = Vec::new();
        let (last, levels) = walk(neighbours, best, &mut vec![false; neighbours.len()], &mut order);
        if levels <= most {
            return best;
        }
        most = levels;
        best = *order[last..].iter().min_by_key(|&&v| neighbours[v].len()).expect("a level has vertices");
    }
}

#[cfg(test)]
mod tests {
    use super::reverse_cuthill_mckee;

    fn bandwidth(neighbours: &[Vec<usize>], order: &[usize]) -> usize {
        let mut place = vec![usize::MAX; order.len()];
        order.iter().enumerate().for_each(|(k, &v)| place[v] = k);
        (0..order.len())
            .flat_map(|v| neighbours[v].iter().map(|&n| place[v].abs_diff(place[n])).collect::<Vec<_>>())
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn a_shuffled_path_gets_its_order_back() {
        let names = [4, 0, 6, 2, 5, 1, 3];
        let mut neighbours = vec![Vec::new(); 7];
        for pair in names.windows(2) {
            neighbours[pair[0]].push(pair[1]);
            neighbours[pair[1]].push(pair[0]);
        }
        assert_eq!(bandwidth(&neighbours, &reverse_cuthill_mckee(&neighbours)), 1);
    }

    #[test]
    fn every_vertex_appears_once_also_in_pieces_and_alone() {
        let neighbours = vec![vec![2, 2, 0], vec![], vec![0], vec![4], vec![3]];
        let mut order = reverse_cuthill_mckee(&neighbours);
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3, 4]);
    }
}
