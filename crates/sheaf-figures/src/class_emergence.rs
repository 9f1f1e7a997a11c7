//! How a class emerges: every pixel in the colour of the class its agent votes for, darker where the agent is more
//! certain, and the votes of all classes over the iterations.

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::model::ViewGrid;
use sheaf_tasks::mnist::metrics::{agent_votes, vote};

use crate::chart::{Axes, Curve};
use crate::colour::{self, Colour, PAPER, UNSEEN, WALL};
use crate::evolution::{owners, picture, side};
use crate::file::Figure;
use crate::legend;
use crate::sheet::{Anchor, FULL, SMALL, Sheet, TEXT, figure};
use crate::story::{Scene, Story};

/// The class an agent votes for, and how certain it is.
pub(crate) type Vote = (usize, f32);

/// The vote of every agent.
pub(crate) fn votes(outputs: &[f32], classes: usize) -> Vec<Vote> {
    agent_votes(outputs, classes).collect()
}

/// The colour of a vote: white for no preference.
pub(crate) fn colour_of((class, sure): Vote, classes: usize) -> Colour {
    let none = 1.0 / classes as f64;
    colour::mix(PAPER, colour::class(class), (f64::from(sure) - none) / (1.0 - none))
}

/// The figure of one story.
pub fn class_emergence(story: &Story, shown: &[usize]) -> Result<Figure> {
    let Scene::Picture { image, label, classes, grid } = &story.scene else {
        let got = story.scene.task();
        return Err(Error::new(ErrorKind::Unsupported, "figure class-emergence", "weights of pictures", got)
            .hint("take builtin:mnist, or weights of an experiment on MNIST"));
    };
    story.need_iterations("figure class-emergence")?;
    let (classes, shown) = (*classes, story.among(shown));
    let side = side(shown.len() + 1).min(105.0);
    let height = side + 48.0 + 170.0;
    figure(FULL, height, |sheet| {
        let owner = owners(grid);
        sheet.text(1.0 + 0.5 * side, 10.0, TEXT, Anchor::Middle, &format!("label {label}"))?;
        let ink = |p: usize| colour::mix(PAPER, WALL, f64::from(image[p]) / 255.0);
        picture(sheet, (1.0, 20.0, side), grid, ink)?;
        for (column, &k) in shown.iter().enumerate() {
            let x = 1.0 + (side + 8.0) * (column + 1) as f64;
            sheet.text(x + 0.5 * side, 10.0, TEXT, Anchor::Middle, &format!("k = {k}"))?;
            let votes = votes(story.outputs(k), classes);
            picture(sheet, (x, 20.0, side), grid, |p| {
                owner[p].map_or(UNSEEN, |agent| colour_of(votes[agent], classes))
            })?;
        }
        let x = key(sheet, (2.0, side + 34.0), ("class", classes, 1.0))?;
        unseen(sheet, (x, side + 34.0), grid)?;
        let curves = course(story, classes);
        let drawn: Vec<(&Curve, Colour)> =
            curves.iter().enumerate().map(|(c, curve)| (curve, colour::class(c))).collect();
        // Most happens in the first iterations, and the panels show those.
        let axes = Axes::new("iteration k", "mean vote (%)");
        let axes = Axes { percent: true, log_x: true, y_range: Some((0.0, 1.0)), ..axes };
        axes.draw(sheet, (0.0, side + 46.0, FULL, 168.0), &drawn)
    })
}

/// The colours of classes, mixed into white at `strength`; returns the right end.
pub(crate) fn key(
    sheet: &Sheet<'_>,
    (x, y): (f64, f64),
    (label, classes, strength): (&str, usize, f64),
) -> Result<f64> {
    let names: Vec<String> = (0..classes.min(10)).map(|c| c.to_string()).collect();
    let colour = |c: usize| colour::mix(PAPER, colour::class(c), strength);
    let keys: Vec<(Colour, &str)> =
        names.iter().enumerate().map(|(c, name)| (colour(c), name.as_str())).collect();
    sheet.text(x, y, SMALL, Anchor::Left, label)?;
    let x = legend::keys(sheet, (x + legend::width(label, SMALL) + 6.0, y), &keys)?;
    let paler = "paler: less certain";
    sheet.text(x + 4.0, y, SMALL, Anchor::Left, paler)?;
    Ok(x + 14.0 + legend::width(paler, SMALL))
}

/// The colour of pixels that no agent sees, if there are any; returns the right end.
pub(crate) fn unseen(sheet: &Sheet<'_>, at: (f64, f64), grid: &ViewGrid) -> Result<f64> {
    match owners(grid).contains(&None) {
        true => legend::keys(sheet, at, &[(UNSEEN, "seen by no agent")]),
        false => Ok(at.0),
    }
}

/// The mean vote of every class over the iterations.
fn course(story: &Story, classes: usize) -> Vec<Curve> {
    let mut curves: Vec<Curve> =
        (0..classes).map(|c| Curve { name: c.to_string(), ..Curve::default() }).collect();
    let mut mean = vec![0.0; classes];
    for k in 1..=story.frames() {
        vote(story.outputs(k), &mut mean);
        curves.iter_mut().zip(&mean).for_each(|(c, &v)| c.points.push((k as f64, f64::from(v))));
    }
    curves
}
