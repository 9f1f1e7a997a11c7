//! Solves and reverse sweeps of batches do not allocate after the first run.

use sheaf_admm::admm::{Adjoint, Gradients, Mode, Options, Seeds, Start, Workspace};
use sheaf_admm::x_update::ObjectiveGrad;
use sheaf_admm::z_update::{Agreement, Cg, Exact, Gram, Orthonormal, ZUpdate};
use sheaf_kernels::gemm::may_allocate;
use sheaf_testkit::{CountingAllocator, allocations};

use crate::support::{Batch, SOFT};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn batches_ask_for_no_memory() {
    for batch in Batch::all(2) {
        let point = batch.orthonormal_point(1);
        let (mut prepared, h) = (batch.prepare(&point), batch.cut(&point)[5]);
        let [maps, a, b, ..] = batch.cut(&point);
        let again = allocations(|| {
            prepared.stack.prepare(maps, batch.dims().d_v).unwrap();
            if batch.updated {
                prepared.updates.prepare(&prepared.stack, batch.dims(), 0.5, a, b).unwrap();
            }
        });
        // The product for CPUs without our kernels may allocate.
        assert!(again == 0 || may_allocate(), "{}: preparing: {again}", batch.name);
        let mut solvers = vec![
            ZUpdate::Gram(Gram::published(SOFT, 4)),
            ZUpdate::Gram(Gram::to_tolerance(Agreement::Hard, 1e-6, 9)),
            ZUpdate::Cg(Cg::published(SOFT, 4)),
            ZUpdate::Exact(Exact::new(&batch.sheaf, SOFT)),
        ];
        if !batch.updated {
            solvers.push(ZUpdate::Orthonormal(Orthonormal::new(SOFT)));
            solvers.push(ZUpdate::Orthonormal(Orthonormal::scaled(SOFT)));
        }
        for z_update in &solvers {
            let problem = batch.problem(&point, &prepared, z_update);
            for mode in [Mode::Differentiate { iterations: 6 }, Mode::Keep { iterations: 6 }] {
                for options in
                    [Options::fixed(6), Options::until(1e-2, 1e-2, 6), Options::fixed(20).taping(6).x_only()]
                {
                    let mut ws = Workspace::new(&problem, mode);
                    let (mut grads, d_x) = (prepared.grads(&batch), vec![1.0; batch.states()]);
                    let (mut d_rho, mut d_gamma, mut d_eta) = ([0.0], 0.0, 0.0);
                    let mut round = || {
                        problem.solve(Start::At(h), &options, &mut ws, &mut ()).unwrap();
                        let mut grads = Gradients {
                            objective: &mut ObjectiveGrad::None,
                            maps: &mut grads.maps(),
                            rho: &mut d_rho,
                            gamma: &mut d_gamma,
                            eta: &mut d_eta,
                            offsets: &mut [],
                            edge_weights: &mut [],
                            start: &mut [],
                        };
                        let seeds = Seeds { d_x: &d_x, d_z: None, d_u: None };
                        problem.reverse(Adjoint::Unrolled, &seeds, &mut grads, &mut ws).unwrap();
                    };
                    round();
                    let count = allocations(&mut round);
                    assert!(count == 0 || may_allocate(), "{}, {z_update:?}, {mode:?}: {count}", batch.name);
                }
            }
        }
    }
}
