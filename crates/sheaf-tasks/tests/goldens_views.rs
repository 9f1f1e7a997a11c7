//! Views, labels, masks, edges and reassembly of mazes and Sudoku against the arrays of the authors' code.
#![cfg(feature = "goldens")]

use std::path::PathBuf;

use safetensors::SafeTensors;
use sheaf_admm::sheaf::AgentGraph;
use sheaf_admm::sheaf::grid::{Connectivity, grid_edges};
use sheaf_learn::model::{Samples, Targets, ViewGrid};
use sheaf_learn::train::loss::IGNORE;
use sheaf_tasks::maze::metrics::argmax;
use sheaf_tasks::maze::solve::Solver;
use sheaf_tasks::maze::task::{MazeConfig, MazeSamples, board};
use sheaf_tasks::maze::{CLASSES, UNUSED};
use sheaf_tasks::sudoku::task::Boards;
use sheaf_tasks::sudoku::{Grid, UNIT_CELLS};
use sheaf_testkit::golden::Golden;

fn read(path: &str) -> Vec<u8> {
    let root = std::env::var_os("SHEAF_GOLDENS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/goldens"),
        PathBuf::from,
    );
    let path = root.join(path);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn words<T>(file: &SafeTensors, name: &str, convert: fn([u8; 4]) -> T) -> Vec<T> {
    let bytes = file.tensor(name).unwrap().data();
    bytes.chunks_exact(4).map(|b| convert(b.try_into().unwrap())).collect()
}

/// Samples and side of the square pictures of a case.
fn case(name: &str, check: impl Fn(&SafeTensors, usize, usize)) {
    let bytes = read(&format!("{name}/inputs.safetensors"));
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let shape = file.tensor("tokens").unwrap().shape().to_vec();
    check(&file, shape[0], shape[1].isqrt());
}

fn bytes_of(file: &SafeTensors, name: &str) -> Vec<u8> {
    words(file, name, i32::from_le_bytes).into_iter().map(|t| u8::try_from(t).unwrap()).collect()
}

fn maze_grid(side: usize) -> ViewGrid {
    board(&MazeConfig::default(), side, side).unwrap().layout
}

const CASES: [&str; 3] = ["maze_sheaf", "maze_mpnn", "solver_matrix"];

#[test]
fn views_flatten_as_the_encoder_was_trained_on() {
    for name in CASES {
        case(name, |file, samples, side| {
            let (grid, tokens) = (maze_grid(side), bytes_of(file, "tokens"));
            let mazes = MazeSamples { grid, inputs: &tokens, labels: &[] };
            assert_eq!(mazes.len(), samples);
            let expected = words(file, "patches", f32::from_le_bytes); // [agents, samples, 3, 3, CLASSES]
            assert_eq!(expected.len(), samples * grid.agents() * 9 * CLASSES);
            let mut views = vec![0.0; grid.agents() * 9];
            for sample in 0..samples {
                mazes.views(sample, &mut views);
                for (agent, view) in views.chunks_exact(9).enumerate() {
                    let hot: Vec<f32> = view
                        .iter()
                        .flat_map(|&token| (0..CLASSES).map(move |c| f32::from(token == c as f32)))
                        .collect();
                    let own = &expected[(agent * samples + sample) * hot.len()..][..hot.len()];
                    assert_eq!(hot, own, "{name}: agent {agent}, sample {sample}");
                }
            }
        });
    }
}

#[test]
fn label_patches_masks_and_centres_agree() {
    for name in CASES {
        case(name, |file, samples, side| {
            let (grid, labels) = (maze_grid(side), bytes_of(file, "labels"));
            let mazes = MazeSamples { grid, inputs: &labels, labels: &labels };
            let expected = words(file, "label_patches", i32::from_le_bytes); // [agents, samples, 3, 3]
            let masks = words(file, "masks", f32::from_le_bytes); // the same
            let centres = words(file, "centers", i32::from_le_bytes); // [agents, 2]
            let mut targets = Targets::default();
            for sample in 0..samples {
                mazes.targets(sample, &mut targets);
                for agent in 0..grid.agents() {
                    for (i, &label) in targets.labels[agent * 9..][..9].iter().enumerate() {
                        let golden = (agent * samples + sample) * 9 + i;
                        assert_eq!(label != IGNORE, masks[golden] == 1.0);
                        let label = if label == IGNORE { UNUSED } else { label };
                        assert_eq!(i32::from(label), expected[golden]);
                    }
                    let (row, column) = grid.centre(agent);
                    assert_eq!([row as i32, column as i32], centres[2 * agent..][..2]);
                }
            }
        });
    }
}

#[test]
fn edges_come_in_the_same_order_with_the_same_slots() {
    for name in CASES {
        case(name, |file, _, side| {
            let grid = maze_grid(side);
            let ours = grid_edges(grid.rows(), grid.columns(), Connectivity::Eight).unwrap();
            let pairs: Vec<i32> = ours.iter().flat_map(|e| [e.u as i32, e.v as i32]).collect();
            assert_eq!(pairs, words(file, "edges", i32::from_le_bytes));
            let from_u: Vec<i32> = ours.iter().map(|e| e.slot_u.into()).collect();
            assert_eq!(from_u, words(file, "dir_uv", i32::from_le_bytes));
            let from_v: Vec<i32> = ours.iter().map(|e| e.slot_v.into()).collect();
            assert_eq!(from_v, words(file, "dir_vu", i32::from_le_bytes));
        });
    }
}

#[test]
fn their_labels_are_our_shortest_paths_in_perfect_mazes() {
    case("maze_sheaf", |file, samples, side| {
        let (tokens, labels) = (bytes_of(file, "tokens"), bytes_of(file, "labels"));
        for sample in 0..samples {
            let picture = sample * side * side..(sample + 1) * side * side;
            let mut label = vec![0; side * side];
            let mut solver = Solver::default();
            assert!(
                solver.label(&tokens[picture.clone()], side, &mut label).is_some_and(|steps| steps >= 18)
            );
            assert_eq!(label, labels[picture.clone()]);
            assert!(solver.examine(&tokens[picture], side).is_perfect());
        }
    });
}

#[test]
fn reassembled_logits_and_predictions_agree() {
    let bytes = read("maze_sheaf/trace.safetensors");
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let shape = file.tensor("logits_per_iter").unwrap().shape().to_vec(); // [K, agents, samples, 3, 3, CLASSES]
    let (agents, samples, view_len) = (shape[1], shape[2], 9 * CLASSES);
    let logits = words(&file, "logits_per_iter", f32::from_le_bytes);
    let last = &logits[(shape[0] - 1) * agents * samples * view_len..];
    let (expected, predicted) =
        (words(&file, "reassembled", f32::from_le_bytes), words(&file, "pred", i32::from_le_bytes));
    let grid = maze_grid(19);
    for sample in 0..samples {
        let own: Vec<f32> = (0..agents)
            .flat_map(|agent| last[(agent * samples + sample) * view_len..][..view_len].to_vec())
            .collect();
        let (mut picture, mut best) = (vec![0f32; 361 * CLASSES], vec![0; 361]);
        grid.average(CLASSES, &own, &mut picture);
        argmax(&picture, &mut best);
        let expected = &expected[sample * 361 * CLASSES..][..361 * CLASSES];
        let scale = expected.iter().fold(0f32, |a, b| a.max(b.abs()));
        for (ours, theirs) in picture.iter().zip(expected) {
            assert!((ours - theirs).abs() <= 1e-6 * scale, "{ours} {theirs}");
        }
        let best: Vec<i32> = best.into_iter().map(i32::from).collect();
        assert_eq!(best, predicted[sample * 361..][..361]);
    }
}

#[test]
fn the_graph_and_the_views_of_sudoku_are_the_authors() {
    for case in ["sudoku_sheaf", "sudoku_sheaf_lora"] {
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
        let grid = |cells: &[i32]| -> Grid { std::array::from_fn(|c| cells[c] as u8) };
        let solutions: Vec<Grid> = inputs.i32("labels").data.chunks_exact(81).map(grid).collect();
        let (boards, mut targets) =
            (Boards { puzzles: &solutions, solutions: &solutions }, Targets::default());
        let mut views = vec![0.0; 27 * 10];
        for s in 0..boards.len() {
            boards.targets(s, &mut targets);
            let got: Vec<i32> = targets.labels.iter().map(|&l| i32::from(l)).collect();
            assert_eq!(got, labels.select(1, s).data);
            boards.views(s, &mut views);
            for (unit, view) in views.chunks_exact(10).enumerate() {
                assert_eq!(view[0], unit as f32);
                let cells = view[1..].iter().map(|&t| t as i32);
                assert!(cells.eq(got[unit * 9..][..9].iter().copied()));
            }
        }
    }
}
