//! Pictures as files: the extension selects the format.

use std::path::Path;

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::write_whole;

use super::gif::{self, Timing};
use super::{Frame, Scene, canvas, png, svg};

/// Writes frames to a `.png` (the last), `.gif` or `.svg` (all of them) file, through a temporary file.
pub fn write(path: &Path, scene: &Scene, frames: &[Frame]) -> Result<()> {
    let bytes = render(path, scene, frames)?;
    write_whole(path, &bytes)
}

/// Checks early, before anything is computed, that the extension is one of a supported format.
pub fn check_name(path: &Path) -> Result<()> {
    kind(path).map(|_| ())
}

/// Picture file formats.
pub(super) enum Kind {
    Png,
    Gif,
    Svg,
}

pub(super) fn kind(path: &Path) -> Result<Kind> {
    match ending(path).as_str() {
        "png" => Ok(Kind::Png),
        "gif" => Ok(Kind::Gif),
        "svg" => Ok(Kind::Svg),
        _ => Err(wrong_ending(path, "a name ending in .png, .gif or .svg")
            .hint(".png is a picture, .gif an animation, .svg vectors")),
    }
}

fn ending(path: &Path) -> String {
    path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase()
}

pub(super) fn wrong_ending(path: &Path, want: &str) -> Error {
    let ending = ending(path);
    let got = if ending.is_empty() { "no ending".into() } else { format!(".{ending}") };
    Error::new(ErrorKind::Unsupported, path.display().to_string(), want, got)
}

fn render(path: &Path, scene: &Scene, frames: &[Frame]) -> Result<Vec<u8>> {
    let cell = canvas::default_cell(scene);
    let timing = Timing::for_frames(frames.len());
    match kind(path)? {
        Kind::Gif => gif::render(scene, frames, cell, timing),
        Kind::Svg => {
            let seconds = f32::from(timing.step) * frames.len() as f32 / 100.0;
            svg::render(scene, frames, seconds).map(String::into_bytes)
        }
        Kind::Png => match frames.last() {
            Some(last) => png::render(scene, last, cell),
            None => Err(Error::new(ErrorKind::Shape, "picture", "a frame", "none")),
        },
    }
}
