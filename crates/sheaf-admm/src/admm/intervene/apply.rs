//! Actions on states, applied at their point of an iteration.

use super::{Action, Intervention, Part, Values, Variable, normal};
use crate::Real;
use crate::admm::{Actor, Before, States};

/// Applies the actions on states of a list, and holds what is pinned.
#[derive(Debug)]
pub struct Acting<'a, T> {
    actions: Vec<&'a Intervention>, // by point
    offsets: &'a [usize],
    unit: &'a [T], // [states], or [] if states have the units of the actions
    /// Iterations before the current part of the solve.
    pub first: usize,
    next: usize,
    pins: Vec<Pinned<T>>,
    /// z and u of the removed agents.
    held: Vec<Held<T>>,
}

#[derive(Debug)]
struct Pinned<T> {
    of: Variable,
    places: Vec<usize>,
    values: Vec<T>,
    until: Option<usize>,
}

/// z and u of an agent that was removed.
#[derive(Clone, Debug)]
pub struct Held<T> {
    /// The agent.
    pub agent: usize,
    /// Its z.
    pub z: Vec<T>,
    /// Its u.
    pub u: Vec<T>,
}

impl<'a, T: Real> Acting<'a, T> {
    /// The actions on states among `list`, which has been checked for agents with these offsets.
    pub fn new(list: &'a [Intervention], offsets: &'a [usize]) -> Self {
        let mut actions: Vec<&Intervention> = list.iter().filter(|one| one.action.changes_states()).collect();
        actions.sort_by_key(|one| (one.k, one.point()));
        Self { actions, offsets, unit: &[], first: 0, next: 0, pins: Vec::new(), held: Vec::new() }
    }

    /// The same for states in other units than those of the actions: a value is unit times its state.
    pub(crate) fn in_units(self, unit: &'a [T]) -> Self {
        Self { unit, ..self }
    }

    fn unit(&self, place: usize) -> T {
        self.unit.get(place).copied().unwrap_or(T::ONE)
    }

    /// Acts at a point of iteration `k`, from 1; returns whether a state changed.
    pub fn act_at(&mut self, k: usize, before: Before, mut states: States<'_, T>) -> bool {
        self.pins.retain(|pin| pin.until.is_none_or(|until| k < until));
        let mut changed = false;
        while let Some(one) = self.actions.get(self.next).filter(|one| (one.k, one.point()) <= (k, before)) {
            self.next += 1;
            self.perform(one, &mut states);
            changed = true;
        }
        for pin in &self.pins {
            let values = of(&mut states, pin.of);
            pin.places.iter().zip(&pin.values).for_each(|(&place, &value)| values[place] = value);
            changed = true;
        }
        for held in &self.held {
            let own = self.offsets[held.agent]..self.offsets[held.agent + 1];
            states.z[own.clone()].copy_from_slice(&held.z);
            // Message passing has one state.
            if !states.x.is_empty() {
                states.x[own.clone()].copy_from_slice(&held.z);
                states.u[own].copy_from_slice(&held.u);
            }
            changed = true;
        }
        changed
    }

    /// Holds the agents that are removed in this part from now on, at the states that `held` gives, and no others.
    pub fn hold(&mut self, part: &Part, held: impl Fn(usize) -> Held<T>) {
        self.held.retain(|held| part.removed[held.agent]);
        for agent in (0..part.removed.len()).filter(|&i| part.removed[i]) {
            if self.held.iter().all(|held| held.agent != agent) {
                self.held.push(held(agent));
            }
        }
    }

    fn perform(&mut self, one: &Intervention, states: &mut States<'_, T>) {
        let Some((variable, agents, coordinates)) = one.action.target() else { return };
        let agents = agents.numbers(self.offsets.len() - 1);
        let mut places = Vec::new(); // (agent, coordinate, place)
        for &i in &agents {
            let start = self.offsets[i];
            let width = self.offsets[i + 1] - start;
            match coordinates {
                Some(some) => places.extend(some.iter().map(|&c| (i, c, start + c))),
                None => places.extend((0..width).map(|c| (i, c, start + c))),
            }
        }
        let values = of(states, variable);
        match &one.action {
            Action::Set { to, .. } => self.write(values, &places, to),
            Action::Noise { deviation, seed, .. } => {
                for &(i, c, place) in &places {
                    values[place] += T::from_f64(deviation * normal(*seed, one.k, i, c)) / self.unit(place);
                }
            }
            Action::Scale { by, .. } => {
                places.iter().for_each(|&(_, _, place)| values[place] *= T::from_f64(*by));
            }
            Action::Pin { to, until, .. } => {
                if let Some(to) = to {
                    self.write(values, &places, to);
                }
                let places: Vec<usize> = places.iter().map(|&(_, _, place)| place).collect();
                let values = places.iter().map(|&place| values[place]).collect();
                self.pins.push(Pinned { of: variable, places, values, until: *until });
            }
            _ => {}
        }
    }

    fn write(&self, values: &mut [T], places: &[(usize, usize, usize)], to: &Values) {
        for (n, &(_, _, place)) in places.iter().enumerate() {
            let value = match to {
                Values::One(value) => *value,
                // One per coordinate repeats for every agent.
                Values::Each(all) => all[n % all.len().max(1)],
            };
            values[place] = T::from_f64(value) / self.unit(place);
        }
    }
}

fn of<'s, T>(states: &'s mut States<'_, T>, variable: Variable) -> &'s mut [T] {
    match variable {
        Variable::X => states.x,
        Variable::Z | Variable::H => states.z,
        Variable::U => states.u,
    }
}

impl<T: Real> Actor<T> for Acting<'_, T> {
    fn act(&mut self, k: usize, before: Before, states: States<'_, T>) -> bool {
        self.act_at(self.first + k + 1, before, states)
    }
}
