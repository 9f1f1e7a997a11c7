//! "Did you mean …?": the known name nearest to a mistyped one.

use strsim::osa_distance;

/// The candidate nearest to `name`, if it is near enough: at most a third of its characters differ. Insertions,
/// deletions, substitutions and transpositions count; case and the kind of dash do not. Ties go to the first candidate.
pub fn nearest<'a, S: AsRef<str> + ?Sized + 'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a S>,
) -> Option<&'a str> {
    let normal = |s: &str| s.to_lowercase().replace('-', "_");
    let name = normal(name);
    let near = |candidate: &'a S| {
        let candidate = candidate.as_ref();
        let known = normal(candidate);
        let distance = osa_distance(&name, &known);
        let longest = name.chars().count().max(known.chars().count());
        (distance <= (longest / 3).max(1)).then_some((distance, candidate))
    };
    candidates.into_iter().filter_map(near).min_by_key(|(distance, _)| *distance).map(|(_, c)| c)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 5] = ["steps", "batch", "learning_rate", "weight_decay", "eval_every"];

    #[test]
    fn slips_of_the_hand_find_their_key() {
        for (typed, meant) in [
            ("stpes", "steps"),
            ("step", "steps"),
            ("lerning_rate", "learning_rate"),
            ("learning-rate", "learning_rate"),
            ("Weight_Decay", "weight_decay"),
            ("eval_evry", "eval_every"),
        ] {
            assert_eq!(nearest(typed, &KEYS), Some(meant));
        }
    }

    #[test]
    fn what_is_far_from_everything_finds_nothing() {
        assert_eq!(nearest("momentum", &KEYS), None);
        assert_eq!(nearest("", &KEYS), None);
        assert_eq!(nearest("steps", &[] as &[String]), None);
    }
}
