//! The key of a problem file that a mistake of an agent or an edge is about, and what to do about it.

use crate::Error;

/// Places that errors name, and the keys they stand for.
const KEYS: [(&str, &str); 21] = [
    ("Q", "Q"),
    ("q", "q"),
    ("l1", "l1"),
    ("l2", "l2"),
    ("tether", "tether"),
    ("lower", "lower"),
    ("upper", "upper"),
    ("bounds", "lower"),
    ("equalities", "equal"),
    ("right side of equalities", "equal"),
    ("inequalities", "at_most"),
    ("right side of inequalities", "at_most"),
    ("map of end a", "F_a"),
    ("map of end b", "F_b"),
    ("rows of the map of end b", "F_b"),
    ("offset", "offset"),
    ("weight", "coupling"),
    ("delta", "coupling"),
    ("size of x", "dim"),
    ("rows of the maps", "rows"),
    ("agent", "a"),
];

/// The key of an error; none if it is about more than one.
pub(super) fn key_of(error: &Error) -> Option<&'static str> {
    let names = |name: &str| {
        let rest = error.place().strip_prefix(name);
        rest.is_some_and(|rest| rest.chars().next().is_none_or(|c| !c.is_alphanumeric()))
    };
    KEYS.into_iter().find(|(name, _)| names(name)).map(|(_, key)| key)
}

/// For numbers that an update gives where there were none.
pub(super) const NO_PLACE: &str =
    "as many numbers as when the agent was added: updates change numbers, not how many there are";

/// The error with a hint for its key, unless it has one of its own.
pub(super) fn hinted(error: Error, key: Option<&str>) -> Error {
    if error.hint_text().is_some() {
        return error;
    }
    match key.and_then(hint) {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

fn hint(key: &str) -> Option<&'static str> {
    Some(match key {
        "Q" => "Q is square, with one finite row for every number of q",
        "q" => "q has one finite number for every row of Q",
        "l1" | "l2" | "tether" => {
            "weights are finite and not negative; an anchor has one number for every coordinate"
        }
        "lower" | "upper" => "one number for every coordinate, lower ≤ upper; ±inf where there is no bound",
        "equal" | "at_most" => {
            "the matrix has one column for every coordinate, the right side one number for every row"
        }
        "F_a" | "F_b" => {
            "a map has one column for every number of its agent, and both maps of an edge have as many rows"
        }
        "offset" => "an offset has one number for every row of the maps",
        "coupling" => "weights and thresholds are above 0; an edge without a coupling is hard",
        "penalty" => {
            "a penalty is a factor above 0: one for the agent, or one for every coordinate of a quadratic"
        }
        "dim" => "give Q, q or the size of x",
        "a" | "b" => "agents are counted from 0, in the order in which they were added",
        "name" => "names tell agents apart; leave one out to use its number",
        "rows" => "an edge compares at least one number: give both maps a row for each",
        "x" => "one finite number for every coordinate of every agent, agent after agent",
        "map" | "file" => "docs/solver.md has the format of agents and edges",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn every_key_has_a_hint_and_a_hint_of_its_own_stays() {
        for (place, key) in KEYS {
            let error = Error::new(ErrorKind::Shape, format!("{place}[2]"), "this", "that");
            assert_eq!(key_of(&error), Some(key));
            assert!(hinted(error.clone(), Some(key)).hint_text().is_some(), "{key}");
            assert_eq!(hinted(error.hint("own"), Some(key)).hint_text(), Some("own"));
        }
        let other = Error::new(ErrorKind::Shape, "quality", "this", "that");
        assert!(key_of(&other).is_none() && hinted(other, None).hint_text().is_none());
    }
}
