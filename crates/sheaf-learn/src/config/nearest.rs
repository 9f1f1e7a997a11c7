//! "Did you mean …?": the known name nearest to a mistyped one.

/// The candidate nearest to `name`, if one is near enough to be what was meant: at most a third of it mistyped.
/// Case and the kind of dash do not count; of equally near ones the first wins.
pub fn nearest<'a, S: AsRef<str> + ?Sized + 'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a S>,
) -> Option<&'a str> {
    let normal = |s: &str| -> Vec<char> { s.to_lowercase().replace('-', "_").chars().collect() };
    let name = normal(name);
    let near = |candidate: &'a S| {
        let candidate = candidate.as_ref();
        let chars = normal(candidate);
        let distance = distance(&name, &chars);
        (distance <= (name.len().max(chars.len()) / 3).max(1)).then_some((distance, candidate))
    };
    candidates.into_iter().filter_map(near).min_by_key(|(distance, _)| *distance).map(|(_, c)| c)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn distance(a: &[char], b: &[char]) -> usize {
    // Three rows of the usual table: a swap looks two back.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
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

    #[test]
    fn the_distance_counts_each_kind_of_slip_once() {
        let d = |a: &str, b: &str| distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        assert_eq!([d("ab", "ba"), d("abc", "ac"), d("ac", "abc"), d("abc", "axc")], [1; 4]);
        assert_eq!([d("", "abc"), d("kitten", "sitting"), d("same", "same")], [3, 3, 0]);
    }
}
