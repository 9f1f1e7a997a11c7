//! The two solvers of shared maps against the general ones, as single consensus steps.

use sheaf_admm::Precision;
use sheaf_admm::sheaf::{Maps, SharedStack, Sheaf, SheafOp};
use sheaf_admm::x_update::Penalty;
use sheaf_admm::z_update::{Agreement, Cg, CgStart, Exact, Gram, Orthonormal, Stop, ZUpdate};
use sheaf_testkit::TestRng;

use crate::support::{Batch, RANK, SCALE, SOFT, close};

const RHO: Penalty<'static, f64> = Penalty::Scalar(0.8);

fn solve(batch: &Batch, point: &[f64], z_update: &ZUpdate<f64>, w: &[f64]) -> (Vec<f64>, usize, bool) {
    let prepared = batch.prepare(point);
    let op = batch.op(&prepared);
    z_update.validate(&op).unwrap();
    let mut scratch = vec![f64::NAN; z_update.forward_scratch_len(&op)];
    z_update.prepare(&op, &RHO, &mut scratch).unwrap();
    let mut z = vec![f64::NAN; w.len()];
    let report = z_update.forward(&op, &RHO, w, w, &mut [], &mut z, &mut scratch).unwrap();
    (z, report.steps, report.converged)
}

fn target(batch: &Batch) -> Vec<f64> {
    TestRng::new(5).normals(batch.states())
}

#[test]
fn a_fixed_number_of_steps_is_that_of_conjugate_gradients_on_states() {
    for batch in Batch::all(2) {
        let (point, w) = (batch.point(1), target(&batch));
        for steps in [0, 1, 2, 5] {
            for agreement in [SOFT, Agreement::Hard] {
                let gram = Gram::published(agreement, steps);
                let cg = Cg { start: CgStart::Zero, ..Cg::published(agreement, steps) };
                let (got, ..) = solve(&batch, &point, &ZUpdate::Gram(gram), &w);
                let (want, ..) = solve(&batch, &point, &ZUpdate::Cg(cg), &w);
                close(&format!("{}, {agreement:?}, {steps} steps", batch.name), &got, &want, 1e-10);
            }
        }
    }
}

#[test]
fn solved_to_a_tolerance_it_is_the_exact_answer() {
    for batch in Batch::all(3) {
        let (point, w) = (batch.point(2), target(&batch));
        for agreement in [SOFT, Agreement::Hard] {
            let gram = ZUpdate::Gram(Gram::to_tolerance(agreement, 1e-12, 200));
            let exact = ZUpdate::Exact(Exact::new(&batch.sheaf, agreement));
            let (got, _, converged) = solve(&batch, &point, &gram, &w);
            let (want, ..) = solve(&batch, &point, &exact, &w);
            assert!(converged, "{}", batch.name);
            close(&format!("{}, {agreement:?}", batch.name), &got, &want, 1e-9);
        }
    }
}

#[test]
fn the_closed_form_is_the_exact_answer_for_orthonormal_maps() {
    for batch in [Batch::grid(2, false), Batch::triples(2, false)] {
        let (point, w) = (batch.orthonormal_point(3), target(&batch));
        for agreement in [SOFT, Agreement::Hard] {
            let (got, ..) = solve(&batch, &point, &ZUpdate::Orthonormal(Orthonormal::new(agreement)), &w);
            let (want, ..) = solve(&batch, &point, &ZUpdate::Exact(Exact::new(&batch.sheaf, agreement)), &w);
            close(&format!("{}, {agreement:?}", batch.name), &got, &want, 1e-10);
        }
    }
}

#[test]
fn the_closed_form_is_the_exact_answer_for_scaled_orthogonal_maps() {
    for batch in [Batch::grid(2, false), Batch::triples(2, false)] {
        let (point, w) = (batch.scaled_point(3), target(&batch));
        for agreement in [SOFT, Agreement::Hard] {
            let (got, ..) = solve(&batch, &point, &ZUpdate::Orthonormal(Orthonormal::scaled(agreement)), &w);
            let (want, ..) = solve(&batch, &point, &ZUpdate::Exact(Exact::new(&batch.sheaf, agreement)), &w);
            close(&format!("{}, {agreement:?}", batch.name), &got, &want, 1e-10);
        }
        // Rows of length 1 are a special case.
        let (point, agreement) = (batch.orthonormal_point(3), SOFT);
        let (got, ..) = solve(&batch, &point, &ZUpdate::Orthonormal(Orthonormal::scaled(agreement)), &w);
        let (want, ..) = solve(&batch, &point, &ZUpdate::Orthonormal(Orthonormal::new(agreement)), &w);
        close("rows of length 1", &got, &want, 1e-12);
    }
}

#[test]
fn each_sample_stops_at_its_own_tolerance() {
    for batch in Batch::all(2) {
        let (point, mut w) = (batch.point(4), target(&batch));
        let n = batch.sheaf.state_len();
        // The second sample already agrees.
        w[n..].fill(0.0);
        let stop = Stop::Tolerance { absolute: 1e-9, relative: 0.0, max_steps: 100 };
        let gram = Gram { stop, ..Gram::to_tolerance(SOFT, 1e-9, 100) };
        let (z, steps, converged) = solve(&batch, &point, &ZUpdate::Gram(gram), &w);
        assert!(converged && steps > 1 && z[n..].iter().all(|&z| z == 0.0));
        // Too few steps are reported.
        let stop = Stop::Tolerance { absolute: 1e-9, relative: 0.0, max_steps: 1 };
        let (_, steps, converged) = solve(&batch, &point, &ZUpdate::Gram(Gram { stop, ..gram }), &w);
        assert_eq!((steps, converged), (1, false));
    }
}

#[test]
fn updates_of_agents_are_added_to_the_maps_that_all_share() {
    for batch in [Batch::grid(1, true), Batch::triples(1, true)] {
        let (point, dims) = (batch.point(6), batch.dims());
        let [maps, a, b, ..] = batch.cut(&point);
        let mut stacks = vec![0.0; batch.sheaf.stack_len()];
        for agent in 0..batch.sheaf.agents() {
            // G + scale·A Bᵀ, slot by slot.
            let rows: Vec<f64> = (0..dims.slots * dims.d_e * dims.d_v)
                .map(|k| {
                    let (row, v) = (k / dims.d_v, k % dims.d_v);
                    let (slot, e) = (agent * dims.slots + row / dims.d_e, row % dims.d_e);
                    let [a, b] = [(a, dims.d_e, e), (b, dims.d_v, v)]
                        .map(|(from, len, at)| &from[(slot * len + at) * RANK..][..RANK]);
                    maps[k] + SCALE * a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>()
                })
                .collect();
            Sheaf::pack_stack(&rows, dims.d_v, &mut stacks[batch.sheaf.stack_offsets()[agent]..]).unwrap();
        }
        let prepared = batch.prepare(&point);
        let z = TestRng::new(9).normals(batch.states());
        let [got, want] = [batch.op(&prepared), SheafOp::new(&batch.sheaf, Maps::PerAgent(&stacks)).unwrap()]
            .map(|op| {
                let (mut r, mut rows) = (vec![0.0; batch.sheaf.edge_len()], vec![0.0; batch.sheaf.row_len()]);
                op.coboundary(&z, &mut r, &mut rows).unwrap();
                r
            });
        close(batch.name, &got, &want, 1e-12);
    }
}

#[test]
fn a_stack_multiplies_in_the_precision_that_was_set() {
    let mut stack = SharedStack::<f32>::default();
    stack.prepare(&[1.0, 1.0 / 3.0, -2.0, 0.7], 2).unwrap();
    assert_eq!(stack.precision(), Precision::Full);
    stack.set_precision(Precision::Bf16).unwrap();
    assert_eq!(stack.precision(), Precision::Bf16);
    stack.set_precision(Precision::Full).unwrap();
    assert_eq!(stack.precision(), Precision::Full);
    assert!(SharedStack::<f64>::default().set_precision(Precision::Bf16).is_err());
}
