//! Every choice of an experiment file: its gradient against finite differences.

mod common;

use common::{Case, Small, check_keys, differences};
use sheaf_learn::model::evaluate::{Single, SolveOptions};
use sheaf_learn::model::{Disturbance, Horizon, Worker};
use sheaf_tasks::maze::task::Maze;
use sheaf_tasks::mnist::task::Mnist;
use sheaf_tasks::sudoku::task::Sudoku;
use sheaf_testkit::GradientCheck;

/// Four iterations, two of which enter the loss.
const SHORT: Horizon = Horizon {
    iterations: 4,
    window: 2,
    gradient: 0,
    implicit: false,
    draw: 0,
    disturbance: Disturbance { shift: 0.0, restart: 0.0, noise: 0.0, seed: 0 },
};

/// Consensus solved to rounding.
const TIGHT: &[&str] = &["model.cg_tolerance=1e-13", "model.cg_steps=200"];

fn maze(keys: &[&str]) {
    check_keys::<Maze>(keys, 2, SHORT);
}

/// Without kinks, steps can be long: the gradient of a hard solve is the remainder of terms that cancel.
fn smooth_maze(keys: &[&str]) {
    let case = Case::<Maze>::new(&[keys, &["model.objective=quadratic"]].concat(), 2);
    let check = GradientCheck { directions: 2, ..GradientCheck::default() };
    case.check_gradient(&format!("{keys:?}"), &case.noisy(9), SHORT, &check, false);
}

fn sudoku(keys: &[&str]) {
    check_keys::<Sudoku>(keys, 3, Horizon::whole(3, 2));
}

#[test]
fn a_model_without_coordination_is_differentiated() {
    let none = "model.coordination=none";
    maze(&[none]);
    maze(&[none, "model.maps=identity", "model.penalty=per-agent", "model.start=zeros"]);
    check_keys::<Mnist>(&[none], 3, SHORT);
    sudoku(&[none, "model.maps=orthonormal"]);
}

#[test]
fn without_coordination_the_decoder_reads_h_and_iterations_change_nothing() {
    let case = Case::<Maze>::new(&["model.coordination=none"], 3);
    let names: Vec<&str> = case.model.layout().entries().iter().map(|e| e.name.as_str()).collect();
    assert!(names.iter().all(|n| n.starts_with("encoder/") || n.starts_with("decoder/")), "{names:?}");
    let params = case.noisy(4);
    assert_eq!(case.gradient(&params, SHORT), case.gradient(&params, Horizon::whole(0, 1)));
    let samples = case.samples(&case.set);
    let single = Single::<f64, _, _>::new(&case.model, &params, &case.board.sheaf, &samples, 1).unwrap();
    let traced = single.trace(5).unwrap();
    let (at, index) = single.setting();
    let mut worker = Worker::default();
    worker.decode(&at, index, &traced.h0);
    assert_eq!(traced.outputs, worker.outputs());
    assert!(traced.states.is_empty());
    let params: Vec<f32> = params.iter().map(|&p| p as f32).collect();
    let solved = Maze::answers(&case, &params, &case.set, &SolveOptions::fixed(9));
    assert!(solved.iter().all(|s| s.iterations == 0));
}

#[test]
fn message_passing_is_differentiated() {
    let talk = "model.coordination=message-passing";
    for keys in [
        &[talk][..],
        &[talk, "model.messages=shared"],
        &[talk, "model.aggregation=mean", "model.message_width=6"],
        &[talk, "model.aggregation=add", "model.messages=shared"],
        &[talk, "model.aggregation=degree", "model.message_width=4"],
        &[talk, "model.aggregation=degree", "model.message_width=6", "model.messages=shared"],
    ] {
        maze(keys);
        sudoku(keys);
        check_keys::<Mnist>(keys, 3, SHORT);
    }
}

#[test]
fn every_objective_is_differentiated() {
    for objective in ["l1-box", "quadratic", "lasso", "non-negative", "tether"] {
        for agreement in ["soft", "hard"] {
            let (objective, agreement) =
                (format!("model.objective={objective}"), format!("model.agreement={agreement}"));
            maze(&[&objective, &agreement, "model.l1=0.05"]);
        }
    }
    maze(&["model.objective=lasso", "model.l1=0"]);
}

#[test]
fn objectives_beyond_the_diagonal_are_differentiated() {
    for keys in [
        &["model.objective=dense"][..],
        &["model.objective=dense", "model.objective_rank=5", "model.agreement=hard"],
        &["model.objective=dense", "model.penalty=per-agent", "model.relaxation=1.5"],
        &["model.objective=equality"],
        &["model.objective=equality", "model.objective_rows=4", "model.agreement=hard"],
        &["model.objective=equality", "model.balancing=true", "model.rho_init=20"],
        &["model.objective=qp"],
        &["model.objective=qp", "model.objective_rows=7", "model.upper_init=0.05"],
    ] {
        maze(keys);
    }
    sudoku(&["model.objective=dense", "model.maps=low-rank"]);
    sudoku(&["model.objective=equality"]);
    check_keys::<Mnist>(&["model.objective=dense"], 3, SHORT);
    check_keys::<Mnist>(&["model.objective=qp"], 2, SHORT);
}

#[test]
fn a_dense_objective_without_factor_is_the_quadratic_one() {
    let dense = Case::<Maze>::new(&["model.objective=dense"], 2);
    let plain = Case::<Maze>::new(&["model.objective=quadratic"], 2);
    let params = plain.noisy(5);
    let mut with_factor = vec![0.0; dense.model.layout().len()];
    for entry in plain.model.layout().entries() {
        let own = dense.model.layout().range(&entry.name).unwrap();
        with_factor[own].copy_from_slice(&params[entry.range.clone()]);
    }
    let (a, b) = (dense.gradient(&with_factor, SHORT).0, plain.gradient(&params, SHORT).0);
    assert!((a - b).abs() < 1e-12, "{a} and {b}");
}

#[test]
fn every_kind_of_maps_is_differentiated() {
    for maps in ["low-rank", "shared", "identity"] {
        for sharing in ["slot", "global"] {
            for agreement in ["soft", "hard"] {
                maze(&[
                    &format!("model.maps={maps}"),
                    &format!("model.sharing={sharing}"),
                    &format!("model.agreement={agreement}"),
                ]);
            }
        }
    }
}

#[test]
fn maps_of_every_agent_are_differentiated() {
    for agreement in ["model.agreement=soft", "model.agreement=hard"] {
        maze(&["model.maps=shared", "model.sharing=agent", "model.agents=9", agreement]);
    }
    maze(&["model.maps=shared", "model.sharing=agent", "model.agents=9", "model.consensus=exact"]);
    sudoku(&["model.maps=shared", "model.sharing=agent", "model.agents=27"]);
    check_keys::<Mnist>(&["model.maps=shared", "model.sharing=agent", "model.agents=9"], 3, SHORT);
}

#[test]
fn maps_of_every_agent_that_are_equal_are_shared_maps() {
    let own = Case::<Maze>::new(&["model.maps=shared", "model.sharing=agent", "model.agents=9"], 3);
    let shared = Case::<Maze>::new(&["model.maps=shared"], 3);
    let params = shared.noisy(6);
    let mut with_own = vec![0.0; own.model.layout().len()];
    let of = |case: &Case<Maze>, name: &str| case.model.layout().range(name).unwrap();
    let mut maps = Vec::new();
    for entry in shared.model.layout().entries() {
        let values = &params[entry.range.clone()];
        match entry.name.starts_with("maps/") {
            true => maps.extend_from_slice(values),
            false => with_own[of(&own, &entry.name)].copy_from_slice(values),
        }
    }
    let range = of(&own, "maps/agents");
    assert_eq!(range.len(), 9 * maps.len());
    with_own[range.clone()].chunks_exact_mut(maps.len()).for_each(|agent| agent.copy_from_slice(&maps));
    let ((loss, grad), (expected, shared_grad)) =
        (own.gradient(&with_own, SHORT), shared.gradient(&params, SHORT));
    assert!((loss - expected).abs() < 1e-12, "{loss} and {expected}");
    let first = shared.model.layout().entries().iter().find(|e| e.name.starts_with("maps/")).unwrap();
    let shared_grad = &shared_grad[first.range.start..][..maps.len()];
    for (k, &expected) in shared_grad.iter().enumerate() {
        let sum: f64 = grad[range.clone()].iter().skip(k).step_by(maps.len()).sum();
        assert!((sum - expected).abs() < 1e-10 * (1.0 + expected.abs()), "number {k}: {sum} and {expected}");
    }
}

#[test]
fn gates_of_the_update_are_differentiated_in_every_form_of_maps() {
    let gates = "model.gates=true";
    for sharing in ["model.sharing=slot", "model.sharing=global"] {
        maze(&[gates, sharing]);
    }
    // Packed: one base for all slots, stacks too large to keep.
    check_keys::<Mnist>(&[gates, "model.d_v=16", "model.d_e=12", "model.sharing=global"], 3, SHORT);
    sudoku(&[gates, "model.maps=low-rank"]);
}

#[test]
fn every_kind_of_maps_is_differentiated_where_stacks_are_large() {
    // 9 slots of 4 × 36 numbers exceed the limit of a stack per view.
    let large = ["model.d_v=36", "model.d_e=4", "model.consensus=cg"];
    for maps in ["low-rank", "shared", "identity", "orthonormal"] {
        for sharing in ["slot", "global"] {
            let keys = [format!("model.maps={maps}"), format!("model.sharing={sharing}")];
            // Orthonormal maps cannot be the same in every slot.
            if (maps, sharing) != ("orthonormal", "global") {
                sudoku(&[&large[..], &[&keys[0], &keys[1]]].concat());
            }
        }
    }
}

#[test]
fn every_consensus_solver_is_differentiated() {
    for (consensus, keys) in [
        ("cg", &[][..]),
        ("cg-carried", &["model.agreement=hard"]),
        ("cg-carried", &[]),
        // The adjoint treats the start of a step as a constant, which is exact if the solve is exact.
        ("cg-warm", TIGHT),
        ("cg", &["model.agreement=hard"]),
        // The gradient of a solve to a tolerance is that of the solution: differences see it when the solve is tight.
        ("cg", TIGHT),
        ("gram", &[]),
        ("gram", &["model.maps=shared"]),
        ("gram", &["model.agreement=hard"]),
        ("gram", &["model.maps=identity"]),
        ("gram", &["model.sharing=global"]),
        ("gram", TIGHT),
        ("descent", &[]),
        ("descent", &["model.agreement=hard", "model.momentum=0"]),
        ("descent", &["model.descent_start=previous", "model.eta_learned=false"]),
        ("descent", &["model.asynchronous=delay=3,loss=0.2,activity=0.7"]),
        ("descent", &["model.asynchronous=delay=9,loss=0.5", "model.descent_start=previous"]),
        ("descent", &["model.asynchronous=activity=0.5,seed=3", "model.agreement=hard", "model.momentum=0"]),
        ("edge", &[]),
        ("edge", &["model.agreement=hard"]),
        ("exact", &[]),
        ("exact", &["model.maps=shared"]),
        ("huber", &[]),
        ("huber", &["model.huber_width=0.1"]),
    ] {
        maze(&[&[format!("model.consensus={consensus}").as_str()], keys].concat());
    }
    for consensus in ["model.consensus=cg", "model.consensus=gram"] {
        smooth_maze(&[&[consensus, "model.agreement=hard"], TIGHT].concat());
    }
}

#[test]
fn consensus_in_gram_space_and_in_closed_form_is_differentiated_in_tiles() {
    for keys in [
        &["model.consensus=gram"][..],
        &["model.consensus=gram", "model.maps=low-rank", "model.d_e=3"],
        &["model.consensus=gram", "model.sharing=global", "model.d_e=3"],
        &["model.consensus=gram", "model.maps=identity", "model.d_e=3"],
        &["model.consensus=gram", "model.cg_tolerance=1e-13", "model.cg_steps=200", "model.maps=low-rank"],
        &["model.consensus=closed-form", "model.maps=orthonormal"],
        &["model.consensus=closed-form", "model.maps=orthonormal", "model.agreement=hard"],
        &["model.maps=orthonormal", "model.scales=true"],
        &["model.maps=orthonormal", "model.scales=true", "model.agreement=hard"],
        &["model.maps=orthonormal", "model.scales=true", "model.consensus=cg"],
        &["model.consensus=gram", "model.maps=orthonormal"],
        &["model.consensus=exact", "model.maps=orthonormal"],
        &["model.objective=tether", "model.maps=low-rank"],
        &["model.objective=l1-box", "model.start=zeros"],
        &["model.relaxation=1.4", "model.rho_learned=false"],
        &["model.mixers=0", "model.start=zeros"],
    ] {
        sudoku(keys);
    }
    // d_v = 8 slots × d_e: the maps of a grid of eight neighbours can be orthonormal as well.
    maze(&["model.d_v=16", "model.d_e=2", "model.maps=orthonormal"]);
    maze(&["model.d_v=16", "model.d_e=2", "model.maps=orthonormal", "model.consensus=cg"]);
}

#[test]
fn penalties_relaxation_and_starts_are_differentiated() {
    for keys in [
        &["model.penalty=per-agent"][..],
        &["model.penalty=per-agent", "model.agreement=hard"],
        &["model.penalty=per-agent", "model.consensus=exact"],
        &["model.penalty=per-agent", "model.consensus=exact", "model.agreement=hard", "model.maps=identity"],
        &["model.penalty=per-agent", "model.consensus=descent"],
        &["model.penalty=per-agent", "model.consensus=edge"],
        &["model.penalty=per-agent", "model.consensus=huber"],
        &["model.penalty=per-agent", "model.objective=tether"],
        &["model.rho_learned=false"],
        &["model.relaxation=1.6"],
        &["model.relaxation=0.7", "model.agreement=hard"],
        &["model.start=zeros"],
        &["model.start=zeros", "model.objective=tether"],
        &["model.start=zeros", "model.agreement=hard", "model.objective=quadratic"],
        &["model.balancing=true", "model.rho_init=20"],
        &["model.balancing=true", "model.rho_init=0.001", "model.penalty=per-agent"],
        &["model.balancing=true", "model.consensus=exact", "model.rho_init=20"],
    ] {
        maze(keys);
    }
    sudoku(&["model.balancing=true", "model.rho_init=20"]);
}

#[test]
fn pictures_are_differentiated_in_every_shape_of_views() {
    for keys in [
        &["model.stride=2", "model.relaxation=1.3"][..],
        &["model.neighbours=4", "model.l1=0", "model.rank=3"],
        &["model.neighbours=4", "model.sharing=slot"],
        &["model.maps=shared", "model.agreement=soft"],
        &["model.start=zeros"],
        &["model.rank=8"],
        // Large enough for one packed base and factors per view.
        &["model.d_v=16", "model.d_e=12"],
        &["model.d_v=16", "model.d_e=12", "model.maps=shared"],
    ] {
        check_keys::<Mnist>(keys, 3, SHORT);
    }
}

#[test]
fn gradients_of_the_last_iterations_leave_out_what_was_before() {
    fn check<K: Small>(keys: &[&str]) {
        let case = Case::<K>::new(keys, 3);
        let params = case.noisy(6);
        let run = |gradient| case.gradient(&params, Horizon { gradient, ..Horizon::whole(5, 2) });
        let (loss, whole) = run(0);
        assert_eq!(run(5), (loss, whole.clone()), "{keys:?}");
        assert_eq!(run(9), (loss, whole.clone()), "{keys:?}");
        let distance = |part: &[f64]| part.iter().zip(&whole).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        let mut last = f64::INFINITY;
        for gradient in [2, 3, 4] {
            let (same, part) = run(gradient);
            assert_eq!(same, loss, "{keys:?}");
            for entry in case.model.layout().entries() {
                let (part, whole) = (&part[entry.range.clone()], &whole[entry.range.clone()]);
                if entry.name.starts_with("decoder/") {
                    assert_eq!(part, whole, "{keys:?}: {}", entry.name);
                } else if entry.name.starts_with("encoder/h") {
                    assert!(part.iter().all(|&g| g == 0.0), "{keys:?}: {}", entry.name);
                } else if entry.name == "encoder/q/bias" {
                    assert_ne!(part, whole, "{keys:?}");
                }
            }
            // Consensus in Gram space starts anew in every iteration: the omitted part fades.
            assert!(K::NAME != "sudoku" || distance(&part) < last, "{keys:?}: {gradient}");
            last = distance(&part);
        }
    }
    for maps in ["model.maps=slot", "model.maps=low-rank", "model.maps=orthonormal"] {
        check::<Sudoku>(&[maps]);
    }
    check::<Maze>(&[]);
    check::<Mnist>(&[]);
}

#[test]
fn at_convergence_the_implicit_gradient_is_that_of_the_iterations() {
    // The series ends at 1e-5 of its first term, so finite differences cannot agree better than that.
    let check = GradientCheck { tolerance: 1e-4, ..differences::<Maze>() };
    for keys in [
        &["model.consensus=exact", "model.objective=quadratic"][..],
        &["model.consensus=exact", "model.objective=tether", "model.penalty=per-agent"],
        &["model.consensus=exact", "model.objective=quadratic", "model.relaxation=1.5"],
        &[
            "model.consensus=cg",
            "model.cg_tolerance=1e-12",
            "model.cg_steps=200",
            "model.objective=quadratic",
        ],
    ] {
        let case = Case::<Maze>::new(&[keys, &["model.gamma=1", "model.rho_init=1"]].concat(), 1);
        let horizon = Horizon { implicit: true, ..Horizon::whole(400, 1) };
        case.check_gradient(&format!("{keys:?}"), &case.noisy(9), horizon, &check, false);
    }
}
