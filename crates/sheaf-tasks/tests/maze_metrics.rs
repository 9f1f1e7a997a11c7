//! Reassembly, argmax and the definition of solved.

use sheaf_learn::model::ViewGrid;
use sheaf_tasks::maze::metrics::{Judge, Summary, argmax, path_probability};
use sheaf_tasks::maze::{CLASSES, EMPTY, GOAL, PATH, START, WALL};

fn picture(lines: &[&str]) -> Vec<u8> {
    let token = |c| match c {
        '#' => WALL,
        'S' => START,
        'G' => GOAL,
        '*' => PATH,
        _ => EMPTY,
    };
    lines.iter().flat_map(|l| l.chars().map(token)).collect()
}

const INPUT: [&str; 5] = ["#####", "#S..#", "###.#", "#G..#", "#####"];
const LABEL: [&str; 5] = ["#####", "#S**#", "###*#", "#G**#", "#####"];

fn flags(input: &[&str], label: &[&str], predicted: &[&str]) -> (bool, bool, bool) {
    let score = Judge::default().score(&picture(input), &picture(label), &picture(predicted), input[0].len());
    (score.solved, score.valid, score.connected)
}

#[test]
fn agents_that_agree_are_reproduced_and_others_averaged() {
    let grid = ViewGrid::new(6, 7, 3, 2).unwrap();
    // Each agent outputs the number of the pixel, plus its own number in class 2.
    let mut logits = vec![0.0f64; grid.agents() * 9 * CLASSES];
    for agent in 0..grid.agents() {
        for (i, pixel) in grid.view(agent).enumerate() {
            let at = (agent * 9 + i) * CLASSES;
            logits[at + 1] = pixel.map_or(1e9, |p| p as f64);
            logits[at + 2] = agent as f64;
        }
    }
    let mut mean = vec![9.0; 42 * CLASSES];
    grid.average(CLASSES, &logits, &mut mean);
    for p in 0..42 {
        assert_eq!(mean[p * CLASSES + 1], p as f64);
        let seers: Vec<usize> =
            (0..grid.agents()).filter(|&a| grid.view(a).flatten().any(|q| q == p)).collect();
        let expected = seers.iter().sum::<usize>() as f64 / seers.len() as f64;
        assert!((mean[p * CLASSES + 2] - expected).abs() < 1e-12);
    }
}

#[test]
fn the_first_of_equal_classes_wins() {
    let mut out = [9; 3];
    argmax(
        &[1.0f32, 2.0, 0.0, 2.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -3.0, -2.0, -2.0, -1.0, -1.0, -0.5],
        &mut out,
    );
    assert_eq!(out, [1, 0, 5]);
}

#[test]
fn path_probability_is_a_softmax_that_does_not_overflow() {
    let mut out = [0.0f32; 2];
    path_probability(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 900.0, 0.0, 0.0, 0.0, 0.0, 900.0], &mut out);
    assert!((out[0] - 1.0 / 6.0).abs() < 1e-6 && (out[1] - 0.5).abs() < 1e-6);
}

#[test]
fn the_label_is_solved_valid_and_connected() {
    assert_eq!(flags(&INPUT, &LABEL, &LABEL), (true, true, true));
}

#[test]
fn only_path_cells_decide_whether_it_is_solved() {
    // Everything except the path is predicted as wall, including start and goal.
    let predicted = ["#####", "##**#", "###*#", "##**#", "#####"];
    assert_eq!(flags(&INPUT, &LABEL, &predicted), (true, true, true));
    let score = Judge::default().score(&picture(&INPUT), &picture(&LABEL), &picture(&predicted), 5);
    assert_eq!((score.right_cells, score.cells), (23, 25));
}

#[test]
fn a_gap_a_stray_cell_and_a_wall_are_each_noticed() {
    let gap = ["#####", "#S**#", "###.#", "#G**#", "#####"];
    assert_eq!(flags(&INPUT, &LABEL, &gap), (false, false, false));
    let stray = ["#####", "#S**#", "###*#", "#G**#", "*####"];
    assert_eq!(flags(&INPUT, &LABEL, &stray), (false, false, true));
    let through_wall = ["#####", "#S..#", "#*#.#", "#G..#", "#####"];
    assert_eq!(flags(&INPUT, &LABEL, &through_wall), (false, false, false));
    let around_the_edge = ["#####", "#S**#", "###.#", "*G..#", "#####"];
    assert_eq!(flags(&INPUT, &LABEL, &around_the_edge), (false, false, false));
}

#[test]
fn a_blind_alley_beside_the_path_is_connected_but_not_valid() {
    let input = ["S.G", "#.#"];
    let label = ["S*G", "#.#"];
    assert_eq!(flags(&input, &label, &["S*G", "#*#"]), (false, false, true));
}

#[test]
fn another_way_round_a_loop_is_valid_but_not_solved() {
    let input = ["S..", ".#.", "..G"];
    let label = ["S**", ".#*", "..G"];
    assert_eq!(flags(&input, &label, &["S..", "*#.", "**G"]), (false, true, true));
}

#[test]
fn start_beside_goal_needs_no_path_cell() {
    assert_eq!(flags(&["SG."], &["SG."], &["SG."]), (true, true, true));
}

#[test]
fn averages_do_not_depend_on_who_counted() {
    let mut judge = Judge::default();
    let (input, label) = (picture(&INPUT), picture(&LABEL));
    let right = judge.score(&input, &label, &label, 5);
    let wrong = judge.score(&input, &label, &input, 5);
    let (mut a, mut b, mut all) = (Summary::default(), Summary::default(), Summary::default());
    a.add(&right);
    b.add(&wrong);
    b.add(&right);
    [right, wrong, right].iter().for_each(|s| all.add(s));
    a.merge(&b);
    assert_eq!(a, all);
    assert_eq!(
        (all.solved_rate(), all.valid_rate(), all.connected_rate()),
        (2.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0)
    );
    assert_eq!(all.cell_accuracy(), 70.0 / 75.0);
}
