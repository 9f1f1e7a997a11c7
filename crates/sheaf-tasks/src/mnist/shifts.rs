//! Distribution shifts: changes to the test pictures that the training pictures do not have.
//!
//! | shift | written | does |
//! | --- | --- | --- |
//! | none | `none` | nothing |
//! | padding | `pad:4` | that many black pixels around the picture; there are then more agents |
//! | patch dropout | `drop:0.3` | each agent sees black with that probability |
//! | noise | `noise:0.1` | adds a normal number of that deviation to each pixel and clips to [0, 1] |
//!
//! Random shifts depend on (seed, draw, picture) alone: a draw is the same for every model, thread and order.

use std::fmt;
use std::str::FromStr;

use sheaf_admm::{Error, ErrorKind, Real, Result};
use sheaf_learn::rng::Stream;

/// One distribution shift.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Shift {
    /// The unchanged pictures.
    #[default]
    None,
    /// This many black pixels on each side.
    Pad(usize),
    /// The probability that an agent sees black.
    Drop(f64),
    /// The standard deviation of the noise.
    Noise(f64),
}

/// The key of a random shift: a picture of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Draw {
    /// Seed of all draws.
    pub seed: u64,
    /// Which draw.
    pub draw: u64,
    /// Which picture.
    pub image: u64,
}

/// Maximum padding in pixels: a typing error must not exhaust memory.
const MOST_PADDING: usize = 4096;

impl Shift {
    /// The published robustness table, unshifted pictures first.
    pub fn published() -> [Self; 9] {
        [
            Self::None,
            Self::Pad(4),
            Self::Pad(8),
            Self::Pad(16),
            Self::Drop(0.05),
            Self::Drop(0.1),
            Self::Drop(0.3),
            Self::Noise(0.1),
            Self::Noise(0.2),
        ]
    }

    /// Whether the shift is random.
    pub fn is_random(self) -> bool {
        matches!(self, Self::Drop(_) | Self::Noise(_))
    }

    /// Height and width after the shift.
    pub fn size(self, height: usize, width: usize) -> (usize, usize) {
        match self {
            Self::Pad(pad) => (height + 2 * pad, width + 2 * pad),
            _ => (height, width),
        }
    }

    /// Padding and noise: writes the shifted picture. Dropout leaves the picture unchanged, because it acts on agents;
    /// see [`dropped`](Self::dropped).
    pub fn apply<T: Real>(
        self,
        draw: Draw,
        image: &[T], // [height, width]
        width: usize,
        out: &mut [T], // of the size that `size` returns
    ) {
        match self {
            Self::None | Self::Drop(_) => out.copy_from_slice(image),
            Self::Pad(pad) => {
                out.fill(T::ZERO);
                let wide = width + 2 * pad;
                for (row, line) in image.chunks_exact(width).enumerate() {
                    out[(row + pad) * wide + pad..][..width].copy_from_slice(line);
                }
            }
            Self::Noise(deviation) => {
                let mut stream = draw.stream("noise on pictures");
                for (out, &pixel) in out.iter_mut().zip(image) {
                    let noisy = pixel + T::from_f64(deviation * stream.normal());
                    *out = noisy.max(T::ZERO).min(T::ONE);
                }
            }
        }
    }

    /// Selects the agents that see black: fills `mask` and returns whether there are any.
    pub fn dropped(
        self,
        draw: Draw,
        mask: &mut [bool], // [agents]
    ) -> bool {
        let Self::Drop(probability) = self else {
            mask.fill(false);
            return false;
        };
        let mut stream = draw.stream("agents that see black");
        mask.fill_with(|| stream.uniform() < probability);
        mask.contains(&true)
    }
}

impl Draw {
    fn stream(self, purpose: &str) -> Stream {
        // Draws and pictures are two counters of the stream: no two pairs share random numbers.
        Stream::new(self.seed, purpose, self.draw, self.image)
    }
}

impl fmt::Display for Shift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Pad(pad) => write!(f, "pad:{pad}"),
            Self::Drop(probability) => write!(f, "drop:{probability}"),
            Self::Noise(deviation) => write!(f, "noise:{deviation}"),
        }
    }
}

impl FromStr for Shift {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |expected: &str| {
            Error::new(ErrorKind::Malformed, "shift", expected, format_args!("`{text}`"))
                .hint("write none, pad:PIXELS, drop:PROBABILITY or noise:DEVIATION, as in pad:16 or drop:0.3")
        };
        if text == "none" {
            return Ok(Self::None);
        }
        let (kind, amount) = text.split_once(':').ok_or_else(|| wrong("a kind, a colon and a number"))?;
        let number = |top: f64, expected: &str| -> Result<f64> {
            let value: f64 = amount.parse().map_err(|_| wrong(expected))?;
            if (0.0..=top).contains(&value) { Ok(value) } else { Err(wrong(expected)) }
        };
        match kind {
            "pad" => match amount.parse::<usize>() {
                Ok(pad) if pad <= MOST_PADDING => Ok(Self::Pad(pad)),
                _ => Err(wrong("a count of pixels, at most 4096")),
            },
            "drop" => number(1.0, "a probability from 0 to 1").map(Self::Drop),
            "noise" => number(f64::MAX, "a finite deviation, 0 or above").map(Self::Noise),
            _ => Err(wrong("`pad`, `drop` or `noise` before the colon")),
        }
    }
}
