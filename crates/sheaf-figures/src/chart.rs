//! Charts: curves over an axis, linear or logarithmic, with the axes and fonts of all figures.

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::{
    Cartesian2d, ChartBuilder, ChartContext, Circle, DashedLineSeries, LineSeries, PathElement, Ranged,
    SVGBackend, Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, ShapeStyle};
use sheaf_admm::Result;

use crate::colour::{self, Colour, GRID, INK};
use crate::sheet::{Anchor, SMALL, Sheet, TEXT, UNITS, drawn, style};
use crate::ticks::LogAxis;

/// A curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// What it is.
    pub name: String,
    /// Its points; those that are not finite are left out.
    pub points: Vec<(f64, f64)>,
    /// Deviations of the points, drawn as bars; none if empty.
    pub spread: Vec<f64>,
}

/// How curves are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// Lines.
    Lines,
    /// Thin lines.
    Thin,
    /// Lines with a dot at every point.
    Dots,
}

/// A chart without its curves.
#[derive(Clone, Debug)]
pub struct Axes<'a> {
    /// Title; none if empty.
    pub title: &'a str,
    /// Label of the horizontal axis.
    pub x: &'a str,
    /// Label of the vertical axis.
    pub y: &'a str,
    /// Range of the horizontal axis; that of the curves if not given.
    pub x_range: Option<(f64, f64)>,
    /// Range of the vertical axis; that of the curves if not given.
    pub y_range: Option<(f64, f64)>,
    /// Whether the vertical axis is logarithmic.
    pub log: bool,
    /// Whether the horizontal axis is logarithmic; it then counts from 1.
    pub log_x: bool,
    /// Whether the vertical axis is in percent.
    pub percent: bool,
    /// How curves are drawn.
    pub marks: Marks,
    /// A dashed horizontal line, and what it is.
    pub limit: Option<(f64, &'a str)>,
    /// Whether curves after the first are dashed: where two coincide, both are seen.
    pub dashed: bool,
    /// What stands in a chart without a point.
    pub empty: &'a str,
}

impl<'a> Axes<'a> {
    /// Linear axes with these labels.
    pub fn new(x: &'a str, y: &'a str) -> Self {
        let (title, empty, x_range, y_range, limit) = ("", "", None, None, None);
        let (log, log_x, percent, dashed, marks) = (false, false, false, false, Marks::Lines);
        Self { title, x, y, x_range, y_range, log, log_x, percent, marks, limit, dashed, empty }
    }

    /// Draws the chart into a rectangle of the page.
    pub fn draw(
        &self,
        sheet: &Sheet<'_>,
        (x, y, width, height): (f64, f64, f64, f64),
        curves: &[(&Curve, Colour)],
    ) -> Result<()> {
        let finite = || {
            curves
                .iter()
                .flat_map(|(c, _)| &c.points)
                .filter(|(x, y)| x.is_finite() && y.is_finite() && (!self.log || *y > 0.0))
        };
        let over = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)))
        };
        let xs = widened(self.x_range.unwrap_or_else(|| over(&mut finite().map(|p| p.0))));
        let ys = self.y_range.unwrap_or_else(|| over(&mut finite().map(|p| p.1)));
        let ys = if self.log && ys.0 <= ys.1 { ys } else { widened(ys) };
        let mut top = y;
        if !self.title.is_empty() {
            sheet.styled(
                x + 12.0 + 0.5 * (width + 26.0),
                y + 6.0,
                &style(TEXT, INK, false),
                Anchor::Middle,
                self.title,
            )?;
            top += 14.0;
        }
        let units = |value: f64| (value * UNITS).round() as u32;
        let area = sheet.part(x + 12.0, top, width - 12.0, height - (top - y));
        let mut builder = ChartBuilder::on(&area);
        builder.margin(units(4.0)).margin_right(units(12.0));
        builder.x_label_area_size(units(24.0)).y_label_area_size(units(34.0));
        // Curves are drawn over their logarithms: the plotting crate's own scale loses ticks to rounding.
        let counts = LogAxis::counts(xs.1);
        let count = |x: &f64| counts.label(*x);
        let number = |x: &f64| short(*x);
        let powers = LogAxis::over(ys.0, ys.1);
        let power = |y: &f64| powers.label(*y);
        let plain = |y: &f64| if self.percent { format!("{:.0}", 100.0 * y) } else { short(*y) };
        let (across, up) = (xs.0..xs.1, ys.0..ys.1);
        // A number of four digits needs room for another one before the next.
        let most = ((width - 62.0) / 32.0).clamp(2.0, 6.0) as usize;
        match (self.log_x, self.log) {
            (false, false) => self.plot(&mut builder, (across, &number, most), (up, &plain), curves)?,
            (false, true) => {
                self.plot(&mut builder, (across, &number, most), (powers.clone(), &power), curves)?;
            }
            (true, false) => self.plot(&mut builder, (counts.clone(), &count, most), (up, &plain), curves)?,
            (true, true) => {
                self.plot(&mut builder, (counts.clone(), &count, most), (powers.clone(), &power), curves)?;
            }
        }
        let middle = top + 0.5 * (height - (top - y) - 24.0);
        let centre = x + 12.0 + 0.5 * (width + 26.0);
        sheet.upwards(x + 6.0, middle, SMALL, self.y)?;
        if !self.empty.is_empty() && finite().next().is_none() {
            sheet.text(centre, middle, SMALL, Anchor::Middle, self.empty)?;
        }
        sheet.text(centre, y + height - 5.0, SMALL, Anchor::Middle, self.x)
    }

    /// Axes, grid and curves; each axis comes with the texts of its ticks, the horizontal one with how many it has at most.
    fn plot<'b, X, Y>(
        &self,
        builder: &mut ChartBuilder<'_, '_, SVGBackend<'b>>,
        x: (X, &Label<'_>, usize),
        y: (Y, &Label<'_>),
        curves: &[(&Curve, Colour)],
    ) -> Result<()>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let mut chart = drawn(builder.build_cartesian_2d(x.0, y.0))?;
        let mut mesh = chart.configure_mesh();
        mesh.x_labels(x.2).y_labels(6).max_light_lines(1);
        mesh.bold_line_style(stroke(GRID, 0.5)).light_line_style(plotters::style::TRANSPARENT);
        mesh.axis_style(stroke(INK, 0.7)).label_style(style(SMALL, INK, false));
        mesh.x_label_formatter(x.1).y_label_formatter(y.1);
        drawn(mesh.draw())?;
        self.limit(&mut chart)?;
        for (i, (curve, colour)) in curves.iter().enumerate() {
            // Curves of one colour differ in their dashes.
            let before = curves[..i].iter().filter(|(_, c)| c == colour).count();
            self.curve(&mut chart, curve, *colour, if self.dashed { i } else { before })?;
        }
        Ok(())
    }

    fn limit<X, Y>(&self, chart: &mut Chart<'_, '_, X, Y>) -> Result<()>
    where
        X: Ranged<ValueType = f64>,
        Y: Ranged<ValueType = f64>,
    {
        let Some((limit, name)) = self.limit else { return Ok(()) };
        let xs = chart.x_range();
        let dash = (xs.end - xs.start) / 60.0;
        for i in (0..60).step_by(2) {
            let x = xs.start + dash * f64::from(i);
            let dashes = vec![(x, limit), (x + dash, limit)];
            drawn(chart.draw_series([PathElement::new(dashes, stroke(INK, 0.7))]))?;
        }
        let above = style(SMALL, INK, false).pos(Pos::new(HPos::Left, VPos::Bottom));
        // A part of the axis higher, so that letters stay clear of the line.
        let ys = chart.y_range();
        let place = (xs.start + dash, limit + 0.01 * (ys.end - ys.start));
        drawn(chart.draw_series([Text::new(name.to_string(), place, above)])).map(drop)
    }

    fn curve<X, Y>(
        &self,
        chart: &mut Chart<'_, '_, X, Y>,
        curve: &Curve,
        colour: Colour,
        dashes: usize,
    ) -> Result<()>
    where
        X: Ranged<ValueType = f64>,
        Y: Ranged<ValueType = f64>,
    {
        let height = |y: f64| if self.log { y.max(1e-300).log10() } else { y };
        let across = |x: f64| if self.log_x { x.max(1.0).log10() } else { x };
        let shown = |(x, y): &&(f64, f64)| x.is_finite() && y.is_finite() && (!self.log || *y > 0.0);
        let points: Vec<(f64, f64)> =
            curve.points.iter().filter(shown).map(|&(x, y)| (across(x), height(y))).collect();
        let line = stroke(colour, if self.marks == Marks::Thin { 0.8 } else { 1.4 });
        match dash(dashes) {
            None => drawn(chart.draw_series(LineSeries::new(points.iter().copied(), line)))?,
            Some((long, gap)) => {
                let [long, gap] = [long, gap].map(|length| (length * UNITS) as u32);
                drawn(chart.draw_series(DashedLineSeries::new(points.iter().copied(), long, gap, line)))?
            }
        };
        for (&(x, y), &spread) in curve.points.iter().zip(&curve.spread).filter(|(_, s)| **s > 0.0) {
            let bar = vec![(across(x), height(y - spread)), (across(x), height(y + spread))];
            drawn(chart.draw_series([PathElement::new(bar, stroke(colour, 0.8))]))?;
        }
        if self.marks == Marks::Dots {
            let radius = (2.0 * UNITS) as u32;
            let dots = points.iter().map(|&at| Circle::new(at, radius, colour.filled()));
            drawn(chart.draw_series(dots))?;
        }
        Ok(())
    }
}

/// The text of a tick.
type Label<'a> = dyn Fn(&f64) -> String + 'a;

/// Lengths of a dash and of the gap after it, for the curves that take a colour again; none for the first of a colour.
pub fn dash(repeated: usize) -> Option<(f64, f64)> {
    [None, Some((5.0, 2.0)), Some((1.5, 1.5)), Some((9.0, 2.5))][repeated % 4]
}

fn stroke(colour: Colour, width: f64) -> ShapeStyle {
    let stroke_width = (width * UNITS).round() as u32;
    ShapeStyle { color: colour.to_rgba(), filled: false, stroke_width }
}

/// Curves with the colours of [`colour::curve`].
pub fn coloured(curves: &[Curve]) -> Vec<(&Curve, Colour)> {
    curves.iter().enumerate().map(|(i, curve)| (curve, colour::curve(i))).collect()
}

type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

/// A range with some room, also where there is nothing or one value only.
fn widened((low, high): (f64, f64)) -> (f64, f64) {
    match (low.is_finite() && high.is_finite(), high > low) {
        (false, _) => (0.0, 1.0),
        (true, true) => (low, high),
        (true, false) => (low - 0.5 * low.abs().max(1.0), high + 0.5 * high.abs().max(1.0)),
    }
}

/// A number with as few digits as it needs: 0.25, 12, 3k, 1.5M.
pub fn short(value: f64) -> String {
    let trim = |text: String| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    };
    let size = value.abs();
    if size >= 1e6 {
        trim(format!("{:.2}", value / 1e6)) + "M"
    } else if size >= 1e4 {
        trim(format!("{:.1}", value / 1e3)) + "k"
    } else if size >= 1e-3 || size == 0.0 {
        trim(format!("{value:.3}"))
    } else {
        format!("{value:.0e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        assert_eq!([0.25, 12.0, 15_000.0, 1.5e6, 0.0].map(short), ["0.25", "12", "15k", "1.5M", "0"]);
    }
}
