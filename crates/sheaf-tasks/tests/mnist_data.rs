//! IDX files and sets of pictures: what is accepted, and the errors for the rest.

use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use sheaf_admm::ErrorKind;
use sheaf_tasks::mnist::data::{ImageSet, Split};
use sheaf_tasks::mnist::idx::Idx;

/// A temporary folder, removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sheaf-mnist-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.0.join(name), bytes).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn idx(shape: &[usize], bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, shape.len() as u8];
    shape.iter().for_each(|&n| file.extend((n as u32).to_be_bytes()));
    file.extend(bytes);
    file
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn refused(bytes: &[u8], dimensions: usize) -> String {
    let error = Idx::from_bytes(bytes, dimensions, "the file").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert!(error.place().contains("the file"));
    error.to_string()
}

#[test]
fn a_file_reads_the_same_plain_and_gzipped() {
    let plain = idx(&[2, 3, 1], &[1, 2, 3, 4, 5, 6]);
    let want = Idx { shape: vec![2, 3, 1], bytes: vec![1, 2, 3, 4, 5, 6] };
    assert_eq!(Idx::from_bytes(&plain, 3, "plain").unwrap(), want);
    assert_eq!(Idx::from_bytes(&gzip(&plain), 3, "gzipped").unwrap(), want);
}

#[test]
fn every_way_of_cutting_a_file_short_is_noticed() {
    let plain = idx(&[2, 3, 1], &[1, 2, 3, 4, 5, 6]);
    let packed = gzip(&plain);
    for (whole, what) in [(&plain, "plain"), (&packed, "gzipped")] {
        for len in 0..whole.len() {
            let said = refused(&whole[..len], 3);
            assert!(said.contains("hint: the file is cut short"), "{what} to {len}: {said}");
        }
    }
}

#[test]
fn foreign_files_are_told_apart() {
    assert!(refused(b"<html>404 not found</html>", 3).contains("an IDX file, which begins with"));
    assert!(refused(&gzip(b"PK\x03\x04 archive"), 3).contains("an IDX file, which begins with"));
    assert!(refused(&[0, 0, 0x0d, 1, 0, 0, 0, 0], 1).contains("unsigned bytes"));
    let labels = idx(&[3], &[1, 2, 3]);
    assert!(refused(&labels, 3).contains("3 dimensions, as pictures have, got 1"));
    assert!(refused(&idx(&[1, 1, 1], &[0]), 1).contains("1 dimension, as labels have, got 3"));
    assert!(refused(&idx(&[2], &[1, 2, 3]), 1).contains("the end of the file after 2 numbers"));
}

#[test]
fn a_size_that_is_a_lie_asks_for_no_memory() {
    let said = refused(&idx(&[1 << 28, 1, 1], &[1]), 3);
    assert!(said.contains("1, then the end of the file"), "{said}");
    for shape in [[u32::MAX as usize, 1, 1], [u32::MAX as usize; 3]] {
        let said = refused(&idx(&shape, &[1]), 3);
        assert!(said.contains("at most 1073741824 numbers"), "{said}");
    }
}

#[test]
fn any_size_and_class_count_is_read_under_the_published_names() {
    let folder = Folder::new("names");
    folder.write("train-images-idx3-ubyte.gz", &gzip(&idx(&[2, 3, 5], &(0..30).collect::<Vec<u8>>())));
    folder.write("train-labels-idx1-ubyte", &idx(&[2], &[0, 61]));
    folder.write("emnist-byclass-test-images.idx3-ubyte", &idx(&[1, 3, 5], &[9; 15]));
    folder.write("emnist-byclass-test-labels.idx1-ubyte.gz", &gzip(&idx(&[1], &[4])));
    folder.write("notes.txt", b"not a set");
    let train = ImageSet::read(&folder.0, Split::Train).unwrap();
    assert_eq!((train.height, train.width, train.classes, train.len()), (3, 5, 62, 2));
    assert_eq!(train.image(1), &(15..30).collect::<Vec<u8>>());
    let test = ImageSet::read(&folder.0, Split::Test).unwrap();
    assert_eq!((test.len(), test.labels[0]), (1, 4));
    let mut picture = [0f32; 15];
    test.write_image(0, &mut picture);
    assert_eq!(picture, [9.0 / 255.0; 15]);
    assert_eq!(train.first(1).labels, [0]);
    assert_eq!(train.first(9), train);
}

fn failure(dir: &Path) -> String {
    ImageSet::read(dir, Split::Train).unwrap_err().to_string()
}

#[test]
fn sets_that_do_not_fit_together_are_refused() {
    let folder = Folder::new("misfit");
    assert!(failure(&folder.0.join("missing")).contains("a folder with IDX files"));
    assert!(failure(&folder.0).contains("a file train-images-idx3-ubyte"));
    folder.write("train-images-idx3-ubyte", &idx(&[2, 1, 1], &[1, 2]));
    folder.write("train-labels-idx1-ubyte", &idx(&[3], &[1, 2, 3]));
    assert!(failure(&folder.0).contains("a label for each of the 2 pictures"));
    folder.write("train-labels-idx1-ubyte", &idx(&[2], &[1, 255]));
    assert!(failure(&folder.0).contains("labels from 0 to 254"));
    folder.write("train-labels-idx1-ubyte", &idx(&[0], &[]));
    folder.write("train-images-idx3-ubyte", &idx(&[0, 28, 28], &[]));
    assert!(failure(&folder.0).contains("at least one picture"));
    folder.write("fashion-train-images-idx3-ubyte", &idx(&[1, 1, 1], &[1]));
    assert!(failure(&folder.0).contains("keep each set in a folder of its own"));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), d in 0usize..5) {
        if let Ok(read) = Idx::from_bytes(&bytes, d, "any") {
            prop_assert_eq!(read.shape.len(), d);
            prop_assert_eq!(read.shape.iter().product::<usize>(), read.bytes.len());
        }
    }

    #[test]
    fn what_was_written_is_read(h in 1usize..5, w in 1usize..5, n in 1usize..4, packed: bool) {
        let bytes: Vec<u8> = (0..h * w * n).map(|i| i as u8).collect();
        let file = idx(&[n, h, w], &bytes);
        let file = if packed { gzip(&file) } else { file };
        prop_assert_eq!(Idx::from_bytes(&file, 3, "any").unwrap(), Idx { shape: vec![n, h, w], bytes });
    }
}
