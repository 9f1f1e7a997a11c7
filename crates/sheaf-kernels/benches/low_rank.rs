//! Products with the packed low-rank maps of the published MNIST model, f32 against bf16: 81 agents, of which some share a
//! view.
//!
//! `cargo bench -p sheaf-kernels --bench low_rank`. The argument is the number of distinct views; a picture has about 27.

use divan::Bencher;
use sheaf_kernels::Precision;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::low_rank::{Grouped, LowRankBf16, LowRankShape, exchange_lift, project};

fn main() {
    divan::main();
}

const AGENTS: usize = 81;

struct Case {
    shape: LowRankShape,
    index: Vec<u32>,
    masks: Vec<u32>,
    order: Vec<u32>,
    partners: Vec<u32>,
    base: AlignedVec<f32>,
    views: AlignedVec<f32>,
    z: AlignedVec<f32>,
    y: AlignedVec<f32>,
    s: AlignedVec<f32>,
}

fn numbers(len: usize) -> AlignedVec<f32> {
    let mut numbers = AlignedVec::zeros(len);
    numbers.iter_mut().enumerate().for_each(|(i, n)| *n = (i * 37 % 101) as f32 / 101.0 - 0.5);
    numbers
}

impl Case {
    fn new(precision: Precision, views: usize) -> Self {
        let full = LowRankShape { d_v: 32, d_e: 24, slots: 8, rank: 8, ld: 192, precision: Precision::Full };
        let shape = full.in_precision::<f32>(precision);
        // The last view is that of all agents without one of their own.
        let index: Vec<u32> = (0..AGENTS as u32).map(|i| i.min(views as u32 - 1)).collect();
        let (mut base, mut packed) = (numbers(shape.base_len()), numbers(views * shape.view_len()));
        if shape.is_bf16() {
            let (a, b) = (numbers(64 * 24), numbers(64 * 32));
            f32::pack_base_bf16(&numbers(24 * 32), &mut base);
            packed.chunks_exact_mut(shape.view_len()).for_each(|view| f32::pack_view_bf16(&a, &b, 0.1, view));
        }
        let partners = (0..AGENTS * 8).map(|k| ((k / 8 + 1) % AGENTS * 192 + k % 8 * 24) as u32).collect();
        let (masks, order) = (vec![0xff; AGENTS], (0..AGENTS as u32).collect());
        let (z, y, s) = (numbers(AGENTS * 32), numbers(AGENTS * 192), numbers(AGENTS * 192));
        Self { shape, index, masks, order, partners, base, views: packed, z, y, s }
    }

    fn project(&mut self) {
        let agents = Grouped { index: &self.index, masks: &self.masks, order: &self.order };
        project(self.shape, agents, &self.base, &self.views, &self.z, &mut self.y);
    }

    fn lift(&mut self) {
        let agents = Grouped { index: &self.index, masks: &self.masks, order: &self.order };
        let Self { shape, partners, base, views, y, s, z, .. } = self;
        exchange_lift(*shape, agents, partners, base, views, y, s, z);
    }
}

#[divan::bench(args = [1, 27, 81])]
fn project_f32(bencher: Bencher, views: usize) {
    let mut case = Case::new(Precision::Full, views);
    bencher.bench_local(|| case.project());
}

#[divan::bench(args = [1, 27, 81])]
fn project_bf16(bencher: Bencher, views: usize) {
    let mut case = Case::new(Precision::Bf16, views);
    bencher.bench_local(|| case.project());
}

#[divan::bench(args = [1, 27, 81])]
fn exchange_lift_f32(bencher: Bencher, views: usize) {
    let mut case = Case::new(Precision::Full, views);
    bencher.bench_local(|| case.lift());
}

#[divan::bench(args = [1, 27, 81])]
fn exchange_lift_bf16(bencher: Bencher, views: usize) {
    let mut case = Case::new(Precision::Bf16, views);
    bencher.bench_local(|| case.lift());
}
