//! Pictures of a comparison: both runs side by side, as vectors or as an animation.
//!
//! Colours are those of Okabe and Ito, which people with any colour vision tell apart.

mod gif;
mod shapes;
mod svg;

pub use gif::to_gif;
pub use shapes::{Colour, Shape, board};
pub use svg::to_svg;

use std::path::Path;

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::write_whole;

use crate::subject::Outcome;

/// What a file shows, by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The last iteration and the distance over time.
    Svg,
    /// Every iteration.
    Gif,
    /// All arrays.
    Npz,
}

impl Format {
    /// The format of a file name.
    pub fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|end| end.to_str()) {
            Some("svg") => Ok(Self::Svg),
            Some("gif") => Ok(Self::Gif),
            Some("npz") => Ok(Self::Npz),
            _ => {
                let (place, got) = (path.display().to_string(), "another name");
                Err(Error::new(ErrorKind::Unsupported, place, "a name ending in .svg, .gif or .npz", got))
            }
        }
    }
}

/// Writes an experiment with both runs to a file.
pub fn write(path: &Path, task: &str, outcome: Outcome) -> Result<()> {
    let bytes = match Format::of(path)? {
        Format::Svg => to_svg(task, &outcome).into_bytes(),
        Format::Gif => to_gif(task, &outcome)?,
        Format::Npz => outcome.into_arrays()?.to_npz()?,
    };
    write_whole(path, &bytes)
}
