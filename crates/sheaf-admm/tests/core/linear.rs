//! Every linear map has its transpose, and the operators are the documented matrices.

use sheaf_admm::sheaf::{AgentGraph, Connectivity, SheafOp};
use sheaf_testkit::{TestRng, assert_adjoint, assert_close_max};

use crate::net::{Kind, Net};
use crate::point::Point;

fn drawn(net: &Net, seed: u64) -> Point {
    let mut point = Point::default();
    net.draw_maps(&mut TestRng::new(seed), &mut point);
    point
}

/// All kinds of maps, and the graphs of the tasks with the maps they use.
fn nets() -> Vec<Net> {
    let mut nets = Net::all();
    for kind in [Kind::Shared, Kind::Table, Kind::LowRank { bases: 9, gate: false }] {
        nets.push(Net::uniform("sudoku", AgentGraph::sudoku(), 4, 2, kind));
    }
    for (height, width, connectivity) in [(2, 5, Connectivity::Four), (4, 3, Connectivity::Eight)] {
        let graph = AgentGraph::grid(height, width, connectivity).expect("small");
        nets.push(Net::uniform("grid of another shape", graph, 3, 3, Kind::Table));
    }
    // Two edges between the same agents, and one from an agent to itself.
    let graph = AgentGraph::from_edges(3, &[(0, 1), (1, 0), (2, 1), (2, 2)]).expect("all agents exist");
    nets.push(Net::uniform("multigraph", graph, 3, 2, Kind::PerAgent));
    nets.extend((0..10).map(Net::random));
    nets
}

/// Zeroes the rows that no slot owns.
fn clear_padding(net: &Net, rows: &mut [f64]) {
    for agent in 0..net.agents() {
        let used = *net.sheaf.slot_rows(agent).last().expect("starts at 0");
        let [start, end] = [net.sheaf.row_offsets()[agent], net.sheaf.row_offsets()[agent + 1]];
        rows[start + used..end].fill(0.0);
    }
}

type Map<'a> = dyn Fn(&SheafOp<'_, f64>, &[f64], &mut [f64]) + 'a;

/// Checks ⟨A v, w⟩ = ⟨v, Aᵀ w⟩ with outputs that held garbage before.
fn assert_transposes(net: &Net, name: &str, n: usize, m: usize, forward: &Map<'_>, transpose: &Map<'_>) {
    let point = drawn(net, 1);
    let op = net.op(&point);
    let run = |map: &Map<'_>, input: &[f64], len: usize| {
        let mut out = vec![f64::NAN; len];
        map(&op, input, &mut out);
        out
    };
    let mut forward = |v: &[f64]| run(forward, v, m);
    let mut transpose = |w: &[f64]| run(transpose, w, n);
    assert_adjoint(&format!("{}, {name}", net.name), &mut forward, &mut transpose, n, m);
}

#[test]
fn every_product_has_its_transpose() {
    for net in nets() {
        let (n, m, e) = (net.states(), net.sheaf.row_len(), net.sheaf.edge_len());
        let rows = || vec![f64::NAN; m];
        // The padding of a projection's output is never read.
        let project: &Map<'_> = &|op, z, y| {
            op.project(z, y).expect("fits");
            clear_padding(&net, y);
        };
        assert_transposes(&net, "project", n, m, project, &|op, s, g| op.lift(s, g).expect("fits"));
        let difference: &Map<'_> = &|op, y, r| op.difference(y, r).expect("fits");
        assert_transposes(&net, "difference", m, e, difference, &|op, r, s| op.spread(r, s).expect("fits"));
        let exchange: &Map<'_> = &|op, y, s| op.exchange(y, s).expect("fits");
        assert_transposes(&net, "exchange", m, m, exchange, exchange);
        assert_transposes(
            &net,
            "coboundary",
            n,
            e,
            &|op, z, r| op.coboundary(z, r, &mut rows()).expect("fits"),
            &|op, r, g| op.coboundary_t(r, g, &mut rows()).expect("fits"),
        );
        let laplacian: &Map<'_> = &|op, z, g| op.laplacian(z, g, &mut rows(), &mut rows()).expect("fits");
        assert_transposes(&net, "laplacian", n, n, laplacian, laplacian);
    }
}

#[test]
fn operators_are_the_matrices_of_the_dense_sheaf() {
    for net in nets() {
        for seed in 1..4 {
            let point = drawn(&net, seed);
            let (op, dense) = (net.op(&point), net.dense(&point));
            let z = TestRng::new(100 + seed).normals(net.states());
            let (mut y, mut s) = (vec![f64::NAN; net.sheaf.row_len()], vec![f64::NAN; net.sheaf.row_len()]);
            let (mut r, mut g) = (vec![f64::NAN; net.sheaf.edge_len()], vec![f64::NAN; net.states()]);
            let residuals = dense.coboundary().mul_vec(&z);
            op.coboundary(&z, &mut r, &mut y).expect("fits");
            assert_close_max(&format!("{}: F z", net.name), &r, &residuals, 1e-13);
            op.laplacian(&z, &mut g, &mut y, &mut s).expect("fits");
            assert_close_max(&format!("{}: L z", net.name), &g, &dense.laplacian().mul_vec(&z), 1e-13);
            let square: f64 = residuals.iter().map(|r| r * r).sum();
            let energy = op.energy(&z, &mut r, &mut y).expect("fits");
            assert!((energy - 0.5 * square).abs() <= 1e-13 * square, "{}: {energy}", net.name);
            let expected = (square / residuals.len() as f64 + 1e-6).sqrt();
            let edge_rms = op.edge_rms(&z, &mut r, &mut y).expect("fits");
            assert!((edge_rms - expected).abs() <= 1e-13 * expected, "{}: {edge_rms}", net.name);
        }
    }
}

#[test]
fn exchange_is_difference_then_spread() {
    for net in nets() {
        let point = drawn(&net, 1);
        let (op, mut y) = (net.op(&point), TestRng::new(5).normals(net.sheaf.row_len()));
        let mut s = vec![f64::NAN; y.len()];
        op.exchange(&y, &mut s).expect("fits");
        let (mut r, mut twice) = (vec![f64::NAN; net.sheaf.edge_len()], vec![f64::NAN; y.len()]);
        op.difference(&y, &mut r).expect("fits");
        op.spread(&r, &mut twice).expect("fits");
        assert_close_max(&net.name, &s, &twice, 1e-14);
        // Padding neither reaches an edge nor receives from one.
        clear_padding(&net, &mut y);
        let mut clean = vec![f64::NAN; y.len()];
        op.exchange(&y, &mut clean).expect("fits");
        assert_eq!(s, clean, "{}", net.name);
    }
}

#[test]
fn a_sheaf_without_edges_has_the_laplacian_zero() {
    let graph = AgentGraph::from_edges(3, &[]).expect("no edges to check");
    for kind in Kind::UNIFORM {
        if matches!(kind, Kind::LowRank { bases: 8, .. }) {
            continue; // eight bases need eight slots, agents have none
        }
        let net = Net::uniform("no edges", graph.clone(), 3, 2, kind);
        let point = drawn(&net, 1);
        let mut g = vec![f64::NAN; 9];
        net.op(&point).laplacian(&[1.0; 9], &mut g, &mut [], &mut []).expect("fits");
        assert_eq!(g, [0.0; 9], "{}", net.name);
    }
}
