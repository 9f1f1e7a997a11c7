//! Shifts are deterministic in the key and have the stated size.

use proptest::prelude::*;
use sheaf_tasks::mnist::shifts::{Draw, Shift};

fn draw(seed: u64, draw: u64, image: u64) -> Draw {
    Draw { seed, draw, image }
}

fn shifted(shift: Shift, at: Draw, image: &[f64], width: usize) -> Vec<f64> {
    let (h, w) = shift.size(image.len() / width, width);
    let mut out = vec![f64::NAN; h * w];
    shift.apply(at, image, width, &mut out);
    out
}

#[test]
fn the_published_table_has_nine_rows_that_read_back_as_written() {
    for shift in Shift::published() {
        assert_eq!(shift.to_string().parse::<Shift>().unwrap(), shift);
    }
    let words: Vec<String> = Shift::published().iter().map(Shift::to_string).collect();
    assert_eq!(words[3], "pad:16");
    assert_eq!(words[6], "drop:0.3");
    assert_eq!(words[7], "noise:0.1");
}

#[test]
fn words_that_mean_nothing_are_refused_with_an_example() {
    for text in [
        "",
        "pad",
        "pad:-1",
        "pad:x",
        "pad:99999999",
        "drop:1.5",
        "drop:nan",
        "noise:-0.1",
        "noise:inf",
        "blur:2",
    ] {
        let error = text.parse::<Shift>().unwrap_err().to_string();
        assert!(error.contains("pad:16"), "{text}: {error}");
    }
}

#[test]
fn padding_puts_the_picture_in_the_middle_of_black() {
    let image: Vec<f64> = (1..=6).map(f64::from).collect();
    let out = shifted(Shift::Pad(2), draw(0, 0, 0), &image, 3);
    assert_eq!(out.len(), 6 * 7);
    for (i, &pixel) in out.iter().enumerate() {
        let (row, column) = (i / 7, i % 7);
        let inside = (2..4).contains(&row) && (2..5).contains(&column);
        assert_eq!(pixel, if inside { image[(row - 2) * 3 + column - 2] } else { 0.0 });
    }
}

#[test]
fn noise_has_its_deviation_and_stays_between_black_and_white() {
    let grey = vec![0.5; 20_000];
    let out = shifted(Shift::Noise(0.1), draw(1, 0, 0), &grey, 100);
    let n = out.len() as f64;
    let mean = out.iter().sum::<f64>() / n;
    let deviation = (out.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n).sqrt();
    assert!((mean - 0.5).abs() < 4.0 * 0.1 / n.sqrt() && (deviation - 0.1).abs() < 0.003);
    let black = shifted(Shift::Noise(0.5), draw(1, 0, 0), &vec![0.0; 20_000], 100);
    assert!(black.iter().all(|v| (0.0..=1.0).contains(v)));
    let zeros = black.iter().filter(|&&v| v == 0.0).count() as f64;
    assert!((zeros / n - 0.5).abs() < 0.02);
}

#[test]
fn dropout_drops_the_share_it_says() {
    let mut mask = vec![false; 50_000];
    assert!(Shift::Drop(0.3).dropped(draw(3, 1, 4), &mut mask));
    let share = mask.iter().filter(|&&d| d).count() as f64 / mask.len() as f64;
    assert!((share - 0.3).abs() < 4.0 * (0.21f64 / 50_000.0).sqrt());
    assert!(!Shift::Drop(0.0).dropped(draw(3, 1, 4), &mut mask) && !mask.contains(&true));
    assert!(Shift::Drop(1.0).dropped(draw(3, 1, 4), &mut mask) && !mask.contains(&false));
    assert!(!Shift::Noise(1.0).dropped(draw(3, 1, 4), &mut mask) && !mask.contains(&true));
}

proptest! {
    #[test]
    fn a_draw_depends_on_its_key_alone(seed in 0u64..9, number in 0u64..9, image in 0u64..9, level in 0.05f64..0.9) {
        let picture = vec![0.5; 81];
        for other in [draw(seed + 1, number, image), draw(seed, number + 1, image), draw(seed, number, image + 1)] {
            let noise = Shift::Noise(level);
            let own = shifted(noise, draw(seed, number, image), &picture, 9);
            prop_assert_eq!(&own, &shifted(noise, draw(seed, number, image), &picture, 9));
            prop_assert_ne!(&own, &shifted(noise, other, &picture, 9));
            let (mut a, mut b) = ([false; 400], [false; 400]);
            Shift::Drop(level).dropped(draw(seed, number, image), &mut a);
            Shift::Drop(level).dropped(other, &mut b);
            prop_assert_ne!(a, b);
        }
    }
}
