//! Views as agents see them, each distinct one once.

use sheaf_learn::rng::Stream;
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::generate;
use sheaf_tasks::maze::views::{DistinctViews, ViewGrid, one_hot, unpack};
use sheaf_tasks::maze::{CLASSES, UNUSED, WALL};
use sheaf_testkit::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn mazes(size: usize, count: usize) -> Vec<u8> {
    generate(&MazeShape::new(size, size, size - 1).unwrap(), 11, count).unwrap().inputs
}

#[test]
fn agents_sit_where_the_published_model_has_them() {
    let grid = ViewGrid::maze(19, 19).unwrap();
    assert_eq!((grid.rows(), grid.columns(), grid.agents()), (9, 9, 81));
    assert_eq!((grid.centre(0), grid.centre(10), grid.centre(80)), ((1, 1), (3, 3), (17, 17)));
    assert_eq!(ViewGrid::new(28, 28, 3, 3).unwrap().agents(), 81);
    assert_eq!(ViewGrid::maze(1001, 1001).unwrap().agents(), 250_000);
    assert_eq!(ViewGrid::maze(19, 37).unwrap().agents(), 9 * 18);
}

#[test]
fn grids_that_make_no_sense_are_refused() {
    assert!(ViewGrid::maze(1, 19).is_err());
    assert!(ViewGrid::new(19, 19, 0, 2).is_err());
    assert!(ViewGrid::new(19, 19, 7, 2).is_err());
    assert!(ViewGrid::new(19, 19, 3, 0).is_err());
}

#[test]
fn index_and_codes_reproduce_every_view() {
    for (height, width, patch, stride) in
        [(19, 19, 3, 2), (6, 9, 3, 2), (7, 7, 5, 3), (8, 8, 4, 1), (9, 9, 1, 4)]
    {
        let samples = 3;
        let grid = ViewGrid::new(height, width, patch, stride).unwrap();
        let tokens: Vec<u8> = (0..samples * height * width).map(|i| 1 + (i * i / 7 % 5) as u8).collect();
        let mut views = DistinctViews::default();
        views.collect(&grid, &tokens);
        assert!(views.codes().is_sorted_by(|a, b| a < b));
        let mut view = vec![0; patch * patch];
        for sample in 0..samples {
            for agent in 0..grid.agents() {
                unpack(views.codes()[views.index()[sample * grid.agents() + agent] as usize], &mut view);
                let (row, column) = grid.centre(agent);
                for (i, &token) in view.iter().enumerate() {
                    let (r, c) = (row + i / patch - patch / 2, column + i % patch - patch / 2);
                    let inside = r < height && c < width;
                    let expected = if inside { tokens[(sample * height + r) * width + c] } else { WALL };
                    assert_eq!(token, expected);
                }
            }
        }
    }
}

#[test]
fn the_order_of_samples_does_not_change_the_table() {
    let grid = ViewGrid::maze(19, 19).unwrap();
    let tokens = mazes(19, 20);
    let reversed: Vec<u8> = tokens.chunks(361).rev().flatten().copied().collect();
    let (mut a, mut b) = (DistinctViews::default(), DistinctViews::default());
    a.collect(&grid, &tokens);
    b.collect(&grid, &reversed);
    assert_eq!(a.codes(), b.codes());
    assert_eq!(a.index()[..81], b.index()[19 * 81..]);
}

#[test]
fn a_batch_has_about_a_hundred_distinct_views() {
    let grid = ViewGrid::maze(19, 19).unwrap();
    let mut views = DistinctViews::default();
    views.collect(&grid, &mazes(19, 128));
    assert_eq!(views.index().len(), 128 * 81);
    assert!((60..140).contains(&views.len()), "{}", views.len());
}

#[test]
fn memory_is_kept_from_batch_to_batch() {
    let grid = ViewGrid::maze(19, 19).unwrap();
    // Random pictures have far more distinct views than the table's first size holds.
    let mut random = Stream::new(1, "wild pictures", 0, 0);
    let wild: Vec<u8> = (0..361 * 40).map(|_| 1 + random.below(4) as u8).collect();
    let mut views = DistinctViews::default();
    views.collect(&grid, &wild);
    assert!(views.len() > 600, "{}", views.len());
    let tokens = mazes(19, 40);
    assert_eq!(allocations(|| views.collect(&grid, &tokens)), 0);
    assert!(views.len() < 140);
    let mut fresh = DistinctViews::default();
    fresh.collect(&grid, &mazes(19, 40));
    assert_eq!((views.index(), views.codes()), (fresh.index(), fresh.codes()));
}

#[test]
fn one_hot_has_one_number_per_pixel() {
    let grid = ViewGrid::maze(3, 3).unwrap();
    let mut views = DistinctViews::default();
    let tokens = [1, 2, 3, 4, 5, 1, 2, 2, 1];
    views.collect(&grid, &tokens);
    let mut hot = [9.0f32; 9 * CLASSES];
    one_hot(views.codes()[0], &mut hot);
    for (pixel, classes) in hot.chunks(CLASSES).enumerate() {
        let expected: Vec<f32> = (0..6).map(|c| f32::from(c == tokens[pixel])).collect();
        assert_eq!(classes, expected);
    }
}

#[test]
fn labels_beyond_the_border_are_masked() {
    let grid = ViewGrid::maze(4, 4).unwrap();
    assert_eq!(grid.agents(), 4);
    let labels: Vec<u8> = (0..16).map(|i| 1 + i % 5).collect();
    let (mut patches, mut masks) = (vec![9; 36], vec![9.0f64; 36]);
    grid.label_patches(&labels, &mut patches);
    grid.masks(&mut masks);
    let last = 27; // The fourth agent sees rows and columns 2, 3 and the first beyond.
    assert_eq!(masks[last..], [1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(patches[last..last + 3], [labels[10], labels[11], UNUSED]);
    assert!(patches.iter().zip(&masks).all(|(&p, &m)| (p == UNUSED) == (m == 0.0)));
}

#[test]
fn coverage_counts_the_agents_that_see_a_pixel() {
    for (height, width, patch, stride) in
        [(19, 19, 3, 2), (6, 9, 3, 2), (28, 28, 3, 3), (8, 7, 4, 1), (9, 9, 1, 4)]
    {
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
