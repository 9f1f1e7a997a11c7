//! Finite differences through whole solves of two samples.

use sheaf_admm::admm::{Adjoint, Mode, Options, Seeds, Start, Workspace};
use sheaf_admm::z_update::{Agreement, Cg, Exact, Gram, Orthonormal, Stop, ZUpdate};
use sheaf_testkit::{TestRng, assert_gradient};

use crate::support::{Batch, Build, close, dot};

const NAMES: [&str; 8] = ["maps", "A", "B", "D", "q", "h", "rho", "gamma"];
const WINDOW: usize = 2;

/// Seeds of the last two x and, unless the last iteration computes only x, the last z and u.
struct Loss {
    d_x: Vec<f64>,
    d_z: Option<Vec<f64>>,
    d_u: Option<Vec<f64>>,
}

impl Loss {
    fn new(batch: &Batch, x_only: bool) -> Self {
        let (mut rng, n) = (TestRng::new(9), batch.states());
        let d_x = rng.normals(WINDOW * n);
        let (d_z, d_u) = (rng.normals(n), rng.normals(n));
        Self { d_x, d_z: (!x_only).then_some(d_z), d_u: (!x_only).then_some(d_u) }
    }

    fn seeds(&self) -> Seeds<'_, f64> {
        Seeds { d_x: &self.d_x, d_z: self.d_z.as_deref(), d_u: self.d_u.as_deref() }
    }

    fn value(&self, batch: &Batch, ws: &Workspace<f64>) -> f64 {
        let n = batch.sheaf.state_len();
        let mut sum = 0.0;
        for slot in 0..WINDOW {
            for b in 0..batch.samples {
                let seed = &self.d_x[(slot * batch.samples + b) * n..][..n];
                sum += dot(seed, ws.last_x_of(b, WINDOW - 1 - slot).unwrap());
            }
        }
        sum + self.d_z.as_ref().map_or(0.0, |d| dot(d, ws.z()))
            + self.d_u.as_ref().map_or(0.0, |d| dot(d, ws.u()))
    }
}

/// Compares the gradient of every input with finite differences, one input after the other.
fn check(name: &str, batch: &Batch, point: &[f64], build: &Build<'_>, options: &Options<f64>, mode: Mode) {
    let loss = Loss::new(batch, options.x_only);
    let (grad, ..) = batch.gradient(point, build, options, Adjoint::Unrolled, mode, &loss.seeds()).unwrap();
    let value = |at: &[f64]| {
        let [_, _, _, _, _, h, _, gamma] = batch.cut(at);
        let (prepared, z_update) = (batch.prepare(at), build(gamma[0]));
        let problem = batch.problem(at, &prepared, &z_update);
        let mut ws = Workspace::new(&problem, mode);
        problem.solve(Start::At(h), options, &mut ws, &mut ()).unwrap();
        loss.value(batch, &ws)
    };
    let mut start = 0;
    for (input, len) in NAMES.into_iter().zip(batch.lens()).filter(|(_, len)| *len > 0) {
        let own = start..start + len;
        start += len;
        // Orthonormal maps must stay orthonormal; their gradient is compared elsewhere.
        if name.contains("orthonormal") && input == "maps" {
            continue;
        }
        let mut f = |part: &[f64]| {
            let mut at = point.to_vec();
            at[own.clone()].copy_from_slice(part);
            value(&at)
        };
        assert_gradient(
            &format!("{name}, {}, {input}", batch.name),
            &mut f,
            &point[own.clone()],
            &grad[own.clone()],
        );
    }
}

#[test]
fn conjugate_gradients_in_gram_space_have_the_gradients_of_finite_differences() {
    for batch in Batch::all(2) {
        let point = batch.point(1);
        for (mode, x_only) in
            [(Mode::Keep { iterations: 4 }, false), (Mode::Differentiate { iterations: 4 }, true)]
        {
            let options = if x_only { Options::fixed(4).x_only() } else { Options::fixed(4) };
            let soft = |gamma| ZUpdate::Gram(Gram::published(Agreement::Soft { gamma }, 3));
            check("soft", &batch, &point, &soft, &options, mode);
            let hard = |_| ZUpdate::Gram(Gram { tikhonov: 0.1, ..Gram::published(Agreement::Hard, 3) });
            check("hard", &batch, &point, &hard, &options, mode);
        }
    }
}

#[test]
fn state_space_solvers_have_the_gradients_of_finite_differences_on_shared_maps() {
    for batch in Batch::all(2) {
        let point = batch.point(2);
        let mode = Mode::Keep { iterations: 4 };
        let cg = |gamma| ZUpdate::Cg(Cg::published(Agreement::Soft { gamma }, 3));
        check("cg", &batch, &point, &cg, &Options::fixed(4), mode);
        let exact = |gamma| ZUpdate::Exact(Exact::new(&batch.sheaf, Agreement::Soft { gamma }));
        check("exact", &batch, &point, &exact, &Options::fixed(4).x_only(), mode);
    }
}

#[test]
fn the_closed_form_has_the_gradients_of_finite_differences() {
    for batch in [Batch::grid(2, false), Batch::triples(2, false)] {
        let point = batch.orthonormal_point(3);
        for mode in [Mode::Keep { iterations: 4 }, Mode::Differentiate { iterations: 4 }] {
            let soft = |gamma| ZUpdate::Orthonormal(Orthonormal::new(Agreement::Soft { gamma }));
            check("orthonormal, soft", &batch, &point, &soft, &Options::fixed(4), mode);
            let hard = |_| ZUpdate::Orthonormal(Orthonormal::new(Agreement::Hard));
            check("orthonormal, hard", &batch, &point, &hard, &Options::fixed(4).x_only(), mode);
        }
    }
}

/// The maps are varied along the lengths of their rows, which stay orthogonal; all else as it is.
#[test]
fn the_closed_form_of_scaled_maps_has_the_gradients_of_finite_differences() {
    for batch in [Batch::grid(2, false), Batch::triples(2, false)] {
        let (point, dims) = (batch.scaled_point(3), batch.dims());
        for agreement in [|gamma| Agreement::Soft { gamma }, |_| Agreement::Hard] {
            let build = |gamma| ZUpdate::Orthonormal(Orthonormal::scaled(agreement(gamma)));
            for mode in [Mode::Keep { iterations: 4 }, Mode::Differentiate { iterations: 4 }] {
                check("orthonormal, scaled", &batch, &point, &build, &Options::fixed(4), mode);
            }
            let (loss, options, mode) =
                (Loss::new(&batch, true), Options::fixed(4).x_only(), Mode::Keep { iterations: 4 });
            let (grad, ..) =
                batch.gradient(&point, &build, &options, Adjoint::Unrolled, mode, &loss.seeds()).unwrap();
            let maps = batch.lens()[0];
            let longer = |factors: &[f64]| {
                let mut at = point.clone();
                for (r, row) in at[..maps].chunks_exact_mut(dims.d_v).enumerate() {
                    row.iter_mut().for_each(|v| *v *= factors[r % dims.d_e]);
                }
                at
            };
            let mut value = |factors: &[f64]| {
                let at = longer(factors);
                let [_, _, _, _, _, h, _, gamma] = batch.cut(&at);
                let (prepared, z_update) = (batch.prepare(&at), build(gamma[0]));
                let problem = batch.problem(&at, &prepared, &z_update);
                let mut ws = Workspace::new(&problem, mode);
                problem.solve(Start::At(h), &options, &mut ws, &mut ()).unwrap();
                loss.value(&batch, &ws)
            };
            let mut d_factors = vec![0.0; dims.d_e];
            for (r, (row, d)) in
                point[..maps].chunks_exact(dims.d_v).zip(grad[..maps].chunks_exact(dims.d_v)).enumerate()
            {
                d_factors[r % dims.d_e] += dot(row, d);
            }
            if agreement(2.0) == Agreement::Hard {
                // What neighbours must agree on does not depend on the lengths.
                assert!(d_factors.iter().all(|d| d.abs() < 1e-12), "{}: {d_factors:?}", batch.name);
                continue;
            }
            let name = format!("lengths, {}", batch.name);
            assert_gradient(&name, &mut value, &vec![1.0; dims.d_e], &d_factors);
        }
    }
}

/// Along rotations of the stalks the maps stay orthonormal, so there the closed form has the gradient of the solution.
#[test]
fn along_orthonormal_maps_the_closed_form_has_the_gradient_of_the_solution() {
    for batch in [Batch::grid(2, false), Batch::triples(2, false)] {
        let (point, d_v) = (batch.orthonormal_point(4), batch.dims().d_v);
        let (loss, options) = (Loss::new(&batch, true), Options::fixed(4).x_only());
        let (adjoint, mode) = (Adjoint::Unrolled, Mode::Keep { iterations: 4 });
        let of = |build: &Build<'_>| {
            batch.gradient(&point, build, &options, adjoint, mode, &loss.seeds()).unwrap().0
        };
        let closed = of(&|gamma| ZUpdate::Orthonormal(Orthonormal::new(Agreement::Soft { gamma })));
        let solved = of(&|gamma| ZUpdate::Exact(Exact::new(&batch.sheaf, Agreement::Soft { gamma })));
        let maps = batch.lens()[0];
        close("all but the maps", &closed[maps..], &solved[maps..], 1e-9);
        let rotated = |grad: &[f64]| {
            let at = |i: usize, j: usize| {
                (0..maps / d_v).map(|r| point[r * d_v + i] * grad[r * d_v + j]).sum::<f64>()
            };
            let pairs = (0..d_v).flat_map(|i| (0..i).map(move |j| (i, j)));
            pairs.map(|(i, j)| at(i, j) - at(j, i)).collect::<Vec<_>>()
        };
        close("rotations of the maps", &rotated(&closed), &rotated(&solved), 1e-9);
    }
}

#[test]
fn gradients_through_the_last_steps_and_a_short_tape_agree() {
    for batch in Batch::all(2) {
        let (point, loss) = (batch.point(5), Loss::new(&batch, true));
        let gram = |gamma| ZUpdate::Gram(Gram::published(Agreement::Soft { gamma }, 3));
        let (whole, options) = (Mode::Keep { iterations: 9 }, Options::fixed(9).x_only());
        let (last, long, _) =
            batch.gradient(&point, &gram, &options, Adjoint::LastSteps(4), whole, &loss.seeds()).unwrap();
        let (short, mode) = (options.taping(4), Mode::Keep { iterations: 4 });
        let (taped, ws, _) =
            batch.gradient(&point, &gram, &short, Adjoint::Unrolled, mode, &loss.seeds()).unwrap();
        assert_eq!(last, taped, "{}", batch.name);
        assert_eq!((long.x(), long.z(), long.u()), (ws.x(), ws.z(), ws.u()));
        assert_eq!(long.last_x(2).unwrap(), ws.last_x(2).unwrap());
        // No gradient reaches the start.
        let lens = batch.lens();
        let h = lens[..5].iter().sum::<usize>();
        assert!(last[h..h + lens[5]].iter().all(|&d| d == 0.0));
    }
}

#[test]
fn the_implicit_adjoint_agrees_with_the_unrolled_one_at_a_fixed_point() {
    for batch in Batch::all(2) {
        let (point, loss) = (batch.point(6), Loss::new(&batch, true));
        let tight = |gamma| {
            let stop = Stop::Tolerance { absolute: 1e-14, relative: 0.0, max_steps: 60 };
            ZUpdate::Gram(Gram { stop, ..Gram::to_tolerance(Agreement::Soft { gamma }, 1e-14, 60) })
        };
        let (mode, options) = (Mode::Differentiate { iterations: 400 }, Options::fixed(400).x_only());
        let implicit = Adjoint::Implicit { tolerance: 1e-11, max_terms: 2000 };
        let of = |adjoint| batch.gradient(&point, &tight, &options, adjoint, mode, &loss.seeds()).unwrap().0;
        close(batch.name, &of(implicit), &of(Adjoint::Unrolled), 1e-6);
    }
}
