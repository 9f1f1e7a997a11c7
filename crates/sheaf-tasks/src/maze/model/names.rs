//! The authors' parameter names, for weights trained with their code.

use super::{DIRECTIONS, MazeModel};

/// (our name, the authors' name) of every module; tensors below a module have the same names in both.
const MODULES: [(&str, &str); 13] = [
    ("encoder/input_norm", "MLPEncoderV2_0/input_norm"),
    ("encoder/dense", "MLPEncoderV2_0/dense"),
    ("encoder/h", "MLPEncoderV2_0/comm_head/comm_dense"),
    ("encoder/h_norm", "MLPEncoderV2_0/comm_head/comm_norm"),
    ("encoder/diag", "MLPEncoderV2_0/objective_heads/q_diag_dense"),
    ("encoder/q", "MLPEncoderV2_0/objective_heads/q_dense"),
    ("encoder/l1", "MLPEncoderV2_0/objective_heads/l1_weight_dense"),
    ("encoder/upper", "MLPEncoderV2_0/objective_heads/upper_bound_dense"),
    ("encoder/low_rank_norm", "MLPEncoderV2_0/lora_pre_ln"),
    ("encoder/low_rank_a", "MLPEncoderV2_0/lora_A_dense"),
    ("encoder/low_rank_b", "MLPEncoderV2_0/lora_B_dense"),
    ("decoder/input_norm", "ConcatMLPDecoderV2_0/input_norm"),
    ("decoder/dense", "ConcatMLPDecoderV2_0/dense"),
];

impl MazeModel {
    /// What the authors call our parameter `name`; `None` for a name this model does not have.
    pub fn authors_name(&self, name: &str) -> Option<String> {
        self.layout.find(name)?;
        if name == "rho" {
            return Some("rho_raw".into());
        }
        if let Some(direction) = name.strip_prefix("maps/").filter(|d| DIRECTIONS.contains(d)) {
            return Some(format!("rm/R_{direction}"));
        }
        let (module, tensor) = name.rsplit_once('/')?;
        if module == "decoder/out" {
            return Some(format!("ConcatMLPDecoderV2_0/output_dense/{tensor}"));
        }
        let (_, theirs) = MODULES.iter().find(|(ours, _)| *ours == module)?;
        Some(format!("{theirs}/{tensor}"))
    }
}
