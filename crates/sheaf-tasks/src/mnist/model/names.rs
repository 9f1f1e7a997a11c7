//! The authors' parameter names, for weights trained with their code.

use super::MnistModel;

/// (our name, the authors' name) of every module; tensors below a module have the same names in both.
const MODULES: [(&str, &str); 12] = [
    ("encoder/input", "MLPEncoder_0/input_proj"),
    ("encoder/block/norm", "MLPEncoder_0/block_0/norm"),
    ("encoder/block/dense1", "MLPEncoder_0/block_0/dense1"),
    ("encoder/block/dense2", "MLPEncoder_0/block_0/dense2"),
    ("encoder/h", "MLPEncoder_0/comm_head/comm_dense"),
    ("encoder/h_norm", "MLPEncoder_0/comm_head/comm_norm"),
    ("encoder/diag", "MLPEncoder_0/objective_heads/q_diag_dense"),
    ("encoder/q", "MLPEncoder_0/objective_heads/q_dense"),
    ("encoder/low_rank_norm", "MLPEncoder_0/lora_pre_ln"),
    ("encoder/low_rank_a", "MLPEncoder_0/lora_A_dense"),
    ("encoder/low_rank_b", "MLPEncoder_0/lora_B_dense"),
    ("decoder/out", "ClassificationDecoder_0/cls_output"),
];

impl MnistModel {
    /// What the authors call our parameter `name`; `None` for a name this model does not have.
    pub fn authors_name(&self, name: &str) -> Option<String> {
        self.layout.find(name)?;
        match name {
            "rho" => return Some("rho_raw".into()),
            "maps/base" => return Some("rm/R_shared".into()),
            _ => {}
        }
        let (module, tensor) = name.rsplit_once('/')?;
        let (_, theirs) = MODULES.iter().find(|(ours, _)| *ours == module)?;
        Some(format!("{theirs}/{tensor}"))
    }
}
