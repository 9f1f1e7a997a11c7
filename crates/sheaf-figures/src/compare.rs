//! Two models on the same sample, one above the other, and how much of the answer is right over the iterations.

use sheaf_admm::{Error, ErrorKind, Result};

use crate::chart::{Axes, Curve, coloured};
use crate::colour;
use crate::evolution::{key, row, side};
use crate::file::Figure;
use crate::legend;
use crate::sheet::{Anchor, FULL, TEXT, figure};
use crate::story::{Scene, Story};

/// A story and its name.
pub type Named<'a> = (&'a str, &'a Story);

/// The figure of two stories of one sample.
pub fn compare(a: Named<'_>, b: Named<'_>, shown: &[usize]) -> Result<Figure> {
    if a.1.scene.task() != b.1.scene.task() {
        let (want, got) = (format!("weights of {}, as --weights", a.1.scene.task()), b.1.scene.task());
        return Err(Error::new(ErrorKind::Unsupported, "--with", want, got)
            .hint("both models solve the same sample: name weights of one task"));
    }
    // Each model shows those of its own iterations: one that does not iterate has a single panel.
    let shown = [a.1.among(shown), b.1.among(shown)];
    let picture = usize::from(matches!(a.1.scene, Scene::Picture { .. }));
    let side = side(shown[0].len().max(shown[1].len()) + picture).min(150.0);
    let (chart, band) = (170.0, side + 34.0);
    let last = a.1.frames().max(b.1.frames());
    figure(FULL, 2.0 * band + chart + 40.0, |sheet| {
        for (i, (name, story)) in [a, b].into_iter().enumerate() {
            let y = band * i as f64;
            sheet.styled(
                2.0,
                y + 8.0,
                &crate::sheet::style(TEXT, colour::curve(i), true),
                Anchor::Left,
                name,
            )?;
            row(sheet, story, &shown[i], (1.0, y + 30.0, side), true)?;
        }
        key(sheet, a.1, (2.0, 2.0 * band + 10.0))?;
        let curves: Vec<Curve> = [a, b]
            .iter()
            .map(|(name, story)| Curve {
                name: name.to_string(),
                points: match story.iterations {
                    // The answer of a model that does not iterate is the same at every k.
                    0 => [1, last].map(|k| (k as f64, story.right(1))).to_vec(),
                    most => (1..=most).map(|k| (k as f64, story.right(k))).collect(),
                },
                spread: Vec::new(),
            })
            .collect();
        let label = format!("{} (%)", a.1.right_what());
        // Most happens in the first iterations, and the panels show those.
        let axes = Axes {
            percent: true,
            log_x: true,
            y_range: Some((0.0, 1.0)),
            dashed: true,
            ..Axes::new("iteration k", &label)
        };
        axes.draw(sheet, (0.0, 2.0 * band + 34.0, FULL, chart), &coloured(&curves))?;
        // A line of their own: names of runs are long.
        let mut x = 44.0;
        for (i, curve) in curves.iter().enumerate() {
            x = legend::line(sheet, (x, 2.0 * band + 26.0), (colour::curve(i), i), &curve.name)?;
        }
        Ok(())
    })
}
