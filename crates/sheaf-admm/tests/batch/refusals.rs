//! Unsolvable problems are rejected with a reason and a hint.

use sheaf_admm::admm::{Adjoint, Balancing, Gradients, Mode, Options, Seeds, Start, Workspace};
use sheaf_admm::sheaf::{AgentGraph, Edge, Maps, MapsGrad, SharedMaps, SharedStack, Sheaf, SheafOp};
use sheaf_admm::x_update::{ObjectiveGrad, Penalty};
use sheaf_admm::z_update::{Agreement, Gram, Orthonormal, ZUpdate};
use sheaf_admm::{Error, ErrorKind};

use crate::support::{Batch, SOFT};

fn gram() -> ZUpdate<f64> {
    ZUpdate::Gram(Gram::published(SOFT, 3))
}

#[track_caller]
fn refused<R>(told: Result<R, Error>, kind: ErrorKind, place: &str, hint: &str) {
    let error = told.err().expect("it is refused");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.place().contains(place), "{error}");
    assert!(hint.is_empty() || error.hint_text().is_some_and(|text| text.contains(hint)), "{error}");
}

#[test]
fn gram_space_asks_for_shared_maps_and_cliques() {
    let batch = Batch::grid(1, false);
    let point = batch.point(1);
    let stack = vec![0.1; 9 * 16];
    let op = SheafOp::new(&batch.sheaf, Maps::Stack(&stack)).unwrap();
    refused(gram().validate(&op), ErrorKind::Unsupported, "Gram", "SharedStack");
    let edge = |u, v| Edge { u, slot_u: 0, v, slot_v: 0 };
    let path = AgentGraph::with_slots(vec![1; 3], vec![edge(0, 1), edge(1, 2)]).unwrap();
    let sheaf = Sheaf::uniform(&path, 9, 8).unwrap();
    let prepared = batch.prepare(&point);
    let op = SheafOp::new(&sheaf, Maps::Shared(SharedMaps::new(&prepared.stack))).unwrap();
    for z_update in [gram(), ZUpdate::Orthonormal(Orthonormal::new(SOFT))] {
        refused(z_update.validate(&op), ErrorKind::Unsupported, "consensus", "ZUpdate::Cg");
    }
    let negative = ZUpdate::Gram(Gram { guard: -1.0, ..Gram::published(SOFT, 3) });
    refused(negative.validate(&batch.op(&prepared)), ErrorKind::NotPositive, "gram guard", "");
    let negative = ZUpdate::Gram(Gram::published(Agreement::Soft { gamma: -1.0 }, 3));
    refused(negative.validate(&batch.op(&prepared)), ErrorKind::NotPositive, "gamma", "");
}

#[test]
fn the_closed_form_asks_for_orthonormal_maps_without_updates() {
    let closed = ZUpdate::Orthonormal(Orthonormal::new(SOFT));
    for (batch, orthonormal, kind) in
        [(Batch::grid(1, false), false, "rows"), (Batch::grid(1, true), true, "updates")]
    {
        let point = if orthonormal { batch.orthonormal_point(1) } else { batch.point(1) };
        let prepared = batch.prepare(&point);
        let told = closed.validate(&batch.op(&prepared));
        assert!(told.as_ref().is_err_and(|e| e.to_string().contains(kind)), "{told:?}");
        refused(told, ErrorKind::Unsupported, "orthonormal", "ZUpdate::Gram");
    }
    let batch = Batch::grid(1, false);
    let prepared = batch.prepare(&batch.orthonormal_point(1));
    assert!(prepared.stack.is_orthonormal());
    closed.validate(&batch.op(&prepared)).unwrap();
    // Rows of other lengths are for the scaled form, which in turn needs them orthogonal and alike in every slot.
    let scaled = ZUpdate::Orthonormal(Orthonormal::scaled(SOFT));
    scaled.validate(&batch.op(&prepared)).unwrap();
    let prepared = batch.prepare(&batch.scaled_point(1));
    scaled.validate(&batch.op(&prepared)).unwrap();
    refused(closed.validate(&batch.op(&prepared)), ErrorKind::Unsupported, "orthonormal", "ZUpdate::Gram");
    let mut other = batch.scaled_point(1);
    let row = batch.dims().d_v;
    other[..row].iter_mut().for_each(|v| *v *= 1.5);
    let prepared = batch.prepare(&other);
    refused(scaled.validate(&batch.op(&prepared)), ErrorKind::Unsupported, "orthonormal", "orthogonal");
    // Two rows at the end that are not orthogonal are found as well, though they are as long as they should be.
    let mut other = batch.scaled_point(1);
    let rows = batch.dims().slots * batch.dims().d_e;
    let (before, last) = other[(rows - 2) * row..rows * row].split_at_mut(row);
    let [length, own] = [&*before, &*last].map(|r| r.iter().map(|v| v * v).sum::<f64>().sqrt());
    last.iter_mut().zip(before).for_each(|(v, b)| *v = 0.8 * *v + 0.6 * own / length * *b);
    let prepared = batch.prepare(&other);
    refused(scaled.validate(&batch.op(&prepared)), ErrorKind::Unsupported, "orthonormal", "orthogonal");
}

#[test]
fn options_that_a_batch_cannot_have_are_refused() {
    let batch = Batch::grid(2, false);
    let point = batch.point(1);
    let (prepared, z_update, h) = (batch.prepare(&point), gram(), batch.cut(&point)[5]);
    let problem = batch.problem(&point, &prepared, &z_update);
    let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations: 4 });
    let balancing = Options { balancing: Some(Balancing::default()), ..Options::fixed(4) };
    let mut solve = |options: &Options<f64>| problem.solve(Start::At(h), options, &mut ws, &mut ());
    refused(solve(&balancing), ErrorKind::Unsupported, "balancing", "one by one");
    refused(solve(&Options::until(1e-3, 1e-3, 4).x_only()), ErrorKind::Unsupported, "x_only", "leave x_only");
    refused(solve(&Options::fixed(4).taping(0)), ErrorKind::OutOfRange, "record", "Mode::Solve");
    refused(solve(&Options::fixed(5)), ErrorKind::Shape, "iterations", "Workspace::fit");
    solve(&Options::fixed(5).taping(4)).unwrap();
    let rho = [1.0; 6];
    let per_agent = sheaf_admm::admm::Problem { rho: Penalty::PerAgent(&rho), ..problem.clone() };
    refused(per_agent.validate(), ErrorKind::Unsupported, "Gram", "ZUpdate::Cg");
}

#[test]
fn seeds_and_gradients_that_do_not_fit_are_refused() {
    let batch = Batch::triples(2, true);
    let point = batch.point(1);
    let (prepared, z_update, h) = (batch.prepare(&point), gram(), batch.cut(&point)[5]);
    let problem = batch.problem(&point, &prepared, &z_update);
    let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations: 4 });
    problem.solve(Start::At(h), &Options::fixed(4).x_only(), &mut ws, &mut ()).unwrap();
    let seed = vec![1.0; 5 * batch.states()];
    let mut reverse = |seeds: &Seeds<'_, f64>, maps: &mut MapsGrad<'_, f64>| {
        let (mut d_rho, mut d_gamma, mut d_eta) = ([0.0], 0.0, 0.0);
        let mut grads = Gradients {
            objective: &mut ObjectiveGrad::None,
            maps,
            rho: &mut d_rho,
            gamma: &mut d_gamma,
            eta: &mut d_eta,
            offsets: &mut [],
            edge_weights: &mut [],
            start: &mut [],
        };
        problem.reverse(Adjoint::Unrolled, seeds, &mut grads, &mut ws)
    };
    let n = batch.states();
    let x = |len| Seeds { d_x: &seed[..len], d_z: None, d_u: None };
    refused(reverse(&x(n / 2), &mut MapsGrad::None), ErrorKind::Shape, "seed of x", "");
    refused(reverse(&x(5 * n), &mut MapsGrad::None), ErrorKind::Shape, "seed of x", "");
    let z = Seeds { d_z: Some(&seed[..n]), ..x(n) };
    refused(reverse(&z, &mut MapsGrad::None), ErrorKind::Unsupported, "seed of z", "x_only");
    let mut grads = prepared.grads(&batch);
    grads.updates = None;
    refused(reverse(&x(n), &mut grads.maps()), ErrorKind::Unsupported, "shared maps", "AgentUpdatesGrad");
    refused(reverse(&x(n), &mut MapsGrad::Stack(&mut [])), ErrorKind::Unsupported, "gradient of maps", "");
    reverse(&x(n), &mut prepared.grads(&batch).maps()).unwrap();
}

#[test]
fn maps_that_do_not_fit_are_refused() {
    let batch = Batch::grid(2, true);
    let prepared = batch.prepare(&batch.point(1));
    let of = |samples| {
        let maps = SharedMaps::with_updates(&prepared.stack, &prepared.updates);
        SheafOp::batch(&batch.sheaf, Maps::Shared(maps), samples)
    };
    refused(of(0), ErrorKind::OutOfRange, "samples", "");
    refused(of(usize::MAX), ErrorKind::OutOfRange, "samples", "");
    refused(of(3), ErrorKind::Shape, "updates", "");
    let mut stack = SharedStack::default();
    refused(stack.prepare(&[1.0; 10], 9), ErrorKind::Shape, "shared maps", "");
    refused(stack.prepare(&[f64::NAN; 9], 9), ErrorKind::NotFinite, "shared maps", "");
    stack.prepare(&[1.0; 9], 9).unwrap();
    let told = SheafOp::new(&batch.sheaf, Maps::Shared(SharedMaps::new(&stack)));
    refused(told, ErrorKind::Shape, "shared stack", "");
}
