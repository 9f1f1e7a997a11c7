//! On what a run was made.

/// The processor, as far as the system tells.
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let name = name.map_or("unknown processor", |(_, name)| name.trim());
    format!("{cores} cores, {name}")
}
