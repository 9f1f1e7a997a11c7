//! Dense stacks composed of a base and low-rank factors.

use sheaf_admm::sheaf::{LowRankGrad, compose_low_rank, compose_low_rank_vjp};
use sheaf_testkit::TestRng;

use crate::net::{Kind, Net};
use crate::point::{Point, dot};

fn composed(net: &Net, point: &Point, views: usize) -> Vec<f64> {
    let u = net.sheaf.as_uniform().expect("a grid");
    let mut stacks = vec![f64::NAN; views * u.d_v * u.ld];
    compose_low_rank(&net.sheaf, &net.low_rank(point), &mut stacks).expect("a grid");
    stacks
}

fn nets() -> impl Iterator<Item = Net> {
    Kind::UNIFORM.into_iter().filter(|kind| matches!(kind, Kind::LowRank { .. })).map(Net::grid)
}

#[test]
fn composed_stacks_hold_the_low_rank_maps_and_zero_padding() {
    for net in nets() {
        let mut point = Point::default();
        net.draw_maps(&mut TestRng::new(3), &mut point);
        let (stacks, u) = (composed(&net, &point, 3), net.sheaf.as_uniform().expect("a grid"));
        for (agent, &view) in net.low_rank(&point).index.iter().enumerate() {
            let stack = &stacks[view as usize * u.d_v * u.ld..][..u.d_v * u.ld];
            let mut expected = vec![0.0; u.d_v * u.ld];
            for slot in 0..u.slots {
                for (k, f) in net.map(&point, agent, slot).into_iter().enumerate() {
                    expected[k % u.d_v * u.ld + slot * u.d_e + k / u.d_v] = f;
                }
            }
            assert!(stack.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-14), "{}", net.name);
        }
    }
}

#[test]
fn composing_has_its_adjoint() {
    for net in nets() {
        let mut point = Point::default();
        net.draw_maps(&mut TestRng::new(3), &mut point);
        let u = net.sheaf.as_uniform().expect("a grid");
        let d_stacks = TestRng::new(4).normals(3 * u.d_v * u.ld);
        let [mut base, mut a, mut b, mut gate] = ["base", "a", "b", "gate"].map(|n| point.grad_buffer(n));
        let gated = point.has("gate");
        let mut grad =
            LowRankGrad { base: &mut base, a: &mut a, b: &mut b, gate: gated.then_some(gate.as_mut_slice()) };
        compose_low_rank_vjp(&net.sheaf, &net.low_rank(&point), &d_stacks, &mut grad).expect("a grid");
        let mut grad = Point::default();
        grad.push_added("base", base);
        grad.push_added("a", a);
        grad.push_added("b", b);
        if gated {
            grad.push_added("gate", gate);
        }
        point.assert_gradient(&net.name, &grad, &|at| dot(&composed(&net, at, 3), &d_stacks));
    }
}
