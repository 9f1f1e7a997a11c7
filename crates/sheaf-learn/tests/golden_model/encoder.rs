//! Views → the first state h, the objective and, if maps depend on the view, their LoRA factors.

use std::ops::Range;

use sheaf_admm::Real;
use sheaf_learn::nn::activation::{gelu_keeping_slope, gelu_vjp, sigmoid_of, softplus_of};
use sheaf_learn::nn::{LayerNorm, Linear, Residual, RmsNorm};
use sheaf_learn::params::ParamLayout;

use super::head::{Head, Shape};
use super::{Config, Named};

/// Slots of every agent of the grid.
pub const SLOTS: usize = 8;
/// Length of a view: 3 × 3 cells, six tokens.
pub const VIEW: usize = 54;

enum Trunk {
    /// RMSNorm → Linear → GELU.
    Norm(RmsNorm, Linear),
    /// Linear → residual block.
    Block(Linear, Residual),
}

pub struct Encoder {
    trunk: Trunk,
    heads: Vec<Head>,
    /// The norm before the LoRA heads, and the heads.
    low_rank: Option<(LayerNorm, Vec<Head>)>,
    beta: Option<Range<usize>>,
}

/// Outputs, and what the adjoint needs.
pub struct Saved<T> {
    pub outputs: Named<T>,
    features: Vec<T>,
    trunk: Vec<Vec<T>>,
    heads: Vec<(Vec<T>, Vec<T>)>,
    normed: Vec<T>,
    low_rank: Vec<(Vec<T>, Vec<T>)>,
}

impl Encoder {
    pub fn new(config: &Config, layout: &mut ParamLayout) -> Self {
        let (width, d_v, d_e) = (config.count("enc_hidden_dim"), config.count("d_v"), config.count("d_e"));
        let (name, trunk) = match config.text("encoder_arch") {
            "mlp_v2" => {
                let norm = RmsNorm::new(layout, "MLPEncoderV2_0/input_norm", VIEW);
                let dense = Linear::new(layout, "MLPEncoderV2_0/dense", VIEW, width, true);
                ("MLPEncoderV2_0", Trunk::Norm(norm, dense))
            }
            "mlp" => {
                let project = Linear::new(layout, "MLPEncoder_0/input_proj", VIEW, width, true);
                let block = Residual::new(layout, "MLPEncoder_0/block_0", width, width);
                ("MLPEncoder_0", Trunk::Block(project, block))
            }
            other => panic!("unknown encoder {other}"),
        };
        let linear = |layout: &mut ParamLayout, part: &str, output: usize| {
            Linear::new(layout, &format!("{name}/{part}"), width, output, true)
        };
        let comm = linear(layout, "comm_head/comm_dense", d_v);
        let shape = match config.text("comm_norm_type") {
            "layernorm" | "layernorm_zeros" => {
                Shape::LayerNorm(LayerNorm::new(layout, &format!("{name}/comm_head/comm_norm"), d_v))
            }
            "tanh" => Shape::Tanh,
            "identity" => Shape::Plain,
            other => panic!("unknown norm {other}"),
        };
        let mut heads = vec![Head { name: "h", linear: comm, shape }];
        let mode = config.text("objective_mode");
        let mut head = |layout: &mut ParamLayout, name, part: &str, shape| {
            heads.push(Head { name, linear: linear(layout, &format!("objective_heads/{part}"), d_v), shape });
        };
        let mut beta = None;
        if mode == "simple" {
            beta = Some(layout.add(format!("{name}/objective_heads/beta_raw"), &[]));
        } else {
            head(layout, "q_diag", "q_diag_dense", Shape::Softplus(config.number("q_epsilon")));
            head(layout, "q", "q_dense", Shape::Plain);
        }
        if mode == "l1box_diag" {
            head(layout, "l1_weight", "l1_weight_dense", Shape::Softplus(0.0));
            head(layout, "upper", "upper_bound_dense", Shape::Softplus(0.0));
        }
        let low_rank = (config.text("rm_mode") == "context").then(|| {
            let norm = LayerNorm::new(layout, &format!("{name}/lora_pre_ln"), width);
            let (rank, gated) = (config.count("lora_rank"), config.flag("lora_use_gate"));
            let mut head =
                |name, part, output, shape| Head { name, linear: linear(layout, part, output), shape };
            let mut heads = vec![
                head("A", "lora_A_dense", SLOTS * d_e * rank, Shape::Plain),
                head("B", "lora_B_dense", SLOTS * d_v * rank, Shape::Plain),
            ];
            if gated {
                heads.push(head("gate", "lora_gate_dense", SLOTS, Shape::Sigmoid));
            }
            (norm, heads)
        });
        Self { trunk, heads, low_rank, beta }
    }

    pub fn forward<T: Real>(&self, params: &[T], views: &[T]) -> Saved<T> {
        let rows = views.len() / VIEW;
        let (features, trunk) = match &self.trunk {
            Trunk::Norm(norm, dense) => {
                let mut normed = vec![T::ZERO; views.len()];
                norm.forward(params, views, &mut normed);
                let mut slope = vec![T::ZERO; rows * dense.output()];
                dense.forward(params, &normed, &mut slope);
                let mut features = slope.clone();
                gelu_keeping_slope(&mut slope, &mut features);
                (features, vec![normed, slope])
            }
            Trunk::Block(project, block) => {
                let mut projected = vec![T::ZERO; rows * project.output()];
                project.forward(params, views, &mut projected);
                let mut saved = vec![T::ZERO; block.saved_len(rows)];
                let mut features = projected.clone();
                block.forward(params, &projected, &mut features, &mut saved);
                (features, vec![projected, saved])
            }
        };
        let heads: Vec<_> = self.heads.iter().map(|head| head.forward(params, &features)).collect();
        let mut outputs = Named::new();
        for (head, run) in self.heads.iter().zip(&heads) {
            outputs.insert(head.name.into(), run.1.clone());
        }
        if let Some(range) = &self.beta {
            outputs.insert("beta".into(), vec![softplus_of(params[range.start])]);
        }
        let (mut normed, mut low_rank) = (vec![T::ZERO; features.len()], Vec::new());
        if let Some((norm, heads)) = &self.low_rank {
            norm.forward(params, &features, &mut normed);
            for head in heads {
                low_rank.push(head.forward(params, &normed));
                outputs.insert(head.name.into(), low_rank[low_rank.len() - 1].1.clone());
            }
        }
        Saved { outputs, features, trunk, heads, normed, low_rank }
    }

    pub fn vjp<T: Real>(
        &self,
        params: &[T],
        views: &[T],
        saved: &Saved<T>,
        d_outputs: &Named<T>,
        d_params: &mut [T],
    ) {
        let mut d_f = vec![T::ZERO; saved.features.len()];
        for (head, run) in self.heads.iter().zip(&saved.heads) {
            head.vjp(params, &saved.features, run, &d_outputs[head.name], &mut d_f, d_params);
        }
        if let Some(range) = &self.beta {
            d_params[range.start] += sigmoid_of(params[range.start]) * d_outputs["beta"][0];
        }
        if let Some((norm, heads)) = &self.low_rank {
            let mut d_normed = vec![T::ZERO; saved.normed.len()];
            for (head, run) in heads.iter().zip(&saved.low_rank) {
                head.vjp(params, &saved.normed, run, &d_outputs[head.name], &mut d_normed, d_params);
            }
            norm.vjp(params, &saved.features, &d_normed, Some(&mut d_f), d_params);
        }
        match &self.trunk {
            Trunk::Norm(norm, dense) => {
                let (normed, slope) = (&saved.trunk[0], &saved.trunk[1]);
                let (mut d_pre, mut d_normed) = (vec![T::ZERO; slope.len()], vec![T::ZERO; normed.len()]);
                gelu_vjp(slope, &d_f, &mut d_pre);
                dense.vjp(params, normed, &d_pre, Some(&mut d_normed), d_params);
                norm.vjp(params, views, &d_normed, None, d_params);
            }
            Trunk::Block(project, block) => {
                let (projected, kept) = (&saved.trunk[0], &saved.trunk[1]);
                let rows = views.len() / VIEW;
                let mut scratch = vec![T::ZERO; block.scratch_len(rows)];
                let mut d_projected = vec![T::ZERO; projected.len()];
                block.vjp(params, projected, kept, &d_f, Some(&mut d_projected), d_params, &mut scratch);
                project.vjp(params, views, &d_projected, None, d_params);
            }
        }
    }
}
