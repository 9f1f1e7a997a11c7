use crate::support::{Case, assert_near, check_gradients, solve};
use sheaf_admm::ErrorKind;
use sheaf_admm::sheaf::{Maps, SheafOp};
use sheaf_admm::x_update::Penalty;
use sheaf_admm::z_update::{Agreement, Exact, ZUpdate};
use sheaf_testkit::TestRng;

fn exact(case: &Case, agreement: Agreement<f64>) -> ZUpdate<f64> {
    ZUpdate::Exact(Exact::new(&case.sheaf, agreement))
}

fn cases() -> Vec<Case> {
    (0..4)
        .flat_map(|seed| [Case::mixed(seed), Case::repeated(seed), Case::shared(seed), Case::table(seed)])
        .collect()
}

/// A single penalty, and one for each agent.
fn penalties(case: &Case) -> [Vec<f64>; 2] {
    [vec![1.3], TestRng::new(31).ranges(case.sheaf.agents(), 0.4, 2.5)]
}

fn penalty(rho: &[f64]) -> Penalty<'_, f64> {
    if let [rho] = rho { Penalty::Scalar(*rho) } else { Penalty::PerAgent(rho) }
}

#[test]
fn the_soft_solution_is_that_of_the_dense_system() {
    for case in cases() {
        let w = TestRng::new(1).normals(case.sheaf.state_len());
        for rho in &penalties(&case) {
            let rho = penalty(rho);
            let (z, report) = solve(&exact(&case, Agreement::Soft { gamma: 2.1 }), &case, &rho, &w);
            assert!(report.converged);
            assert_near(&z, &case.dense().soft_weighted(&w, 2.1, &case.spread(&rho)), 1e-12);
        }
    }
}

#[test]
fn the_hard_solution_is_the_dense_projection_whatever_the_rank() {
    for case in cases() {
        let w = TestRng::new(2).normals(case.sheaf.state_len());
        for rho in &penalties(&case) {
            let rho = penalty(rho);
            let (z, _) = solve(&exact(&case, Agreement::Hard), &case, &rho, &w);
            assert_near(&z, &case.dense().project_weighted(&w, &case.spread(&rho)), 1e-9);
            let residual = case.dense().coboundary().mul_vec(&z);
            assert!(residual.iter().all(|r| r.abs() < 1e-12), "{}", case.name);
        }
    }
}

#[test]
fn soft_with_a_large_price_tends_to_hard() {
    let case = Case::mixed(3);
    let (w, rho) = (TestRng::new(3).normals(case.sheaf.state_len()), Penalty::Scalar(0.9));
    let (hard, _) = solve(&exact(&case, Agreement::Hard), &case, &rho, &w);
    let distance = |gamma| {
        let (soft, _) = solve(&exact(&case, Agreement::Soft { gamma }), &case, &rho, &w);
        soft.iter().zip(&hard).map(|(s, h)| (s - h).abs()).fold(0.0, f64::max)
    };
    let [far, near, nearest] = [1.0, 1e3, 1e6].map(distance);
    assert!(far > 1e-2 && near < 1e-1 * far && nearest < 1e-4 * far, "{far} {near} {nearest}");
}

#[test]
fn gradients_agree_with_differences() {
    let mut cases = Case::all(5);
    cases.push(Case::repeated(5));
    for case in cases {
        check_gradients("exact soft", &case, 1.2, 1.0, &|gamma, _| exact(&case, Agreement::Soft { gamma }));
        check_gradients("exact hard", &case, 1.2, 1.0, &|_, _| exact(&case, Agreement::Hard));
    }
}

#[test]
fn single_precision_projects_to_its_own_precision() {
    for case in [Case::mixed(1), Case::repeated(1), Case::shared(1)] {
        let w = TestRng::new(4).normals(case.sheaf.state_len());
        let params: Vec<f32> = case.params.iter().map(|&p| p as f32).collect();
        let maps = if case.name == "shared" { Maps::Stack(&params) } else { Maps::PerAgent(&params) };
        let op = SheafOp::new(&case.sheaf, maps).unwrap();
        let z_update = ZUpdate::Exact(Exact::<f32>::new(&case.sheaf, Agreement::Hard));
        let (rho, w32) = (Penalty::Scalar(1.0), w.iter().map(|&w| w as f32).collect::<Vec<_>>());
        let (mut z, mut scratch) = (vec![0.0; w.len()], vec![f32::NAN; z_update.scratch_len(&op)]);
        z_update.prepare(&op, &rho, &mut scratch).unwrap();
        z_update.forward(&op, &rho, &w32, &w32, &mut [], &mut z, &mut scratch).unwrap();
        let z: Vec<f64> = z.into_iter().map(f64::from).collect();
        assert_near(&z, &case.dense().project(&w), 1e-4);
    }
}

#[test]
fn a_tree_of_agents_has_a_thin_factor() {
    use sheaf_admm::sheaf::{AgentGraph, Sheaf};
    let pairs: Vec<(usize, usize)> = (1..200).map(|i| (i - 1, i)).collect();
    let sheaf = Sheaf::uniform(&AgentGraph::from_edges(200, &pairs).unwrap(), 3, 2).unwrap();
    let soft = Exact::new(&sheaf, Agreement::Soft { gamma: 1.0 });
    assert!(soft.factor_len() <= 600 * 6, "{}", soft.factor_len());
    let hard = Exact::<f64>::new(&sheaf, Agreement::Hard);
    assert!(hard.factor_len() <= 398 * 4, "{}", hard.factor_len());
}

#[test]
fn misuse_is_refused() {
    let (case, other) = (Case::shared(0), Case::table(0));
    let hard = Exact::<f64>::new(&case.sheaf, Agreement::Hard);
    let kind = |e: &Exact<f64>, case: &Case| e.validate(&case.op()).unwrap_err().kind();
    assert_eq!(kind(&hard, &other), ErrorKind::Shape);
    let soft = |gamma| Agreement::Soft { gamma };
    let mut turned = hard.clone();
    turned.agreement = soft(1.0);
    assert_eq!(kind(&turned, &case), ErrorKind::Unsupported);
    let mut vague = hard.clone();
    vague.rank_tolerance = f64::NAN;
    assert_eq!(kind(&vague, &case), ErrorKind::OutOfRange);
    assert_eq!(kind(&Exact::new(&case.sheaf, soft(0.0)), &case), ErrorKind::NotPositive);
    let broken = Case { params: vec![f64::NAN; case.params.len()], ..case.clone() };
    for agreement in [Agreement::Hard, soft(1.0)] {
        let z_update = exact(&broken, agreement);
        let mut scratch = vec![0.0; z_update.scratch_len(&broken.op())];
        let error = z_update.prepare(&broken.op(), &Penalty::Scalar(1.0), &mut scratch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFinite);
    }
}
