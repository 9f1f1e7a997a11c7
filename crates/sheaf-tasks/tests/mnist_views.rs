//! Distinct views of pictures: each listed once, everyone sees the right one, gradient rows belong to one piece each.

use proptest::prelude::*;
use sheaf_tasks::mnist::metrics::{agent_votes, vote};
use sheaf_tasks::mnist::views::{BLACK, DistinctViews, GradRows, ViewGrid};

/// What an agent sees, told without tables.
fn view(grid: &ViewGrid, image: &[f64], agent: usize) -> Vec<f64> {
    grid.view(agent).map(|p| p.map_or(0.0, |p| image[p])).collect()
}

fn pictures() -> impl Strategy<Value = (ViewGrid, Vec<f64>, usize, usize)> {
    (2usize..8, 2usize..8, 1usize..4, 1usize..4, 1usize..6, 1usize..4).prop_flat_map(
        |(h, w, patch, stride, samples, per_piece)| {
            let grid = ViewGrid::new(h, w, patch, stride).unwrap();
            let pixel = prop_oneof![4 => Just(0.0), 1 => Just(1.0), 1 => 0.0..1.0];
            (Just(grid), prop::collection::vec(pixel, samples * h * w), Just(samples), Just(per_piece))
        },
    )
}

proptest! {
    #[test]
    fn every_agent_finds_its_view_and_no_view_is_listed_twice((grid, images, samples, _) in pictures(), drop: u64) {
        let mut views = DistinctViews::default();
        let dropped: Vec<bool> = (0..samples * grid.agents()).map(|k| drop >> (k % 64) & 1 == 1).collect();
        // The memory of another batch does not matter.
        views.collect(&grid, &vec![0.5; grid.pixels()], None);
        views.collect(&grid, &images, Some(&dropped));
        let pixels = grid.view_pixels();
        let listed: Vec<&[f64]> = views.patches().chunks_exact(pixels).collect();
        prop_assert_eq!(listed.len(), views.len());
        prop_assert!(listed[BLACK as usize].iter().all(|&p| p == 0.0));
        for (i, a) in listed.iter().enumerate() {
            prop_assert!(!listed[..i].contains(a));
        }
        for (k, &v) in views.index().iter().enumerate() {
            let (sample, agent) = (k / grid.agents(), k % grid.agents());
            let image = &images[sample * grid.pixels()..][..grid.pixels()];
            let want = if dropped[k] { vec![0.0; pixels] } else { view(&grid, image, agent) };
            prop_assert_eq!(listed[v as usize], &want[..]);
        }
    }

    #[test]
    fn gradients_added_row_by_row_are_those_added_view_by_view((grid, images, samples, per_piece) in pictures()) {
        let (mut views, mut rows) = (DistinctViews::default(), GradRows::default());
        views.collect(&grid, &images, None);
        rows.assign(&views, grid.agents(), per_piece);
        let agents = grid.agents();
        let mut table = vec![f64::NAN; rows.len() * 2];
        for (piece, mut mine) in rows.cut(&mut table, 2).into_iter().enumerate() {
            mine.clear();
            for k in piece * per_piece * agents..((piece + 1) * per_piece).min(samples) * agents {
                let row = mine.row(rows.rows()[k]);
                row[0] += k as f64 + 1.0;
                row[1] += 1.0;
            }
        }
        let (own, extra) = table.split_at_mut(2 * views.len());
        for (k, &v) in rows.extra_views().iter().enumerate() {
            own[2 * v as usize] += extra[2 * k];
            own[2 * v as usize + 1] += extra[2 * k + 1];
        }
        let mut want = vec![0.0; 2 * views.len()];
        for (k, &v) in views.index().iter().enumerate() {
            want[2 * v as usize] += k as f64 + 1.0;
            want[2 * v as usize + 1] += 1.0;
        }
        prop_assert_eq!(own, &want[..]);
    }
}

#[test]
fn thousands_of_views_are_told_apart() {
    let grid = ViewGrid::new(90, 90, 3, 3).unwrap();
    let images: Vec<f64> = (0..12 * 8100).map(|p| ((p * 7919) % 99_991) as f64 / 1e5 + 1e-6).collect();
    let mut views = DistinctViews::default();
    views.collect(&grid, &images, None);
    assert_eq!(views.len(), 12 * 900 + 1);
}

#[test]
fn the_vote_is_the_mean_of_the_agents_and_survives_large_logits() {
    let logits = [1000.0, 1000.0, -1000.0, 0.0, 0.0, 0.0, 3.0f64.ln(), 0.0, 0.0];
    let mut votes = [0.0; 3];
    assert_eq!(vote(&logits, &mut votes), 0);
    let want = [(0.5 + 1.0 / 3.0 + 0.6) / 3.0, (0.5 + 1.0 / 3.0 + 0.2) / 3.0, (0.0 + 1.0 / 3.0 + 0.2) / 3.0];
    assert!(votes.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12));
    let each: Vec<(usize, f64)> = agent_votes(&logits, 3).collect();
    assert_eq!(each.iter().map(|e| e.0).collect::<Vec<_>>(), [0, 0, 0]);
    assert!((each[0].1 - 0.5).abs() < 1e-12 && (each[2].1 - 0.6).abs() < 1e-12);
}
