//! The Sudoku model: its iterations match the general solver, non-finite samples are named, orthonormal maps start near
//! the identity.

mod common;

use common::Case;
use sheaf_admm::admm::{Mode, Options, Problem, Start, Trace, Workspace};
use sheaf_admm::sheaf::{AgentGraph, Maps, Sheaf, SheafOp};
use sheaf_admm::x_update::{Coefficient, Diagonal, Objective, Penalty};
use sheaf_admm::z_update::{Agreement, Cg, ZUpdate};
use sheaf_learn::model::cayley::Cayley;
use sheaf_learn::model::evaluate::Single;
use sheaf_learn::model::heads::{DIAG, H, Q};
use sheaf_learn::model::{Batch, Horizon};
use sheaf_tasks::sudoku::task::Sudoku;

#[test]
fn iterations_are_those_of_the_general_solver() {
    let k = 6;
    let case = Case::<Sudoku>::new(&["model.d_e=3"], 1);
    let (model, params) = (&case.model, case.noisy(3));
    let samples = case.samples(&case.set);
    let single = Single::new(model, &params, &case.board.sheaf, &samples, 0).unwrap();
    let (at, index) = single.setting();
    let [h, diag, q] = [H, DIAG, Q].map(|column| {
        let table = &at.tables.headed().columns[column];
        index.iter().flat_map(|&v| table[v as usize * 18..][..18].to_vec()).collect::<Vec<f64>>()
    });

    let sheaf = Sheaf::uniform(&AgentGraph::sudoku(), 18, 3).unwrap();
    let mut stack = vec![0.0; 18 * sheaf.as_uniform().unwrap().ld];
    Sheaf::pack_stack(&params[model.layout().range("maps").unwrap()], 18, &mut stack).unwrap();
    let z_update = ZUpdate::Cg(Cg::published(Agreement::Soft { gamma: 2.0 }, 3));
    let bound = Some(Coefficient::Scalar(0.0));
    let problem = Problem {
        op: SheafOp::new(&sheaf, Maps::Stack(&stack)).unwrap(),
        objective: Objective::Diagonal(Diagonal { lo: bound, ..Diagonal::new(&diag, &q) }),
        z_update: &z_update,
        rho: Penalty::Scalar(model.rho(&params).0),
        relax: 1.0,
    };
    let mut want = Trace::default();
    let mut ws = Workspace::new(&problem, Mode::Solve);
    problem.solve(Start::At(&h), &Options::fixed(k), &mut ws, &mut want).unwrap();

    let got = single.trace(k).unwrap().admm;
    for (name, got, want) in [
        ("x", &got.x, &want.x),
        ("z", &got.z, &want.z),
        ("u", &got.u, &want.u),
        ("primal", &got.primal, &want.primal),
        ("dual", &got.dual, &want.dual),
        ("edge_rms", &got.edge_rms, &want.edge_rms),
    ] {
        assert_eq!(got.len(), want.len(), "{name}");
        assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-10), "{name}");
    }
}

#[test]
fn a_board_that_is_not_finite_is_named() {
    let mut case = Case::<Sudoku>::new(&[], 20);
    let mut params: Vec<f32> = case.model.init(5);
    let range = case.model.layout().range("encoder/token/kernel").unwrap();
    // Only boards with a 7 among their givens use this row; all have one, except those from which it is removed below.
    params[range.start + 7 * 6..][..6].fill(1e30);
    // Board 13 is the second of its tile.
    case.set.puzzles[..13].iter_mut().flatten().for_each(|d| *d = if *d == 7 { 0 } else { *d });
    assert!(case.set.puzzles[13].contains(&7));
    let mut grad = vec![0.0; params.len()];
    let batch_loss = case.run(&mut Batch::default(), &params, Horizon::whole(2, 1), &mut grad);
    assert!(batch_loss.loss.is_nan());
    assert_eq!(batch_loss.bad, Some(13));
}

#[test]
fn orthonormal_maps_start_near_the_identity() {
    let case = Case::<Sudoku>::new(&["model.maps=orthonormal"], 1);
    let params: Vec<f64> = case.model.init(1);
    let (mut cayley, mut q) = (Cayley::default(), vec![0.0; 18 * 18]);
    cayley.forward(18, &params[case.model.layout().range("maps/skew").unwrap()], &mut q);
    for (i, &v) in q.iter().enumerate() {
        let unit = f64::from(u8::from(i / 18 == i % 18));
        assert!((v - unit).abs() < 0.05);
    }
}

#[test]
fn two_boards_are_solved_together_where_the_products_gain_from_it() {
    for (keys, tile) in [
        (&[][..], 2),
        (&["model.maps=low-rank"], 2),
        (&["model.maps=orthonormal"], 2),
        (&["model.consensus=cg"], 1),
        (&["model.balancing=true"], 1),
    ] {
        assert_eq!(Case::<Sudoku>::new(keys, 1).model.tile(), tile, "{keys:?}");
    }
}

/// Both sets of keys give the same loss and the same gradients at the same parameters.
fn agree(one: &[&str], other: &[&str], tolerance: f64) {
    let (one, other) = (Case::<Sudoku>::new(one, 3), Case::<Sudoku>::new(other, 3));
    let params = one.noisy(2);
    let horizon = Horizon::whole(3, 2);
    let ((loss, grad), (want_loss, want)) =
        (one.gradient(&params, horizon), other.gradient(&params, horizon));
    assert!((loss - want_loss).abs() <= tolerance * want_loss, "{loss} against {want_loss}");
    for entry in one.model.layout().entries() {
        let (got, want) = (&grad[entry.range.clone()], &want[entry.range.clone()]);
        let scale = want.iter().fold(1e-6f64, |m, v| m.max(v.abs()));
        for (i, (g, w)) in got.iter().zip(want).enumerate() {
            assert!((g - w).abs() <= tolerance * scale, "{}[{i}]: {g} against {w}", entry.name);
        }
    }
}

#[test]
fn consensus_in_gram_space_agrees_with_conjugate_gradients_on_states() {
    for steps in ["model.cg_steps=1", "model.cg_steps=2", "model.cg_steps=5"] {
        for maps in ["model.maps=shared", "model.maps=low-rank"] {
            let keys = [steps, maps, "model.d_e=3"];
            let gram = [&keys[..], &["model.consensus=gram"]].concat();
            agree(&gram, &[&keys[..], &["model.consensus=cg"]].concat(), 1e-9);
        }
    }
}

#[test]
fn with_orthonormal_maps_the_closed_form_is_the_solution() {
    for agreement in ["model.agreement=soft", "model.agreement=hard"] {
        let keys = ["model.maps=orthonormal", agreement];
        let closed = [&keys[..], &["model.consensus=closed-form"]].concat();
        agree(&closed, &[&keys[..], &["model.consensus=exact"]].concat(), 1e-8);
    }
    let soft = ["model.maps=orthonormal"];
    let cg = ["model.consensus=cg", "model.cg_tolerance=1e-13", "model.cg_steps=50"];
    agree(&soft, &[&soft[..], &cg].concat(), 1e-8);
}
