//! Temporary.
use sheaf_admm::admm::*;
use sheaf_admm::linalg::aligned::AlignedVec;
use sheaf_admm::linalg::stack::order_by_view;
use sheaf_admm::sheaf::*;
use sheaf_admm::x_update::*;
use sheaf_admm::z_update::*;
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::generate;
use sheaf_tasks::maze::model::Batch;
use sheaf_tasks::maze::weights::MazeWeights;
fn quickest(rounds: usize, mut run: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let b = std::time::Instant::now();
        run();
        best = best.min(b.elapsed().as_secs_f64());
    }
    best * 1e6
}
fn main() {
    let set = generate(&MazeShape::new(19, 19, 18).unwrap(), 1, 128).unwrap();
    let MazeWeights { model, mut params, .. } = MazeWeights::builtin().unwrap();
    if std::env::args().nth(1).is_some() {
        params = model.init(42);
    }
    let board = model.board(19, 19).unwrap();
    let mut batch = Batch::<f32>::default();
    batch.encode(&model, &params, &board, &set.inputs);
    let (sheaf, agents, views) = (&board.sheaf, 81, batch.views().len());
    let (n, m) = (sheaf.state_len(), sheaf.row_len());
    let index = &batch.views().index()[..agents];
    let (mut counts, mut order) = (vec![0; views + 1], vec![0; agents]);
    order_by_view(index, views, &mut counts, &mut order);
    let (stacks, tiles) = (batch.tables().stacks(sheaf), batch.tables().tiles(sheaf));
    let op = SheafOp::new(sheaf, Maps::Table { stacks, index, order: &order, tiles }).unwrap();
    let t = &batch.tables().views;
    let gather =
        |s: &[f32]| -> Vec<f32> { index.iter().flat_map(|&v| s[v as usize * 10..][..10].to_vec()).collect() };
    let (diag, q, l1, hi, h) = (gather(&t.diag), gather(&t.q), gather(&t.l1), gather(&t.hi), gather(&t.h));
    let z_update = model.z_update::<f32>();
    let objective = Objective::Diagonal(Diagonal {
        l1: Some(Coefficient::PerCoordinate(&l1)),
        lo: Some(Coefficient::Scalar(0.0)),
        hi: Some(Coefficient::PerCoordinate(&hi)),
        ..Diagonal::new(&diag, &q)
    });
    let problem = Problem {
        op,
        objective,
        z_update: &z_update,
        rho: Penalty::Scalar(model.rho(&params).0),
        relax: 1.0,
    };
    for scale in [1e-6f32, 1e-10, 1e-14, 1e-20, 1e-30] {
        println!("scale {scale}");
        for (name, k) in [("keep", 27)] {
            let mode =
                if name == "keep" { Mode::Keep { iterations: k } } else { Mode::Keep { iterations: k } };
            let mut ws = Workspace::new(&problem, mode);
            let solve = quickest(300, || {
                problem.solve(Start::At(&h), &Options::fixed(k), &mut ws, &mut ()).unwrap();
            });
            let d_x: Vec<f32> =
                (0..4.min(k) * n).map(|i| ((i * 7919 % 1000) as f32 - 500.0) * scale).collect();
            let mut d = vec![vec![0f32; n]; 5];
            let mut d_stacks = AlignedVec::<f32>::zeros(stacks.len());
            let reverse = quickest(300, || {
                let [a, b, c, e, f] = &mut d[..] else { unreachable!() };
                let g = DiagonalGrad {
                    diag: Some(a),
                    q: Some(b),
                    l1: Some(c),
                    hi: Some(e),
                    ..DiagonalGrad::default()
                };
                let (mut rho, mut gamma, mut eta) = ([0.0], 0.0, 0.0);
                problem
                    .reverse(
                        Adjoint::Unrolled,
                        &Seeds { d_x: &d_x, d_z: None, d_u: None },
                        &mut Gradients {
                            objective: &mut ObjectiveGrad::Diagonal(g),
                            maps: &mut MapsGrad::Table(&mut d_stacks),
                            rho: &mut rho,
                            gamma: &mut gamma,
                            eta: &mut eta,
                            start: f,
                        },
                        &mut ws,
                    )
                    .unwrap();
            });
            println!(
                "{name} K={k}: solve {:.2} us, reverse {:.2} us per iteration",
                solve / k as f64,
                reverse / k as f64
            );
        }
    }
    let (w, mut z) = (h.clone(), vec![0f32; n]);
    let (mut y, mut s) = (AlignedVec::<f32>::zeros(m), AlignedVec::<f32>::zeros(m));
    println!("laplacian {:.2} us", quickest(500, || op.laplacian(&w, &mut z, &mut y, &mut s).unwrap()));
}
