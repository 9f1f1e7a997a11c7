//! `sheaf`: train, evaluate, trace and watch agents that negotiate.
use sheaf_admm::train::{Progress, Run, TrainEvent, TrainObserver, train};
use sheaf_tasks::maze::experiment::{MazeExperiment, MazeTask};
use std::sync::atomic::AtomicBool;
struct Log;
impl TrainObserver for Log {
    fn progress(&mut self, p: &Progress) {
        if p.step % 100 == 0 {
            println!("{} loss {:.4} {:.0}/s left {:.0}", p.step, p.loss, p.samples_per_s, p.seconds_left);
        }
    }
    fn event(&mut self, e: &TrainEvent<'_>) {
        println!("{e:?}");
    }
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let e: MazeExperiment = sheaf_tasks::config::strict::read(args[1].as_ref(), &args[4..]).unwrap();
    let config = sheaf_tasks::config::strict::to_toml(&e).unwrap();
    let options = e.train.options().unwrap();
    let seed = e.train.seed;
    let mut task = MazeTask::new(e).unwrap();
    let run = Run {
        dir: args[2].as_ref(),
        task: "maze",
        config: &config,
        seed,
        options: &options,
        resume: args[3] == "resume",
        may_change: sheaf_tasks::config::RESUME_MAY_CHANGE,
    };
    println!("{:?}", train(&mut task, &run, &mut Log, &AtomicBool::new(false)).map_err(|e| println!("{e}")));
}
