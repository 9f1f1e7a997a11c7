//! Checkpoints and weights round-trip bit for bit, and every kind of damage gives an error with a hint.

use std::fs;
use std::path::PathBuf;

use sheaf_admm::{Error, ErrorKind};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::train::{
    Checkpoint, CheckpointFile, Counters, Precision, TrainState, WeightsFile, WeightsMeta, encode_weights,
    save_weights,
};

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sheaf-checkpoint-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn layout() -> ParamLayout {
    let mut layout = ParamLayout::new();
    layout.add("encode/weight", &[3, 5]);
    layout.add("rho", &[]);
    layout.add("encode/bias", &[7]);
    layout
}

fn checkpoint(n: usize) -> Checkpoint {
    let wave = |phase: f32| (0..n).map(|k| (k as f32 + phase).sin() * 1e-3).collect::<Vec<f32>>();
    let mut params = wave(0.1);
    params[2] = -0.0;
    params[3] = f32::MIN_POSITIVE / 8.0;
    Checkpoint {
        state: TrainState {
            params,
            ema: wave(0.2),
            adam_m: wave(0.3),
            adam_v: wave(0.4),
            mean: Vec::new(),
            counters: Counters {
                step: 12_345,
                samples: u64::MAX,
                seed: u64::MAX - 1,
                elapsed_seconds: 0.1 + 0.2,
                skipped: 3,
                rollbacks: 2,
                window_loss: (0.1f64 + 0.7).to_bits(),
                window_steps: 5,
                best: Some(0.987f64.to_bits()),
                mean_members: 0,
            },
        },
        task: "maze".into(),
        config: "name = \"ünïcode \\\" quote\"\n[train]\nsteps = 3\n".into(),
        history: "{\"step\":5,\"eval/solved\":0.30000000000000004}\n".into(),
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

fn fails(result: Result<impl Sized, Error>, kind: ErrorKind, words: &[&str]) {
    let error = result.err().expect("an error");
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "`{word}` is not in: {error}");
    }
}

#[test]
fn a_checkpoint_comes_back_bit_for_bit() {
    let (dir, layout) = (Dir::new("round"), layout());
    let (path, before) = (dir.0.join("step.safetensors"), checkpoint(layout.len()));
    before.save(&path, &layout).unwrap();
    let after = Checkpoint::load(&path, &layout).unwrap();
    assert_eq!(bits(&after.state.params), bits(&before.state.params));
    assert_eq!(bits(&after.state.ema), bits(&before.state.ema));
    assert_eq!(bits(&after.state.adam_m), bits(&before.state.adam_m));
    assert_eq!(bits(&after.state.adam_v), bits(&before.state.adam_v));
    assert_eq!(after, before);
    let first = fs::read(&path).unwrap();
    after.save(&path, &layout).unwrap();
    assert_eq!(fs::read(&path).unwrap(), first, "the same state is the same file");
}

#[test]
fn the_texts_of_a_checkpoint_are_readable_without_its_model() {
    let (dir, layout) = (Dir::new("texts"), layout());
    let path = dir.0.join("step.safetensors");
    checkpoint(layout.len()).save(&path, &layout).unwrap();
    let file = CheckpointFile::read(&path).unwrap();
    assert_eq!(file.task().unwrap(), "maze");
    assert!(file.config().unwrap().contains("steps = 3"));
    assert_eq!(file.counters().unwrap().step, 12_345);
}

#[test]
fn a_cut_at_any_length_is_an_error() {
    let (dir, layout) = (Dir::new("cut"), layout());
    let path = dir.0.join("step.safetensors");
    checkpoint(layout.len()).save(&path, &layout).unwrap();
    let whole = fs::read(&path).unwrap();
    for keep in [0, 7, 8, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..keep]).unwrap();
        fails(
            Checkpoint::load(&path, &layout),
            ErrorKind::Malformed,
            &["step.safetensors", "hint: ", "truncated"],
        );
    }
}

#[test]
fn one_flipped_bit_among_the_numbers_is_noticed() {
    let (dir, layout) = (Dir::new("flip"), layout());
    let path = dir.0.join("step.safetensors");
    checkpoint(layout.len()).save(&path, &layout).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let place = bytes.len() - 50;
    bytes[place] ^= 4;
    fs::write(&path, bytes).unwrap();
    fails(Checkpoint::load(&path, &layout), ErrorKind::Malformed, &["checksum", "damaged"]);
}

#[test]
fn no_flipped_bit_of_header_configuration_counters_or_numbers_goes_unnoticed() {
    let (dir, layout) = (Dir::new("any-bit"), layout());
    let path = dir.0.join("step.safetensors");
    checkpoint(layout.len()).save(&path, &layout).unwrap();
    let whole = fs::read(&path).unwrap();
    for bit in 0..8 * whole.len() {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let read = WeightsFile::parse("flipped", bytes);
        assert!(read.is_err(), "bit {} of byte {} was not noticed", bit % 8, bit / 8);
    }
    WeightsFile::parse("whole", whole).unwrap();
}

/// A file as earlier versions wrote it: format 1, with a checksum of the tensors alone.
fn old_format(bytes: &[u8]) -> Vec<u8> {
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&bytes[8..8 + length]).unwrap();
    let at = header.find("crc32c-file:").unwrap();
    let sum = format!("crc32c:{:08x}", crc32c::crc32c(&bytes[8 + length..]));
    let mut header =
        header.replacen(&header[at..at + 20], &sum, 1).replace("\"version\":\"2\"", "\"version\":\"1\"");
    header.extend([' '; 5]); // the mark is shorter; tensors stay where they are
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes[8 + length..]].concat()
}

#[test]
fn files_of_the_old_format_load_with_a_note_and_their_tensors_are_still_checked() {
    let params = checkpoint(layout().len()).state.params;
    let new = encode_weights(&layout(), &params, &about(), Precision::F32).unwrap();
    assert_eq!(WeightsFile::parse("new", new.clone()).unwrap().tensors().note(), None);
    let old = old_format(&new);
    let file = WeightsFile::parse("old", old.clone()).unwrap();
    assert_eq!(bits(&file.params(&layout()).unwrap()), bits(&params));
    assert!(file.tensors().note().unwrap().contains("sheaf export"));
    let mut damaged = old;
    *damaged.last_mut().unwrap() ^= 1;
    fails(WeightsFile::parse("old", damaged), ErrorKind::Malformed, &["checksum"]);
}

#[test]
fn a_new_file_without_its_checksum_is_refused() {
    let bytes = encode_weights(&layout(), &[0.5; 23], &about(), Precision::F32).unwrap();
    let place = bytes.windows(10).position(|w| w == b"\"checksum\"").unwrap();
    let mut renamed = bytes;
    renamed[place + 1] = b'C';
    fails(WeightsFile::parse("renamed", renamed), ErrorKind::Malformed, &["checksum of the whole file"]);
}

#[test]
fn names_of_tensors_have_a_limit() {
    let mut layout = ParamLayout::new();
    layout.add("n".repeat(1 << 16), &[2]);
    let bytes = encode_weights(&layout, &[1.0, 2.0], &about(), Precision::F32).unwrap();
    fails(WeightsFile::parse("long", bytes), ErrorKind::Malformed, &["at most 1024 bytes", "65536"]);
}

#[test]
fn another_models_checkpoint_names_the_tensor() {
    let (dir, layout) = (Dir::new("other"), layout());
    let path = dir.0.join("step.safetensors");
    checkpoint(layout.len()).save(&path, &layout).unwrap();
    let load = |shapes: &[(&str, &[usize])]| {
        let mut other = ParamLayout::new();
        for (name, shape) in shapes {
            other.add(*name, shape);
        }
        Checkpoint::load(&path, &other)
    };
    let weight: (&str, &[usize]) = ("encode/weight", &[3, 5]);
    let bias: (&str, &[usize]) = ("encode/bias", &[7]);
    let rho: (&str, &[usize]) = ("rho", &[]);
    fails(load(&[weight, bias]), ErrorKind::Malformed, &["`params/rho`", "does not have", "hint: "]);
    fails(load(&[weight, bias, rho, ("gamma", &[])]), ErrorKind::Malformed, &["gamma", "no such tensor"]);
    fails(
        load(&[("encode/weight", &[5, 3]), bias, rho]),
        ErrorKind::Shape,
        &["`params/encode/weight`", "[5, 3]", "[3, 5]"],
    );
}

#[test]
fn numbers_of_another_type_are_an_error() {
    let (dir, layout) = (Dir::new("type"), layout());
    let path = dir.0.join("step.safetensors");
    checkpoint(layout.len()).save(&path, &layout).unwrap();
    let mut bytes = old_format(&fs::read(&path).unwrap());
    let place = bytes.windows(5).rposition(|w| w == b"\"F32\"").unwrap();
    bytes[place + 1] = b'I';
    fs::write(&path, bytes).unwrap();
    fails(Checkpoint::load(&path, &layout), ErrorKind::Malformed, &["tensor `", "F32", "I32"]);
}

#[test]
fn foreign_files_say_what_they_are() {
    let (dir, layout) = (Dir::new("foreign"), layout());
    let path = dir.0.join("file");
    fs::write(&path, b"PK\x03\x04 this is a zip archive, not a tensor file").unwrap();
    fails(Checkpoint::load(&path, &layout), ErrorKind::Malformed, &["safetensors"]);
    fails(WeightsFile::read(&path), ErrorKind::Malformed, &["safetensors"]);
    fs::write(&path, [&2u64.to_le_bytes()[..], b"{}"].concat()).unwrap();
    fails(Checkpoint::load(&path, &layout), ErrorKind::Malformed, &["another program"]);
    fails(WeightsFile::read(&path), ErrorKind::Malformed, &["another program", "sheaf import"]);
    fails(Checkpoint::load(&dir.0.join("nothing"), &layout), ErrorKind::Io, &["nothing", "check the path"]);
}

#[test]
fn a_checkpoint_read_as_weights_gives_its_running_average() {
    let (dir, layout) = (Dir::new("average"), layout());
    let (path, from) = (dir.0.join("step.safetensors"), checkpoint(layout.len()));
    from.save(&path, &layout).unwrap();
    let file = WeightsFile::read(&path).unwrap();
    assert_eq!((file.about().task.as_str(), &file.about().config), ("maze", &from.config));
    assert_eq!(bits(&file.params(&layout).unwrap()), bits(&from.state.ema));
}

fn about() -> WeightsMeta {
    WeightsMeta { task: "maze".into(), config: "k = 1\n".into(), record: "{\"seed\":42}".into() }
}

#[test]
fn weights_in_32_bits_come_back_bit_for_bit_with_their_texts() {
    let (dir, layout) = (Dir::new("weights"), layout());
    let path = dir.0.join("weights.safetensors");
    let params = checkpoint(layout.len()).state.params;
    save_weights(&path, &layout, &params, &about(), Precision::F32).unwrap();
    let file = WeightsFile::read(&path).unwrap();
    assert_eq!(file.about(), &about());
    assert_eq!(bits(&file.params(&layout).unwrap()), bits(&params));
    assert_eq!(file.tensors().names(), ["encode/weight", "rho", "encode/bias"]);
}

#[test]
fn weights_in_16_bits_are_half_as_large_and_as_near_as_halves_can_be() {
    let mut layout = ParamLayout::new();
    layout.add("w", &[1000]);
    let params: Vec<f32> = (0..1000).map(|k| (k as f32).sin()).collect();
    let full = encode_weights(&layout, &params, &about(), Precision::F32).unwrap();
    let half = encode_weights(&layout, &params, &about(), Precision::F16).unwrap();
    assert_eq!(full.len() - half.len(), 2000);
    let back = WeightsFile::parse("built in", half).unwrap().params(&layout).unwrap();
    for (a, b) in back.iter().zip(&params) {
        assert!((a - b).abs() <= b.abs() / 2048.0 + 3e-8, "{a} {b}");
    }
    let large = vec![1e6f32; 1000];
    fails(
        encode_weights(&layout, &large, &about(), Precision::F16),
        ErrorKind::OutOfRange,
        &["`w`", "32 bits"],
    );
}

#[test]
fn weights_that_are_not_finite_are_refused() {
    let mut params = vec![0.0f32; layout().len()];
    params[1] = f32::NAN;
    fails(encode_weights(&layout(), &params, &about(), Precision::F32), ErrorKind::NotFinite, &["[1]"]);
}
