//! Problem files of `sheaf run` and the matrices beside them. A problem that is accepted is also solved for a few
//! iterations: the solver must return a status or an error for it.

use sheaf_admm::network::file::{FileName, Loader};
use sheaf_admm::network::{Network, Settings};
use sheaf_admm::{Matrix, Result};
use sheaf_files::npz::{Array, Values, to_bytes};
use sheaf_files::problem::{Format, Read, matrix, read};

const PLACE: &str = "input";

/// Problems of at most this many states are solved.
const MAX_SOLVED: usize = 256;

/// Every file holds the same small matrix.
struct Files;

impl Loader for Files {
    fn matrix(&mut self, name: &FileName) -> Result<Matrix> {
        let text: &[u8] = b"%%MatrixMarket matrix array real general\n2 1\n1\n2\n";
        matrix(text.to_vec(), &FileName { file: "m.mtx".into(), array: name.array.clone() }, PLACE)
    }
}

pub(super) fn toml(bytes: &[u8]) {
    problem(bytes, Format::Toml);
}

pub(super) fn json(bytes: &[u8]) {
    problem(bytes, Format::Json);
}

fn problem(bytes: &[u8], format: Format) {
    let Ok(Read { problem, network }) = read(bytes, format, PLACE, &mut Files) else { return };
    let Ok(settings) = problem.settings(Settings::default()) else { return };
    let states: usize = network.agent_ids().flat_map(|id| network.objective(id)).map(|f| f.dim()).sum();
    if states <= MAX_SOLVED {
        solve(&network, Settings { iterations: settings.iterations.min(30), ..settings });
    }
}

/// Solves; a status that claims a solution comes with finite numbers.
fn solve(network: &Network, settings: Settings) {
    let Ok(mut solver) = network.solver(settings) else { return };
    if let Ok(solution) = solver.solve()
        && solution.is_solved()
    {
        assert!(solution.all_x().iter().all(|x| x.is_finite()), "solved, but x is not finite");
    }
}

pub(super) fn npy(bytes: &[u8]) {
    read_matrix(bytes, "m.npy");
}

pub(super) fn npz(bytes: &[u8]) {
    read_matrix(bytes, "m.npz");
}

pub(super) fn market(bytes: &[u8]) {
    read_matrix(bytes, "m.mtx");
}

fn read_matrix(bytes: &[u8], file: &str) {
    let name = FileName { file: file.into(), array: None };
    let _ = matrix(bytes.to_vec(), &name, PLACE);
}

const TWO: &str = r#"
[settings]
tol = 1e-8
iterations = 50
time_limit = 1.0
[[agents]]
name = "left"
Q = [[1, 0], [0, 1]]
q = [-1, -7]
l1 = 0.5
penalty = [1, 2]
[[agents]]
name = "right"
Q = { identity = 3 }
q = [-2, 3, -1]
lower = [0, -inf, 0]
upper = 4
equal = { A = [[1, 1, 1]], b = [2] }
at_most = { G = { shape = [2, 3], sparse = [[0, 1, 1.0], [1, 2, 1.0]] }, h = 3 }
[[edges]]
name = "border"
a = "left"
F_a = [[1, 0]]
b = 1
F_b = { select = [0], of = 3 }
offset = [0.5]
coupling = { kind = "soft", weight = 10 }
"#;

const MAPS: &str = r#"
[[agents]]
map = { kind = "huber", weight = 1, delta = 0.5, centre = [1, 2] }
[[agents]]
map = { kind = "ball", norm = "linf", radius = 2, centre = { file = "c.mtx" } }
[[agents]]
map = { kind = "simplex", dim = 2, total = 1 }
[[agents]]
map = { kind = "second_order_cone", dim = 2 }
[[agents]]
map = { kind = "logistic", features = [[1, 2], [3, 4]], labels = [1, -1], weight = 1, l2 = 0.1 }
[[agents]]
Q = { diagonal = [1, 2] }
tether = { beta = 2, anchor = 1 }
[[edges]]
a = 0
F_a = { identity = 2 }
b = 1
F_b = { diagonal = [1, 1] }
coupling = { kind = "huber", weight = 1, delta = 1 }
[[edges]]
a = 2
F_a = [[1, 1]]
b = 5
F_b = [[1, -1]]
coupling = { kind = "l2", weight = 1 }
"#;

pub(super) fn toml_seeds() -> Vec<Vec<u8>> {
    [TWO, MAPS].map(|text| text.as_bytes().to_vec()).into()
}

/// The same problems as JSON.
pub(super) fn json_seeds() -> Vec<Vec<u8>> {
    let json = |text: &str| {
        let read = read(text.as_bytes(), Format::Toml, PLACE, &mut Files).ok()?;
        serde_json::to_vec(&read.problem).ok()
    };
    [TWO, MAPS].into_iter().filter_map(json).collect()
}

fn arrays() -> Vec<Array> {
    let square = |values| Array::new(vec![2, 2], values);
    [
        square(Values::F64(vec![1.0, 0.0, 0.0, 2.0])),
        square(Values::F32(vec![1.0, 0.0, 0.0, 2.0])),
        Array::new(vec![3], Values::I64(vec![1, 2, 3])),
    ]
    .into_iter()
    .flatten()
    .collect()
}

pub(super) fn npz_seeds() -> Vec<Vec<u8>> {
    arrays().iter().filter_map(|array| to_bytes(&[("a", array)]).ok()).collect()
}

/// The header that numpy writes for each type, with its numbers.
pub(super) fn npy_seeds() -> Vec<Vec<u8>> {
    let file = |descr: &str, shape: &str, data: &[u8]| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        let padded = format!("{header:<117}\n");
        [b"\x93NUMPY\x01\0", &(padded.len() as u16).to_le_bytes()[..], padded.as_bytes(), data].concat()
    };
    let floats = [1.0f64, 0.0, 0.0, 2.0].map(f64::to_le_bytes).concat();
    vec![
        file("<f8", "(2, 2)", &floats),
        file("|u1", "(3,)", &[1, 2, 3]),
        file("<i4", "(1, 1)", &[7, 0, 0, 0]),
    ]
}

pub(super) fn market_seeds() -> Vec<Vec<u8>> {
    [
        "%%MatrixMarket matrix coordinate real symmetric\n% a comment\n2 2 2\n1 1 3.5\n2 1 -1\n",
        "%%MatrixMarket matrix coordinate pattern general\n2 3 2\n1 1\n2 3\n",
        "%%MatrixMarket matrix coordinate integer skew-symmetric\n2 2 1\n2 1 4\n",
        "%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\n4\n5\n6\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_accepted_so_that_mutants_start_from_what_is_read() {
        for (format, seeds) in [(Format::Toml, toml_seeds()), (Format::Json, json_seeds())] {
            assert_eq!(seeds.len(), 2);
            for seed in seeds {
                read(&seed, format, PLACE, &mut Files).unwrap();
            }
        }
        for (file, seeds) in [("m.npy", npy_seeds()), ("m.npz", npz_seeds()), ("m.mtx", market_seeds())] {
            for seed in seeds {
                matrix(seed, &FileName { file: file.into(), array: None }, PLACE).unwrap();
            }
        }
    }
}
