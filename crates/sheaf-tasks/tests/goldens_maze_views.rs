//! Views, labels, masks, edges and reassembly against the arrays of the authors' code.
#![cfg(feature = "goldens")]

use std::path::PathBuf;

use safetensors::SafeTensors;
use sheaf_admm::sheaf::grid::{Connectivity, grid_edges};
use sheaf_tasks::maze::metrics::{argmax, reassemble};
use sheaf_tasks::maze::solve::Solver;
use sheaf_tasks::maze::views::{DistinctViews, ViewGrid, one_hot};
use sheaf_tasks::maze::{CLASSES, UNUSED};

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

const CASES: [&str; 3] = ["maze_sheaf", "maze_mpnn", "solver_matrix"];

#[test]
fn views_flatten_as_the_encoder_was_trained_on() {
    for name in CASES {
        case(name, |file, samples, side| {
            let grid = ViewGrid::maze(side, side).unwrap();
            let expected = words(file, "patches", f32::from_le_bytes); // [agents, samples, 3, 3, CLASSES]
            let mut views = DistinctViews::default();
            views.collect(&grid, &bytes_of(file, "tokens"));
            let mut hot = vec![0f32; 9 * CLASSES];
            assert_eq!(expected.len(), samples * grid.agents() * hot.len());
            for (i, expected) in expected.chunks(hot.len()).enumerate() {
                let (agent, sample) = (i / samples, i % samples);
                one_hot(views.codes()[views.index()[sample * grid.agents() + agent] as usize], &mut hot);
                assert_eq!(hot, expected, "{name}: agent {agent}, sample {sample}");
            }
        });
    }
}

#[test]
fn label_patches_masks_and_centres_agree() {
    for name in CASES {
        case(name, |file, samples, side| {
            let grid = ViewGrid::maze(side, side).unwrap();
            let expected = words(file, "label_patches", i32::from_le_bytes); // [agents, samples, 3, 3]
            let expected_masks = words(file, "masks", f32::from_le_bytes); // the same
            let centres = words(file, "centers", i32::from_le_bytes); // [agents, 2]
            let labels = bytes_of(file, "labels");
            let mut masks = vec![0f32; grid.agents() * 9];
            grid.masks(&mut masks);
            for sample in 0..samples {
                let mut patches = vec![UNUSED; grid.agents() * 9];
                grid.label_patches(&labels[sample * side * side..][..side * side], &mut patches);
                for agent in 0..grid.agents() {
                    for i in 0..9 {
                        let golden = (agent * samples + sample) * 9 + i;
                        assert_eq!(masks[agent * 9 + i], expected_masks[golden]);
                        assert_eq!(i32::from(patches[agent * 9 + i]), expected[golden]);
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
            let grid = ViewGrid::maze(side, side).unwrap();
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
    let grid = ViewGrid::maze(19, 19).unwrap();
    for sample in 0..samples {
        let own: Vec<f32> = (0..agents)
            .flat_map(|agent| last[(agent * samples + sample) * view_len..][..view_len].to_vec())
            .collect();
        let (mut picture, mut best) = (vec![0f32; 361 * CLASSES], vec![0; 361]);
        reassemble(&grid, &own, &mut picture);
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
