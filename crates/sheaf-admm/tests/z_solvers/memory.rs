use crate::support::Case;
use sheaf_admm::x_update::Penalty;
use sheaf_admm::z_update::{
    Agreement, Asynchronous, ConsensusGrad, Descent, EdgeMethod, EdgePotential, EdgeSpace, Exact, OutOfStep,
    Potential, Stop, ZUpdate,
};
use sheaf_kernels::gemm::may_allocate;
use sheaf_testkit::{CountingAllocator, TestRng, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn solvers(case: &Case) -> Vec<ZUpdate<f64>> {
    let tolerance = Stop::Tolerance { absolute: 0.0, relative: 1e-3, max_steps: 7 };
    let mut all = Vec::new();
    for agreement in [Agreement::Hard, Agreement::Soft { gamma: 1.2 }] {
        all.push(ZUpdate::Exact(Exact::new(&case.sheaf, agreement)));
        let (descent, warm) = (Descent::nesterov(agreement, 0.05, 3), agreement != Agreement::Hard);
        let lag = OutOfStep { delay: 2, loss: 0.3, activity: 0.7, seed: 4 };
        all.push(ZUpdate::Asynchronous(Asynchronous { descent, warm, lag }));
        for stop in [Stop::Steps(0), Stop::Steps(5), tolerance] {
            all.push(ZUpdate::Descent(Descent { agreement, eta: 0.05, momentum: 0.9, stop }));
            for method in [EdgeMethod::Cg { guard: 1e-8 }, EdgeMethod::Descent { eta: 0.05, momentum: 0.9 }] {
                for warm in [true, false] {
                    all.push(ZUpdate::EdgeSpace(EdgeSpace { agreement, method, stop, warm }));
                }
            }
        }
    }
    for potential in [EdgePotential::Huber { delta: 0.3 }, EdgePotential::SmoothedL1 { epsilon: 0.3 }] {
        for stop in [Stop::Steps(5), tolerance] {
            all.push(ZUpdate::Potential(Potential { potential, gamma: 1.2, eta: 0.05, momentum: 0.5, stop }));
        }
    }
    all
}

#[test]
fn solves_and_their_adjoints_ask_for_no_memory() {
    for case in Case::all(1) {
        let (op, n) = (case.op(), case.sheaf.state_len());
        let w = TestRng::new(1).normals(n);
        let rho = Penalty::PerAgent(&[0.5, 1.5, 0.8, 2.0, 1.1, 0.9][..case.sheaf.agents()]);
        for z_update in solvers(&case) {
            let mut scratch = vec![f64::NAN; z_update.scratch_len(&op)];
            let mut carry = vec![0.1; z_update.carry_len(&op)];
            let (mut z, mut d_w, mut d_z_prev) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
            let (mut d_carry, mut d_params) = (carry.clone(), vec![0.0; case.params.len()]);
            let (mut d_rho, mut d_gamma, mut d_eta) = (vec![0.0; case.sheaf.agents()], 0.0, 0.0);
            let mut maps = case.maps_grad(&mut d_params);
            let mut run = || {
                z_update.prepare(&op, &rho, &mut scratch).unwrap();
                let given = z_update.forward(&op, &rho, &w, &w, &mut carry, &mut z, &mut scratch);
                assert!(given.is_ok());
                let mut grad = ConsensusGrad {
                    maps: &mut maps,
                    rho: &mut d_rho,
                    gamma: &mut d_gamma,
                    eta: &mut d_eta,
                    offsets: &mut [],
                    edge_weights: &mut [],
                };
                z_update
                    .vjp(
                        &op,
                        &rho,
                        &w,
                        &w,
                        &carry,
                        &z,
                        &mut d_w,
                        &mut d_z_prev,
                        &mut d_carry,
                        &mut grad,
                        &mut scratch,
                    )
                    .unwrap();
            };
            // The first run may initialise state outside the library.
            run();
            // The product for CPUs without our kernels may allocate.
            let count = allocations(run);
            assert!(count == 0 || may_allocate(), "{}: {z_update:?}: {count}", case.name);
        }
    }
}

#[test]
fn a_forward_solve_needs_no_more_than_its_own_scratch() {
    for case in Case::all(2) {
        let (op, n) = (case.op(), case.sheaf.state_len());
        let (w, rho) = (TestRng::new(2).normals(n), Penalty::Scalar(0.9));
        for z_update in solvers(&case) {
            assert!(z_update.forward_scratch_len(&op) <= z_update.scratch_len(&op));
            let [short, long] = [z_update.forward_scratch_len(&op), z_update.scratch_len(&op)].map(|len| {
                let (mut z, mut scratch) = (vec![0.0; n], vec![f64::NAN; len]);
                let mut carry = vec![0.1; z_update.carry_len(&op)];
                z_update.prepare(&op, &rho, &mut scratch).unwrap();
                z_update.forward(&op, &rho, &w, &w, &mut carry, &mut z, &mut scratch).unwrap();
                (z, carry)
            });
            assert_eq!(short, long, "{}: {z_update:?}", case.name);
        }
    }
}
