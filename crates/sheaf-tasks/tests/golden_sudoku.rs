//! The Sudoku models against arrays from the authors' code: graph, encoder, iterates, logits, loss, every gradient.
#![cfg(feature = "goldens")]

use sheaf_admm::Real;
use sheaf_admm::sheaf::AgentGraph;
use sheaf_tasks::sudoku::model::{Batch, Horizon, Prepared, SudokuConfig, SudokuModel, Tile};
use sheaf_tasks::sudoku::views::gather;
use sheaf_tasks::sudoku::{Grid, UNIT_CELLS};
use sheaf_testkit::golden::{Array, Golden, assert_close_max, assert_grad, assert_iterates};

const K: usize = 4;
const CASES: [(&str, &str); 2] = [("sudoku_sheaf", "slot"), ("sudoku_sheaf_lora", "low-rank")];

fn model(maps: &str) -> SudokuModel {
    SudokuModel::new(SudokuConfig { maps: maps.into(), ..SudokuConfig::default() }).unwrap()
}

fn params<T: Real>(model: &SudokuModel, golden: &Golden) -> Vec<T> {
    let mut params = vec![T::ZERO; model.layout().len()];
    for entry in model.layout().entries() {
        let theirs = model.authors_name(&entry.name).unwrap();
        let array = golden.f64(&format!("param/{theirs}"));
        assert_eq!(array.data.len(), entry.range.len(), "{theirs}");
        for (to, from) in params[entry.range.clone()].iter_mut().zip(&array.data) {
            *to = T::from_f64(*from);
        }
    }
    params
}

fn boards(array: &Array<i32>) -> Vec<Grid> {
    array.data.chunks_exact(81).map(|b| std::array::from_fn(|c| b[c] as u8)).collect()
}

fn f64s<T: Real>(values: &[T]) -> Vec<f64> {
    values.iter().map(|v| v.to_f64()).collect()
}

#[test]
fn the_models_have_the_published_number_of_parameters() {
    assert_eq!(model("slot").layout().len(), 543_025);
    assert_eq!(model("low-rank").layout().len(), 2_029_233);
}

#[test]
fn graph_and_views_are_the_authors() {
    for (case, _) in CASES {
        let inputs = Golden::open(case, "inputs.safetensors");
        let graph = AgentGraph::sudoku();
        let edges: Vec<i32> = graph.edges().iter().flat_map(|e| [e.u as i32, e.v as i32]).collect();
        assert_eq!(edges, inputs.i32("edges").data);
        let slots = |f: fn(&sheaf_admm::sheaf::Edge) -> u32| -> Vec<i32> {
            graph.edges().iter().map(|e| f(e) as i32).collect()
        };
        assert_eq!(slots(|e| e.slot_u), inputs.i32("map_u").data);
        assert_eq!(slots(|e| e.slot_v), inputs.i32("map_v").data);
        let cells: Vec<i32> = UNIT_CELLS.as_flattened().iter().map(|&c| i32::from(c)).collect();
        assert_eq!(cells, inputs.i32("cell_ids").data);
        let labels = inputs.i32("slice_labels");
        for (s, solution) in boards(&inputs.i32("labels")).iter().enumerate() {
            let mut views = [0; 243];
            gather(solution, &mut views);
            assert_eq!(views.map(i32::from).to_vec(), labels.select(1, s).data);
        }
    }
}

fn check_values<T: Real>() {
    for (case, maps) in CASES {
        let model = model(maps);
        let params: Vec<T> = params(&model, &Golden::open(case, "params.safetensors"));
        let inputs = Golden::open(case, "inputs.safetensors");
        let encoder = Golden::open(case, "encoder.safetensors");
        let trace = Golden::open(case, "trace.safetensors");
        assert!((model.rho(&params).0.to_f64() - encoder.f64("rho").scalar()).abs() < 1e-6);
        for (s, puzzle) in boards(&inputs.i32("tokens")).iter().enumerate() {
            let (mut prepared, mut tile) = (Prepared::default(), Tile::<T>::default());
            model.prepare(&params, &mut prepared);
            model.encode(&params, &prepared, std::slice::from_ref(puzzle), &mut tile);
            let e = tile.encoded();
            for (name, got) in [("h", &e.h), ("q", &e.q), ("q_diag", &e.diag), ("A", &e.a), ("B", &e.b)] {
                if encoder.has(&format!("enc/{name}")) {
                    let want = encoder.f64(&format!("enc/{name}")).select(1, s).data;
                    assert_close_max(&format!("{case} {name}"), &f64s(got), &want, 1e-5);
                } else {
                    assert!(maps == "slot" && got.is_empty(), "{case} has no {name}");
                }
            }
            let seen = model.trace(&params, puzzle, K);
            for (name, axis, got) in [
                ("x", 2, &seen.x),
                ("z", 2, &seen.z),
                ("y", 2, &seen.u),
                ("primal_res", 2, &seen.primal),
                ("dual_res", 2, &seen.dual),
                ("consistency_rms", 1, &seen.consistency),
            ] {
                let want = trace.f64(name).select(axis, s).data;
                assert_iterates(&format!("{case} {name}"), &f64s(got), &want, K);
            }
            let want = trace.f64("logits_per_iter").select(2, s).data;
            assert_close_max("logits", &f64s(&seen.logits), &want, 2e-4);
            let pred = trace.i32("pred").select(0, s).data;
            assert_eq!(seen.boards[K - 1].map(i32::from).to_vec(), pred, "{case}: prediction of board {s}");
        }
    }
}

fn check_gradients<T: Real>() {
    for (case, maps) in CASES {
        let model = model(maps);
        let params: Vec<T> = params(&model, &Golden::open(case, "params.safetensors"));
        let inputs = Golden::open(case, "inputs.safetensors");
        let want = Golden::open(case, "loss_grads.safetensors");
        let mut grad = vec![T::ZERO; params.len()];
        let (puzzles, solutions) = (boards(&inputs.i32("tokens")), boards(&inputs.i32("labels")));
        let horizon = Horizon::whole(K, 2);
        let loss =
            Batch::<T>::default().loss_and_grad(&model, &params, &puzzles, &solutions, horizon, &mut grad);
        let want_loss: f64 = want.f64("loss").scalar();
        assert!((loss.loss - want_loss).abs() <= 1e-5 * want_loss, "loss {} against {want_loss}", loss.loss);
        let largest = want.largest_grad_norm();
        for entry in model.layout().entries() {
            let theirs = model.authors_name(&entry.name).unwrap();
            let got = f64s(&grad[entry.range.clone()]);
            assert_grad(
                &format!("{case} {theirs}"),
                &got,
                &want.f64(&format!("grad/{theirs}")).data,
                largest,
            );
        }
    }
}

#[test]
fn encoder_iterates_and_logits_agree_in_single_precision() {
    check_values::<f32>();
}

#[test]
fn encoder_iterates_and_logits_agree_in_double_precision() {
    check_values::<f64>();
}

#[test]
fn loss_and_every_gradient_agree_in_single_precision() {
    check_gradients::<f32>();
}

#[test]
fn loss_and_every_gradient_agree_in_double_precision() {
    check_gradients::<f64>();
}
