//! Digits drawn by a pen, for benchmarks and for trying the tool without a data set.
//!
//! A digit is one or two strokes through given points in the unit square, smooth between them (Catmull–Rom). Each
//! drawing bends, slants, rotates and stretches them at random. As in MNIST, the drawing is five sevenths of the
//! picture tall, its centre of mass lies in the middle, and about two of three 3 × 3 patches stay black.
//!
//! | name | shape |
//! | --- | --- |
//! | picture | `[size, size]`, 0 black to 255 white |

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::limits::{MAX_SET_BYTES, product};
use sheaf_learn::rng::Stream;

use super::data::ImageSet;

type Point = [f64; 2]; // x to the right, y down

/// The strokes of each digit.
const STROKES: [&[&[Point]]; 10] = [
    &[&[
        [0.5, 0.0],
        [0.2, 0.12],
        [0.06, 0.5],
        [0.2, 0.88],
        [0.5, 1.0],
        [0.8, 0.85],
        [0.92, 0.45],
        [0.75, 0.1],
        [0.45, 0.0],
    ]],
    &[&[[0.54, 0.0], [0.5, 0.5], [0.47, 1.0]]],
    &[&[
        [0.1, 0.22],
        [0.4, 0.0],
        [0.78, 0.1],
        [0.76, 0.42],
        [0.4, 0.75],
        [0.08, 0.98],
        [0.5, 0.95],
        [0.95, 0.98],
    ]],
    &[
        &[[0.12, 0.1], [0.5, 0.0], [0.8, 0.18], [0.66, 0.42], [0.36, 0.48]],
        &[[0.36, 0.48], [0.75, 0.55], [0.88, 0.78], [0.6, 1.0], [0.1, 0.92]],
    ],
    &[&[[0.2, 0.02], [0.1, 0.55], [0.5, 0.58], [0.92, 0.52]], &[[0.76, 0.0], [0.7, 0.5], [0.66, 1.0]]],
    &[
        &[[0.88, 0.02], [0.6, 0.02], [0.28, 0.04]],
        &[[0.28, 0.04], [0.2, 0.42], [0.55, 0.38], [0.86, 0.64], [0.64, 0.96], [0.12, 0.95]],
    ],
    &[&[
        [0.7, 0.0],
        [0.3, 0.3],
        [0.1, 0.7],
        [0.32, 1.0],
        [0.74, 0.94],
        [0.8, 0.66],
        [0.5, 0.54],
        [0.16, 0.74],
    ]],
    &[&[[0.06, 0.05], [0.5, 0.05], [0.92, 0.02]], &[[0.92, 0.02], [0.62, 0.48], [0.42, 1.0]]],
    &[&[
        [0.78, 0.14],
        [0.48, 0.0],
        [0.2, 0.2],
        [0.46, 0.46],
        [0.8, 0.74],
        [0.5, 1.0],
        [0.16, 0.78],
        [0.5, 0.48],
        [0.8, 0.26],
        [0.78, 0.14],
    ]],
    &[&[
        [0.8, 0.2],
        [0.46, 0.0],
        [0.14, 0.22],
        [0.4, 0.5],
        [0.76, 0.34],
        [0.8, 0.2],
        [0.74, 0.6],
        [0.64, 1.0],
    ]],
];

/// Number of line segments between two given points.
const PIECES: usize = 8;

/// This many pictures of `size × size` pixels, cycling through the ten digits.
pub fn digits(count: usize, size: usize, seed: u64) -> Result<ImageSet> {
    let fits = product(&[count, size, size], MAX_SET_BYTES).is_some();
    if !(8..=8192).contains(&size) || count == 0 || !fits {
        let got = format!("{count} of {size} × {size}");
        let want = format!("1 or more of 8 to 8192 pixels, {MAX_SET_BYTES} in all");
        return Err(Error::new(ErrorKind::OutOfRange, "drawn digits", want, got));
    }
    let mut images = vec![0; count * size * size];
    let labels: Vec<u8> = (0..count).map(|i| (i % 10) as u8).collect();
    for (i, image) in images.chunks_exact_mut(size * size).enumerate() {
        draw(labels[i], size, &mut Stream::new(seed, "drawn digits", i as u64, 0), image);
    }
    Ok(ImageSet { height: size, width: size, classes: 10, images, labels })
}

/// Draws one digit, with random deformations from the stream.
pub fn draw(digit: u8, size: usize, stream: &mut Stream, image: &mut [u8]) {
    let unit = size as f64 / 28.0;
    let hand = Hand::new(stream);
    let radius = unit * (1.0 + 0.35 * stream.uniform());
    let mut lines: Vec<Vec<Point>> = STROKES[usize::from(digit) % 10]
        .iter()
        .map(|points| {
            let bent: Vec<Point> = points.iter().map(|&p| hand.put(p, unit, stream)).collect();
            smooth(&bent)
        })
        .collect();
    // Ink is spread evenly along the strokes, so the mean of their points is the centre of mass.
    let all = || lines.iter().flatten();
    let n = all().count().max(1) as f64;
    let mean = [0, 1].map(|axis| all().map(|p| p[axis]).sum::<f64>() / n);
    // An off-centre drawing would reach the border on one side: keep a margin of one pixel.
    let keep = unit + radius + 0.5;
    let shift = [0, 1].map(|axis| {
        let low = all().map(|p| p[axis]).fold(f64::INFINITY, f64::min);
        let high = all().map(|p| p[axis]).fold(f64::NEG_INFINITY, f64::max);
        (0.5 * size as f64 - mean[axis]).min(size as f64 - keep - high).max(keep - low)
    });
    for point in lines.iter_mut().flatten() {
        *point = [0, 1].map(|axis| point[axis] + shift[axis]);
    }
    image.fill(0);
    for line in &lines {
        for ends in line.windows(2) {
            ink(ends[0], ends[1], radius, size, image);
        }
    }
}

/// The deformation of a whole digit.
struct Hand {
    wide: f64,
    slant: f64,
    turn: f64,
}

impl Hand {
    fn new(stream: &mut Stream) -> Self {
        let mut about = |mean: f64, by: f64| mean + by * stream.truncated_normal(2.0);
        Self { wide: about(13.0, 1.5), slant: about(0.1, 0.1), turn: about(0.0, 0.06) }
    }

    /// A point of the unit square in pixels, with a small random offset.
    fn put(&self, [x, y]: Point, unit: f64, stream: &mut Stream) -> Point {
        let mut off = || 0.4 * stream.truncated_normal(2.0);
        let (x, y) = ((x - 0.5) * self.wide + off(), (y - 0.5) * 18.0 + off());
        let x = x - self.slant * y;
        let (sin, cos) = self.turn.sin_cos();
        [unit * (cos * x - sin * y), unit * (sin * x + cos * y)]
    }
}

/// The Catmull–Rom curve through points, as short line segments.
fn smooth(points: &[Point]) -> Vec<Point> {
    let at = |i: isize| points[i.clamp(0, points.len() as isize - 1) as usize];
    let mut line = vec![points[0]];
    for i in 0..points.len() as isize - 1 {
        let [a, b, c, d] = [at(i - 1), at(i), at(i + 1), at(i + 2)];
        for piece in 1..=PIECES {
            let t = piece as f64 / PIECES as f64;
            line.push([0, 1].map(|axis| {
                let (a, b, c, d) = (a[axis], b[axis], c[axis], d[axis]);
                let (first, second) = (c - a, 2.0 * a - 5.0 * b + 4.0 * c - d);
                b + 0.5 * t * (first + t * (second + t * (3.0 * (b - c) + d - a)))
            }));
        }
    }
    line
}

/// Whitens the pixels within `radius` of a line segment, with a soft edge of one pixel.
fn ink(from: Point, to: Point, radius: f64, size: usize, image: &mut [u8]) {
    let reach = radius + 1.0;
    let span = |axis: usize| {
        let (low, high) = (from[axis].min(to[axis]) - reach, from[axis].max(to[axis]) + reach);
        low.max(0.0) as usize..(high.max(0.0).ceil() as usize).min(size)
    };
    let way = [to[0] - from[0], to[1] - from[1]];
    let length = (way[0] * way[0] + way[1] * way[1]).max(1e-12);
    for row in span(1) {
        for column in span(0) {
            let centre = [column as f64 + 0.5 - from[0], row as f64 + 0.5 - from[1]];
            let along = ((centre[0] * way[0] + centre[1] * way[1]) / length).clamp(0.0, 1.0);
            let [x, y] = [0, 1].map(|axis| centre[axis] - along * way[axis]);
            let covered = (radius + 0.5 - x.hypot(y)).clamp(0.0, 1.0);
            let pixel = &mut image[row * size + column];
            *pixel = (*pixel).max((255.0 * covered).round() as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_learn::model::ViewGrid;

    #[test]
    fn drawings_are_centred_differ_and_leave_most_patches_black() {
        let set = digits(200, 28, 3).unwrap();
        for (i, image) in set.images.chunks_exact(784).enumerate() {
            let mass: f64 = image.iter().map(|&p| f64::from(p)).sum();
            let mean = |of: fn(usize) -> usize| {
                image.iter().enumerate().map(|(p, &v)| (of(p) as f64 + 0.5) * f64::from(v)).sum::<f64>()
                    / mass
            };
            let (x, y) = (mean(|p| p % 28), mean(|p| p / 28));
            assert!((x - 14.0).abs() < 2.0 && (y - 14.0).abs() < 2.0, "picture {i}: {x}, {y}");
            let border = image.iter().enumerate().filter(|(p, _)| {
                let inside = 1..27;
                !inside.contains(&(p % 28)) || !inside.contains(&(p / 28))
            });
            assert!(border.map(|(_, &v)| u32::from(v)).sum::<u32>() == 0, "picture {i} touches the border");
        }
        assert_ne!(set.image(0), set.image(10));
        assert_eq!(set, digits(200, 28, 3).unwrap());

        let grid = ViewGrid::new(28, 28, 3, 3).unwrap();
        let mut views = vec![0u8; grid.agents() * grid.view_pixels()];
        let mut black = 0;
        for i in 0..set.len() {
            grid.views(set.image(i), 0, |pixel| pixel, &mut views);
            black += views.chunks_exact(9).filter(|view| view.iter().all(|&p| p == 0)).count();
        }
        let black = black as f64 / (set.len() * grid.agents()) as f64;
        assert!((0.55..0.75).contains(&black), "{black} of the views are black");
    }

    #[test]
    fn sizes_that_cannot_be_drawn_are_refused() {
        assert!(digits(1, 4, 0).is_err() && digits(0, 28, 0).is_err());
        assert_eq!(digits(1, 56, 0).unwrap().pixels(), 56 * 56);
    }
}
