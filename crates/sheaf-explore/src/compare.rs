//! A run with interventions beside the one without: when they part, when they agree again, and where.

use serde::Serialize;
use sheaf_admm::sheaf::Sheaf;

use crate::record::Record;
use crate::script::Script;

/// Share of the size of a state above which an agent counts as changed.
const CHANGED: f32 = 0.01;

/// What followed from the interventions. Iterations count from 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// The iteration of the first intervention.
    pub first: Option<usize>,
    /// The iteration of the last intervention, pins released included.
    pub last: Option<usize>,
    /// The first iteration with another answer.
    pub parted: Option<usize>,
    /// The first iteration after that with the same answer.
    pub agree_again: Option<usize>,
    /// The iteration from which on the answers are the same to the end.
    pub agree_to_the_end: Option<usize>,
    /// Iterations from the last intervention to [`agree_to_the_end`](Self::agree_to_the_end).
    pub recovery: Option<usize>,
    /// Cells with another answer after the last iteration.
    pub cells_changed: usize,
    /// Most cells with another answer after any iteration.
    pub most_cells_changed: usize,
    /// Agents whose state differs after the last iteration by more than 1 % of the size of a state.
    pub agents_changed: Vec<usize>,
    /// Root mean square over agents of ‖x − x′‖.
    pub distance: Vec<f32>, // [K]
    /// ‖x − x′‖ of every agent.
    #[serde(skip)]
    pub distances: Vec<f32>, // [K, agents]
    /// Cells with another answer.
    pub differing: Vec<usize>, // [K]
}

impl Comparison {
    /// Compares the run `base` without interventions with `run`.
    pub fn of(sheaf: &Sheaf, base: &Record, run: &Record, script: &Script) -> Self {
        let (n, states) = (sheaf.agents(), sheaf.state_len());
        let count = base.iterations.min(run.iterations);
        let mut distances = Vec::with_capacity(count * n);
        for k in 0..count {
            let (a, b) = (&base.x[k * states..][..states], &run.x[k * states..][..states]);
            for own in sheaf.state_offsets().windows(2) {
                let square: f32 = (own[0]..own[1]).map(|i| (a[i] - b[i]).powi(2)).sum();
                distances.push(square.sqrt());
            }
        }
        let mean =
            |values: &[f32]| (values.iter().map(|v| v * v).sum::<f32>() / values.len().max(1) as f32).sqrt();
        let distance: Vec<f32> = distances.chunks_exact(n.max(1)).map(mean).collect();
        let differing: Vec<usize> = (0..count).map(|k| differing(base, run, k)).collect();
        let last_x = base.x.chunks_exact(states.max(1)).nth(count.saturating_sub(1)).unwrap_or_default();
        let size = (last_x.iter().map(|x| x * x).sum::<f32>() / n.max(1) as f32).sqrt();
        let last_distances = distances.chunks_exact(n.max(1)).next_back().unwrap_or_default();
        let agents_changed =
            (0..last_distances.len()).filter(|&i| last_distances[i] > CHANGED * size).collect();
        let parted = differing.iter().position(|&d| d > 0);
        let again = parted.and_then(|parted| (parted..count).find(|&k| differing[k] == 0));
        let tail = differing.iter().rev().take_while(|&&d| d == 0).count();
        let to_the_end = (tail > 0 && parted.is_some()).then(|| count - tail);
        let (first, last) = span(script);
        let recovery = match (parted, to_the_end, last) {
            (Some(_), Some(from), Some(last)) => Some((from + 1).saturating_sub(last)),
            _ => None,
        };
        Self {
            first,
            last,
            parted: parted.map(|k| k + 1),
            agree_again: again.map(|k| k + 1),
            agree_to_the_end: to_the_end.map(|k| k + 1),
            recovery,
            cells_changed: differing.last().copied().unwrap_or(0),
            most_cells_changed: differing.iter().copied().max().unwrap_or(0),
            agents_changed,
            distance,
            distances,
            differing,
        }
    }
}

/// First and last iteration of the interventions.
fn span(script: &Script) -> (Option<usize>, Option<usize>) {
    use sheaf_admm::admm::intervene::Action;
    let ends = script.interventions.iter().map(|one| match &one.action {
        Action::Pin { until: Some(until), .. } => *until,
        _ => one.k,
    });
    let start = script.start.as_ref().map(|_| 1);
    let first = script.interventions.iter().map(|one| one.k).chain(start).min();
    (first, ends.chain(start).max())
}

/// Cells with another answer after iteration `k`; where agents vote, 1 if the votes choose another class.
fn differing(base: &Record, run: &Record, k: usize) -> usize {
    let (a, b) = (base.votes_at(k), run.votes_at(k));
    if !a.is_empty() {
        let best =
            |votes: &[f32]| (1..votes.len()).fold(0, |best, c| if votes[c] > votes[best] { c } else { best });
        return usize::from(best(a) != best(b));
    }
    base.classes_at(k).iter().zip(run.classes_at(k)).filter(|(a, b)| a != b).count()
}
