//! Agents over a picture: their positions, their views, and the reassembly of their outputs.

use proptest::prelude::*;
use sheaf_learn::model::ViewGrid;

const SHAPES: [(usize, usize, usize, usize); 7] =
    [(19, 19, 3, 2), (6, 9, 3, 2), (7, 7, 5, 3), (28, 28, 3, 3), (8, 7, 4, 1), (9, 9, 1, 4), (5, 5, 2, 4)];

#[test]
fn agents_have_their_centres_inside() {
    let grid = ViewGrid::new(19, 19, 3, 2).unwrap();
    assert_eq!((grid.rows(), grid.columns(), grid.agents()), (9, 9, 81));
    assert_eq!((grid.centre(0), grid.centre(10), grid.centre(80)), ((1, 1), (3, 3), (17, 17)));
    assert_eq!((grid.corner(0), grid.corner(80)), ((0, 0), (16, 16)));
    assert_eq!(ViewGrid::new(28, 28, 3, 3).unwrap().agents(), 81);
    assert_eq!(ViewGrid::new(1001, 1001, 3, 2).unwrap().agents(), 250_000);
    assert_eq!(ViewGrid::new(19, 37, 3, 2).unwrap().agents(), 9 * 18);
}

#[test]
fn grids_that_make_no_sense_are_refused() {
    for (shape, place) in [
        ((1, 19, 3, 2), "picture"),
        ((19, 0, 3, 2), "picture"),
        ((19, 19, 0, 2), "patch"),
        ((190, 190, 65, 2), "patch"),
        ((19, 19, 3, 0), "stride"),
    ] {
        let (height, width, patch, stride) = shape;
        assert_eq!(ViewGrid::new(height, width, patch, stride).unwrap_err().place(), place);
    }
}

#[test]
fn coverage_counts_the_agents_that_see_a_pixel() {
    for (height, width, patch, stride) in SHAPES {
        let grid = ViewGrid::new(height, width, patch, stride).unwrap();
        let mut counts = vec![0; height * width];
        for agent in 0..grid.agents() {
            grid.view(agent).flatten().for_each(|p| counts[p] += 1);
        }
        for (p, &count) in counts.iter().enumerate() {
            assert_eq!(grid.coverage(p / width, p % width), count);
        }
    }
}

#[test]
fn agents_that_agree_are_reproduced_and_others_averaged() {
    for (height, width, patch, stride) in SHAPES {
        let grid = ViewGrid::new(height, width, patch, stride).unwrap();
        let pixels = grid.view_pixels();
        // Each agent outputs the number of the pixel, and its own number.
        let mut outputs = vec![0.0f64; grid.agents() * pixels * 2];
        for agent in 0..grid.agents() {
            for (i, pixel) in grid.view(agent).enumerate() {
                let at = (agent * pixels + i) * 2;
                outputs[at] = pixel.map_or(1e9, |p| p as f64);
                outputs[at + 1] = agent as f64;
            }
        }
        let mut mean = vec![9.0; height * width * 2];
        grid.average(2, &outputs, &mut mean);
        for p in 0..height * width {
            let seers: Vec<usize> =
                (0..grid.agents()).filter(|&a| grid.view(a).flatten().any(|q| q == p)).collect();
            let sum = seers.iter().sum::<usize>() as f64;
            let want = if seers.is_empty() { [0.0; 2] } else { [p as f64, sum / seers.len() as f64] };
            assert!((mean[2 * p] - want[0]).abs() < 1e-12 * (1.0 + want[0]), "{p}");
            assert!((mean[2 * p + 1] - want[1]).abs() < 1e-12 * (1.0 + want[1]), "{p}");
        }
    }
}

proptest! {
    #[test]
    fn views_are_what_the_list_of_pixels_says(
        (h, w, patch, stride) in (2usize..9, 2usize..9, 1usize..5, 1usize..5),
        seed in any::<u8>(),
    ) {
        prop_assume!(h > patch / 2 && w > patch / 2);
        let grid = ViewGrid::new(h, w, patch, stride).unwrap();
        let picture: Vec<u8> = (0..h * w).map(|i| (i * i / 7) as u8 ^ seed).collect();
        let mut views = vec![0u16; grid.agents() * grid.view_pixels()];
        grid.views(&picture, 999, u16::from, &mut views);
        let listed = (0..grid.agents()).flat_map(|a| grid.view(a));
        for (&got, pixel) in views.iter().zip(listed) {
            prop_assert_eq!(got, pixel.map_or(999, |p| u16::from(picture[p])));
        }
    }
}
