//! Shared by the examples: an interior-point method as an oracle, random numbers, pictures.
#![allow(dead_code)] // Every example uses a part.

use std::fmt::Write as _;

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettings, DefaultSolver, IPSolver, NonnegativeConeT, SecondOrderConeT, SolverStatus,
    SupportedConeT, ZeroConeT,
};
use sheaf_admm::network::Network;

/// What an example returns.
pub type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A sparse row and its right side.
pub type Row = (Vec<(usize, f64)>, f64);

/// min ½ xᵀPx + qᵀx with rows that must be equal, at most, or in second-order cones, as one program.
#[derive(Default)]
pub struct Program {
    pub p: Vec<(usize, usize, f64)>, // upper triangle
    pub q: Vec<f64>,
    pub equal: Vec<Row>,
    pub at_most: Vec<Row>,
    pub cones: Vec<Vec<Row>>, // s = right − row·x, s₀ ≥ ‖s₁…‖
}

/// x and the multipliers of the equalities.
pub struct Answer {
    pub x: Vec<f64>,
    pub duals: Vec<f64>,
    pub value: f64,
}

impl Program {
    /// Adds variables with these linear costs; returns the number of the first.
    pub fn variables(&mut self, costs: impl IntoIterator<Item = f64>) -> usize {
        let first = self.q.len();
        self.q.extend(costs);
        first
    }

    /// t ≥ |of·x − shift| with cost `weight`·t.
    pub fn abs(&mut self, of: &[(usize, f64)], shift: f64, weight: f64) {
        let t = self.variables([weight]);
        for sign in [1.0, -1.0] {
            let row = of.iter().map(|&(k, v)| (k, sign * v)).chain([(t, -1.0)]).collect();
            self.at_most.push((row, sign * shift));
        }
    }

    /// The answer of a program that has one.
    pub fn solve(self) -> Answer {
        let (status, answer) = self.run();
        assert!(matches!(status, SolverStatus::Solved | SolverStatus::AlmostSolved), "oracle: {status:?}");
        answer
    }

    /// How the method ended, and its last point.
    pub fn run(self) -> (SolverStatus, Answer) {
        let equalities = self.equal.len();
        let mut cones: Vec<SupportedConeT<f64>> =
            vec![ZeroConeT(equalities), NonnegativeConeT(self.at_most.len())];
        cones.extend(self.cones.iter().map(|c| SecondOrderConeT(c.len())));
        let (mut i, mut j, mut v, mut b) = (vec![], vec![], vec![], vec![]);
        for (row, right) in self.equal.into_iter().chain(self.at_most).chain(self.cones.into_iter().flatten())
        {
            for (col, value) in row {
                i.push(b.len());
                j.push(col);
                v.push(value);
            }
            b.push(right);
        }
        let n = self.q.len();
        let a = CscMatrix::new_from_triplets(b.len(), n, i, j, v);
        let (mut i, mut j, mut v) = (vec![], vec![], vec![]);
        for (row, col, value) in self.p {
            i.push(row);
            j.push(col);
            v.push(value);
        }
        let p = CscMatrix::new_from_triplets(n, n, i, j, v);
        let settings = DefaultSettings {
            verbose: false,
            tol_gap_abs: 1e-10,
            tol_gap_rel: 1e-10,
            tol_feas: 1e-10,
            max_iter: 400,
            ..DefaultSettings::default()
        };
        let mut solver = DefaultSolver::new(&p, &self.q, &a, &b, &cones, settings).expect("a valid program");
        solver.solve();
        let s = solver.solution;
        (s.status, Answer { x: s.x, duals: s.z[..equalities].to_vec(), value: s.obj_val })
    }
}

/// Writes a network to FOLDER/`name`.json, for `sheaf run`, if the command line has `--save-problem FOLDER`. Needs the
/// feature `serde`.
pub fn save_problem(net: &Network, name: &str) -> Outcome {
    let Some(folder) = std::env::args().skip_while(|a| a != "--save-problem").nth(1) else { return Ok(()) };
    #[cfg(not(feature = "serde"))]
    return Err(format!("{} agents to {folder}/{name}: build with --features serde", net.agents()).into());
    #[cfg(feature = "serde")]
    {
        let path = std::path::Path::new(&folder).join(format!("{name}.json"));
        let problem = sheaf_admm::network::file::Problem::of(net)?;
        std::fs::write(&path, serde_json::to_string(&problem)?)?;
        println!("problem: {}", path.display());
        Ok(())
    }
}

/// The largest difference; panics above `limit`, or where a number is not finite: a largest number would pass over NaN.
pub fn agree(what: &str, ours: &[f64], oracle: &[f64], limit: f64) -> f64 {
    let worst = ours.iter().zip(oracle).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let finite = ours.iter().chain(oracle).all(|v| v.is_finite());
    assert!(finite && ours.len() == oracle.len() && worst <= limit, "{what}: off by {worst:e}");
    worst
}

/// Reproducible numbers (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn normal(&mut self) -> f64 {
        let (a, b) = (self.uniform().max(1e-300), self.uniform());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    pub fn normals(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.normal()).collect()
    }
}

pub const COLOURS: [&str; 6] = ["#1b6ca8", "#d1495b", "#2e8b57", "#edae49", "#6a4c93", "#555555"];

/// A picture in the units of the problem.
pub struct Picture {
    body: String,
    low: [f64; 2],
    high: [f64; 2],
    scale: f64,
}

impl Picture {
    pub fn new(low: [f64; 2], high: [f64; 2]) -> Self {
        let scale = 640.0 / (high[0] - low[0]).max(high[1] - low[1]);
        Self { body: String::new(), low, high, scale }
    }

    fn at(&self, p: [f64; 2]) -> (f64, f64) {
        ((p[0] - self.low[0]) * self.scale, (self.high[1] - p[1]) * self.scale)
    }

    pub fn line(&mut self, points: &[[f64; 2]], colour: &str, width: f64) {
        let path: Vec<String> =
            points.iter().map(|&p| self.at(p)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            self.body,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"/>"#,
            path.join(" ")
        );
    }

    pub fn dot(&mut self, p: [f64; 2], colour: &str, radius: f64) {
        let (x, y) = self.at(p);
        let _ = writeln!(self.body, r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="{colour}"/>"#);
    }

    pub fn text(&mut self, p: [f64; 2], text: &str) {
        let (x, y) = self.at(p);
        let _ = writeln!(
            self.body,
            r##"<text x="{x:.1}" y="{y:.1}" font-family="sans-serif" font-size="15" fill="#333">{text}</text>"##
        );
    }

    /// Writes to the file that the command line names, if it names one.
    pub fn save(&self) -> std::io::Result<()> {
        let Some(path) = std::env::args().nth(1).filter(|a| a.ends_with(".svg")) else { return Ok(()) };
        let (w, h) = ((self.high[0] - self.low[0]) * self.scale, (self.high[1] - self.low[1]) * self.scale);
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-20 -20 {:.0} {:.0}\" width=\"{:.0}\">\n<rect x=\"-20\" y=\"-20\" width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
            w + 40.0,
            h + 40.0,
            w + 40.0,
            self.body
        );
        std::fs::write(&path, text)?;
        println!("picture: {path}");
        Ok(())
    }
}
