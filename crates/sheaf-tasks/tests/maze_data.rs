//! Generated mazes: perfect, long enough, deterministic in the seed, with disjoint train and test sets.

use std::collections::HashSet;

use sheaf_admm::ErrorKind;
use sheaf_tasks::maze::carve::{Carver, MazeShape};
use sheaf_tasks::maze::data::{MazeSet, generate, train_test_split};
use sheaf_tasks::maze::solve::Solver;
use sheaf_tasks::maze::symmetry::{Symmetry, canonical_key};
use sheaf_tasks::maze::{EMPTY, GOAL, PATH, START, WALL};
use sheaf_testkit::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn sets() -> Vec<(MazeShape, MazeSet)> {
    [(19, 19, 18), (5, 5, 0), (3, 7, 2), (9, 3, 1), (19, 37, 35), (73, 73, 109)]
        .into_iter()
        .map(|(h, w, m)| {
            let shape = MazeShape::new(h, w, m).unwrap();
            (shape, generate(&shape, 7, 40).unwrap())
        })
        .collect()
}

/// A second path finder, independent of the search: fills dead ends until none is left. In a perfect maze, what remains
/// between start and goal is the path.
fn fill_dead_ends(input: &[u8], width: usize) -> Vec<u8> {
    let mut left: Vec<bool> = input.iter().map(|&t| t != WALL).collect();
    loop {
        let mut filled = false;
        for p in 0..input.len() {
            // Every open pixel of a generated maze has four neighbours: the border is wall.
            if !left[p] || input[p] == START || input[p] == GOAL {
                continue;
            }
            let exits = [p - 1, p + 1, p - width, p + width].into_iter().filter(|&q| left[q]).count();
            if exits < 2 {
                left[p] = false;
                filled = true;
            }
        }
        if !filled {
            break;
        }
    }
    input.iter().zip(&left).map(|(&t, &l)| if l && t == EMPTY { PATH } else { t }).collect()
}

#[test]
fn every_maze_is_one_tree_with_walls_around_it() {
    for (shape, set) in sets() {
        for i in 0..set.len() {
            let structure = Solver::default().examine(set.input(i), set.width);
            assert!(structure.is_perfect(), "{shape:?} {i}: {structure:?}");
            assert_eq!(structure.open, 2 * (set.height / 2) * (set.width / 2) - 1);
            assert_eq!((structure.starts, structure.goals, structure.border_openings), (1, 1, 0));
            for (p, &token) in set.input(i).iter().enumerate() {
                let (row, column) = (p / set.width, p % set.width);
                if row % 2 == 1 && column % 2 == 1 {
                    assert_ne!(token, WALL);
                } else if row % 2 == 0 && column % 2 == 0 {
                    assert_eq!(token, WALL);
                }
                assert!((WALL..=GOAL).contains(&token));
            }
        }
    }
}

#[test]
fn labels_agree_with_an_independent_path_finder_and_are_long_enough() {
    for (shape, set) in sets() {
        for i in 0..set.len() {
            assert_eq!(set.label(i), fill_dead_ends(set.input(i), set.width), "{shape:?} {i}");
            let steps = set.label(i).iter().filter(|&&t| t == PATH).count() + 1;
            assert!(steps >= shape.min_path());
        }
    }
}

#[test]
fn the_minimum_length_is_reached_but_not_surpassed_by_rule() {
    let shape = MazeShape::new(19, 19, 18).unwrap();
    let set = generate(&shape, 3, 2_000).unwrap();
    let shortest = (0..set.len()).map(|i| set.label(i).iter().filter(|&&t| t == PATH).count() + 1).min();
    assert_eq!(shortest, Some(18));
}

#[test]
fn start_and_goal_fall_on_cells_and_on_pixels_between_them() {
    let set = generate(&MazeShape::new(19, 19, 18).unwrap(), 5, 500).unwrap();
    for token in [START, GOAL] {
        let between = (0..set.len())
            .filter(|&i| {
                let p = set.input(i).iter().position(|&t| t == token).unwrap();
                (p / 19) % 2 == 0 || (p % 19) % 2 == 0
            })
            .count();
        // 80 of the 161 open pixels lie between cells; six standard deviations of 500 draws are 67.
        assert!((180..320).contains(&between), "{between}");
    }
}

#[test]
fn a_maze_depends_on_seed_and_number_only() {
    let shape = MazeShape::new(19, 19, 18).unwrap();
    let all = generate(&shape, 42, 60).unwrap();
    let in_one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert_eq!(in_one_thread.install(|| generate(&shape, 42, 60).unwrap()), all);
    let (mut input, mut label) = (vec![0; 361], vec![0; 361]);
    let mut carver = Carver::default();
    carver.draw(&shape, 42, 59, &mut input, &mut label).unwrap();
    carver.draw(&shape, 42, 17, &mut input, &mut label).unwrap();
    assert_eq!((all.input(17), all.label(17)), (&input[..], &label[..]));
    assert_ne!(generate(&shape, 43, 60).unwrap(), all);
}

#[test]
fn drawing_allocates_nothing_after_the_first_mazes() {
    let shape = MazeShape::new(19, 19, 18).unwrap();
    let (mut input, mut label) = (vec![0; 361], vec![0; 361]);
    let mut carver = Carver::default();
    let mut draw = |index| carver.draw(&shape, 1, index, &mut input, &mut label).unwrap();
    // The trail of cells is as long as the deepest corridor so far.
    (0..200).for_each(|i| assert!(draw(i) >= 18));
    assert_eq!(allocations(|| draw(200)), 0);
}

#[test]
fn the_first_maze_of_seed_zero_never_changes() {
    // Runs are reproducible across versions only while this holds.
    let set = generate(&MazeShape::new(7, 7, 6).unwrap(), 0, 1).unwrap();
    let drawn: String = set.label(0).iter().map(|&t| b"_#.SG*"[t as usize] as char).collect();
    assert_eq!(drawn, FIRST);
}
const FIRST: &str = "########*****##*###*##S#G**##.#.####.#...########";

#[test]
fn mazes_of_a_set_differ() {
    let set = generate(&MazeShape::new(19, 19, 18).unwrap(), 1, 1_000).unwrap();
    assert_eq!(set.keys().len(), 1_000);
}

#[test]
fn no_test_maze_appears_in_training_under_any_symmetry() {
    // So small that chance alone would put test mazes into the training set.
    let shape = MazeShape::new(5, 7, 3).unwrap();
    let (train, test) = train_test_split(&shape, 9, 2_000, 150).unwrap();
    assert_eq!((train.len(), test.len()), (2_000, 150));
    let mut seen = HashSet::new();
    let mut variant = vec![0; shape.pixels()];
    for i in 0..train.len() {
        for symmetry in Symmetry::ALL {
            symmetry.apply(train.input(i), 5, 7, &mut variant);
            seen.insert((symmetry.output_size(5, 7), variant.clone()));
        }
    }
    for i in 0..test.len() {
        assert!(!seen.contains(&((5, 7), test.input(i).to_vec())), "test maze {i} is in the training set");
    }
    let unsplit = generate(&shape, 9, 2_000).unwrap();
    let held_out = test.keys();
    let leaks = (0..2_000).filter(|&i| held_out.contains(&canonical_key(unsplit.input(i), 5, 7))).count();
    assert!(leaks > 100, "the split had nothing to do: {leaks}");
}

#[test]
fn test_mazes_are_distinct_up_to_symmetry() {
    // Every 5×5 maze is one corridor of seven pixels, so there are 7·6/2 = 21 up to symmetry.
    let shape = MazeShape::new(5, 5, 0).unwrap();
    let (_, test) = train_test_split(&shape, 9, 0, 21).unwrap();
    assert_eq!((test.len(), test.keys().len()), (21, 21));
    let error = train_test_split(&shape, 9, 0, 22).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Infeasible);
    assert!(error.hint_text().is_some());
}

#[test]
fn the_test_set_does_not_depend_on_the_training_set() {
    let shape = MazeShape::new(9, 9, 5).unwrap();
    assert_eq!(
        train_test_split(&shape, 4, 0, 30).unwrap().1,
        train_test_split(&shape, 4, 100, 30).unwrap().1
    );
}

#[test]
fn impossible_wishes_are_refused() {
    let kind = |h, w, m| MazeShape::new(h, w, m).unwrap_err().kind();
    assert_eq!(kind(18, 19, 5), ErrorKind::Shape);
    assert_eq!(kind(19, 1, 5), ErrorKind::Shape);
    assert_eq!(kind(3, 3, 0), ErrorKind::Shape);
    assert_eq!(kind(usize::MAX, usize::MAX, 0), ErrorKind::Shape);
    assert_eq!(kind(5, 5, 7), ErrorKind::Infeasible);
    // Six steps fit into 5×5, but only a path around all four cells has them.
    let shape = MazeShape::new(5, 5, 6).unwrap();
    assert_eq!(generate(&shape, 1, 20).unwrap().len(), 20);
}

#[test]
fn variants_of_a_set_keep_input_and_label_together() {
    let set = generate(&MazeShape::new(19, 37, 35).unwrap(), 2, 3).unwrap();
    let (mut input, mut label) = (vec![0; set.pixels()], vec![0; set.pixels()]);
    let mut solved = vec![0; set.pixels()];
    for symmetry in Symmetry::ALL {
        set.write_variant(1, symmetry, &mut input, &mut label);
        let width = symmetry.output_size(19, 37).1;
        Solver::default().label(&input, width, &mut solved).unwrap();
        assert_eq!(solved, label);
    }
}
