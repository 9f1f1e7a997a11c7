//! The sheaf as one dense matrix, and the textbook solutions.
//!
//! | name | meaning | shape |
//! | --- | --- | --- |
//! | F | coboundary, (F z)_e = M_u z_u − M_v z_v | [Σ d_e, Σ d_v] |
//! | L | Laplacian FᵀF | [Σ d_v, Σ d_v] |
//! | P | orthogonal projector onto ker F | [Σ d_v, Σ d_v] |
//!
//! Deliberately slow and simple: loops over indices, elimination with pivoting, Jacobi rotations. Stalks may differ
//! from agent to agent and from edge to edge.

pub use crate::dense_matrix::Matrix;

/// An edge between agents `u` and `v` with its two restriction maps.
#[derive(Clone, Debug)]
pub struct DenseEdge {
    /// First agent; its term enters the residual with a plus sign.
    pub u: usize,
    /// Second agent; its term enters with a minus sign.
    pub v: usize,
    /// Restriction map of `u`, row-major, [d_e, d_u].
    pub map_u: Vec<f64>,
    /// Restriction map of `v`, row-major, [d_e, d_v].
    pub map_v: Vec<f64>,
}

/// A sheaf on a graph, small enough to be a matrix.
#[derive(Clone, Debug)]
pub struct DenseSheaf {
    /// Offset of each agent's state, and the end. [agents + 1]
    pub offsets: Vec<usize>,
    /// The edges.
    pub edges: Vec<DenseEdge>,
}

impl DenseSheaf {
    /// A sheaf over agents with these stalk sizes.
    pub fn new(stalks: &[usize], edges: Vec<DenseEdge>) -> Self {
        let mut offsets = vec![0];
        for stalk in stalks {
            offsets.push(offsets[offsets.len() - 1] + stalk);
        }
        Self { offsets, edges }
    }

    /// Length of a state vector, Σ d_v.
    pub fn state_len(&self) -> usize {
        self.offsets[self.offsets.len() - 1]
    }

    fn stalk(&self, agent: usize) -> usize {
        self.offsets[agent + 1] - self.offsets[agent]
    }

    /// F as a matrix.
    pub fn coboundary(&self) -> Matrix {
        let edge_stalk = |edge: &DenseEdge| edge.map_u.len() / self.stalk(edge.u);
        let rows = self.edges.iter().map(edge_stalk).sum();
        let mut matrix = Matrix::zeros(rows, self.state_len());
        let mut first_row = 0;
        for edge in &self.edges {
            let d_e = edge_stalk(edge);
            // A loop edge adds both terms to the same columns.
            for (agent, map, sign) in [(edge.u, &edge.map_u, 1.0), (edge.v, &edge.map_v, -1.0)] {
                let d = self.stalk(agent);
                assert_eq!(map.len(), d_e * d, "the maps of an edge must end in one stalk");
                for i in 0..d_e {
                    for j in 0..d {
                        let (row, col) = (first_row + i, self.offsets[agent] + j);
                        matrix.set(row, col, matrix.get(row, col) + sign * map[i * d + j]);
                    }
                }
            }
            first_row += d_e;
        }
        matrix
    }

    /// L = FᵀF.
    pub fn laplacian(&self) -> Matrix {
        let coboundary = self.coboundary();
        coboundary.transpose().mul(&coboundary)
    }

    /// argmin γ/2 ‖F z‖² + ρ/2 ‖z − w‖²: the solution of (γ L + ρ I) z = ρ w.
    pub fn soft(&self, w: &[f64], gamma: f64, rho: f64) -> Vec<f64> {
        self.soft_weighted(w, gamma, &vec![rho; w.len()])
    }

    /// argmin γ/2 ‖F z‖² + ½ Σ ρ_i (z_i − w_i)², one ρ per coordinate.
    pub fn soft_weighted(&self, w: &[f64], gamma: f64, rho: &[f64]) -> Vec<f64> {
        let mut matrix = self.laplacian().scaled(gamma);
        for i in 0..w.len() {
            matrix.set(i, i, matrix.get(i, i) + rho[i]);
        }
        let right: Vec<f64> = w.iter().zip(rho).map(|(w, rho)| w * rho).collect();
        matrix.solve(&right)
    }

    /// argmin ‖z − w‖² with F z = 0: P w.
    pub fn project(&self, w: &[f64]) -> Vec<f64> {
        kernel_projector(&self.coboundary()).mul_vec(w)
    }

    /// argmin Σ ρ_i (z_i − w_i)² with F z = 0, one ρ per coordinate: the plain projection in the variable √ρ z.
    pub fn project_weighted(&self, w: &[f64], rho: &[f64]) -> Vec<f64> {
        let mut scaled = self.coboundary();
        for row in 0..scaled.rows() {
            for (col, rho) in rho.iter().enumerate() {
                scaled.set(row, col, scaled.get(row, col) / rho.sqrt());
            }
        }
        let right: Vec<f64> = w.iter().zip(rho).map(|(w, rho)| w * rho.sqrt()).collect();
        let answer = kernel_projector(&scaled).mul_vec(&right);
        answer.iter().zip(rho).map(|(z, rho)| z / rho.sqrt()).collect()
    }
}

/// The orthogonal projector onto the kernel of `matrix`: the sum of v vᵀ over eigenvectors v of MᵀM whose
/// eigenvalue is zero up to rounding (below 1e-10 of the largest).
pub fn kernel_projector(matrix: &Matrix) -> Matrix {
    let (values, vectors) = matrix.transpose().mul(matrix).symmetric_eigen();
    let n = values.len();
    let largest = values.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    let mut projector = Matrix::zeros(n, n);
    for (k, &value) in values.iter().enumerate() {
        if value.abs() <= 1e-10 * largest {
            for i in 0..n {
                for j in 0..n {
                    projector.set(i, j, projector.get(i, j) + vectors.get(i, k) * vectors.get(j, k));
                }
            }
        }
    }
    projector
}
