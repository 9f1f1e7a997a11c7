//! How far models go beyond the size they were trained on: solved mazes, and iterations until the first solution.

use sheaf_admm::{Error, ErrorKind, Result};

use crate::chart::{Axes, Curve, Marks, coloured};
use crate::colour;
use crate::file::Figure;
use crate::legend;
use crate::sheet::{Anchor, FULL, SMALL, figure};

/// One model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sweep {
    /// Its name.
    pub name: String,
    /// Its results, from small to large.
    pub sizes: Vec<AtSize>,
}

/// Mazes of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AtSize {
    /// Pixels along a side.
    pub size: usize,
    /// Share of the mazes that are solved: mean and deviation over seeds.
    pub solved: (f64, f64),
    /// Iterations until the first solution, over the mazes that were solved: mean and deviation over seeds.
    pub first_solve: Option<(f64, f64)>,
}

/// The figure; `most` is the largest number of iterations, `note` what a reader must know of the runs.
pub fn sizes(sweeps: &[Sweep], most: usize, note: &str) -> Result<Figure> {
    if sweeps.iter().all(|sweep| sweep.sizes.is_empty()) {
        let want = "results of mazes of several sizes";
        return Err(Error::new(ErrorKind::Shape, "figure sizes", want, "none")
            .hint("`sheaf reproduce sizes --out DIR` makes them; then --from DIR/results"));
    }
    let solved: Vec<Curve> = sweeps
        .iter()
        .map(|sweep| Curve {
            name: sweep.name.clone(),
            points: sweep.sizes.iter().map(|s| (s.size as f64, s.solved.0)).collect(),
            spread: sweep.sizes.iter().map(|s| s.solved.1).collect(),
        })
        .collect();
    let firsts: Vec<Curve> = sweeps
        .iter()
        .map(|sweep| {
            let known = || sweep.sizes.iter().filter_map(|s| Some((s.size as f64, s.first_solve?)));
            Curve {
                name: sweep.name.clone(),
                points: known().map(|(size, first)| (size, first.0)).collect(),
                spread: known().map(|(_, first)| first.1).collect(),
            }
        })
        .collect();
    figure(FULL, 240.0, |sheet| {
        let mut left = 44.0;
        for (i, sweep) in sweeps.iter().enumerate() {
            left = legend::line(sheet, (left, 10.0), (colour::curve(i), i), &sweep.name)?;
        }
        sheet.text(FULL - 12.0, 10.0, SMALL, Anchor::Right, note)?;
        let limit = format!("limit: {most} iterations");
        let x = "maze size n (n × n pixels)";
        let x_range = Some((17.0, 75.0));
        let axes = Axes {
            percent: true,
            x_range,
            y_range: Some((0.0, 1.02)),
            marks: Marks::Dots,
            dashed: true,
            ..Axes::new(x, "solved (%)")
        };
        axes.draw(sheet, (0.0, 18.0, 0.5 * FULL, 220.0), &coloured(&solved))?;
        let axes = Axes {
            x_range,
            y_range: Some((0.0, 1.1 * most as f64)),
            marks: Marks::Dots,
            limit: Some((most as f64, &limit)),
            dashed: true,
            empty: "no maze was solved",
            ..Axes::new(x, "iterations until first solved")
        };
        axes.draw(sheet, (0.5 * FULL, 18.0, 0.5 * FULL, 220.0), &coloured(&firsts))
    })
}
