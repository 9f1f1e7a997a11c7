//! Networks over ranks: the builder's solver with conjugate gradients.

use sheaf_admm::ErrorKind;
use sheaf_admm::admm::Status;
use sheaf_admm::chunks::AGENTS;
use sheaf_admm::network::{Consensus, Coupling, Edge, Network, Settings};
use sheaf_admm::share::Order;
use sheaf_admm::x_update::Quadratic;

use crate::support::{bits, numbers, on_ranks};

/// A ring with chords, whose agents want different numbers.
fn network(agents: usize, coupling: Coupling) -> Network {
    let (mut net, pull) = (Network::new(), numbers(4, 2 * agents));
    let ids: Vec<_> = (0..agents)
        .map(|i| {
            let quad = [[1.5 + pull[2 * i], 0.2], [0.2, 2.0]];
            net.agent(Quadratic::new(quad, [3.0 * pull[2 * i], pull[2 * i + 1]])).unwrap()
        })
        .collect();
    let ring = (0..agents).map(|i| (i, (i + 1) % agents));
    let chords = (0..agents).step_by(3).map(|i| (i, (i + 401) % agents));
    for (u, v) in ring.chain(chords) {
        let edge = Edge::new(ids[u], [[1.0, 0.5]], ids[v], [[1.0, -0.5]]).offset([0.1 * pull[u]]);
        net.edge(edge.coupling(coupling)).unwrap();
    }
    net
}

/// Whether ranks give the bits of one process, and both the solution of the exact solver.
fn ranks_solve_like_one(net: &Network, tol: f64) {
    let settings = Settings { tol, consensus: Consensus::Cg, ..Settings::default() };
    let mut one = net.clone().solver(settings).unwrap();
    let one = one.solve().unwrap();
    assert!(one.is_solved(), "{}", one.status());
    let mut exact = net.clone().solver(Settings { tol, ..Settings::default() }).unwrap();
    let exact = exact.solve().unwrap();
    for ranks in [1, 2, 4] {
        on_ranks(ranks, |comm| {
            let mut solver = net.clone().solver(settings).unwrap();
            let met = solver.solve_over(&comm).unwrap();
            assert_eq!((met.status(), met.iterations()), (one.status(), one.iterations()));
            for (agent, id) in net.agent_ids().enumerate() {
                assert_eq!(bits(met.x(id)), bits(one.x(id)), "{ranks} ranks, agent {agent}");
                assert!(met.x(id).iter().zip(exact.x(id)).all(|(a, b)| (a - b).abs() < 1e-5));
            }
            for id in net.edge_ids() {
                assert_eq!(bits(met.price(id)), bits(one.price(id)));
            }
            assert_eq!((met.objective(), met.misses()), (one.objective(), one.misses()));
            assert_eq!((met.history(), met.rho()), (one.history(), one.rho()));
        });
    }
}

#[test]
fn a_soft_network_over_ranks_has_the_bits_of_one_process_and_the_solution_of_the_exact_solver() {
    ranks_solve_like_one(&network(2 * AGENTS + 300, Coupling::Soft { weight: 2.0 }), 1e-7);
}

#[test]
fn and_so_has_a_network_of_hard_edges() {
    ranks_solve_like_one(&network(2 * AGENTS + 300, Coupling::Hard), 1e-7);
}

/// Edges with a cost of their own are agents of the solve, which ranks share like all others.
#[test]
fn and_one_of_hard_and_robust_edges() {
    let mut net = network(AGENTS + 100, Coupling::Hard);
    let ids: Vec<_> = net.agent_ids().collect();
    for i in 0..AGENTS {
        let edge = Edge::new(ids[i], [[0.0, 1.0]], ids[(i + 77) % ids.len()], [[0.0, 1.0]]);
        net.edge(edge.coupling(Coupling::Huber { weight: 0.7, delta: 0.2 })).unwrap();
    }
    ranks_solve_like_one(&net, 1e-6);
}

#[test]
fn edges_that_contradict_each_other_are_found_over_ranks() {
    let mut net = network(AGENTS + 100, Coupling::Hard);
    let ids: Vec<_> = net.agent_ids().collect();
    for offset in [0.0, 1.0] {
        net.edge(Edge::new(ids[5], [[1.0, 0.0]], ids[9], [[1.0, 0.0]]).offset([offset])).unwrap();
    }
    let settings = Settings { consensus: Consensus::Cg, iterations: 60, ..Settings::default() };
    on_ranks(2, |comm| {
        let mut solver = net.clone().solver(settings).unwrap();
        assert_eq!(solver.solve_over(&comm).unwrap().status(), Status::PrimalInfeasible);
    });
}

#[test]
fn another_order_of_the_agents_has_the_same_solution() {
    let net = network(200, Coupling::Soft { weight: 2.0 });
    let order = Order::of_parts(&(0..200).map(|i| i * 7 % 13).collect::<Vec<_>>());
    let sorted = net.in_order(&order).unwrap();
    let (one, other) = (net.solve(1e-9).unwrap(), sorted.solve(1e-9).unwrap());
    let ids: Vec<_> = sorted.agent_ids().collect();
    for (agent, id) in net.agent_ids().enumerate() {
        let there = other.x(ids[order.places()[agent]]);
        assert!(one.x(id).iter().zip(there).all(|(a, b)| (a - b).abs() < 1e-6), "agent {agent}");
    }
    assert_eq!(order.graph(&net.graph().unwrap()).unwrap().edges()[0].u as usize, order.places()[0]);
}

#[test]
fn a_factorisation_is_refused_with_a_way_out() {
    let mut solver = network(12, Coupling::Soft { weight: 1.0 }).solver(Settings::default()).unwrap();
    let error = solver.solve_over(&sheaf_admm::share::threads(1)[0]).unwrap_err();
    assert!(error.kind() == ErrorKind::Unsupported && error.hint_text().is_some(), "{error}");
}
