//! Ranks as processes under `mpirun`: this program starts itself.

use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sheaf_admm::admm::{Adjoint, Gradients, Mode, Options, Problem, Seeds, Start, Workspace};
use sheaf_admm::chunks::AGENTS;
use sheaf_admm::share::{Comm, GraphPart, own_agents};
use sheaf_admm::sheaf::{AgentGraph, Maps, MapsGrad, Sheaf, SheafOp};
use sheaf_admm::x_update::{Diagonal, DiagonalGrad, Objective, ObjectiveGrad, Penalty};
use sheaf_admm::z_update::{Agreement, Cg, ZUpdate};
use sheaf_mpi::World;

const D_V: usize = 3;
const D_E: usize = 2;

/// Starts a part of this program on so many ranks. Parts are tests that do nothing where they are not asked for.
fn ranks(count: usize, part: &str, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "-n", &count.to_string()]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", part, "--nocapture", "--test-threads=1"]);
    // As root, and without asking for a core each.
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    command.env("SHEAF_PART", part).envs(environment.iter().copied()).output().expect("mpirun")
}

/// The ranks of this part, if it was asked for.
fn part(name: &str) -> Option<World> {
    (std::env::var("SHEAF_PART").ok()? == name).then(|| World::start().unwrap().expect("ranks"))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Numbers between −1 and 1 that depend on their place alone: every rank makes its own.
fn number(seed: usize, place: usize) -> f64 {
    ((seed * 7919 + place) as f64 * 12.9898).sin()
}

fn graph() -> AgentGraph {
    let agents = 3 * AGENTS + 100;
    let ring = (0..agents).map(|i| (i, (i + 1) % agents));
    let chords = (0..agents).step_by(5).map(|i| (i, (i + 317) % agents));
    AgentGraph::from_edges(agents, &ring.chain(chords).collect::<Vec<_>>()).unwrap()
}

/// Solves, differentiates, and hashes the states and all gradients of all agents, in their order.
fn hash(comm: Option<Arc<dyn Comm>>) -> u64 {
    let graph = graph();
    let whole =
        Sheaf::heterogeneous(&graph, &vec![D_V; graph.agents()], &vec![D_E; graph.edges().len()]).unwrap();
    let (rank, ranks) = comm.as_ref().map_or((0, 1), |comm| (comm.rank(), comm.ranks()));
    let own = own_agents(graph.agents(), rank, ranks);
    let sheaf = match comm {
        None => whole.clone(),
        Some(comm) => {
            let part = GraphPart::new(&graph, rank, ranks).unwrap();
            let d_e = vec![D_E; part.edge_places().len()];
            Sheaf::heterogeneous_part(&part, &vec![D_V; own.len()], &d_e, comm).unwrap()
        }
    };
    let (n, first) = (sheaf.state_len(), own.start * D_V);
    let stacks = whole.stack_offsets()[own.start]..whole.stack_offsets()[own.end];
    let stacks: Vec<f64> = stacks.map(|k| 0.4 * number(1, k)).collect();
    let of =
        |seed, shift: f64| (first..first + n).map(|k| shift + 0.5 * number(seed, k)).collect::<Vec<f64>>();
    let (diag, q, seed) = (of(2, 0.8), of(3, 0.0), of(4, 0.0));
    let z_update = ZUpdate::Cg(Cg::published(Agreement::Soft { gamma: 0.5 }, 4));
    let problem = Problem {
        op: SheafOp::new(&sheaf, Maps::PerAgent(&stacks)).unwrap(),
        objective: Objective::Diagonal(Diagonal::new(&diag, &q)),
        z_update: &z_update,
        rho: Penalty::Scalar(0.6),
        relax: 1.2,
    };
    let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations: 4 });
    problem.solve(Start::At(&seed), &Options::fixed(4), &mut ws, &mut ()).unwrap();
    let (mut d_maps, mut d_diag, mut d_q) = (vec![0.0; stacks.len()], vec![0.0; n], vec![0.0; n]);
    let (mut rho, mut gamma, mut eta, mut start) = ([0.0], 0.0, 0.0, vec![0.0; n]);
    let d = DiagonalGrad { diag: Some(&mut d_diag), q: Some(&mut d_q), ..Default::default() };
    let mut grads = Gradients {
        objective: &mut ObjectiveGrad::Diagonal(d),
        maps: &mut MapsGrad::PerAgent(&mut d_maps),
        rho: &mut rho,
        gamma: &mut gamma,
        eta: &mut eta,
        offsets: &mut [],
        edge_weights: &mut [],
        start: &mut start,
    };
    let seeds = Seeds { d_x: &seed, d_z: None, d_u: None };
    problem.reverse(Adjoint::Unrolled, &seeds, &mut grads, &mut ws).unwrap();
    let x = ws.x().to_vec();
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let lengths = |of: &dyn Fn(usize) -> usize| -> Vec<usize> {
        (0..ranks).map(|r| own_agents(graph.agents(), r, ranks)).map(|a| of(a.end) - of(a.start)).collect()
    };
    let states = lengths(&|agent| agent * D_V);
    let maps = lengths(&|agent| whole.stack_offsets()[agent]);
    for (own, counts) in
        [(&x, &states), (&d_diag, &states), (&d_q, &states), (&start, &states), (&d_maps, &maps)]
    {
        let all = sheaf.share().map_or_else(|| own.clone(), |share| share.collect(own, counts));
        all.iter().for_each(|v| hash = (hash ^ v.to_bits()).wrapping_mul(0x0100_0000_01b3));
    }
    for v in [rho[0], gamma] {
        hash = (hash ^ v.to_bits()).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

#[test]
fn part_hash() {
    let Some(world) = part("part_hash") else { return };
    let (comm, hash) = (world.comm(), hash(Some(world.comm())));
    if comm.rank() == 0 {
        println!("hash {hash:016x} of {} ranks, sent {:?}", comm.ranks(), world.metered().traffic());
    }
}

#[test]
fn a_solve_and_its_reverse_sweep_have_the_bits_of_one_process() {
    let one = format!("hash {:016x}", hash(None));
    for count in [2, 4] {
        let output = ranks(count, "part_hash", &[]);
        assert!(output.status.success() && text(&output).contains(&one), "{one}\n{}", text(&output));
    }
}

#[test]
fn delays_change_no_bit() {
    let one = format!("hash {:016x}", hash(None));
    let output = ranks(2, "part_hash", &[("SHEAF_MPI_DELAY", "500")]);
    assert!(output.status.success() && text(&output).contains(&one), "{one}\n{}", text(&output));
}

#[test]
fn part_panic() {
    let Some(world) = part("part_panic") else { return };
    let comm = world.comm();
    sheaf_mpi::abort_on_panic(comm.rank());
    assert!(comm.rank() != 1, "a defect on rank 1");
    // Nobody answers: without an end, this waits forever.
    comm.receive(1, &mut [0]);
}

#[test]
fn a_panic_on_one_rank_ends_all_and_is_named() {
    let began = Instant::now();
    let output = ranks(3, "part_panic", &[]);
    let text = text(&output);
    assert!(!output.status.success() && began.elapsed() < Duration::from_secs(10), "{text}");
    assert!(text.contains("rank 1 panicked") && text.contains("a defect on rank 1"), "{text}");
}

#[test]
fn part_silence() {
    let Some(world) = part("part_silence") else { return };
    let comm = world.comm();
    if comm.rank() == 1 {
        std::thread::sleep(Duration::from_secs(60));
    }
    let mut all = [0; 3];
    comm.gather(&[1], &[1, 1, 1], &mut all);
}

#[test]
fn a_silent_rank_ends_the_job_after_the_time_out_and_is_named() {
    let began = Instant::now();
    let output = ranks(3, "part_silence", &[("SHEAF_MPI_TIMEOUT", "1")]);
    let text = text(&output);
    assert!(!output.status.success() && began.elapsed() < Duration::from_secs(15), "{text}");
    assert!(text.contains("no answer from rank 1") && text.contains("SHEAF_MPI_TIMEOUT"), "{text}");
}
