//! What messages cost here: the time of a sum over all ranks and of an exchange with a neighbour, by size.
//!
//! `mpirun -n 2 cargo run --release -p sheaf-mpi --features mpi --example latency`

use std::time::Instant;

use sheaf_admm::Result;
use sheaf_admm::share::Message;
use sheaf_mpi::World;

const ROUNDS: usize = 2000;

/// Microseconds of a round, the median of five runs.
fn median(mut round: impl FnMut()) -> f64 {
    let mut runs: Vec<f64> = (0..5)
        .map(|_| {
            let began = Instant::now();
            (0..ROUNDS).for_each(|_| round());
            began.elapsed().as_secs_f64() * 1e6 / ROUNDS as f64
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    runs[2]
}

fn main() -> Result<()> {
    let Some(world) = World::start()? else {
        eprintln!("one process sends no messages; start this with mpirun -n 2");
        return Ok(());
    };
    let comm = world.comm();
    let (rank, ranks) = (comm.rank(), comm.ranks());
    for numbers in [1, 64, 4096] {
        let (own, mut all) = (vec![0; 8 * numbers], vec![0; 8 * numbers * ranks]);
        let time = median(|| comm.gather(&own, &vec![own.len(); ranks], &mut all));
        if rank == 0 {
            println!("sum over {ranks} ranks, {numbers:>5} chunks each: {time:8.2} us");
        }
    }
    // Ranks in pairs; one that is left over takes part in the sums only.
    let partner = rank ^ 1;
    for bytes in [64, 1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20] {
        if partner >= ranks {
            continue;
        }
        let sends = [Message { rank: partner, bytes: vec![0; bytes] }];
        let mut receives = sends.clone();
        let time = median(|| comm.swap(&sends, &mut receives, &mut || {}));
        if rank == 0 {
            println!(
                "exchange of {bytes:>8} bytes each way:   {time:8.2} us, {:8.0} MB/s",
                bytes as f64 / time
            );
        }
    }
    Ok(())
}
