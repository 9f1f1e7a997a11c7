//! A deterministic mutator: case `n` of a list of seeds is the same bytes on every machine.

/// Numbers (SplitMix64) that depend on the case alone.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 if there is none.
    fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.next() % end as u64) as usize }
    }
}

/// Bytes that mean something to one reader or another.
const WORDS: &[&[u8]] = &[
    b"\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\0\0\0\x80",
    b"\n",
    b"\r\n",
    b",",
    b"\"",
    b"=",
    b"[",
    b"]",
    b"{",
    b"}",
    b"#",
    b"S",
    b"G",
    b".",
    b"0",
    b"-1",
    b"1e308",
    b"nan",
    b"9223372036854775807",
    b"18446744073709551616",
    b"puzzle",
    b"solution",
    b"\xef\xbb\xbf",
    b"\x1b[31m",
    b"\xe2\x80\xae",
    b"PK\x01\x02",
    b"IDAT",
    b"'fortran_order': True",
    b"\x1f\x8b",
    b"F16",
    b"shape",
];

/// Longest mutated input.
const LONGEST: usize = 1 << 16;

/// Case `number` of these seeds: one of them, changed in one to eight places. Every 64th case is a seed as it is.
pub fn case(seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut numbers = Numbers(number);
    let Some(seed) = seeds.get(numbers.below(seeds.len())) else { return Vec::new() };
    let mut bytes = seed.clone();
    if number.is_multiple_of(64) {
        return bytes;
    }
    for _ in 0..=numbers.below(8) {
        change(&mut bytes, seeds, &mut numbers);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], numbers: &mut Numbers) {
    let at = numbers.below(bytes.len());
    let end = (at + 1 + numbers.below(16)).min(bytes.len());
    match numbers.below(9) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << numbers.below(8),
        1 if !bytes.is_empty() => bytes[at] = numbers.next() as u8,
        2 => {
            bytes.drain(at.min(end)..end);
        }
        3 => {
            let copy = bytes[at.min(end)..end].to_vec();
            bytes.splice(at..at, copy);
        }
        4 => {
            let word = WORDS[numbers.below(WORDS.len())];
            bytes.splice(at..at, word.iter().copied());
        }
        5 => {
            let word = WORDS[numbers.below(WORDS.len())];
            let end = (at + word.len()).min(bytes.len());
            bytes.splice(at..end, word.iter().copied());
        }
        6 => bytes.truncate(at),
        7 => {
            let other = &seeds[numbers.below(seeds.len())];
            let from = numbers.below(other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        _ => {
            // A number in the text becomes another one.
            let Some(start) = bytes[at.min(bytes.len())..].iter().position(u8::is_ascii_digit) else {
                return;
            };
            let digits = bytes[at + start..].iter().take_while(|b| b.is_ascii_digit()).count();
            let value = (numbers.next() >> numbers.below(64)).to_string();
            bytes.splice(at + start..at + start + digits, value.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_the_same_each_time_and_cases_differ() {
        let seeds = vec![b"hello, world 12".to_vec(), b"other".to_vec()];
        let all: Vec<_> = (0..500).map(|n| case(&seeds, n)).collect();
        assert_eq!(all, (0..500).map(|n| case(&seeds, n)).collect::<Vec<_>>());
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert!(distinct.len() > 400, "{}", distinct.len());
        assert!(case(&[], 3).is_empty() && case(&[Vec::new()], 5).len() < 100);
    }
}
