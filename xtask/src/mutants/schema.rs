//! One source with many mutants, and which of them a compiler's error belongs to.

use std::ops::Range;

use super::find::Mutant;

/// The module that reads which mutant is chosen, added to each mutated crate.
///
/// The file `mutant` in the root of the clone holds its number; if it holds 0, the number of every mutant whose place
/// runs is appended to the file `reached`. Neither allocates, because some tests count allocations.
pub const SWITCH: &str = r#"
use std::fs::File;
use std::io::{Read, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

const RECORD: u32 = u32::MAX - 1;
const UNREAD: u32 = u32::MAX;
static CHOSEN: AtomicU32 = AtomicU32::new(UNREAD);
static REACHED: [AtomicBool; 65536] = [const { AtomicBool::new(false) }; 65536];
static FILE: OnceLock<File> = OnceLock::new();

#[inline(always)]
pub fn on(number: u32) -> bool {
    let chosen = CHOSEN.load(Relaxed);
    if chosen < RECORD { chosen == number } else { rare(chosen, number) }
}

#[cold]
#[inline(never)]
fn rare(chosen: u32, number: u32) -> bool {
    if chosen == RECORD && REACHED[number as usize].load(Relaxed) {
        return false;
    }
    let mut digits = [0; 8];
    let mut file = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../mutant")).expect("a number");
    let length = file.read(&mut digits).expect("a number");
    let chosen = digits[..length].iter().fold(0, |number, digit| 10 * number + u32::from(digit - b'0'));
    if chosen > 0 {
        CHOSEN.store(chosen, Relaxed);
        return chosen == number;
    }
    CHOSEN.store(RECORD, Relaxed);
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/../../reached");
    let mut file = FILE.get_or_init(|| File::options().create(true).append(true).open(list).expect("a list"));
    if !REACHED[number as usize].swap(true, Relaxed) {
        let mut line = [0; 16];
        let mut rest = &mut line[..];
        writeln!(rest, "{number}").expect("room for a number");
        let length = 16 - rest.len();
        file.write_all(&line[..length]).expect("room for a line");
    }
    false
}
"#;

/// A source with mutants, and where each of them lies in it.
pub struct Schema {
    /// The source.
    pub text: String,
    /// Number of a mutant, its inserted text, and all that it encloses.
    places: Vec<(usize, Range<usize>, Range<usize>)>,
}

impl Schema {
    /// Puts mutants with their numbers into a source. The outer of two opens first and closes last.
    pub fn new(source: &str, mutants: &[(usize, &Mutant)]) -> Schema {
        let mut opening: Vec<_> = mutants.iter().collect();
        opening.sort_by_key(|(number, mutant)| (mutant.range.start, usize::MAX - mutant.range.end, *number));
        let mut closing: Vec<_> = opening.iter().rev().collect();
        closing.sort_by_key(|(_, mutant)| mutant.range.end);
        let (mut text, mut places, mut copied) = (String::new(), Vec::new(), 0);
        let (mut opening, mut closing) = (opening.iter().peekable(), closing.into_iter().peekable());
        loop {
            let opens = opening.peek().map_or(usize::MAX, |(_, mutant)| mutant.range.start);
            let closes = closing.peek().map_or(usize::MAX, |(_, mutant)| mutant.range.end);
            let at = opens.min(closes).min(source.len());
            text.push_str(&source[copied..at]);
            copied = at;
            // An empty range opens before it closes, any other closes before a neighbour opens.
            let empty = opening.peek().is_some_and(|(_, mutant)| mutant.range.is_empty());
            if opens < closes || (opens == closes && empty) {
                let Some((number, mutant)) = opening.next() else { break };
                let start = text.len();
                text.push_str(&mutant.before.replace("on(#)", &format!("on({number})")));
                places.push((*number, start..text.len(), start..text.len()));
            } else {
                let Some((number, mutant)) = closing.next() else { break };
                text.push_str(mutant.after);
                let end = text.len();
                places.iter_mut().filter(|(of, ..)| of == number).for_each(|(_, _, all)| all.end = end);
            }
        }
        Schema { text, places }
    }

    /// The mutant that an error at `at` belongs to: the one whose text that is, or else the innermost around it.
    pub fn mutant_at(&self, at: usize) -> Option<usize> {
        let own = self.places.iter().find(|(_, own, _)| own.contains(&at));
        let around =
            || self.places.iter().filter(|(.., all)| all.contains(&at)).min_by_key(|(.., all)| all.len());
        own.or_else(around).map(|(number, ..)| *number)
    }
}
