//! Random networks against an interior-point method. A status must be true; where it says solved, objective and
//! feasibility agree to 1e-5, and the point where the problem is well conditioned.

use clarabel::solver::SolverStatus as Oracle;
use sheaf_admm::ErrorKind;
use sheaf_admm::admm::Status;
use sheaf_admm::network::{Coupling, Settings};
use sheaf_testkit::TestRng;

use crate::oracle::{AgentSpec, EdgeSpec, Form, Oracle as Answer, Rows, Spec};

/// What is special about a problem; everything else is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Plain,
    /// Costs times this.
    Cost(f64),
    /// x in units of this.
    Units(f64),
    /// Agents of different units and costs.
    Uneven(f64),
    /// The condition of every Q.
    Condition(f64),
    Infeasible,
    Unbounded,
    /// The first penalty.
    Rho(f64),
}

pub fn below(rng: &mut TestRng, n: usize) -> usize {
    (rng.range(0.0, n as f64) as usize).min(n - 1)
}

pub fn rows(rng: &mut TestRng, m: usize, d: usize) -> Rows {
    (0..m).map(|_| rng.normals(d)).collect()
}

pub fn psd(rng: &mut TestRng, d: usize, condition: f64) -> Rows {
    let m = rows(rng, d, d);
    let weight = |k: usize| condition.powf(-(k as f64) / (d.max(2) - 1) as f64);
    let entry = |i: usize, j: usize| (0..d).map(|k| m[k][i] * m[k][j] * weight(k)).sum::<f64>();
    (0..d)
        .map(|i| {
            (0..d).map(|j| entry(i.min(j), i.max(j)) + if i == j { 0.1 / condition } else { 0.0 }).collect()
        })
        .collect()
}

fn draw(seed: u64, kind: Kind) -> Spec {
    let mut rng = TestRng::new(1000 + seed);
    let count = 2 + below(&mut rng, 7);
    let condition = if let Kind::Condition(c) = kind { c } else { 10.0 };
    let mut spec = Spec::default();
    for _ in 0..count {
        let d = 1 + below(&mut rng, 5);
        let form = if below(&mut rng, 3) == 0 { Form::Diagonal } else { Form::Dense };
        let mut quad = psd(&mut rng, d, condition);
        if form == Form::Diagonal {
            (0..d).for_each(|i| (0..d).filter(|&j| j != i).for_each(|j| quad[i][j] = 0.0));
        }
        let mut a = AgentSpec { quad, form, q: rng.normals(d), ..AgentSpec::default() };
        match below(&mut rng, 6) {
            0 => a.l1 = rng.ranges(d, 0.05, 0.5),
            1 => a.bounds = Some((rng.ranges(d, -2.0, -0.5), rng.ranges(d, 0.5, 2.0))),
            2 => {
                let mut hi = rng.ranges(d, 0.5, 2.0);
                hi[0] = f64::INFINITY;
                a.bounds = Some((rng.ranges(d, -2.0, -0.5), hi));
                a.l1 = rng.ranges(d, 0.05, 0.5);
            }
            3 if d > 2 => a.equal = (rows(&mut rng, 1, d), rng.ranges(1, -0.5, 0.5)),
            4 => a.at_most = (rows(&mut rng, 2, d), rng.ranges(2, 0.1, 1.0)),
            _ => {}
        }
        spec.agents.push(a);
    }
    // Some agents stay alone; some pairs meet twice; some agents meet themselves.
    for _ in 0..count {
        let (a, b) = (below(&mut rng, count), below(&mut rng, count));
        let (da, db) = (spec.agents[a].q.len(), spec.agents[b].q.len());
        let coupling = match below(&mut rng, 6) {
            0 => Coupling::Soft { weight: rng.range(0.1, 5.0) },
            1 => Coupling::Huber { weight: rng.range(0.1, 5.0), delta: 0.3 },
            2 => Coupling::L1 { weight: rng.range(0.05, 0.5) },
            3 => Coupling::L2 { weight: rng.range(0.05, 0.5) },
            _ => Coupling::Hard,
        };
        let m = if coupling == Coupling::Hard { 1 } else { 1 + below(&mut rng, 2) };
        let offset = if below(&mut rng, 2) == 0 { vec![0.0; m] } else { rng.ranges(m, -0.3, 0.3) };
        let maps = [rows(&mut rng, m, da), rows(&mut rng, m, db)];
        let edge = EdgeSpec { ends: [a, b], maps, offset, coupling };
        if below(&mut rng, 8) == 0 {
            spec.edges.push(edge.clone());
        }
        spec.edges.push(edge);
    }
    let all: Vec<usize> = (0..count).collect();
    match kind {
        Kind::Cost(c) => {
            cost(&mut spec, &all, c);
            spec.edges.iter_mut().for_each(|e| e.coupling = dearer(e.coupling, c));
        }
        Kind::Units(u) => units(&mut spec, &all, u),
        Kind::Uneven(u) => {
            units(&mut spec, &all[..1], u);
            cost(&mut spec, &all[1..], 1.0 / u.sqrt());
        }
        Kind::Infeasible => {
            let mut edge = EdgeSpec {
                ends: [0, 1],
                maps: [vec![], vec![]],
                offset: vec![1.0],
                coupling: Coupling::Hard,
            };
            edge.maps =
                [rows(&mut rng, 1, spec.agents[0].q.len()), rows(&mut rng, 1, spec.agents[1].q.len())];
            spec.edges.push(edge.clone());
            edge.offset[0] = -1.0;
            spec.edges.push(edge);
        }
        Kind::Unbounded => {
            let d = spec.agents[0].q.len();
            spec.agents[0] = AgentSpec {
                quad: vec![vec![0.0; d]; d],
                form: Form::Diagonal,
                q: rng.normals(d),
                ..AgentSpec::default()
            };
            spec.edges.retain(|e| !e.ends.contains(&0));
        }
        Kind::Plain | Kind::Condition(_) | Kind::Rho(_) => {}
    }
    spec
}

fn dearer(coupling: Coupling, c: f64) -> Coupling {
    match coupling {
        Coupling::Soft { weight } => Coupling::Soft { weight: c * weight },
        Coupling::Huber { weight, delta } => Coupling::Huber { weight: c * weight, delta },
        Coupling::L1 { weight } => Coupling::L1 { weight: c * weight },
        Coupling::L2 { weight } => Coupling::L2 { weight: c * weight },
        other => other,
    }
}

fn cost(spec: &mut Spec, agents: &[usize], c: f64) {
    for &i in agents {
        let a = &mut spec.agents[i];
        a.quad.iter_mut().flatten().chain(&mut a.q).chain(&mut a.l1).for_each(|v| *v *= c);
    }
}

/// x = x'/u: an agent counts in other units.
fn units(spec: &mut Spec, agents: &[usize], u: f64) {
    for &i in agents {
        let a = &mut spec.agents[i];
        a.quad.iter_mut().flatten().for_each(|v| *v /= u * u);
        a.q.iter_mut().chain(&mut a.l1).for_each(|v| *v /= u);
        a.equal.0.iter_mut().chain(&mut a.at_most.0).flatten().for_each(|v| *v /= u);
        if let Some((lo, hi)) = &mut a.bounds {
            lo.iter_mut().chain(hi).for_each(|v| *v *= u);
        }
    }
    for e in &mut spec.edges {
        for k in 0..2 {
            if agents.contains(&e.ends[k]) {
                e.maps[k].iter_mut().flatten().for_each(|v| *v /= u);
            }
        }
    }
}

fn kinds() -> Vec<Kind> {
    let mut kinds = vec![Kind::Plain; 40];
    for f in [1e-6, 1e-3, 1e3, 1e6] {
        kinds.extend([Kind::Cost(f); 3]);
        kinds.extend([Kind::Units(f); 3]);
        kinds.extend([Kind::Uneven(f); 2]);
    }
    for f in [1e-6, 1e-3, 1e3, 1e6] {
        kinds.extend([Kind::Rho(f); 2]);
    }
    for c in [1e4, 1e6, 1e8] {
        kinds.extend([Kind::Condition(c); 3]);
    }
    kinds.extend([Kind::Infeasible; 6]);
    kinds.extend([Kind::Unbounded; 6]);
    kinds
}

#[test]
fn statuses_are_true_and_solutions_agree_with_an_interior_point_method() {
    let mut tally = Tally::default();
    for (seed, kind) in kinds().into_iter().enumerate() {
        let spec = draw(seed as u64, kind);
        let rho = if let Kind::Rho(rho) = kind { Some(rho) } else { None };
        let settings = Settings { tol: 1e-8, iterations: 50_000, rho, ..Settings::default() };
        // Other costs or units for all agents change the solution by a factor that is known: the oracle solves the
        // problem without them, where its tolerances mean the most.
        let mut oracle = match kind {
            Kind::Cost(_) | Kind::Units(_) => draw(seed as u64, Kind::Plain).oracle(),
            _ => spec.oracle(),
        };
        if let Kind::Cost(c) = kind {
            oracle.objective *= c;
        }
        let unit = if let Kind::Cost(c) = kind { c } else { 1.0 };
        tally.compare(&format!("{seed} {kind:?}"), &spec, &oracle, settings, (unit, kind == Kind::Plain));
    }
    tally.assert_all(80);
}

/// What a run over many problems has shown.
#[derive(Debug, Default)]
pub struct Tally {
    pub solvable: usize,
    pub solved: usize,
    pub infeasible: [usize; 2], // that the oracle calls so, that are recognised
    pub unbounded: [usize; 2],
    iterations: usize,
}

impl Tally {
    /// Solves a problem and compares it with the oracle. `unit` is the size of its costs; the point counts if `unique`.
    pub fn compare(
        &mut self,
        name: &str,
        spec: &Spec,
        oracle: &Answer,
        settings: Settings,
        (unit, unique): (f64, bool),
    ) -> Status {
        let name = format!("{name}, oracle {:?}", oracle.status);
        let fine = matches!(oracle.status, Oracle::Solved | Oracle::AlmostSolved);
        let infeasible = matches!(oracle.status, Oracle::PrimalInfeasible | Oracle::AlmostPrimalInfeasible);
        let unbounded = matches!(oracle.status, Oracle::DualInfeasible | Oracle::AlmostDualInfeasible);
        self.solvable += usize::from(fine);
        self.infeasible[0] += usize::from(infeasible);
        self.unbounded[0] += usize::from(unbounded);
        let (net, ..) = spec.network().unwrap();
        let mut solver = net.solver(settings).unwrap();
        let solution = match solver.solve() {
            Ok(solution) => solution,
            Err(e) => {
                assert!(e.kind() == ErrorKind::Infeasible && infeasible, "{name}: {e}");
                self.infeasible[1] += 1;
                return Status::PrimalInfeasible;
            }
        };
        self.iterations += solution.iterations();
        if std::env::var("SHOW").is_ok() {
            println!(
                "{name}: {} after {}, rho {:.1e}, {:?} {:?}",
                solution.status(),
                solution.iterations(),
                solution.rho(),
                solution.misses(),
                solution.objective().map(|f| f - oracle.objective)
            );
        }
        match solution.status() {
            Status::Solved => {
                assert!(fine, "{name}: solved");
                self.solved += 1;
                let f = solution.objective().unwrap();
                let size = unit + f.abs().max(oracle.objective.abs());
                // A feasible point that is better than one of reduced accuracy is no mistake.
                let exact = oracle.status == Oracle::Solved;
                let gap = if exact { (f - oracle.objective).abs() } else { f - oracle.objective };
                assert!(gap <= 1e-5 * size, "{name}: {f} against {}", oracle.objective);
                for (e, edge) in spec.edges.iter().enumerate().filter(|(_, e)| e.coupling == Coupling::Hard) {
                    let miss =
                        spec.residual(e, solution.all_x()).into_iter().fold(0.0f64, |m, r| m.max(r.abs()));
                    assert!(miss <= 1e-5, "{name}: edge {:?} is missed by {miss:e}", edge.ends);
                }
                if unique {
                    for (x, o) in solution.all_x().iter().zip(&oracle.x) {
                        assert!((x - o).abs() < 1e-4 * (1.0 + o.abs()), "{name}: {x} against {o}");
                    }
                }
            }
            Status::PrimalInfeasible => {
                assert!(infeasible, "{name}: infeasible");
                self.infeasible[1] += 1;
            }
            Status::Unbounded => {
                assert!(unbounded, "{name}: unbounded");
                self.unbounded[1] += 1;
            }
            _ => {}
        }
        solution.status()
    }

    /// Everything that can be solved was, and nothing else was claimed.
    pub fn assert_all(&self, fewest: usize) {
        println!("{self:?}");
        assert!(self.solvable >= fewest && self.solved == self.solvable, "{self:?}");
    }
}
