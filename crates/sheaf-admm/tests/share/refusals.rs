//! What ranks cannot share is refused, with a way out.

use sheaf_admm::ErrorKind;
use sheaf_admm::share::{GraphPart, threads};
use sheaf_admm::sheaf::{AgentGraph, Maps, Sheaf, SheafOp};
use sheaf_admm::z_update::{Agreement, Exact, ZUpdate};

fn graph() -> AgentGraph {
    AgentGraph::from_edges(3, &[(0, 1), (1, 2)]).unwrap()
}

/// One rank of one, which is a share all the same.
fn part() -> Sheaf {
    let part = GraphPart::new(&graph(), 0, 1).unwrap();
    Sheaf::heterogeneous_part(&part, &[2, 2, 2], &[1, 1], threads(1).remove(0)).unwrap()
}

#[test]
fn a_factorisation_is_refused_and_conjugate_gradients_are_named() {
    let sheaf = part();
    let stacks = vec![1.0; sheaf.stack_len()];
    let op = SheafOp::new(&sheaf, Maps::PerAgent(&stacks)).unwrap();
    let whole = Sheaf::heterogeneous(&graph(), &[2, 2, 2], &[1, 1]).unwrap();
    let error = ZUpdate::Exact(Exact::new(&whole, Agreement::Hard)).validate(&op).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("over several ranks")
            && error.hint_text().is_some_and(|h| h.contains("Cg"))
    );
}

#[test]
fn a_part_of_another_rank_is_refused() {
    let graph = AgentGraph::from_edges(3, &[(0, 1)]).unwrap();
    let part = GraphPart::new(&graph, 1, 2).unwrap();
    assert!(GraphPart::new(&graph, 2, 2).is_err());
    let error = Sheaf::heterogeneous_part(&part, &[1; 3], &[1], threads(2).remove(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shape);
}

#[test]
fn edges_of_a_part_are_not_cut_further() {
    assert_eq!(part().without_edges(|_| true).unwrap_err().kind(), ErrorKind::Unsupported);
}
