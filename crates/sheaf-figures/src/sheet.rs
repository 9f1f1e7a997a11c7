//! A page to draw on, in pixels of 1/96 inch: a full text width is 680 of them.
//!
//! The plotting crate draws in whole units. A pixel has [`UNITS`] of them, so that thin lines and small cells come out
//! sharp; the SVG says so in its `viewBox`.

use plotters::coord::Shift;
use plotters::prelude::{
    Circle, DrawingArea, IntoDrawingArea, IntoFont, PathElement, Polygon, Rectangle, SVGBackend, Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontFamily, FontStyle, FontTransform, ShapeStyle, TextStyle};
use sheaf_admm::{Error, ErrorKind, Result};

use crate::colour::{Colour, INK, PAPER};
use crate::file::Figure;

/// Units of the plotting crate per pixel.
pub const UNITS: f64 = 4.0;
/// The width of a figure that spans a page.
pub const FULL: f64 = 680.0;
/// Size of ordinary text.
pub const TEXT: f64 = 10.0;
/// Size of small text.
pub const SMALL: f64 = 8.5;
/// The fonts, the first of which travels with the program.
pub const FAMILY: &str = "DejaVu Sans, Verdana, Arial, sans-serif";
/// The plotting crate divides the size of a font by this.
const FONT_FACTOR: f64 = 1.24;

/// An area of the plotting crate.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Where a text is attached to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The point is left of the text.
    Left,
    /// The point is in the middle.
    Middle,
    /// The point is right of the text.
    Right,
}

/// A page.
pub struct Sheet<'a>(Area<'a>);

/// Converts an error of the plotting crate.
pub fn drawn<T, E: std::fmt::Display>(result: std::result::Result<T, E>) -> Result<T> {
    result.map_err(|e| Error::new(ErrorKind::Io, "figure", "shapes that can be drawn", e))
}

/// Pixels to units.
fn units(value: f64) -> i32 {
    (value * UNITS).round() as i32
}

/// The style of a text of this size in pixels.
pub fn style(size: f64, colour: Colour, bold: bool) -> TextStyle<'static> {
    let weight = if bold { FontStyle::Bold } else { FontStyle::Normal };
    (FontFamily::Name(FAMILY), size * UNITS * FONT_FACTOR, weight).into_font().color(&colour)
}

/// Draws a figure of this size.
pub fn figure(width: f64, height: f64, draw: impl FnOnce(&Sheet<'_>) -> Result<()>) -> Result<Figure> {
    let mut text = String::new();
    {
        let size = (units(width) as u32, units(height) as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        drawn(root.fill(&PAPER))?;
        let sheet = Sheet(root);
        draw(&sheet)?;
        drawn(sheet.0.present())?;
    }
    Ok(Figure::new(text, width, height))
}

impl std::fmt::Debug for Sheet<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Sheet").field(&self.0.dim_in_pixel()).finish()
    }
}

impl<'a> Sheet<'a> {
    /// A part of the page, for a chart.
    pub fn part(&self, x: f64, y: f64, width: f64, height: f64) -> Area<'a> {
        self.0.clone().shrink((units(x), units(y)), (units(width) as u32, units(height) as u32))
    }

    /// A filled rectangle.
    pub fn rect(&self, x: f64, y: f64, width: f64, height: f64, colour: Colour) -> Result<()> {
        let corners = [(units(x), units(y)), (units(x + width), units(y + height))];
        drawn(self.0.draw(&Rectangle::new(corners, colour.filled())))
    }

    /// The frame of a rectangle.
    pub fn frame(&self, x: f64, y: f64, width: f64, height: f64, colour: Colour, line: f64) -> Result<()> {
        let corners = [(units(x), units(y)), (units(x + width), units(y + height))];
        drawn(self.0.draw(&Rectangle::new(corners, stroke(colour, line))))
    }

    /// A line through points.
    pub fn line(&self, points: &[(f64, f64)], colour: Colour, line: f64) -> Result<()> {
        let points: Vec<_> = points.iter().map(|&(x, y)| (units(x), units(y))).collect();
        drawn(self.0.draw(&PathElement::new(points, stroke(colour, line))))
    }

    /// A filled polygon.
    pub fn polygon(&self, points: &[(f64, f64)], colour: Colour) -> Result<()> {
        let points: Vec<_> = points.iter().map(|&(x, y)| (units(x), units(y))).collect();
        drawn(self.0.draw(&Polygon::new(points, colour.filled())))
    }

    /// A filled circle.
    pub fn dot(&self, x: f64, y: f64, radius: f64, colour: Colour) -> Result<()> {
        drawn(self.0.draw(&Circle::new((units(x), units(y)), units(radius), colour.filled())))
    }

    /// A five-pointed star.
    pub fn star(&self, x: f64, y: f64, radius: f64, colour: Colour) -> Result<()> {
        let corner = |k: usize| {
            let (angle, r) = (0.2 * std::f64::consts::PI * k as f64, if k % 2 == 0 { 1.0 } else { 0.45 });
            (x + radius * r * angle.sin(), y - radius * r * angle.cos())
        };
        self.polygon(&(0..10).map(corner).collect::<Vec<_>>(), colour)
    }

    /// Ordinary text, vertically centred at the point.
    pub fn text(&self, x: f64, y: f64, size: f64, anchor: Anchor, text: &str) -> Result<()> {
        self.styled(x, y, &style(size, INK, false), anchor, text)
    }

    /// Text of a style, vertically centred at the point.
    pub fn styled(&self, x: f64, y: f64, style: &TextStyle<'_>, anchor: Anchor, text: &str) -> Result<()> {
        let style = style.pos(Pos::new(horizontal(anchor), VPos::Center));
        drawn(self.0.draw(&Text::new(text.to_string(), (units(x), units(y)), style)))
    }

    /// Text that reads upwards, centred at the point.
    pub fn upwards(&self, x: f64, y: f64, size: f64, text: &str) -> Result<()> {
        let style = style(size, INK, false).transform(FontTransform::Rotate270);
        let style = style.pos(Pos::new(HPos::Center, VPos::Center));
        drawn(self.0.draw(&Text::new(text.to_string(), (units(x), units(y)), style)))
    }

    /// Cells in rows, `columns` in each, as squares of `cell` pixels; equal neighbours of a row become one shape.
    pub fn cells(&self, x: f64, y: f64, cell: f64, columns: usize, colours: &[Colour]) -> Result<()> {
        for (row, line) in colours.chunks(columns).enumerate() {
            let mut column = 0;
            for run in line.chunk_by(|a, b| a == b) {
                let (left, wide) = (x + cell * column as f64, cell * run.len() as f64);
                if run[0] != PAPER {
                    self.rect(left, y + cell * row as f64, wide, cell, run[0])?;
                }
                column += run.len();
            }
        }
        Ok(())
    }
}

fn stroke(colour: Colour, line: f64) -> ShapeStyle {
    ShapeStyle { color: colour.to_rgba(), filled: false, stroke_width: units(line).max(1) as u32 }
}

fn horizontal(anchor: Anchor) -> HPos {
    match anchor {
        Anchor::Left => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::Right => HPos::Right,
    }
}
