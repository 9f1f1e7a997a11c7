//! The weights that ship with the program, by name: `builtin:maze` and so on.

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::WeightsFile;

use crate::{baselines, maze, mnist, sudoku};

/// Weights that ship with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// Their name, with the prefix `builtin:`.
    pub name: &'static str,
    /// The file.
    pub bytes: &'static [u8],
}

/// All of them. Those named as a task are what the task uses where nothing else is asked for.
pub static ALL: [Builtin; 5] = [
    Builtin { name: "builtin:maze", bytes: maze::task::BUILTIN },
    Builtin { name: "builtin:maze-far", bytes: maze::task::BUILTIN_FAR },
    Builtin { name: "builtin:sudoku", bytes: sudoku::task::BUILTIN },
    Builtin { name: "builtin:mnist", bytes: mnist::task::BUILTIN },
    Builtin { name: "builtin:mnist-cnn", bytes: baselines::cnn::experiment::BUILTIN },
];

impl Builtin {
    /// The weights that `text` names, or `None` if it does not begin with `builtin:` and is a path.
    pub fn parse(text: &str) -> Result<Option<&'static Self>> {
        if !text.starts_with("builtin:") {
            return Ok(None);
        }
        ALL.iter().find(|known| known.name == text).map(Some).ok_or_else(|| {
            let known: Vec<&str> = ALL.iter().map(|known| known.name).collect();
            Error::new(ErrorKind::Unsupported, "built-in weights", known.join(" or "), text)
                .hint("weights in a file are named by its path")
        })
    }

    /// Reads them.
    pub fn open(&self) -> Result<WeightsFile> {
        WeightsFile::parse(self.name, self.bytes)
    }
}
