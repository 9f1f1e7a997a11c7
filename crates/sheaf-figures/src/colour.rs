//! Colours of figures. Categories take the palette of Okabe and Ito, ten classes one of Tol: both can be told apart by
//! colour-blind readers. Quantities take scales whose lightness grows or falls throughout, so that they survive grey
//! printing.

use plotters::style::RGBColor;

/// Red, green, blue.
pub type Colour = RGBColor;

/// Text and axes.
pub const INK: Colour = RGBColor(34, 34, 34);
/// Secondary text and lines.
pub const FAINT: Colour = RGBColor(150, 150, 150);
/// Lines of a grid.
pub const GRID: Colour = RGBColor(226, 226, 226);
/// Pixels of a picture that no agent sees.
pub const UNSEEN: Colour = RGBColor(215, 215, 215);
/// The page.
pub const PAPER: Colour = RGBColor(255, 255, 255);
/// Walls of mazes.
pub const WALL: Colour = RGBColor(68, 68, 68);
/// Blue of Okabe and Ito: paths, proposals x, the first of two.
pub const BLUE: Colour = RGBColor(0, 114, 178);
/// Vermillion: agreement z, the goal, what is wrong.
pub const VERMILLION: Colour = RGBColor(213, 94, 0);
/// Bluish green: the start.
pub const GREEN: Colour = RGBColor(0, 158, 115);
/// Orange: marks.
pub const ORANGE: Colour = RGBColor(230, 159, 0);

/// Colours of curves, in order.
pub const CURVES: [Colour; 7] =
    [BLUE, VERMILLION, GREEN, RGBColor(204, 121, 167), ORANGE, RGBColor(86, 180, 233), RGBColor(90, 90, 90)];

/// Ten classes (Tol's muted scheme, the pale grey replaced by orange).
pub const CLASSES: [Colour; 10] = [
    RGBColor(51, 34, 136),
    RGBColor(136, 204, 238),
    RGBColor(17, 119, 51),
    RGBColor(221, 204, 119),
    RGBColor(204, 102, 119),
    RGBColor(68, 170, 153),
    RGBColor(136, 34, 85),
    RGBColor(153, 153, 51),
    RGBColor(170, 68, 153),
    RGBColor(230, 120, 0),
];

/// Seven colours of viridis, evenly spaced.
const VIRIDIS: [Colour; 7] = [
    RGBColor(68, 1, 84),
    RGBColor(68, 58, 131),
    RGBColor(49, 104, 142),
    RGBColor(33, 144, 141),
    RGBColor(53, 183, 121),
    RGBColor(143, 215, 68),
    RGBColor(253, 231, 37),
];

/// Levels of a scale. Cells of one level become one shape of the figure.
const LEVELS: f64 = 64.0;

/// A colour between two, at `part` of the way.
pub fn mix(from: Colour, to: Colour, part: f64) -> Colour {
    let part = if part.is_finite() { (part.clamp(0.0, 1.0) * LEVELS).round() / LEVELS } else { 0.0 };
    let blend = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
    RGBColor(blend(from.0, to.0), blend(from.1, to.1), blend(from.2, to.2))
}

/// White to blue: the probability of a path.
pub fn probability(value: f64) -> Colour {
    mix(PAPER, BLUE, value)
}

/// Viridis: a share or a residual from 0 to 1.
pub fn viridis(value: f64) -> Colour {
    let at = if value.is_finite() { value.clamp(0.0, 1.0) } else { 0.0 } * (VIRIDIS.len() - 1) as f64;
    let below = (at as usize).min(VIRIDIS.len() - 2);
    mix(VIRIDIS[below], VIRIDIS[below + 1], at - below as f64)
}

/// Blue over white to vermillion: a signed quantity from -1 to 1.
pub fn diverging(value: f64) -> Colour {
    if value < 0.0 { mix(PAPER, BLUE, -value) } else { mix(PAPER, VERMILLION, value) }
}

/// The colour of a class.
pub fn class(class: usize) -> Colour {
    CLASSES[class % CLASSES.len()]
}

/// The colour of a curve.
pub fn curve(i: usize) -> Colour {
    CURVES[i % CURVES.len()]
}
