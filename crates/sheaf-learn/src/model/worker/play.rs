//! One sample solved with interventions, whatever its agents do in an iteration.

use sheaf_admm::admm::intervene::{Acting, Held, Interventions, Kind, Now, Part, Shape};
use sheaf_admm::admm::{Before, Iteration, Options, Problem, States, Workspace};
use sheaf_admm::{Error, ErrorKind, Real, Result};

use super::admm::{Posed, balanced};
use super::{Setting, Worker};
use crate::model::CoordinationKind;
use crate::model::heads::H;
use crate::model::messages::{Links, Rounds};
use crate::model::net::{Decoder, Encoder};

/// A sample after one iteration of a solve with interventions.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'v, 'a, T> {
    /// The number of the iteration, from 0.
    pub k: usize,
    /// The states that the decoder reads.
    pub states: &'v [T], // [states]
    /// The same before the iteration; z of ADMM.
    pub before: &'v [T], // [states]
    /// Outputs of each agent; 0 for one that is removed.
    pub outputs: &'v [T], // [agents, outputs]
    /// The iteration of ADMM, where the agents run it.
    pub admm: Option<Iteration<'v, 'a, T>>,
    /// The input, the removed agents and the cut edges.
    pub part: &'v Part,
    /// The number, in the whole sheaf, of each edge that is left.
    pub edges: &'v [usize],
}

/// Receives every iteration; `false` ends the solve.
type See<'s, T> = dyn FnMut(&Scene<'_, '_, T>) -> bool + 's;

/// Solves a sample with interventions. Its agents have the views `index` `[inputs, agents]`, one row per input.
pub fn play<T: Real, E: Encoder, D: Decoder>(
    at: &Setting<'_, T, E, D>,
    index: &[u32],
    iterations: usize,
    interventions: &Interventions,
    see: &mut See<'_, T>,
) -> Result<()> {
    let agents = at.sheaf.agents();
    let mut workers = Vec::new();
    for index in index.chunks_exact(agents) {
        let mut worker = Worker::default();
        worker.gather(at, index)?;
        workers.push(worker);
    }
    let mut film = Film { at, index, look: Worker::default(), outputs: Vec::new(), see };
    match at.model.choices.coordination {
        CoordinationKind::Admm => admm(at, index, &workers, iterations, interventions, &mut film),
        CoordinationKind::MessagePassing => messages(at, &workers, iterations, interventions, &mut film),
        CoordinationKind::None => {
            let expected = "agents that coordinate: \"admm\" or \"message-passing\"";
            Err(Error::new(ErrorKind::Unsupported, "model.coordination", expected, "\"none\"")
                .hint("without iterations there is nothing to intervene in"))
        }
    }
}

/// Decodes iterations and passes them on.
struct Film<'f, 's, T: Real, E: Encoder, D: Decoder> {
    at: &'f Setting<'f, T, E, D>,
    index: &'f [u32],
    look: Worker<T, D>,
    outputs: Vec<T>,
    see: &'f mut See<'s, T>,
}

impl<T: Real, E: Encoder, D: Decoder> Film<'_, '_, T, E, D> {
    fn show(
        &mut self,
        k: usize,
        (before, states): (&[T], &[T]),
        admm: Option<Iteration<'_, '_, T>>,
        now: &Now<'_>,
    ) -> bool {
        let (agents, each) = (self.at.sheaf.agents(), self.at.model.decoder.outputs());
        let index = &self.index[now.part.input * agents..][..agents];
        self.look.decode(self.at, index, states);
        self.outputs.clear();
        self.outputs.extend_from_slice(&self.look.outputs()[..agents * each]);
        // Equal logits leave a mean of others as it is.
        for (own, _) in self.outputs.chunks_exact_mut(each).zip(&now.part.removed).filter(|(_, gone)| **gone)
        {
            own.fill(T::ZERO);
        }
        let (outputs, part, edges) = (&self.outputs[..], now.part, now.edges);
        (self.see)(&Scene { k, states, before, outputs, admm, part, edges })
    }
}

fn admm<T: Real, E: Encoder, D: Decoder>(
    at: &Setting<'_, T, E, D>,
    index: &[u32],
    workers: &[Worker<T, D>],
    iterations: usize,
    interventions: &Interventions,
    film: &mut Film<'_, '_, T, E, D>,
) -> Result<()> {
    let pose = |(worker, index)| {
        let Worker { columns, parts, maps, .. }: &Worker<T, D> = worker;
        Posed::new(at, index, columns, parts, maps)
    };
    let posed = workers.iter().zip(index.chunks_exact(at.sheaf.agents())).map(pose);
    let posed = posed.collect::<Result<Vec<_>>>()?;
    let problems: Vec<Problem<'_, T>> = posed.iter().map(|posed| posed.problem().clone()).collect();
    let Some(first) = posed.first() else {
        return Err(Error::new(ErrorKind::Shape, "inputs", "at least one", "none"));
    };
    let (start, options) = (first.start(at), balanced(at, &Options::fixed(iterations)));
    Problem::play(&problems, start, &options, interventions, &mut Workspace::default(), &mut |view, now| {
        film.show(view.k, (view.z_prev, view.x), Some(*view), now)
    })?;
    Ok(())
}

fn messages<T: Real, E: Encoder, D: Decoder>(
    at: &Setting<'_, T, E, D>,
    workers: &[Worker<T, D>],
    iterations: usize,
    interventions: &Interventions,
    film: &mut Film<'_, '_, T, E, D>,
) -> Result<()> {
    let (cell, sheaf, n) = (at.messages(), at.sheaf, at.sheaf.state_len());
    let ends: Vec<(usize, usize)> = sheaf.edge_ends().map(|((u, _), (v, _))| (u, v)).collect();
    let (kind, offsets, inputs) = (Kind::Messages, sheaf.state_offsets(), workers.len());
    interventions.check(&Shape { kind, offsets, edges: &ends, iterations, inputs })?;
    let mut acting: Acting<'_, T> = Acting::new(&interventions.list, offsets);
    let mut rounds = Rounds::default();
    rounds.begin(cell, at.params, at.prepared.links(), &workers[0].columns[H][..n]);
    if let Some(start) = interventions.start.as_ref().filter(|start| !start.z.is_empty()) {
        rounds.state_mut().iter_mut().zip(&start.z).for_each(|(to, &z)| *to = T::from_f64(z));
    }
    let mut before = vec![T::ZERO; n];
    for part in interventions.parts(sheaf.agents(), &ends, iterations) {
        rounds.listen_to(cell, at.params, &workers[part.input].columns[H][..n]);
        let cut = part.sheaf(sheaf)?;
        let links = Links::new(cut.as_ref().unwrap_or(sheaf), cell.types());
        let edges: Vec<usize> = (0..ends.len()).filter(|&e| !part.cut[e]).collect();
        let now = Now { part: &part, edges: &edges };
        hold(&mut acting, &part, offsets, rounds.state_mut());
        for k in part.iterations.clone() {
            act(&mut acting, k, Before::X, rounds.state_mut());
            before.copy_from_slice(rounds.state_mut());
            rounds.advance(cell, at.params, &links);
            act(&mut acting, k, Before::End, rounds.state_mut());
            if !film.show(k, (&before, rounds.state_mut()), None, &now) {
                return Ok(());
            }
        }
    }
    match rounds.state_mut().iter().all(|v| v.is_finite()) {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::NotFinite, "message passing", "finite states", "others")),
    }
}

fn act<T: Real>(acting: &mut Acting<'_, T>, k: usize, before: Before, state: &mut [T]) {
    acting.act_at(k + 1, before, States { x: &mut [], z: state, u: &mut [] });
}

/// Keeps the state of agents that are removed in this part.
fn hold<T: Real>(acting: &mut Acting<'_, T>, part: &Part, offsets: &[usize], state: &[T]) {
    acting.hold(part, |agent| {
        let z = state[offsets[agent]..offsets[agent + 1]].to_vec();
        Held { agent, z, u: Vec::new() }
    });
}

impl<T: Real, D: Decoder> Worker<T, D> {
    /// The restriction maps of an agent of the sample whose agents have the views `index`, `[slots, d_e, d_v]`.
    pub(in crate::model) fn maps_of<E: Encoder>(
        &mut self,
        at: &Setting<'_, T, E, D>,
        index: &[u32],
        agent: usize,
    ) -> Result<Vec<T>> {
        self.gather(at, index)?;
        let Self { columns, parts, maps, .. } = self;
        let posed = Posed::new(at, index, columns, parts, maps)?;
        let (op, sheaf) = (&posed.problem().op, at.sheaf);
        let (own, row) = (sheaf.state_offsets()[agent], sheaf.row_offsets()[agent]);
        let (width, rows) =
            (sheaf.state_offsets()[agent + 1] - own, *sheaf.slot_rows(agent).last().unwrap_or(&0));
        let (mut z, mut y) = (vec![T::ZERO; sheaf.state_len()], vec![T::ZERO; sheaf.row_len()]);
        let mut columns = vec![T::ZERO; rows * width];
        // Column c of a map is what it makes of the unit vector c.
        for c in 0..width {
            z[own + c] = T::ONE;
            op.project(&z, &mut y)?;
            z[own + c] = T::ZERO;
            (0..rows).for_each(|r| columns[r * width + c] = y[row + r]);
        }
        Ok(columns)
    }
}
