//! Converts a painted picture to the form of MNIST: white on black, 28 × 28 pixels.
//!
//! MNIST's digits were scaled into 20 × 20 pixels, keeping their proportions, and placed in 28 × 28 with the centre of
//! mass in the middle. A model trained only on such pictures does not generalise to others, so a picture of another
//! size is converted the same way. A picture that already has 28 × 28 pixels is not changed.

use sheaf_admm::{Error, ErrorKind, Result};

/// Side of a picture.
pub const SIDE: usize = 28;
/// Longer side of the digit.
const INK: usize = 20;

/// A picture and the changes made to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    /// Pixels, 0 black to 255 white.
    pub image: Vec<u8>, // [height, width]
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Whether it was dark on light.
    pub inverted: bool,
    /// Whether it was scaled and centred.
    pub scaled: bool,
}

/// Converts an RGB picture to the form of MNIST; `as_it_is` keeps its size. `place` names it in errors.
pub fn from_pixels(
    rgb: &[u8], // [height, width, 3]
    (height, width): (usize, usize),
    as_it_is: bool,
    place: &str,
) -> Result<Fitted> {
    let mut grey: Vec<u8> = rgb
        .as_chunks::<3>()
        .0
        .iter()
        .map(|&[r, g, b]| ((299 * u32::from(r) + 587 * u32::from(g) + 114 * u32::from(b) + 500) / 1000) as u8)
        .collect();
    // A digit covers the smaller part of the picture, whatever the colours.
    let inverted = grey.iter().filter(|&&v| v >= 128).count() * 2 > grey.len();
    if inverted {
        grey.iter_mut().for_each(|v| *v = 255 - *v);
    }
    let (low, high) = grey.iter().fold((255, 0), |(low, high), &v| (v.min(low), v.max(high)));
    if high < low.saturating_add(32) {
        let got = format!("{height} × {width} pixels of nearly the same grey");
        return Err(Error::new(ErrorKind::Malformed, place, "a picture with something on it", got));
    }
    if as_it_is || (height, width) == (SIDE, SIDE) {
        return Ok(Fitted { image: grey, height, width, inverted, scaled: false });
    }
    // Paper is rarely completely black; its remains would blur the edges of the ink.
    let floor = low.saturating_add((high - low) / 5);
    let stretch = |v: u8| (255 * u32::from(v.saturating_sub(floor)) / u32::from(high - floor)) as u8;
    grey.iter_mut().for_each(|v| *v = stretch(*v));
    Ok(Fitted { image: laid(&grey, (height, width)), height: SIDE, width: SIDE, inverted, scaled: true })
}

/// The ink of a picture, scaled and centred.
fn laid(grey: &[u8], (height, width): (usize, usize)) -> Vec<u8> {
    let inked = |row: usize, column: usize| grey[row * width + column] > 0;
    let rows: Vec<usize> = (0..height).filter(|&r| (0..width).any(|c| inked(r, c))).collect();
    let columns: Vec<usize> = (0..width).filter(|&c| (0..height).any(|r| inked(r, c))).collect();
    let (top, bottom) = (rows[0], rows[rows.len() - 1] + 1);
    let (left, right) = (columns[0], columns[columns.len() - 1] + 1);
    // Input pixels per output pixel.
    let step = (bottom - top).max(right - left) as f64 / INK as f64;
    let size = |from: usize, to: usize| (((to - from) as f64 / step).round() as usize).clamp(1, INK);
    let (high, wide) = (size(top, bottom), size(left, right));
    let mut small = vec![0.0; high * wide];
    for (pixel, value) in small.iter_mut().enumerate() {
        let (row, column) = (pixel / wide, pixel % wide);
        let y = (top as f64 + row as f64 * step, top as f64 + (row + 1) as f64 * step);
        let x = (left as f64 + column as f64 * step, left as f64 + (column + 1) as f64 * step);
        *value = mean(grey, (height, width), y, x);
    }
    let mass: f64 = small.iter().sum();
    let centre = |of: &dyn Fn(usize) -> usize| {
        let moment: f64 = small.iter().enumerate().map(|(p, v)| (of(p) as f64 + 0.5) * v).sum();
        moment / mass.max(1e-9)
    };
    let corner = |centre: f64, size: usize| {
        (0.5 * SIDE as f64 - centre).round().clamp(0.0, (SIDE - size) as f64) as usize
    };
    let (down, across) = (corner(centre(&|p| p / wide), high), corner(centre(&|p| p % wide), wide));
    let mut image = vec![0; SIDE * SIDE];
    for (pixel, value) in small.iter().enumerate() {
        image[(down + pixel / wide) * SIDE + across + pixel % wide] = value.round() as u8;
    }
    image
}

/// The mean over a rectangle with fractional borders; outside the picture is black.
fn mean(grey: &[u8], (height, width): (usize, usize), y: (f64, f64), x: (f64, f64)) -> f64 {
    let overlap = |i: usize, (from, to): (f64, f64)| (to.min(i as f64 + 1.0) - from.max(i as f64)).max(0.0);
    let span = |(from, to): (f64, f64), end: usize| from as usize..(to.ceil() as usize).min(end);
    let mut sum = 0.0;
    for row in span(y, height) {
        let line: f64 = span(x, width).map(|c| overlap(c, x) * f64::from(grey[row * width + c])).sum();
        sum += overlap(row, y) * line;
    }
    sum / ((y.1 - y.0) * (x.1 - x.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rectangle of ink on paper.
    fn painted(size: (usize, usize), ink: (usize, usize, usize, usize), colours: (u8, u8)) -> Vec<u8> {
        let (top, left, high, wide) = ink;
        (0..size.0 * size.1)
            .flat_map(|p| {
                let (row, column) = (p / size.1, p % size.1);
                let on = (top..top + high).contains(&row) && (left..left + wide).contains(&column);
                [if on { colours.1 } else { colours.0 }; 3]
            })
            .collect()
    }

    #[test]
    fn pictures_of_the_right_size_stay_as_they_are() {
        let rgb = painted((28, 28), (4, 5, 6, 7), (0, 200));
        let fitted = from_pixels(&rgb, (28, 28), false, "test").unwrap();
        assert!(!fitted.inverted && !fitted.scaled);
        assert_eq!(fitted.image, rgb.iter().step_by(3).copied().collect::<Vec<u8>>());
    }

    #[test]
    fn dark_ink_on_light_paper_is_turned_round_scaled_and_centred() {
        // A corner of a large sheet: 80 × 40 pixels become 20 × 10 in the middle.
        let rgb = painted((300, 200), (10, 150, 80, 40), (250, 20));
        let fitted = from_pixels(&rgb, (300, 200), false, "test").unwrap();
        assert!(fitted.inverted && fitted.scaled);
        assert_eq!((fitted.height, fitted.width), (28, 28));
        let expected: Vec<u8> = (0..784)
            .map(|p| if (4..24).contains(&(p / 28)) && (9..19).contains(&(p % 28)) { 255 } else { 0 })
            .collect();
        assert_eq!(fitted.image, expected);
    }

    #[test]
    fn a_picture_can_keep_its_size_and_an_empty_one_is_refused() {
        let rgb = painted((40, 50), (1, 1, 5, 5), (0, 255));
        let fitted = from_pixels(&rgb, (40, 50), true, "test").unwrap();
        assert_eq!((fitted.height, fitted.width, fitted.scaled), (40, 50, false));
        assert!(from_pixels(&[77; 3 * 40 * 50], (40, 50), false, "test").is_err());
    }
}
