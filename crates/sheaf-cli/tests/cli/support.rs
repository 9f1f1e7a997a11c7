//! Runs the tool and reads its output.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

/// The tool, without environment variables that would change its output.
pub fn sheaf(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sheaf"));
    command.current_dir(folder).args(arguments.split_whitespace());
    for variable in ["COLUMNS", "NO_COLOR", "COLORTERM", "TERM", "LC_ALL", "LC_CTYPE", "LANG"] {
        command.env_remove(variable);
    }
    command
}

/// Standard output of a command that must succeed.
pub fn ok(folder: &Path, arguments: &str) -> String {
    let output = sheaf(folder, arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "sheaf {arguments}\n{error}");
    assert!(!error.contains("━"), "no bar where there is no terminal: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Results of a command as JSON.
pub fn json(folder: &Path, arguments: &str) -> Value {
    serde_json::from_str(&ok(folder, &format!("{arguments} --json"))).unwrap()
}

/// Exit code and standard error of a command that must fail, with the folder name removed.
pub fn fails(folder: &Path, arguments: &str) -> String {
    let output = sheaf(folder, arguments).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "sheaf {arguments}");
    assert!(!error.contains("panicked"), "{error}");
    assert!(output.stdout.is_empty(), "results of a command that failed: sheaf {arguments}");
    let code = output.status.code().map_or("none".into(), |c| c.to_string());
    format!("exit {code}\n{}", without_checksums(&error.replace(&folder.display().to_string(), "DIR")))
}

/// Checksums depend on the last bit of trained parameters, and so on the machine.
fn without_checksums(text: &str) -> String {
    let mut parts = text.split("crc32c-file:");
    let first = parts.next().unwrap_or("").to_string();
    parts.fold(first, |out, part| out + "crc32c-file:…" + &part[8..])
}

/// A file in the folder.
pub fn file(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// A quick experiment: 9 agents with small states.
pub const TINY: &str = r#"task = "maze"
[data]
size = 7
min_path = 4
count = 64
test_count = 8
[model]
d_v = 4
d_e = 2
hidden = 8
rank = 2
[iterations]
train_min = 2
train_max = 4
eval = 5
[train]
steps = 20
batch = 16
warmup = 2
loss_window = 2
eval_every = 10
checkpoint_every = 10
log_every = 5
[eval]
larger = 0
"#;
