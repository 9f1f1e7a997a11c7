//! Hard agreement in closed form where every edge compares single numbers, a·z_u[k] − c·z_v[l] = b.
//!
//! Numbers that are joined directly or through others form a component. Within it z_k = s_k t + h_k with one unknown t:
//! the ratios s and the shifts h follow from a spanning tree. The projection is the weighted mean
//!
//! ```text
//! t = Σ R̂ s(w − h) / Σ R̂ s²
//! ```
//!
//! The multipliers flow along the same tree: that of a tree edge carries R̂(w − z) of all that is beyond it, and those of
//! other edges are 0. No matrix is formed; the cost is linear in the number of edges, whatever the graph. Edges around a
//! cycle whose ratios do not multiply to 1 fix t, and are left to the factorisation.

use super::stacks::{End, Stacks, ends};
use crate::chunks;
use crate::clock::Leave;
use crate::sheaf::SheafOp;
use crate::z_update::weights::Weights;
use crate::{Error, ErrorKind, Real, Result};

/// A row of an edge: `a` times number `u` of the whole state minus `c` times number `v`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Link {
    u: u32,
    v: u32,
    a: f64,
    c: f64,
}

/// An edge of the spanning forest, from a parent to a child.
#[derive(Clone, Copy, Debug)]
struct Branch {
    parent: u32,
    child: u32,
    /// The row of the edge vector.
    row: u32,
}

/// The components of the numbers of all agents.
#[derive(Debug)]
pub(super) struct Components {
    ends: Vec<[End; 2]>,
    links: Vec<Option<Link>>, // [edge_len]; none for a row of zeros
    of: Vec<u32>,             // [states], the component of every number
    ratios: Vec<f64>,         // [states], s
    branches: Vec<Branch>,    // parents before children
}

impl Components {
    /// `None` if an edge compares anything but single numbers, or the ratios around a cycle do not multiply to 1.
    pub(super) fn of_maps<T: Real>(op: &SheafOp<'_, T>, stacks: &Stacks<'_, T>) -> Option<Self> {
        let (ends, edges) = (ends(op.sheaf()), op.sheaf().edges());
        let found = chunks::collect(chunks::item_runs(edges.len()), |run| {
            let own = chunks::items(run, edges.len());
            let each = ends[own.clone()].iter().zip(&edges[own]);
            let rows = each.flat_map(|(pair, edge)| (0..edge.dim as usize).map(move |r| (pair, edge.dim, r)));
            rows.map(|(pair, dim, r)| link(stacks, *pair, dim as usize, r)).collect::<Option<Vec<_>>>()
        });
        let mut links = Vec::with_capacity(op.sheaf().edge_len());
        for own in found {
            links.extend(own?);
        }
        let (of, branches) = forest(op.sheaf().state_len(), &links);
        let mut ratios = vec![1.0; of.len()];
        for Branch { parent, child, row } in branches.iter().copied() {
            let link = links[row as usize]?;
            let step = if link.u == child { link.c / link.a } else { link.a / link.c };
            ratios[child as usize] = ratios[parent as usize] * step;
        }
        let close = T::EPSILON.to_f64().powf(0.75);
        let consistent = |l: &Link| {
            let (u, v) = (l.a * ratios[l.u as usize], l.c * ratios[l.v as usize]);
            (u - v).abs() <= close * u.abs().max(v.abs()) && u != 0.0 && (u + v).is_finite()
        };
        links.iter().flatten().all(consistent).then_some(Self { ends, links, of, ratios, branches })
    }

    /// Checks that the maps are still those the components were found from.
    fn check<T: Real>(&self, op: &SheafOp<'_, T>, stacks: &Stacks<'_, T>) -> Result<()> {
        let edges = op.sheaf().edges();
        let changed = |e: &usize| {
            let edge = edges[*e];
            (0..edge.dim as usize).any(|r| {
                let now = link(stacks, self.ends[*e], edge.dim as usize, r);
                now != Some(self.links[edge.start as usize + r])
            })
        };
        let leave = Leave::new();
        let found: Result<[T; 0]> = chunks::sums(chunks::item_runs(edges.len()), (), |run, ()| {
            if leave.now() {
                return Ok([]);
            }
            match chunks::items(run, edges.len()).find(changed) {
                None => Ok([]),
                Some(e) => {
                    let place = format!("exact solver, maps of edge {e}");
                    let expected = "the maps it was made for";
                    Err(Error::new(ErrorKind::Unsupported, place, expected, "others")
                        .hint("make it anew with Exact::for_maps, or with Exact::new for any maps"))
                }
            }
        });
        found.map(|_| ())
    }

    /// Finds the shifts of all numbers; offsets that contradict each other around a cycle are an error.
    pub(super) fn prepare<T: Real>(
        &self,
        op: &SheafOp<'_, T>,
        stacks: &Stacks<'_, T>,
        shift: &mut [T], // [states]
    ) -> Result<()> {
        self.check(op, stacks)?;
        self.shift(op, shift)
    }

    /// The shifts alone, for maps that are known to be the same.
    pub(super) fn shift<T: Real>(&self, op: &SheafOp<'_, T>, shift: &mut [T]) -> Result<()> {
        shift.fill(T::ZERO);
        // Without offsets there is nothing to follow along the tree.
        let given = op.raw().offsets().filter(|b| b.iter().any(|&b| b != T::ZERO));
        let Some(b) = given else { return Ok(()) };
        for Branch { parent, child, row } in self.branches.iter().copied() {
            let Some(link) = self.links[row as usize] else { continue };
            let (a, c, b, h) =
                (T::from_f64(link.a), T::from_f64(link.c), b[row as usize], shift[parent as usize]);
            shift[child as usize] = if link.u == child { (b + c * h) / a } else { (a * h - b) / c };
        }
        let size = shift.iter().fold(T::ONE, |m, s| m.max(s.abs()));
        for (row, link) in self.links.iter().enumerate() {
            let (gap, size) = match link {
                Some(l) => {
                    let (a, c) = (T::from_f64(l.a), T::from_f64(l.c));
                    (a * shift[l.u as usize] - c * shift[l.v as usize] - b[row], a.abs().max(c.abs()) * size)
                }
                None => (-b[row], size),
            };
            if gap.abs() > T::EPSILON.sqrt() * size.max(b[row].abs()) || !gap.is_finite() {
                let e = op.sheaf().edges().partition_point(|edge| edge.start as usize <= row) - 1;
                let place = format!("offset of edge {e}");
                let expected = "offsets that add up to 0 around every cycle of hard edges";
                return Err(Error::new(
                    ErrorKind::Infeasible,
                    place,
                    expected,
                    format_args!("a gap of {gap:e}"),
                )
                .hint("make one of the edges soft, or mend its offset"));
            }
        }
        Ok(())
    }

    /// The weighted projection of w onto F z = b, or F z = 0 without `shift`.
    pub(super) fn project<T: Real>(
        &self,
        op: &SheafOp<'_, T>,
        weights: &Weights<'_, T>,
        shift: Option<&[T]>,
        w: &[T],
        z: &mut [T],
        sums: &mut [T], // [3, states]
    ) {
        let (num, rest) = sums.split_at_mut(w.len());
        let (den, low) = rest.split_at_mut(w.len());
        num.fill(T::ZERO);
        den.fill(T::ZERO);
        low.fill(T::ZERO);
        let own = |k: usize| shift.map_or(T::ZERO, |shift| shift[k]);
        let ranges = || op.sheaf().state_offsets().windows(2).enumerate();
        for (i, range) in ranges() {
            let r = T::ONE / weights.of(i);
            for k in range[0]..range[1] {
                // A component may have a million numbers: the rounding errors of its sum are summed as well (Kahan).
                let (c, s) = (self.of[k] as usize, T::from_f64(self.ratios[k]));
                let term = r * s * (w[k] - own(k)) - low[c];
                let sum = num[c] + term;
                low[c] = (sum - num[c]) - term;
                num[c] = sum;
                den[c] += r * s * s;
            }
        }
        for k in 0..w.len() {
            let c = self.of[k] as usize;
            z[k] = T::from_f64(self.ratios[k]) * (num[c] / den[c]) + own(k);
        }
    }

    /// Multipliers x with Fᵀx = `flow`, which must be in the range of Fᵀ; leaves flow − Fᵀx, which is 0 but at the roots.
    pub(super) fn multipliers<T: Real>(
        &self,
        x: &mut [T],    // [edge_len]
        flow: &mut [T], // [states]
    ) {
        x.fill(T::ZERO);
        for Branch { parent, child, row } in self.branches.iter().rev().copied() {
            let Some(link) = self.links[row as usize] else { continue };
            let through = std::mem::replace(&mut flow[child as usize], T::ZERO);
            let (a, c) = (T::from_f64(link.a), T::from_f64(link.c));
            if link.u == child {
                x[row as usize] = through / a;
                flow[parent as usize] += through * (c / a);
            } else {
                x[row as usize] = -through / c;
                flow[parent as usize] += through * (a / c);
            }
        }
    }
}

/// The numbers that row `r` of an edge compares; `Some(None)` for a row of zeros, `None` if it is not of this kind.
fn link<T: Real>(stacks: &Stacks<'_, T>, pair: [End; 2], dim: usize, r: usize) -> Option<Option<Link>> {
    let only = |end: End| {
        let mut found = None;
        for j in 0..stacks.stalk(end) {
            let value = stacks.column(end, j, dim)[r];
            if value != T::ZERO {
                if found.is_some() {
                    return None;
                }
                found = Some((stacks.start(end) + j, value.to_f64()));
            }
        }
        Some(found)
    };
    match (only(pair[0])?, only(pair[1])?) {
        (None, None) => Some(None),
        (Some((u, a)), Some((v, c))) if a == c && u == v => Some(None),
        (Some((u, a)), Some((v, c))) if u != v => Some(Some(Link { u: u as u32, v: v as u32, a, c })),
        _ => None,
    }
}

/// Components and a spanning forest, breadth first.
fn forest(n: usize, links: &[Option<Link>]) -> (Vec<u32>, Vec<Branch>) {
    let mut start = vec![0u32; n + 1];
    for link in links.iter().flatten() {
        start[link.u as usize + 1] += 1;
        start[link.v as usize + 1] += 1;
    }
    (0..n).for_each(|k| start[k + 1] += start[k]);
    let mut next = start.clone();
    let mut rows = vec![0u32; start[n] as usize];
    for (row, link) in links.iter().enumerate() {
        for k in link.iter().flat_map(|l| [l.u, l.v]) {
            rows[next[k as usize] as usize] = row as u32;
            next[k as usize] += 1;
        }
    }
    let (mut of, mut branches) = (vec![u32::MAX; n], Vec::new());
    let (mut queue, mut count) = (std::collections::VecDeque::new(), 0);
    for root in 0..n {
        if of[root] != u32::MAX {
            continue;
        }
        of[root] = count;
        queue.push_back(root as u32);
        while let Some(parent) = queue.pop_front() {
            for &row in &rows[start[parent as usize] as usize..start[parent as usize + 1] as usize] {
                let Some(link) = links[row as usize] else { continue };
                let child = if link.u == parent { link.v } else { link.u };
                if of[child as usize] == u32::MAX {
                    of[child as usize] = count;
                    branches.push(Branch { parent, child, row });
                    queue.push_back(child);
                }
            }
        }
        count += 1;
    }
    (of, branches)
}
