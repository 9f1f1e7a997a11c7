//! `.npz` files: NumPy's are read, ours round-trip, damaged ones are rejected with a reason.

use std::io::Write;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use sheaf_admm::{Error, ErrorKind};
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::{MazeSet, generate};
use sheaf_tasks::npz::{self, Array, Npz, Values};

fn array(shape: &[usize], values: Values) -> Array {
    Array::new(shape.to_vec(), values).unwrap()
}

fn all_types() -> Vec<(&'static str, Array)> {
    vec![
        ("bytes", array(&[2, 3, 4], Values::U8((0..24).collect()))),
        ("flags", array(&[3], Values::Bool(vec![true, false, true]))),
        ("ints", array(&[2, 2], Values::I32(vec![-1, 2, 3, i32::MIN]))),
        ("longs", array(&[2], Values::I64(vec![-(1 << 62), 5]))),
        ("floats", array(&[3], Values::F32(vec![0.5, -0.0, f32::INFINITY]))),
        ("doubles", array(&[], Values::F64(vec![std::f64::consts::PI]))),
        ("empty", array(&[0, 5], Values::F64(vec![]))),
    ]
}

fn bytes_of(arrays: &[(&'static str, Array)]) -> Vec<u8> {
    npz::to_bytes(&arrays.iter().map(|(n, a)| (*n, a)).collect::<Vec<_>>()).unwrap()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A temporary folder, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sheaf-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn arrays_of_every_type_come_back_unchanged() {
    let file = Npz::from_bytes(bytes_of(&all_types()), "ours").unwrap();
    assert_eq!(file.names().collect::<Vec<_>>(), all_types().iter().map(|a| a.0).collect::<Vec<_>>());
    for (name, expected) in all_types() {
        assert_eq!(file.array(name).unwrap(), expected);
    }
}

#[test]
fn what_numpy_writes_is_read() {
    for name in ["numpy_stored.npz", "numpy_deflated.npz"] {
        let file = Npz::read(&fixture(name)).unwrap();
        for (name, expected) in all_types() {
            assert_eq!(file.array(name).unwrap(), expected);
        }
    }
}

#[test]
fn an_array_in_fortran_order_is_read_as_numpy_shows_it() {
    let file = Npz::read(&fixture("numpy_stored.npz")).unwrap();
    assert_eq!(file.array("fortran").unwrap(), array(&[2, 3], Values::I32((0..6).collect())));
}

#[test]
fn types_that_are_not_supported_say_what_to_do() {
    let file = Npz::read(&fixture("numpy_stored.npz")).unwrap();
    for (name, hint) in [("big_endian", "astype"), ("text", "astype")] {
        let error = file.array(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.place().contains(name) && error.hint_text().unwrap().contains(hint), "{error}");
    }
    assert_eq!(file.array("record").unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn a_missing_array_lists_those_that_are_there() {
    let error = Npz::from_bytes(bytes_of(&all_types()[..2]), "set.npz").unwrap().array("inputs").unwrap_err();
    assert_eq!(error.got(), "bytes, flags");
    assert!(error.to_string().contains("set.npz"));
}

#[test]
fn foreign_files_are_refused() {
    let error = |bytes: &[u8]| Npz::from_bytes(bytes.to_vec(), "x").unwrap_err();
    assert!(error(b"\x93NUMPY\x01\x00").to_string().contains("single .npy"));
    for foreign in [&b""[..], b"hello", &[0; 500], b"\x89PNG\r\n\x1a\n"] {
        assert_eq!(error(foreign).kind(), ErrorKind::Malformed);
    }
}

#[test]
fn a_name_that_occurs_twice_is_refused_and_not_read_as_its_last_entry() {
    let [first, second] = [[1, 2], [3, 4]].map(|values| array(&[2], Values::U8(values.to_vec())));
    let mut bytes = npz::to_bytes(&[("inputs", &first), ("spare0", &second)]).unwrap();
    assert!(Npz::from_bytes(bytes.clone(), "x").is_ok());
    let places: Vec<usize> = (0..bytes.len() - 6).filter(|&at| bytes[at..].starts_with(b"spare0")).collect();
    assert_eq!(places.len(), 2, "the entry and its place in the directory");
    places.into_iter().for_each(|at| bytes[at..at + 6].copy_from_slice(b"inputs"));
    let error = Npz::from_bytes(bytes, "x").unwrap_err();
    assert_eq!((error.kind(), error.got()), (ErrorKind::Malformed, "a name that occurs twice"));
}

#[test]
fn a_file_cut_off_anywhere_is_an_error_and_never_a_panic() {
    let whole = bytes_of(&all_types());
    for length in 0..whole.len() {
        let error = Npz::from_bytes(whole[..length].to_vec(), "cut").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert!(error.hint_text().is_some());
    }
}

#[test]
fn no_flipped_bit_of_the_data_goes_unnoticed() {
    let expected = &all_types()[..1];
    for whole in [bytes_of(expected), std::fs::read(fixture("numpy_stored.npz")).unwrap()] {
        let mut noticed = 0;
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            let read = Npz::from_bytes(bytes, "flipped").and_then(|f| f.array("bytes"));
            // Dates, attributes and other entries may change; the array itself must never change silently.
            match read {
                Ok(array) => assert_eq!(array, expected[0].1),
                Err(_) => noticed += 1,
            }
        }
        assert!(noticed > 100);
    }
}

#[test]
fn an_entry_that_unpacks_to_more_than_it_says_is_refused() {
    let mut bytes = bytes_of(&[("zeros", array(&[100_000], Values::U8(vec![0; 100_000])))]);
    let central = bytes.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    bytes[central + 24..central + 28].copy_from_slice(&1_000u32.to_le_bytes());
    assert_eq!(
        Npz::from_bytes(bytes, "bomb").unwrap().array("zeros").unwrap_err().kind(),
        ErrorKind::Malformed
    );
}

/// An archive with one entry `x.npy`, deflated.
fn with_entry(content: &[u8]) -> Npz {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    archive.start_file("x.npy", zip::write::SimpleFileOptions::default()).unwrap();
    archive.write_all(content).unwrap();
    Npz::from_bytes(archive.finish().unwrap().into_inner(), "made").unwrap()
}

/// A version 2 array with this header and some data.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let length = (header.len() as u32).to_le_bytes();
    [b"\x93NUMPY\x02\x00", &length[..], header.as_bytes(), data].concat()
}

#[test]
fn headers_that_would_cost_time_or_memory_are_refused_before_they_are_parsed() {
    let of = |descr: &str, shape: &str| {
        npy(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': ({shape}), }}\n"), &[0; 24])
    };
    assert_eq!(with_entry(&of("'<f4'", "2, 3")).array("x").unwrap().shape(), [2, 3]);
    let cases = [
        of(&"{1:".repeat(30), "2, 3"),
        of(&"[".repeat(30), "2, 3"),
        of(&format!("{}1{}", "(".repeat(3_000), ",)".repeat(3_000)), "2, 3"),
        of(&format!("{}1", "-".repeat(9_000)), "2, 3"),
        of(&format!("{}''", "'' ".repeat(3_000)), "2, 3"),
        of("'<f4'", "4294967296, 4294967296"),
        of("'<f4'", "18446744073709551615, 2"),
        of("'<f4'", "9999999999999"),
        of("'|u1'", "1073741825"),
        of("'<f4'", &"1, ".repeat(5_000)),
        of("'<f4'", "-2, -3"),
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}".to_vec(),
        b"\x93NUMPY\x07\x00\x02\x00\x00\x00{}".to_vec(),
    ];
    for case in cases {
        let error = with_entry(&case).array("x").unwrap_err();
        assert!(error.place().contains("array `x`") && error.hint_text().is_some(), "{error}");
    }
}

#[test]
fn a_small_file_cannot_ask_for_more_than_the_limit() {
    // A header that declares 2.9 GB, in an entry of 1.4 MB.
    let mut bytes = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (362500000,), }\n", &[]);
    bytes.resize(1_400_000, 0);
    let error = with_entry(&bytes).array("x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains(&npz::MAX_ARRAY_BYTES.to_string()), "{error}");
    assert!(error.hint_text().unwrap().contains("several files"));
}

#[test]
fn the_same_arrays_give_the_same_bytes() {
    let first = bytes_of(&all_types());
    // The format's clock counts in steps of two seconds: the current time would differ.
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    assert_eq!(bytes_of(&all_types()), first);
}

#[test]
fn sixty_four_bit_fields_are_understood() {
    // The same archive with the directory's 32-bit fields moved to the extra field and the end record.
    let plain = bytes_of(&all_types()[..1]);
    let central = plain.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    let number = |at: usize| u32::from_le_bytes(plain[at..at + 4].try_into().unwrap()) as u64;
    let name_len = usize::from(plain[central + 28]);
    let mut bytes = plain[..central + 46 + name_len].to_vec();
    let (packed, size, header) = (number(central + 20), number(central + 24), number(central + 42));
    bytes[central + 20..central + 28].fill(0xff);
    bytes[central + 42..central + 46].fill(0xff);
    bytes[central + 30] = 28;
    bytes.extend_from_slice(&[1, 0, 24, 0]);
    [size, packed, header].iter().for_each(|n| bytes.extend_from_slice(&n.to_le_bytes()));
    let end_64 = bytes.len() as u64;
    bytes.extend_from_slice(b"PK\x06\x06");
    // The record's remaining size, two versions, two disks, and the entries on this disk and in all.
    bytes.extend_from_slice(&44u64.to_le_bytes());
    bytes.extend_from_slice(&[45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&1u64.to_le_bytes());
    bytes.extend_from_slice(&1u64.to_le_bytes());
    bytes.extend_from_slice(&(end_64 - central as u64).to_le_bytes());
    bytes.extend_from_slice(&(central as u64).to_le_bytes());
    bytes.extend_from_slice(b"PK\x06\x07\0\0\0\0");
    bytes.extend_from_slice(&end_64.to_le_bytes());
    bytes.extend_from_slice(&[1, 0, 0, 0]);
    bytes.extend_from_slice(b"PK\x05\x06\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0");
    assert_eq!(Npz::from_bytes(bytes, "64").unwrap().array("bytes").unwrap(), all_types()[0].1);
}

#[test]
fn a_set_of_mazes_survives_the_disk_and_leaves_no_partial_file() {
    let folder = Folder::new("npz-set");
    let set = generate(&MazeShape::new(19, 37, 35).unwrap(), 1, 5).unwrap();
    let path = folder.0.join("set.npz");
    set.write(&path).unwrap();
    assert_eq!(MazeSet::read(&path).unwrap(), set);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn files_that_cannot_be_opened_or_made_name_their_path() {
    let missing = Path::new("/nonexistent-folder/set.npz");
    for error in [MazeSet::read(missing).unwrap_err(), npz::write(missing, &[]).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("/nonexistent-folder/set.npz"));
    }
}

fn read_set(inputs: Array, labels: Array) -> Result<MazeSet, Error> {
    MazeSet::from_npz(
        &Npz::from_bytes(bytes_of(&[("inputs", inputs), ("labels", labels)]), "set.npz").unwrap(),
    )
}

#[test]
fn arrays_that_are_no_mazes_are_refused() {
    let good = || array(&[1, 1, 3], Values::U8(vec![3, 2, 4]));
    let label = || array(&[1, 1, 3], Values::U8(vec![3, 5, 4]));
    assert!(read_set(good(), label()).is_ok());
    let cases = [
        (array(&[1, 3], Values::U8(vec![3, 2, 4])), label(), "inputs"),
        (array(&[1, 1, 3], Values::F32(vec![3.0, 2.0, 4.0])), label(), "astype"),
        (good(), array(&[1, 3, 1], Values::U8(vec![3, 5, 4])), "the shape of `inputs`"),
        (array(&[0, 1, 3], Values::U8(vec![])), array(&[0, 1, 3], Values::U8(vec![])), "none of them 0"),
        (array(&[1, 1, 3], Values::U8(vec![3, 0, 4])), label(), "from 1 to 4"),
        (array(&[1, 1, 3], Values::U8(vec![3, 3, 4])), label(), "one start"),
        (array(&[1, 1, 3], Values::U8(vec![3, 2, 2])), label(), "one goal"),
        (good(), array(&[1, 1, 3], Values::U8(vec![5, 5, 4])), "differs from its input"),
        (good(), array(&[1, 1, 3], Values::U8(vec![3, 1, 4])), "maze 0"),
    ];
    for (inputs, labels, said) in cases {
        let error = read_set(inputs, labels).unwrap_err();
        assert!(error.to_string().contains(said) && error.place().contains("set.npz"), "{error}");
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Npz::from_bytes(bytes.clone(), "noise").is_err());
        bytes.extend_from_slice(b"PK\x05\x06\0\0\0\0\x01\0\x01\0\x20\0\0\0\0\0\0\0\0\0");
        if let Ok(file) = Npz::from_bytes(bytes, "noise") {
            for name in file.names() {
                prop_assert!(file.array(name).is_err());
            }
        }
    }
}
