use sheaf_admm::x_update::{
    Coefficient, Curvature, Dense, DenseGrad, Diagonal, DiagonalGrad, Equality, EqualityGrad, Objective,
    ObjectiveGrad, Penalty, Qp, QpGrad, Tether, TetherGrad,
};

use crate::support::{Family, Setup, close, normals, offsets, psd_blocks, solve, symmetrise, uniforms};

const DIMS: [usize; 5] = [3, 2, 4, 3, 2];

/// Agent 0 diagonal (D, q, l1), 1 tether (β, h), 2 dense (Q, q), 3 equality (Q, q, A, b), 4 general (Q, q, G, h).
struct EveryFamily;

fn each(p: &[Vec<f64>]) -> Vec<Objective<'_, f64>> {
    let l1 = Some(Coefficient::PerCoordinate(&p[2][..]));
    let quad = Curvature::Diagonal(&p[7][..]);
    let general = Qp::new(Curvature::Diagonal(&p[11]), &p[12]);
    vec![
        Objective::Diagonal(Diagonal { l1, ..Diagonal::new(&p[0], &p[1]) }),
        Objective::Tether(Tether { beta: p[3][0], anchor: &p[4] }),
        Objective::Dense(Dense { quad: &p[5], q: &p[6] }),
        Objective::Equality(Equality { quad, q: &p[8], rows: &[1], a: &p[9], b: &p[10] }),
        Objective::Qp(Qp { in_rows: &[2], g: &p[13], h: &p[14], ..general }),
    ]
}

impl Family for EveryFamily {
    fn objective<'a>(&'a self, params: &'a [Vec<f64>]) -> Objective<'a, f64> {
        Objective::Mixed(each(params))
    }
    fn grad<'a>(&'a self, grads: &'a mut [Vec<f64>]) -> ObjectiveGrad<'a, f64> {
        let mut next = grads.iter_mut().map(|g| Some(&mut g[..]));
        let mut next = || next.next().expect("fifteen parameters");
        let (diag, q, l1) = (next(), next(), next());
        let diagonal = DiagonalGrad { diag, q, l1, ..DiagonalGrad::default() };
        let tether = TetherGrad { beta: next().and_then(|b| b.first_mut()), anchor: next() };
        let dense = DenseGrad { quad: next(), q: next() };
        let equality = EqualityGrad { quad: next(), q: next(), a: next(), b: next() };
        let (quad, q, g, h) = (next(), next(), next(), next());
        let general = QpGrad { quad, q, g, h, ..QpGrad::default() };
        ObjectiveGrad::Mixed(vec![
            ObjectiveGrad::Diagonal(diagonal),
            ObjectiveGrad::Tether(tether),
            ObjectiveGrad::Dense(dense),
            ObjectiveGrad::Equality(equality),
            ObjectiveGrad::Qp(general),
        ])
    }
    fn direction(&self, k: usize, direction: &mut [f64]) {
        if k == 5 {
            symmetrise(&[4], direction);
        }
    }
}

fn setup(rho: Vec<f64>) -> Setup<EveryFamily> {
    let params = vec![
        uniforms(1, "diag", 3, 0.1, 2.0),
        normals(2, "q", 3),
        vec![0.1, 0.2, 0.05],
        vec![0.6],
        normals(3, "anchor", 2),
        psd_blocks(4, &[4]),
        normals(5, "q", 4),
        uniforms(6, "diag", 3, 0.1, 2.0),
        normals(7, "q", 3),
        normals(8, "a", 3),
        vec![0.4],
        vec![1.0, 0.5],
        normals(9, "q", 2),
        vec![1.0, 1.0, -1.0, 0.5],
        vec![-0.3, 0.2],
    ];
    Setup { family: EveryFamily, offsets: offsets(&DIMS), rho, v: normals(10, "v", 14), params }
}

#[test]
fn a_mixture_gives_each_agent_the_answer_of_its_own_family() {
    let setup = setup(vec![0.7, 1.3, 0.4, 2.0, 1.1]);
    let x = setup.x();
    let mut total = 0.0;
    for (agent, own) in each(&setup.params).iter().enumerate() {
        let at = setup.offsets[agent]..setup.offsets[agent + 1];
        let alone = solve(own, &[0, at.len()], &setup.rho[agent..=agent], &setup.v[at.clone()]);
        alone.iter().zip(&x[at]).for_each(|(&alone, &x)| close(x, alone, "alone against mixed"));
        total += own.value(&[0, alone.len()], &alone).unwrap();
    }
    close(setup.family.objective(&setup.params).value(&setup.offsets, &x).unwrap(), total, "values");
}

#[test]
fn the_mixed_vjp_matches_finite_differences() {
    setup(vec![0.7]).check_vjp();
    setup(vec![0.7, 1.3, 0.4, 2.0, 1.1]).check_vjp();
}

#[test]
fn a_mixture_asks_for_the_gradient_of_every_agent_or_of_none() {
    let setup = setup(vec![0.7]);
    let (objective, x) = (setup.family.objective(&setup.params), setup.x());
    let rho = Penalty::Scalar(0.7);
    let mut scratch = vec![0.0; objective.scratch_len(&setup.offsets)];
    objective.prepare(&setup.offsets, &rho, &mut scratch).unwrap();
    objective.prox(&setup.offsets, &rho, &setup.v, &mut vec![0.0; x.len()], &mut scratch).unwrap();
    let mut vjp = |grad: &mut ObjectiveGrad<'_, f64>| {
        let (mut d_v, mut d_rho) = (vec![0.0; x.len()], [0.0]);
        objective.vjp(&setup.offsets, &rho, &setup.v, &x, &x, &mut d_v, &mut d_rho, grad, &mut scratch)
    };
    vjp(&mut ObjectiveGrad::None).unwrap();
    let error = vjp(&mut ObjectiveGrad::Mixed(vec![ObjectiveGrad::None, ObjectiveGrad::None])).unwrap_err();
    assert!(error.place().contains("agent 2") && error.got() == "2", "{error}");
}
