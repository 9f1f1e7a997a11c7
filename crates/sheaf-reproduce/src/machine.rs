//! Which code ran, and on what.

use std::path::Path;
use std::process::Command;
use std::time::UNIX_EPOCH;

/// The commit of the program: `SHEAF_COMMIT`, or the newest commit of the repository it was built in that is not newer
/// than the program itself.
pub fn commit() -> String {
    if let Ok(commit) = std::env::var("SHEAF_COMMIT") {
        return commit;
    }
    let unknown = || format!("unknown (version {})", env!("CARGO_PKG_VERSION"));
    let Ok(program) = std::env::current_exe() else { return unknown() };
    let built = program.metadata().and_then(|data| data.modified()).ok();
    let seconds = built.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map(|d| d.as_secs());
    let (Some(folder), Some(seconds)) = (program.parent().map(Path::to_path_buf), seconds) else {
        return unknown();
    };
    let until = format!("--until=@{seconds}");
    let output =
        Command::new("git").arg("-C").arg(folder).args(["log", "-1", "--format=%h", &until]).output();
    match output {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            String::from_utf8_lossy(&output.stdout).trim().to_string()
        }
        _ => unknown(),
    }
}

/// The processor, as far as the system tells.
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let name = name.map_or("unknown processor", |(_, name)| name.trim());
    format!("{cores} cores, {name}")
}
