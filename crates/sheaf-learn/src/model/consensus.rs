//! The consensus solver selected by a [`ModelSection`].

use sheaf_admm::sheaf::Sheaf;
use sheaf_admm::z_update::{
    Agreement, Asynchronous, Cg, CgStart, Descent, EdgeMethod, EdgePotential, EdgeSpace, Exact, Gram,
    Orthonormal, Potential, Stop, ZUpdate,
};
use sheaf_admm::{Real, Result};

use super::section::{Choices, ConsensusKind, ModelSection};

/// Whether the solver has a learned step size.
pub fn learns_eta(kind: ConsensusKind) -> bool {
    matches!(kind, ConsensusKind::Descent | ConsensusKind::Edge | ConsensusKind::Huber)
}

/// Hard or soft agreement.
pub fn agreement<T: Real>(section: &ModelSection, choices: &Choices) -> Agreement<T> {
    match choices.hard {
        true => Agreement::Hard,
        false => Agreement::Soft { gamma: T::from_f64(section.gamma) },
    }
}

/// The solver for this sheaf and step size.
pub fn z_update<T: Real>(
    section: &ModelSection,
    choices: &Choices,
    sheaf: &Sheaf,
    eta: T,
) -> Result<ZUpdate<T>> {
    let number = T::from_f64;
    let gamma = number(section.gamma);
    let agreement = agreement(section, choices);
    let stop = match section.cg_tolerance {
        0.0 => Stop::Steps(section.cg_steps),
        relative => {
            let relative = number(relative);
            Stop::Tolerance { absolute: T::ZERO, relative, max_steps: section.cg_steps }
        }
    };
    let momentum = number(section.momentum);
    // The guard of the published steps biases every step once residuals approach it: a smaller tolerance would not be
    // met.
    let guard = number(if section.cg_tolerance == 0.0 { 1e-8 } else { 0.0 });
    let cg = |start| ZUpdate::Cg(Cg { stop, start, guard, ..Cg::published(agreement, section.cg_steps) });
    Ok(match choices.consensus {
        ConsensusKind::Cg => cg(CgStart::Published),
        ConsensusKind::CgCarried => cg(CgStart::Carried),
        ConsensusKind::CgWarm => cg(CgStart::Warm),
        ConsensusKind::Gram => {
            ZUpdate::Gram(Gram { stop, guard, ..Gram::published(agreement, section.cg_steps) })
        }
        ConsensusKind::ClosedForm => ZUpdate::Orthonormal(Orthonormal { agreement, scaled: section.scales }),
        ConsensusKind::Descent => {
            let (descent, warm, lag) =
                (Descent { agreement, eta, momentum, stop }, choices.warm, choices.lag);
            match warm || !lag.is_in_step() {
                true => ZUpdate::Asynchronous(Asynchronous { descent, warm, lag }),
                false => ZUpdate::Descent(descent),
            }
        }
        ConsensusKind::Edge => {
            let method = EdgeMethod::Descent { eta, momentum: T::ZERO };
            ZUpdate::EdgeSpace(EdgeSpace { agreement, method, stop, warm: true })
        }
        ConsensusKind::Exact => ZUpdate::Exact(Exact::new(sheaf, agreement)),
        ConsensusKind::Huber => {
            let potential = EdgePotential::Huber { delta: number(section.huber_width) };
            ZUpdate::Potential(Potential { potential, gamma, eta, momentum, stop })
        }
    })
}
