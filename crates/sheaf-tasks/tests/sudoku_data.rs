//! Generated and solved puzzles: unique where promised, distributed as published, deterministic in the seed.

use proptest::prelude::*;
use sheaf_learn::rng::Stream;
use sheaf_tasks::maze::symmetry::Symmetry;
use sheaf_tasks::sudoku::augment::{Shuffles, Transform, canonical_key};
use sheaf_tasks::sudoku::data::blanks;
use sheaf_tasks::sudoku::generate::{Drawn, Kind, draw, generate, train_test_split};
use sheaf_tasks::sudoku::solver::{Ease, Verdict, conflicts, ease, is_complete, is_unique, solve};
use sheaf_tasks::sudoku::{Grid, UNIT_CELLS, csv::parse_board, units};

fn board(text: &str) -> Grid {
    parse_board(text).unwrap()
}

// "Golden Nugget" and a board of 17 givens: hard for people and for naive search.
const HARD: [(&str, &str); 2] = [
    (
        ".......39.....1..5..3.5.8....8.9...6.7...2...1..4.......9.8..5..2....6..4..7.....",
        "751846239892371465643259871238197546974562318165438927319684752527913684486725193",
    ),
    (
        "000000010400000000020000000000050407008000300001090000300400200050100000000806000",
        "693784512487512936125963874932651487568247391741398625319475268856129743274836159",
    ),
];

/// A second solver, independent of the first: plain backtracking over cells in order, counting all solutions.
fn count_plainly(grid: &mut Grid, from: usize, limit: usize) -> usize {
    let Some(cell) = (from..81).find(|&c| grid[c] == 0) else { return 1 };
    let mut count = 0;
    for digit in 1..=9 {
        let clash = (0..81).any(|other| {
            grid[other] == digit
                && (other / 9 == cell / 9
                    || other % 9 == cell % 9
                    || (other / 27 == cell / 27 && other % 9 / 3 == cell % 9 / 3))
        });
        if !clash && count < limit {
            grid[cell] = digit;
            count += count_plainly(grid, cell + 1, limit - count);
            grid[cell] = 0;
        }
    }
    count
}

#[test]
fn hard_puzzles_have_the_known_solutions() {
    for (puzzle, solution) in HARD {
        assert_eq!(solve(&board(puzzle)), Verdict::Unique(board(solution)));
    }
}

#[test]
fn contradictions_and_ambiguities_are_told_apart() {
    assert!(
        matches!(solve(&[0; 81]), Verdict::Ambiguous(a, b) if a != b && is_complete(&a) && is_complete(&b))
    );
    let mut twice = [0; 81];
    (twice[0], twice[8]) = (5, 5);
    assert_eq!(solve(&twice), Verdict::Contradictory);
    assert_eq!(conflicts(&twice).iter().filter(|&&c| c).count(), 2);
    // No two givens clash, but the first cell has no candidate left.
    let mut cornered = [0; 81];
    (1..=8).for_each(|d| cornered[d as usize] = d);
    cornered[9 * 5] = 9;
    assert_eq!(solve(&cornered), Verdict::Contradictory);
    assert_eq!(solve(&[77; 81]), Verdict::Contradictory);
}

#[test]
fn the_solver_agrees_with_plain_backtracking() {
    for i in 0..300 {
        let Drawn { puzzle, ambiguous, .. } = draw(Kind::Any, 5, i);
        // Plain backtracking is slow with few givens.
        if blanks(&puzzle) > 52 {
            continue;
        }
        assert_eq!(count_plainly(&mut puzzle.clone(), 0, 2) > 1, ambiguous, "puzzle {i}");
    }
}

#[test]
fn every_cell_lies_where_its_units_say() {
    for cell in 0..81 {
        for (unit, position) in units(cell) {
            assert_eq!(UNIT_CELLS[unit][position] as usize, cell);
        }
    }
}

#[test]
fn puzzles_are_what_their_kind_promises() {
    for kind in Kind::ALL {
        for i in 0..200 {
            let Drawn { puzzle, solution, ambiguous } = draw(kind, 11, i);
            assert!(is_complete(&solution));
            assert!(puzzle.iter().zip(&solution).all(|(&p, &s)| p == 0 || p == s));
            assert_eq!(ambiguous, !is_unique(&puzzle));
            assert!(kind == Kind::Any || solve(&puzzle) == Verdict::Unique(solution), "{kind:?} {i}");
            assert!(kind != Kind::Singles || ease(&puzzle) == Ease::NakedSingles);
            if kind == Kind::Minimal && i < 30 {
                for cell in (0..81).filter(|&c| puzzle[c] != 0) {
                    let mut less = puzzle;
                    less[cell] = 0;
                    assert!(!is_unique(&less), "puzzle {i} does not need cell {cell}");
                }
            }
        }
    }
}

/// The 5, 25, 50, 75 and 95 % quantiles and the mean of the numbers of blanks.
fn spread(kind: Kind) -> ([usize; 5], f64) {
    let set = generate(kind, 3, 4_000);
    let mut counts: Vec<usize> = set.puzzles.iter().map(blanks).collect();
    counts.sort_unstable();
    let mean = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
    ([5, 25, 50, 75, 95].map(|q| counts[counts.len() * q / 100]), mean)
}

#[test]
fn blanks_are_distributed_as_in_the_published_data() {
    // The published quantiles and mean; the 5 % quantile lies where the distribution is thin and may deviate more.
    for (kind, published, published_mean) in
        [(Kind::Any, [14, 38, 45, 51, 58], 42.7), (Kind::Mixed, [13, 37, 44, 49, 57], 41.8)]
    {
        let (quantiles, mean) = spread(kind);
        for (k, tolerance) in [3, 1, 1, 1, 1].into_iter().enumerate() {
            assert!(quantiles[k].abs_diff(published[k]) <= tolerance, "{kind:?}: {quantiles:?}");
        }
        assert!((mean - published_mean).abs() < 1.0, "{kind:?}: mean {mean}");
    }
}

#[test]
fn difficulty_and_ambiguity_are_as_in_the_published_data() {
    let set = generate(Kind::Any, 4, 4_000);
    let part = |count: usize| count as f64 / set.len() as f64;
    let ambiguous = part(set.ambiguous.iter().filter(|&&a| a).count());
    assert!((ambiguous - 0.097).abs() < 0.02, "{ambiguous}");
    let easy = part(set.puzzles.iter().filter(|p| ease(p) < Ease::Search).count());
    assert!((easy - 0.79).abs() < 0.025, "{easy}");
}

#[test]
fn a_puzzle_depends_on_seed_and_number_only() {
    let all = generate(Kind::Mixed, 42, 60);
    let in_one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert_eq!(in_one_thread.install(|| generate(Kind::Mixed, 42, 60)), all);
    assert_eq!(generate(Kind::Mixed, 42, 20), all.first(20));
    assert_eq!(draw(Kind::Mixed, 42, 17).puzzle, all.puzzles[17]);
    assert_ne!(generate(Kind::Mixed, 43, 60), all);
}

#[test]
fn the_first_puzzle_of_seed_zero_never_changes() {
    // Runs are reproducible across versions only while this holds.
    let text = |grid: &Grid| grid.iter().map(|d| (b'0' + d) as char).collect::<String>();
    assert_eq!(text(&draw(Kind::Mixed, 0, 0).puzzle), FIRST);
}
const FIRST: &str = "500000008000205001000310040000001900607003020000960000050030006060092080001000002";

#[test]
fn train_and_test_are_apart_and_the_test_set_stands_alone() {
    let (train, test) = train_test_split(Kind::Full, 9, 300, 100);
    assert_eq!((train.len(), test.len(), test.keys().len()), (300, 100, 100));
    assert!(train.keys().is_disjoint(&test.keys()));
    assert_eq!(train_test_split(Kind::Full, 9, 0, 100).1, test);
}

#[test]
fn a_split_file_leaks_no_variant_of_a_test_puzzle_into_training() {
    let mut set = generate(Kind::Full, 1, 10);
    let mut turned = [0; 81];
    Transform::symmetry(Symmetry::ALL[5]).apply(&set.puzzles[9], &mut turned);
    set.puzzles[2] = turned;
    let (train, test) = set.split_last(3);
    assert_eq!((train.len(), test.len()), (6, 3));
    assert!(train.keys().is_disjoint(&test.keys()));
    assert_eq!(set.split_last(99).1, set);
}

#[test]
fn hard_puzzles_are_minimal_ones_with_up_to_four_more_givens() {
    // How many givens can be spared, one after the other.
    let spare = |mut puzzle: Grid| {
        (0..81)
            .filter(|&cell| {
                let given = std::mem::take(&mut puzzle[cell]);
                let spared = given != 0 && is_unique(&puzzle);
                puzzle[cell] = if spared { 0 } else { given };
                spared
            })
            .count()
    };
    let givens = |kind, i| 81 - blanks(&draw(kind, 3, i).puzzle);
    let mean = |kind| (0..200).map(|i| givens(kind, i)).sum::<usize>() as f64 / 200.0;
    let between = mean(Kind::Hard) - mean(Kind::Minimal);
    assert!((1.3..2.7).contains(&between), "{between}");
    assert!((0..20).any(|i| spare(draw(Kind::Hard, 3, i).puzzle) > 0));
    assert!((0..20).all(|i| spare(draw(Kind::Minimal, 3, i).puzzle) == 0));
}

#[test]
fn kinds_are_known_by_their_names() {
    for kind in Kind::ALL {
        assert_eq!(kind.name().parse::<Kind>().unwrap(), kind);
    }
    assert!("easy".parse::<Kind>().unwrap_err().expected().contains("minimal"));
}

#[test]
fn symmetric_variants_share_a_key() {
    let puzzle = draw(Kind::Full, 2, 0).puzzle;
    let mut variant = [0; 81];
    for symmetry in Symmetry::ALL {
        Transform::symmetry(symmetry).apply(&puzzle, &mut variant);
        assert_eq!(canonical_key(&variant), canonical_key(&puzzle));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_variant_of_the_solution_solves_the_variant_of_the_puzzle(
        seed in 0u64..1000, k in 0usize..8, digits: bool, bands: bool, transpose: bool,
    ) {
        let Drawn { puzzle, solution, .. } = draw(Kind::Full, seed, 0);
        let mut stream = Stream::new(seed, "variant", k as u64, 0);
        let shape = Transform::draw(Symmetry::ALL[k], Shuffles { digits, bands, transpose }, &mut stream);
        let (mut moved, mut moved_solution) = ([0; 81], [0; 81]);
        shape.apply(&puzzle, &mut moved);
        shape.apply(&solution, &mut moved_solution);
        prop_assert_eq!(solve(&moved), Verdict::Unique(moved_solution));
        prop_assert_eq!(blanks(&moved), blanks(&puzzle));
        prop_assert!(digits || bands || canonical_key(&moved) == canonical_key(&puzzle));
    }

    #[test]
    fn no_board_makes_the_solver_panic(
        cells in proptest::collection::vec(prop_oneof![12 => Just(0u8), 3 => 1u8..=9], 81), odd in 0u8..40,
    ) {
        let mut grid: Grid = cells.try_into().unwrap();
        grid[40] = odd;
        let verdict = solve(&grid);
        if conflicts(&grid).contains(&true) || grid.iter().any(|&d| d > 9) {
            prop_assert_eq!(verdict, Verdict::Contradictory);
        }
        ease(&grid);
    }
}
