//! Checks of interventions against what they are for.

use super::{Action, Agents, Before, Checked, Intervention, Interventions, Values, Variable};
use crate::error::{check_len, check_positive};
use crate::{Error, ErrorKind};

/// How the agents coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ADMM: x, z and u.
    Admm,
    /// Message passing: one state h.
    Messages,
}

/// What interventions must fit.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// How the agents coordinate.
    pub kind: Kind,
    /// Where each agent's state starts, and the length of all.
    pub offsets: &'a [usize], // [agents + 1]
    /// The two agents of every edge.
    pub edges: &'a [(usize, usize)], // [edges]
    /// Iterations.
    pub iterations: usize,
    /// Inputs, that of the start included.
    pub inputs: usize,
}

impl Shape<'_> {
    fn agents(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }
}

impl Interventions {
    /// Returns the first mistake.
    pub fn check(&self, shape: &Shape<'_>) -> Checked {
        if let Some(start) = &self.start {
            let states = shape.offsets.last().copied().unwrap_or(0);
            for (name, values) in [("z", &start.z), ("u", &start.u)] {
                let place = format!("start.{name}");
                if !values.is_empty() {
                    check_len(&place, states, values.len())?;
                }
                all_finite(&place, values)?;
            }
            if shape.kind == Kind::Messages && !start.u.is_empty() {
                return Err(Error::new(ErrorKind::Unsupported, "start.u", "only z for message passing", "u"));
            }
        }
        for (i, one) in self.list.iter().enumerate() {
            one.check(&format!("interventions[{i}]"), shape)?;
        }
        Ok(())
    }
}

impl Intervention {
    fn check(&self, place: &str, shape: &Shape<'_>) -> Checked {
        if self.k == 0 || self.k > shape.iterations {
            let expected = format!("an iteration from 1 to {}", shape.iterations);
            return Err(Error::new(ErrorKind::OutOfRange, format!("{place}.k"), expected, self.k)
                .hint("raise the number of iterations, or act earlier"));
        }
        let within = format!("{place}.do.{}", self.action.name());
        match self.action.target() {
            Some((of, agents, coordinates)) => {
                self.check_point(place, of)?;
                check_variable(&within, shape.kind, of)?;
                let numbers = check_agents(&format!("{within}.agents"), agents, shape)?;
                check_coordinates(&within, &numbers, coordinates, shape)?;
                self.check_values(&within, &numbers, coordinates, shape)
            }
            None => {
                if self.point() != Before::X {
                    let expected = "\"x\": the problem changes between iterations";
                    let got = format!("{:?}", self.point()).to_lowercase();
                    return Err(Error::new(ErrorKind::Unsupported, format!("{place}.before"), expected, got)
                        .hint("leave `before` out"));
                }
                self.check_problem(&within, shape)
            }
        }
    }

    /// A state that is overwritten before anything reads it is a mistake.
    fn check_point(&self, place: &str, of: Variable) -> Checked {
        let lost = match (of, self.point()) {
            (Variable::X, Before::X) => Some("the x-update writes x next: act before \"z\""),
            (Variable::H, Before::Z | Before::U) => {
                Some("a round of messages has no inner points: \"x\" or \"end\"")
            }
            _ => None,
        };
        match lost {
            Some(expected) => {
                let got = format!("{:?}", self.point()).to_lowercase();
                Err(Error::new(ErrorKind::Unsupported, format!("{place}.before"), expected, got))
            }
            None => Ok(()),
        }
    }

    fn check_values(
        &self,
        within: &str,
        agents: &[usize],
        coordinates: Option<&[usize]>,
        shape: &Shape<'_>,
    ) -> Checked {
        let width = |i: usize| coordinates.map_or(shape.offsets[i + 1] - shape.offsets[i], <[usize]>::len);
        let fits = |place: &str, values: &Values| match values {
            Values::One(value) => all_finite(place, &[*value]),
            Values::Each(values) => {
                let all: usize = agents.iter().map(|&i| width(i)).sum();
                let same = agents.iter().all(|&i| width(i) == values.len());
                if !same && values.len() != all {
                    let one = agents.first().map_or(0, |&i| width(i));
                    let expected = format!("{one} numbers, one per coordinate, or {all}, one per agent too");
                    return Err(Error::new(ErrorKind::Shape, place, expected, values.len()));
                }
                all_finite(place, values)
            }
        };
        match &self.action {
            Action::Set { to, .. } => fits(&format!("{within}.to"), to),
            Action::Noise { deviation, .. } => check_positive(&format!("{within}.deviation"), *deviation),
            Action::Scale { by, .. } => all_finite(&format!("{within}.by"), &[*by]),
            Action::Pin { to, until, .. } => {
                if let Some(until) = until.filter(|&until| until <= self.k) {
                    let expected = format!("an iteration after {}", self.k);
                    return Err(Error::new(
                        ErrorKind::OutOfRange,
                        format!("{within}.until"),
                        expected,
                        until,
                    ));
                }
                to.as_ref().map_or(Ok(()), |to| fits(&format!("{within}.to"), to))
            }
            _ => Ok(()),
        }
    }

    fn check_problem(&self, within: &str, shape: &Shape<'_>) -> Checked {
        match &self.action {
            Action::Remove(agents) | Action::Restore(agents) => check_agents(within, agents, shape).map(drop),
            Action::Cut(pairs) | Action::Join(pairs) => pairs.iter().try_for_each(|pair| {
                let meets = |&(u, v): &(usize, usize)| [u, v] == *pair || [v, u] == *pair;
                if shape.edges.iter().any(meets) {
                    return Ok(());
                }
                let got = format!("{} and {}", pair[0], pair[1]);
                Err(Error::new(ErrorKind::OutOfRange, within, "two agents that share an edge", got))
            }),
            Action::Input(input) if *input >= shape.inputs => {
                let expected = format!("an input below {}", shape.inputs);
                Err(Error::new(ErrorKind::OutOfRange, within, expected, input)
                    .hint("0 is the input of the start; others are listed in `inputs`"))
            }
            Action::Input(_) => Ok(()),
            _ if shape.kind == Kind::Messages => {
                let expected =
                    "an action on h, agents, edges or the input: message passing has no such number";
                Err(Error::new(ErrorKind::Unsupported, within, expected, self.action.name()))
            }
            Action::Steps(0) => Err(Error::new(ErrorKind::NotPositive, within, "at least 1 step", 0)),
            Action::Rho(value) | Action::Gamma(value) | Action::Relaxation(value) => {
                check_positive(within, *value)
            }
            _ => Ok(()),
        }
    }
}

fn check_variable(within: &str, kind: Kind, of: Variable) -> Checked {
    let (fits, expected) = match kind {
        Kind::Admm => (of != Variable::H, "\"x\", \"z\" or \"u\" of ADMM"),
        Kind::Messages => (of == Variable::H, "\"h\", the state of message passing"),
    };
    if fits {
        return Ok(());
    }
    let got = format!("{of:?}").to_lowercase();
    Err(Error::new(ErrorKind::Unsupported, format!("{within}.of"), expected, got))
}

/// The numbers of the agents.
fn check_agents(place: &str, agents: &Agents, shape: &Shape<'_>) -> crate::Result<Vec<usize>> {
    if let Agents::Share { share, .. } = agents {
        check_positive(&format!("{place}.share"), *share)?;
        if *share > 1.0 {
            return Err(Error::new(ErrorKind::OutOfRange, format!("{place}.share"), "at most 1", share));
        }
    }
    let numbers = agents.numbers(shape.agents());
    match numbers.iter().find(|&&i| i >= shape.agents()) {
        Some(i) => {
            let expected = format!("agents below {}", shape.agents());
            Err(Error::new(ErrorKind::OutOfRange, place, expected, format_args!("agent {i}")))
        }
        None => Ok(numbers),
    }
}

fn check_coordinates(
    within: &str,
    agents: &[usize],
    coordinates: Option<&[usize]>,
    shape: &Shape<'_>,
) -> Checked {
    let Some(coordinates) = coordinates else { return Ok(()) };
    for &i in agents {
        let width = shape.offsets[i + 1] - shape.offsets[i];
        if let Some(c) = coordinates.iter().find(|&&c| c >= width) {
            let expected = format!("coordinates below {width}, the stalk of agent {i}");
            return Err(Error::new(ErrorKind::OutOfRange, format!("{within}.coordinates"), expected, c));
        }
    }
    Ok(())
}

fn all_finite(place: &str, values: &[f64]) -> Checked {
    // Scalars of a solve may be f32: a number beyond them is not finite there.
    match values.iter().find(|v| !v.is_finite() || v.abs() > f64::from(f32::MAX)) {
        Some(value) => Err(Error::new(ErrorKind::NotFinite, place, "finite numbers", value)),
        None => Ok(()),
    }
}
