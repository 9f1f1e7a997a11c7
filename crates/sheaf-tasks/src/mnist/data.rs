//! A set of labelled grey pictures.
//!
//! | name | shape |
//! | --- | --- |
//! | [`ImageSet::images`] | `[pictures, height, width]` |
//! | [`ImageSet::labels`] | `[pictures]` |

use std::fs;
use std::path::{Path, PathBuf};

use sheaf_admm::{Error, ErrorKind, Real, Result};
use sheaf_learn::train::file::io_error;

use super::idx::Idx;

/// The training split or the test split of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// 60,000 pictures in MNIST.
    Train,
    /// 10,000 pictures in MNIST.
    Test,
}

impl Split {
    /// Prefix of its file names; EMNIST calls its test split `test`, the others `t10k`.
    fn prefixes(self) -> &'static [&'static str] {
        match self {
            Self::Train => &["train"],
            Self::Test => &["t10k", "test"],
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Test => "test",
        }
    }
}

/// Pictures of one size with their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageSet {
    /// Rows of pixels.
    pub height: usize,
    /// Columns of pixels.
    pub width: usize,
    /// Labels are below this: one more than the largest label.
    pub classes: usize,
    /// Pixels, 0 black to 255 white.
    pub images: Vec<u8>, // [pictures, height, width]
    /// The class of each picture.
    pub labels: Vec<u8>, // [pictures]
}

impl ImageSet {
    /// A set from matching pictures and labels.
    pub fn new(images: Idx, labels: Idx, place: &str) -> Result<Self> {
        let (&[count, height, width], &[labelled]) = (&images.shape[..], &labels.shape[..]) else {
            let got = format!("{:?} and {:?}", images.shape, labels.shape);
            return Err(Error::new(ErrorKind::Shape, place, "pictures [n, h, w] and labels [n]", got));
        };
        if count != labelled {
            let expected = format!("a label for each of the {count} pictures");
            return Err(Error::new(ErrorKind::Shape, place, expected, format_args!("{labelled} labels"))
                .hint("the files of pictures and of labels are of different sets or splits"));
        }
        if count == 0 || height == 0 || width == 0 {
            let got = format!("{count} of {height} × {width} pixels");
            return Err(Error::new(ErrorKind::Shape, place, "at least one picture with pixels", got));
        }
        let classes = labels.bytes.iter().copied().max().map_or(0, usize::from) + 1;
        if classes > 255 {
            // 255 marks "no label" in the loss.
            return Err(Error::new(ErrorKind::Unsupported, place, "labels from 0 to 254", "255"));
        }
        Ok(Self { height, width, classes, images: images.bytes, labels: labels.bytes })
    }

    /// Reads a split from a folder of IDX files, gzipped or not, under their published names: MNIST's and
    /// Fashion-MNIST's `train-images-idx3-ubyte.gz` or EMNIST's `emnist-letters-train-images-idx3-ubyte.gz`, also with
    /// a dot before `idx`.
    pub fn read(dir: &Path, split: Split) -> Result<Self> {
        let images = find(dir, split, "images", 3)?;
        let labels = find(dir, split, "labels", 1)?;
        let place = format!("{} and {}", images.display(), labels.display());
        Self::new(Idx::read(&images, 3)?, Idx::read(&labels, 1)?, &place)
    }

    /// Pixels of one picture.
    pub fn pixels(&self) -> usize {
        self.height * self.width
    }

    /// Number of pictures.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Pixels of picture `i`, `[height, width]`.
    pub fn image(&self, i: usize) -> &[u8] {
        &self.images[i * self.pixels()..][..self.pixels()]
    }

    /// Writes picture `i` as numbers in [0, 1].
    pub fn write_image<T: Real>(
        &self,
        i: usize,
        out: &mut [T], // [height, width]
    ) {
        let scale = T::from_f64(255.0);
        for (out, &pixel) in out.iter_mut().zip(self.image(i)) {
            *out = T::from_f64(f64::from(pixel)) / scale;
        }
    }

    /// Splits off the last `count` pictures; at least one must be left.
    pub fn split_off(&mut self, count: usize) -> Result<Self> {
        let len = self.len();
        let Some(kept) = len.checked_sub(count).filter(|&kept| kept > 0) else {
            let want = format!("fewer than the {len} training pictures");
            return Err(Error::new(ErrorKind::OutOfRange, "data.validation_count", want, count));
        };
        let images = self.images.split_off(kept * self.pixels());
        let labels = self.labels.split_off(kept);
        Ok(Self { images, labels, ..self.first(0) })
    }

    /// The first `count` pictures, or all if there are fewer. The number of classes is unchanged.
    pub fn first(&self, count: usize) -> Self {
        let count = count.min(self.len());
        Self {
            images: self.images[..count * self.pixels()].to_vec(),
            labels: self.labels[..count].to_vec(),
            ..*self
        }
    }
}

const FETCH: &str =
    "`sheaf data mnist --out DIR` fetches the files; `--from DIR` takes them from another folder";

/// The one file of a folder that holds this part of a split.
fn find(dir: &Path, split: Split, part: &str, dimensions: usize) -> Result<PathBuf> {
    let entries = fs::read_dir(dir).map_err(|e| io_error(dir, "a folder with IDX files", &e).hint(FETCH))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| io_error(dir, "a folder with IDX files", &e))?;
        if let Some(name) = entry.file_name().to_str() {
            names.push(name.to_string());
        }
    }
    names.sort();
    let matches = |name: &String| {
        let stem = name.strip_suffix(".gz").unwrap_or(name);
        split.prefixes().iter().any(|prefix| {
            ["-", "."].iter().any(|dot| {
                let end = format!("{prefix}-{part}{dot}idx{dimensions}-ubyte");
                stem.strip_suffix(&end).is_some_and(|front| front.is_empty() || front.ends_with('-'))
            })
        })
    };
    let mut found: Vec<&String> = names.iter().filter(|name| matches(name)).collect();
    // If a file exists both plain and gzipped, take the plain one, which reads faster.
    found.dedup_by(|later, first| later.strip_suffix(".gz") == Some(first));
    let place = format!("{}, {} {part}", dir.display(), split.name());
    let wanted = format!("{}-{part}-idx{dimensions}-ubyte, gzipped or not", split.prefixes()[0]);
    match &found[..] {
        [one] => Ok(dir.join(one)),
        [] => Err(Error::new(ErrorKind::Io, place, format_args!("a file {wanted}"), "none").hint(FETCH)),
        several => {
            let got = several.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
            Err(Error::new(ErrorKind::Malformed, place, format_args!("one file {wanted}"), got)
                .hint("keep each set in a folder of its own"))
        }
    }
}
