//! Golden arrays and the tolerances of their comparison.
//!
//! Goldens are safetensors files `<root>/<case>/<file>.safetensors`; the root is the environment variable
//! `SHEAF_GOLDENS`, or `shared/goldens` beside the workspace. A missing root, file or array is a failure, never a
//! reason to skip.
//!
//! | array | tolerance | helper |
//! | --- | --- | --- |
//! | encoder outputs | 1e-5 of the largest magnitude | [`assert_close_max`] with [`ENCODER`] |
//! | iterates | 2e-5 → 2e-4 of the largest magnitude, iteration by iteration | [`assert_iterates`] |
//! | logits | 2e-4 of the largest magnitude | [`assert_close_max`] with [`LOGITS`] |
//! | loss | 1e-5 relative | [`assert_close_max`] with [`LOSS`] |
//! | gradients | 1e-3 relative in the L2 norm; 1e-2 for tensors below 1e-4 of the largest norm | [`assert_grad`] |

use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors};

/// Tolerance of encoder outputs, relative to the largest magnitude.
pub const ENCODER: f64 = 1e-5;
/// Tolerance of logits, relative to the largest magnitude.
pub const LOGITS: f64 = 2e-4;
/// Relative tolerance of a loss.
pub const LOSS: f64 = 1e-5;

/// An array with its shape, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Array<T> {
    /// Its shape; empty for a scalar.
    pub shape: Vec<usize>,
    /// Its values.
    pub data: Vec<T>,
}

impl<T: Copy> Array<T> {
    /// The value of a scalar.
    pub fn scalar(&self) -> T {
        assert_eq!(self.data.len(), 1, "an array of shape {:?} is no scalar", self.shape);
        self.data[0]
    }

    /// The slice where `axis` has this `index`; that axis is removed. Goldens store the sample axis after the agent
    /// axis ([agent, sample, …]), so one sample is `array.select(1, sample)`.
    pub fn select(&self, axis: usize, index: usize) -> Self {
        assert!(index < self.shape[axis], "index {index} on axis {axis} of shape {:?}", self.shape);
        let inner: usize = self.shape[axis + 1..].iter().product();
        let stride = inner * self.shape[axis];
        let data = self.data.chunks(stride).flat_map(|c| &c[index * inner..(index + 1) * inner]);
        let data = data.copied().collect();
        let mut shape = self.shape.clone();
        shape.remove(axis);
        Self { shape, data }
    }
}

/// An open file of arrays.
pub struct Golden {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Golden {
    /// The root directory of the goldens on this machine.
    pub fn root() -> PathBuf {
        match std::env::var_os("SHEAF_GOLDENS") {
            Some(root) => root.into(),
            None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/goldens"),
        }
    }

    /// Opens `<root>/<case>/<file>.safetensors` (the extension may be omitted).
    pub fn open(case: &str, file: &str) -> Self {
        let file = file.strip_suffix(".safetensors").unwrap_or(file);
        Self::read(&Self::root().join(case).join(format!("{file}.safetensors")))
    }

    /// Opens any safetensors file, such as a fixture of a test.
    pub fn read(path: &Path) -> Self {
        let bytes = read_or_panic(path);
        if let Err(error) = SafeTensors::deserialize(&bytes) {
            panic!("{} is not a safetensors file: {error}", path.display());
        }
        Self { path: path.to_owned(), bytes }
    }

    /// The case's `manifest.json`.
    pub fn manifest(case: &str) -> serde_json::Value {
        let path = Self::root().join(case).join("manifest.json");
        serde_json::from_slice(&read_or_panic(&path))
            .unwrap_or_else(|error| panic!("{} is not JSON: {error}", path.display()))
    }

    /// The names of all arrays, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.tensors().names().into_iter().map(str::to_owned).collect();
        names.sort();
        names
    }

    /// True if the file holds an array of that name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors().tensor(name).is_ok()
    }

    /// A floating-point array as `f64` (from f32 or f64).
    pub fn f64(&self, name: &str) -> Array<f64> {
        self.array(name, |dtype, data| match dtype {
            Dtype::F32 => Some(numbers(data, |b: [u8; 4]| f64::from(f32::from_le_bytes(b)))),
            Dtype::F64 => Some(numbers(data, f64::from_le_bytes)),
            _ => None,
        })
    }

    /// A floating-point array as `f32` (from f32, or rounded from f64).
    pub fn f32(&self, name: &str) -> Array<f32> {
        let Array { shape, data } = self.f64(name);
        Array { shape, data: data.into_iter().map(|x| x as f32).collect() }
    }

    /// An integer array (from i32).
    pub fn i32(&self, name: &str) -> Array<i32> {
        self.array(name, |dtype, data| match dtype {
            Dtype::I32 => Some(numbers(data, i32::from_le_bytes)),
            _ => None,
        })
    }

    /// The largest L2 norm among the arrays called `grad/…`, for [`assert_grad`].
    pub fn largest_grad_norm(&self) -> f64 {
        let grads = self.names().into_iter().filter(|name| name.starts_with("grad/"));
        let largest = grads.map(|name| norm(&self.f64(&name).data)).fold(0.0, f64::max);
        assert!(largest > 0.0, "{} holds no gradient other than zero", self.path.display());
        largest
    }

    fn tensors(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.bytes).expect("the file was checked when it was opened")
    }

    fn array<T>(&self, name: &str, decode: impl Fn(Dtype, &[u8]) -> Option<Vec<T>>) -> Array<T> {
        let tensors = self.tensors();
        let Ok(tensor) = tensors.tensor(name) else {
            panic!("{} has no array `{name}`; it has {:?}", self.path.display(), self.names())
        };
        let Some(data) = decode(tensor.dtype(), tensor.data()) else {
            panic!("{}: `{name}` is {:?}, asked for as another type", self.path.display(), tensor.dtype())
        };
        Array { shape: tensor.shape().to_vec(), data }
    }
}

fn read_or_panic(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| {
        panic!(
            "cannot read {}: {error}\nhint: SHEAF_GOLDENS names the directory of the goldens",
            path.display()
        )
    })
}

fn numbers<const N: usize, T>(data: &[u8], decode: impl Fn([u8; N]) -> T) -> Vec<T> {
    data.chunks_exact(N).map(|b| decode(b.try_into().expect("chunks have this length"))).collect()
}

/// Panics unless every entry of `got` is within `tolerance` times the largest magnitude in `want`.
pub fn assert_close_max<A: Copy + Into<f64>, B: Copy + Into<f64>>(
    name: &str,
    got: &[A],
    want: &[B],
    tolerance: f64,
) {
    assert_eq!(got.len(), want.len(), "{name}: count of numbers, got and wanted");
    let scale = want.iter().fold(0.0f64, |m, &w| m.max(w.into().abs()));
    assert!(scale.is_finite(), "{name}: the wanted numbers must be finite");
    let mut worst = (0.0, 0);
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        let (g, w): (f64, f64) = (g.into(), w.into());
        assert!(g.is_finite(), "{name}[{i}]: got {g}, want {w}");
        if (g - w).abs() > worst.0 {
            worst = ((g - w).abs(), i);
        }
    }
    let (error, i) = worst;
    assert!(
        error <= tolerance * scale,
        "{name}[{i}]: got {:e}, want {:e}: off by {:.2e} of the largest magnitude {scale:.3e}, allowed {tolerance:.1e}",
        got[i].into(),
        want[i].into(),
        error / scale,
    );
}

/// The tolerance of iterate `k` of `iterations`: 2e-5 at the first, 2e-4 at the last, geometric in between (errors grow
/// by a factor per iteration, and geometric interpolation is stricter than linear).
pub fn iterate_tolerance(k: usize, iterations: usize) -> f64 {
    assert!(k < iterations, "iteration {k} of {iterations}");
    2e-5 * 10f64.powf(k as f64 / (iterations.max(2) - 1) as f64)
}

/// Panics unless the iterates `got` agree with `want`, each iteration within its own [`iterate_tolerance`].
/// Both are [iterations, …].
pub fn assert_iterates<A: Copy + Into<f64>, B: Copy + Into<f64>>(
    name: &str,
    got: &[A],
    want: &[B],
    iterations: usize,
) {
    assert_eq!(got.len(), want.len(), "{name}: count of numbers, got and wanted");
    assert_eq!(got.len() % iterations, 0, "{name}: iterations must divide the count of numbers");
    let len = got.len() / iterations;
    for k in 0..iterations {
        let at = k * len..(k + 1) * len;
        let tolerance = iterate_tolerance(k, iterations);
        assert_close_max(&format!("{name}, iteration {k}"), &got[at.clone()], &want[at], tolerance);
    }
}

/// Panics unless the gradient `got` agrees with `want`: ‖got − want‖₂ ≤ 1e-3 ‖want‖₂, or 1e-2 ‖want‖₂ where ‖want‖₂
/// is below 1e-4 of `largest_norm`, the norm of the largest tensor of the same gradient.
pub fn assert_grad<A: Copy + Into<f64>, B: Copy + Into<f64>>(
    name: &str,
    got: &[A],
    want: &[B],
    largest_norm: f64,
) {
    assert_eq!(got.len(), want.len(), "{name}: count of numbers, got and wanted");
    assert!(largest_norm.is_finite() && largest_norm > 0.0, "{name}: the largest norm is {largest_norm}");
    let want_norm = norm(want);
    let difference: Vec<f64> = got.iter().zip(want).map(|(&g, &w)| g.into() - w.into()).collect();
    let error = norm(&difference);
    let tolerance = if want_norm < 1e-4 * largest_norm { 1e-2 } else { 1e-3 };
    // Written so that a NaN fails.
    assert!(
        error <= tolerance * want_norm,
        "{name}: gradient off by {:.2e} of its norm {want_norm:.3e}, allowed {tolerance:.0e} (got norm {:.3e})",
        error / want_norm,
        norm(got),
    );
}

fn norm<A: Copy + Into<f64>>(values: &[A]) -> f64 {
    values.iter().map(|&v| v.into() * v.into()).sum::<f64>().sqrt()
}
