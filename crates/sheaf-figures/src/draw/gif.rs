//! Animated GIFs: the path as it forms from iteration to iteration, with a progress bar.
//!
//! Each frame after the first holds only the rectangle that changed. Only the last frame is judged: marks for wrong
//! pixels on a path that is still forming would hide it.

use std::borrow::Cow;

use ::gif::{DisposalMethod, Encoder, EncodingError, Repeat};
use sheaf_admm::{Error, ErrorKind, Result};

use super::canvas::{self, Canvas};
use super::{Frame, Scene, palette};

/// Sizes and times of an animation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Hundredths of a second between iterations.
    pub step: u16,
    /// Hundredths of a second that the last frame stays.
    pub hold: u16,
}

impl Timing {
    /// About six seconds for all frames and two more at the end.
    pub fn for_frames(frames: usize) -> Self {
        Self { step: (600 / frames.max(1)).clamp(3, 40) as u16, hold: 200 }
    }
}

/// Frames as the bytes of a GIF file that loops forever, with cells of `cell` pixels.
pub fn render(scene: &Scene, frames: &[Frame], cell: usize, timing: Timing) -> Result<Vec<u8>> {
    let unjudged = Scene { label: None, ..*scene };
    let drawn = frames.iter().enumerate().map(|(i, frame)| {
        let is_last = i + 1 == frames.len();
        let progress = Some((i + 1) as f32 / frames.len() as f32);
        canvas::draw(if is_last { scene } else { &unjudged }, frame, cell, progress)
    });
    encode(drawn, frames.len(), &palette::table(), timing)
}

/// `count` canvases of one size as the bytes of a GIF file that loops forever; `colours` are red, green and blue of
/// each colour.
pub fn encode(
    canvases: impl IntoIterator<Item = Result<Canvas>>,
    count: usize,
    colours: &[u8],
    timing: Timing,
) -> Result<Vec<u8>> {
    let failed = |e: EncodingError| Error::new(ErrorKind::Io, "GIF image", "frames that can be encoded", e);
    let mut canvases = canvases.into_iter();
    let Some(first) = canvases.next() else {
        return Err(Error::new(ErrorKind::Shape, "animation", "one or more frames", "none"));
    };
    let mut shown = first?;
    let (width, height) = (shown.width, shown.height);
    let mut encoder = Encoder::new(Vec::new(), width as u16, height as u16, colours).map_err(failed)?;
    encoder.set_repeat(Repeat::Infinite).map_err(failed)?;
    let delay = |i: usize| if i + 1 == count { timing.hold } else { timing.step };
    let whole = Area { left: 0, top: 0, width, height };
    encoder.write_frame(&whole.frame(&shown, delay(0))).map_err(failed)?;
    for (i, canvas) in canvases.enumerate() {
        let (i, canvas) = (i + 1, canvas?);
        if (canvas.width, canvas.height) != (width, height) {
            let place = format!("frame {i} of the animation");
            return Err(Error::new(ErrorKind::Shape, place, "heat in all frames or in none", "a mixture"));
        }
        encoder.write_frame(&changed(&shown, &canvas).frame(&canvas, delay(i))).map_err(failed)?;
        shown = canvas;
    }
    encoder.into_inner().map_err(failed)
}

struct Area {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

impl Area {
    fn frame(&self, canvas: &Canvas, delay: u16) -> ::gif::Frame<'static> {
        let rows = (self.top..self.top + self.height)
            .flat_map(|row| &canvas.pixels[row * canvas.width + self.left..][..self.width]);
        ::gif::Frame {
            delay,
            dispose: DisposalMethod::Keep,
            left: self.left as u16,
            top: self.top as u16,
            width: self.width as u16,
            height: self.height as u16,
            buffer: Cow::Owned(rows.copied().collect()),
            ..Default::default()
        }
    }
}

/// The smallest rectangle that holds all differing pixels; one pixel if none differs, since a frame cannot be empty.
fn changed(before: &Canvas, after: &Canvas) -> Area {
    let (mut left, mut top, mut right, mut bottom) = (after.width, after.height, 0, 0);
    for (row, (a, b)) in
        before.pixels.chunks_exact(after.width).zip(after.pixels.chunks_exact(after.width)).enumerate()
    {
        let differs = |(x, y): (&u8, &u8)| x != y;
        if let Some(first) = a.iter().zip(b).position(differs) {
            let last = a.iter().zip(b).rposition(differs).unwrap_or(first);
            (left, right) = (left.min(first), right.max(last + 1));
            (top, bottom) = (top.min(row), row + 1);
        }
    }
    if bottom == 0 {
        return Area { left: 0, top: 0, width: 1, height: 1 };
    }
    Area { left, top, width: right - left, height: bottom - top }
}
