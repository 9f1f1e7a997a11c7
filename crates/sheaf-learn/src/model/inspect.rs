//! One sample to be looked into: interventions, and the local problem of an agent.

use sheaf_admm::admm::intervene::Interventions;
use sheaf_admm::{Error, ErrorKind, Real, Result};

use super::heads::{DIAG, H, HI, L1, Q, RHO};
use super::net::{Decoder, Encoder};
use super::section::ObjectiveKind;
use super::single::Single;
use super::worker::{self, Scene, Worker};

/// The local problem of an agent: ½ xᵀ diag(D) x + qᵀx + l1‖x‖₁ within bounds. What a model does not have is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Local<T> {
    /// The start h.
    pub h: Vec<T>, // [d_v] or []
    /// D.
    pub diag: Vec<T>, // [d_v] or []
    /// q.
    pub q: Vec<T>, // [d_v] or []
    /// Weights of the l1 norm.
    pub l1: Vec<T>, // [d_v], [1] or []
    /// The lower bound, if there is one.
    pub lo: Option<T>,
    /// Upper bounds.
    pub hi: Vec<T>, // [d_v] or []
    /// The penalty.
    pub rho: Option<T>,
}

impl<T: Real, E: Encoder, D: Decoder> Single<'_, T, E, D> {
    /// Solves the sample with interventions; `see` receives every iteration and ends the solve with `false`. The samples
    /// of [`of_inputs`](Self::of_inputs) are the inputs that interventions refer to by number.
    pub fn play(
        &self,
        iterations: usize,
        interventions: &Interventions,
        see: &mut dyn FnMut(&Scene<'_, '_, T>) -> bool,
    ) -> Result<()> {
        let (at, index) = self.setting();
        worker::play(&at, index, iterations, interventions, see)
    }

    /// The local problem of an agent with input `input`.
    pub fn local(&self, input: usize, agent: usize) -> Result<Local<T>> {
        let (at, index) = self.setting();
        let (model, agents) = (at.model, at.sheaf.agents());
        let Some(&view) = index.get(input * agents + agent).filter(|_| agent < agents) else {
            let expected = format!("below {agents}");
            return Err(Error::new(ErrorKind::OutOfRange, "agent", expected, agent));
        };
        let columns = &at.tables.headed().columns;
        let of = |column: usize| match model.heads.width_of(column) {
            0 => Vec::new(),
            width => columns[column][view as usize * width..][..width].to_vec(),
        };
        let kind = model.choices.objective;
        let admm = model.choices.admm();
        let bounded = matches!(kind, ObjectiveKind::L1Box | ObjectiveKind::NonNegative | ObjectiveKind::Qp);
        let rho = of(RHO).first().copied().or_else(|| admm.then_some(at.prepared.rho));
        Ok(Local {
            h: of(H),
            diag: of(DIAG),
            q: of(Q),
            l1: match kind {
                ObjectiveKind::Lasso if admm => vec![T::from_f64(model.section.l1)],
                _ => of(L1),
            },
            lo: (admm && bounded).then_some(T::ZERO),
            hi: of(HI),
            rho,
        })
    }

    /// The restriction maps of an agent with input `input`; empty where agents have none.
    pub fn maps(&self, input: usize, agent: usize) -> Result<Vec<T>> // [slots, d_e, d_v]
    {
        let (at, index) = self.setting();
        if !at.model.choices.admm() {
            return Ok(Vec::new());
        }
        let agents = at.sheaf.agents();
        Worker::default().maps_of(&at, &index[input * agents..][..agents], agent)
    }
}
