//! The agents of a large maze over several ranks.

use std::sync::Arc;

use sheaf_admm::share::{Comm, GraphPart};
use sheaf_admm::sheaf::{Connectivity, Sheaf};
use sheaf_admm::{Result, chunks};
use sheaf_learn::model::ViewGrid;
use sheaf_learn::task::Board;

use super::task::{MazeBoard, MazeConfig, PATCH, STRIDE, board};

/// Agents over mazes of this size, shared by several ranks if there are enough of them: each rank makes its own part.
pub fn board_over(
    comm: Option<&Arc<dyn Comm>>,
    config: &MazeConfig,
    height: usize,
    width: usize,
) -> Result<MazeBoard> {
    let layout = ViewGrid::new(height, width, PATCH, STRIDE)?;
    let (rows, columns) = (layout.rows(), layout.columns());
    let Some(comm) = comm.filter(|_| rows * columns > chunks::AGENTS) else {
        return board(config, height, width);
    };
    let part = GraphPart::grid(rows, columns, Connectivity::Eight, comm.rank(), comm.ranks())?;
    let sheaf = Sheaf::uniform_part(&part, config.common.d_v, config.common.d_e, Arc::clone(comm))?;
    Ok(Board { sheaf, layout })
}
