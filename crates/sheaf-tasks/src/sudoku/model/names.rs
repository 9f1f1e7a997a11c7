//! The authors' parameter names, for weights trained with their code.

use super::SudokuModel;

/// (our name, the authors' name) of every module; tensors below a module have the same names in both.
const MODULES: [(&str, &str); 13] = [
    ("encoder/token", "SudokuEncoder_0/token_embed"),
    ("encoder/board_position", "SudokuEncoder_0/global_pos_embed"),
    ("encoder/norm", "SudokuEncoder_0/pre_flat_norm"),
    ("encoder/cell", "SudokuEncoder_0/cell_proj"),
    ("encoder/cell_norm", "SudokuEncoder_0/cell_norm"),
    ("encoder/h", "SudokuEncoder_0/comm_head/comm_dense"),
    ("encoder/h_norm", "SudokuEncoder_0/comm_head/comm_norm"),
    ("encoder/diag", "SudokuEncoder_0/objective_heads/q_diag_dense"),
    ("encoder/q", "SudokuEncoder_0/objective_heads/q_dense"),
    ("encoder/low_rank_norm", "SudokuEncoder_0/lora_pre_norm"),
    ("encoder/low_rank_a", "SudokuEncoder_0/lora_A_dense"),
    ("encoder/low_rank_b", "SudokuEncoder_0/lora_B_dense"),
    ("decoder/out", "SudokuDecoder_0/output_dense"),
];

impl SudokuModel {
    /// What the authors call our parameter `name`; `None` for a name this model does not have, or they do not.
    pub fn authors_name(&self, name: &str) -> Option<String> {
        self.layout.find(name)?;
        match name {
            "rho" => return Some("rho_raw".into()),
            "maps" => return Some("rm/R_indices".into()),
            "encoder/slot_position" => return Some("SudokuEncoder_0/pos_embed".into()),
            _ => {}
        }
        if let Some(rest) = name.strip_prefix("encoder/mixer_") {
            return Some(format!("SudokuEncoder_0/mixer_block_{rest}"));
        }
        if let Some(rest) = name.strip_prefix("decoder/block/") {
            return Some(format!("SudokuDecoder_0/block_0/{rest}"));
        }
        let (module, tensor) = name.rsplit_once('/')?;
        let (_, theirs) = MODULES.iter().find(|(ours, _)| *ours == module)?;
        Some(format!("{theirs}/{tensor}"))
    }
}
