//! Objectives given by [`Proximal`] maps, one per agent: sizes, scratch and calls.

use std::sync::Arc;

use super::Objective;
use super::agents::Agents;
use super::domain::Extent;
use super::penalty::Penalty;
use super::proximal::{ProxGrad, Proximal};
use crate::chunks::{self, Cut, Parts};
use crate::clock::Leave;
use crate::error::check_len;
use crate::{Error, ErrorKind, Real, Result};

/// One map per agent.
pub(super) type Maps<T> = [Arc<dyn Proximal<T>>];

pub(super) fn check_sizes<T: Real>(maps: &Maps<T>, agents: Agents<'_>) -> Result<()> {
    if maps.len() != agents.count() {
        return Err(Error::new(
            ErrorKind::Shape,
            "proximal maps",
            format_args!("{}, one per agent", agents.count()),
            maps.len(),
        ));
    }
    match agents.dims().zip(maps).position(|(d, map)| d != map.dim()) {
        None => Ok(()),
        Some(i) => {
            let place = format!("proximal map of agent {}", agents.name(i));
            let expected = format!("dimension {}, the stalk of the agent", agents.dim(i));
            Err(Error::new(ErrorKind::Shape, place, expected, maps[i].dim()))
        }
    }
}

pub(super) fn validate<T: Real>(maps: &Maps<T>, agents: Agents<'_>) -> Result<()> {
    maps.iter().enumerate().try_for_each(|(i, map)| map.validate().map_err(|e| of_agent(e, agents.name(i))))
}

pub(super) fn scratch_len<T: Real>(maps: &Maps<T>) -> usize {
    maps.iter().fold(0, |sum: usize, map| sum.saturating_add(map.scratch_len()))
}

pub(super) fn prepare<T: Real>(
    maps: &Maps<T>,
    agents: Agents<'_>,
    rho: &Penalty<'_, T>,
    scratch: &mut [T],
) -> Result<()> {
    let (parts, leave) = ((MapScratch { maps, scratch }, ()), Leave::new());
    of_chunks(maps.len(), parts, |first, (own, ())| {
        if leave.now() {
            return Ok(());
        }
        each(own.maps, first, agents, own.scratch, |map, i, own| map.prepare(rho.of(i), own))
    })
}

pub(super) fn prox<T: Real>(
    maps: &Maps<T>,
    agents: Agents<'_>,
    rho: &Penalty<'_, T>,
    v: &[T],
    x: &mut [T],
    scratch: &mut [T],
) -> Result<()> {
    let parts = (MapScratch { maps, scratch }, Cut::by_agent(x, agents.offsets()));
    of_chunks(maps.len(), parts, |first, (own, x)| {
        let start = agents.range(first).start;
        each(own.maps, first, agents, own.scratch, |map, i, own| {
            let at = agents.range(i);
            map.prox(rho.of(i), &v[at.clone()], &mut x.data[at.start - start..at.end - start], own)
        })
    })
}

/// v = z − u, x = prox(v), w = relax·x + (1 − relax)·z + u, agent by agent.
pub(super) fn prox_fused<T: Real>(
    maps: &Maps<T>,
    agents: Agents<'_>,
    rho: &Penalty<'_, T>,
    z: &[T],
    u: &[T],
    relax: T,
    v: &mut [T],
    x: &mut [T],
    w: &mut [T],
    scratch: &mut [T],
) -> Result<()> {
    let cut = |data| Cut::by_agent(data, agents.offsets());
    let (parts, off) = ((MapScratch { maps, scratch }, cut(v), cut(x), cut(w)), T::ONE - relax);
    of_chunks(maps.len(), parts, |first, (own, v, x, w)| {
        let start = agents.range(first).start;
        each(own.maps, first, agents, own.scratch, |map, i, own| {
            let (all, at) = (agents.range(i), agents.range(i).start - start..agents.range(i).end - start);
            let (z, u) = (&z[all.clone()], &u[all]);
            let (v, x, w) = (&mut v.data[at.clone()], &mut x.data[at.clone()], &mut w.data[at]);
            (0..z.len()).for_each(|k| v[k] = z[k] - u[k]);
            map.prox(rho.of(i), v, x, own)?;
            (0..z.len()).for_each(|k| w[k] = (relax * x[k] + off * z[k]) + u[k]);
            Ok(())
        })
    })
}

/// Maps with their scratch, one after another.
struct MapScratch<'a, T> {
    maps: &'a Maps<T>,
    scratch: &'a mut [T],
}

impl<T: Real> Parts for MapScratch<'_, T> {
    fn cut(self) -> (Self, Self) {
        let (own, rest) = self.maps.split_at(chunks::AGENTS.min(self.maps.len()));
        let (scratch, after) = self.scratch.split_at_mut(scratch_len(own));
        (Self { maps: own, scratch }, Self { maps: rest, scratch: after })
    }
}

/// Calls `f(first agent, part)` for every chunk.
fn of_chunks<P: Parts>(agents: usize, parts: P, f: impl Fn(usize, P) -> Result<()> + Sync) -> Result<()> {
    // A rank may own no agents.
    if agents == 0 {
        return Ok(());
    }
    let made: Result<[f64; 0]> = chunks::sums(chunks::count(agents), parts, |chunk, part| {
        f(chunks::agents(chunk, agents).start, part)?;
        Ok([])
    });
    made.map(|_| ())
}

pub(super) fn vjp<T: Real>(
    maps: &Maps<T>,
    agents: Agents<'_>,
    rho: &Penalty<'_, T>,
    v: &[T],
    x: &[T],
    d_x: &[T],
    d_v: &mut [T],
    d_rho: &mut [T],
    mut d_params: &mut [T],
    scratch: &mut [T],
) -> Result<()> {
    let wanted = !d_params.is_empty();
    if wanted {
        check_len("gradient of proximal maps", maps.iter().map(|map| map.param_len()).sum(), d_params.len())?;
    }
    each(maps, 0, agents, scratch, |map, i, own| {
        let (at, slot) = (agents.range(i), rho.grad_index(i));
        let count = if wanted { map.param_len() } else { 0 };
        let (params, rest) = std::mem::take(&mut d_params).split_at_mut(count);
        d_params = rest;
        let mut grad = ProxGrad { v: &mut d_v[at.clone()], rho: &mut d_rho[slot], params };
        map.vjp(rho.of(i), &v[at.clone()], &x[at.clone()], &d_x[at], &mut grad, own)
    })
}

/// The sum of all values, an error for a map without one.
pub(super) fn value<T: Real>(maps: &Maps<T>, agents: Agents<'_>, x: &[T]) -> Result<T> {
    let mut sum = T::ZERO;
    for (i, map) in maps.iter().enumerate() {
        sum += map.value(&x[agents.range(i)]).ok_or_else(|| {
            let place = format!("value of the proximal map of agent {}", agents.name(i));
            Error::new(ErrorKind::Unsupported, place, "Proximal::value", "no such method")
        })?;
    }
    Ok(sum)
}

/// The sum of an extent over all maps; the direction 0 is 0 for every map.
pub(super) fn extent<T: Real>(
    maps: &Maps<T>,
    agents: Agents<'_>,
    d: &[T],
    zero: T,
    of: impl Fn(&dyn Proximal<T>, &[T]) -> Option<(T, T)>,
) -> Extent<T> {
    let mut sum = Extent::ZERO;
    for (i, map) in maps.iter().enumerate() {
        let d = &d[agents.range(i)];
        sum = match of(map.as_ref(), d) {
            Some((value, size)) if value.is_finite() => sum.and(Extent::Finite { value, size }),
            Some(_) => Extent::Infinite,
            None if d.iter().all(|d| d.abs() <= zero) => sum,
            None => sum.and(Extent::Unknown),
        };
        if sum == Extent::Infinite {
            break;
        }
    }
    sum
}

/// Calls `call` with every map, its agent (from `first` on) and its own part of the scratch; an error names the agent.
fn each<T: Real>(
    maps: &Maps<T>,
    first: usize,
    agents: Agents<'_>,
    mut scratch: &mut [T],
    mut call: impl FnMut(&dyn Proximal<T>, usize, &mut [T]) -> Result<()>,
) -> Result<()> {
    for (i, map) in maps.iter().enumerate() {
        let (own, rest) = scratch.split_at_mut(map.scratch_len());
        call(map.as_ref(), first + i, own).map_err(|e| of_agent(e, agents.name(first + i)))?;
        scratch = rest;
    }
    Ok(())
}

fn of_agent(error: Error, agent: usize) -> Error {
    let named =
        Error::new(error.kind(), format!("agent {agent}: {}", error.place()), error.expected(), error.got());
    error.hint_text().map_or(named.clone(), |hint| named.hint(hint))
}

impl<T: Real> Objective<'_, T> {
    /// f(x), summed over agents. Constraints are not counted: it is the value of a feasible point. A proximal map that
    /// knows no value is an error.
    pub fn value(&self, offsets: &[usize], x: &[T]) -> Result<T> {
        let agents = Agents::new(offsets)?;
        self.check_sizes(agents)?;
        check_len("x-update: x", agents.width(), x.len())?;
        self.value_at(agents, x)
    }

    fn value_at(&self, agents: Agents<'_>, x: &[T]) -> Result<T> {
        Ok(match self {
            Self::Diagonal(f) => f.value(agents, x),
            Self::Tether(f) => f.value(x),
            Self::Dense(f) => f.value(agents, x),
            Self::Equality(f) => f.value(agents, x),
            Self::Qp(f) => f.value(agents, x),
            Self::Own(maps) => return value(maps, agents, x),
            Self::Mixed(each) => {
                let mut sum = T::ZERO;
                for (i, f) in each.iter().enumerate() {
                    sum += f.value_at(agents.only(i), &x[agents.range(i)])?;
                }
                sum
            }
        })
    }
}
