//! Keys of figures: colour bars and samples of colours.

use sheaf_admm::Result;

use crate::chart::dash;
use crate::colour::{Colour, FAINT};
use crate::sheet::{Anchor, SMALL, Sheet};

/// Length of the sample of a line.
const SAMPLE: f64 = 14.0;

/// The width of a text, never much less than it is: keys need no more than that.
pub fn width(text: &str, size: f64) -> f64 {
    text.chars().map(glyph).sum::<f64>() * size
}

/// The width of a glyph of DejaVu Sans relative to the size of the text, by groups of like ones.
fn glyph(c: char) -> f64 {
    match c {
        ' ' | '.' | ',' | ':' | ';' | '/' | 'i' | 'j' | 'l' => 0.33,
        '(' | ')' | '-' | 'f' | 'r' | 't' | '₀'..='₉' => 0.41,
        '%' | '=' | '+' | '<' | '>' | '~' | '±' | '×' | '−' | 'M' | 'W' | 'm' | 'w' => 0.95,
        'A'..='Z' => 0.72,
        _ => 0.64,
    }
}

/// A horizontal colour bar with a label and the texts of its two ends; returns its right end.
pub fn bar(
    sheet: &Sheet<'_>,
    (x, y): (f64, f64),
    label: &str,
    ends: [&str; 2],
    colour: impl Fn(f64) -> Colour,
) -> Result<f64> {
    const WIDE: f64 = 80.0;
    const STEPS: usize = 40;
    sheet.text(x, y, SMALL, Anchor::Left, label)?;
    let x = x + width(label, SMALL) + 6.0;
    sheet.text(x + width(ends[0], SMALL), y, SMALL, Anchor::Right, ends[0])?;
    let left = x + width(ends[0], SMALL) + 4.0;
    let step = WIDE / STEPS as f64;
    for i in 0..STEPS {
        let value = i as f64 / (STEPS - 1) as f64;
        sheet.rect(left + step * i as f64, y - 4.0, step, 8.0, colour(value))?;
    }
    sheet.frame(left, y - 4.0, WIDE, 8.0, FAINT, 0.4)?;
    sheet.text(left + WIDE + 4.0, y, SMALL, Anchor::Left, ends[1])?;
    Ok(left + WIDE + 4.0 + width(ends[1], SMALL) + 14.0)
}

/// Squares of colours with what they mean, side by side; returns the right end.
pub fn keys(sheet: &Sheet<'_>, (mut x, y): (f64, f64), keys: &[(Colour, &str)]) -> Result<f64> {
    for (colour, text) in keys {
        sheet.rect(x, y - 4.0, 8.0, 8.0, *colour)?;
        sheet.frame(x, y - 4.0, 8.0, 8.0, FAINT, 0.4)?;
        sheet.text(x + 12.0, y, SMALL, Anchor::Left, text)?;
        x += 12.0 + width(text, SMALL) + 10.0;
    }
    Ok(x)
}

/// Lines of colours with what they mean, side by side; returns the right end.
pub fn lines(
    sheet: &Sheet<'_>,
    (mut x, y): (f64, f64),
    keys: impl IntoIterator<Item = (Colour, String)>,
) -> Result<f64> {
    for (colour, text) in keys {
        x = line(sheet, (x, y), (colour, 0), &text)?;
    }
    Ok(x)
}

/// One line with what it means, dashed if its colour was taken `repeated` times before; returns the right end.
pub fn line(
    sheet: &Sheet<'_>,
    (x, y): (f64, f64),
    (colour, repeated): (Colour, usize),
    text: &str,
) -> Result<f64> {
    let (long, gap) = dash(repeated).unwrap_or((SAMPLE, 0.0));
    let mut at = 0.0;
    while at < SAMPLE {
        sheet.line(&[(x + at, y), (x + (at + long).min(SAMPLE), y)], colour, 1.5)?;
        at += long + gap;
    }
    sheet.text(x + SAMPLE + 4.0, y, SMALL, Anchor::Left, text)?;
    Ok(x + line_width(text))
}

/// The width of a [`line`] with its text and the space after it.
pub fn line_width(text: &str) -> f64 {
    SAMPLE + 14.0 + width(text, SMALL)
}
