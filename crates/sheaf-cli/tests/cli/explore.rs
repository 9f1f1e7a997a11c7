//! `sheaf intervene` and `sheaf explore`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use super::support::{fails, file, json, ok};

const KICK: &str = r#"{
  "task": "maze", "about": "a kick", "input": {"seed": 7, "size": 19}, "iterations": 30,
  "interventions": [{"k": 10, "do": {"noise": {"of": "z", "agents": [40], "deviation": 3, "seed": 1}}}]
}"#;

#[test]
fn a_script_is_run_with_and_without_its_interventions() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "kick.json", KICK);
    let result = json(folder.path(), "intervene kick.json --weights builtin:maze");
    let distance: Vec<f64> =
        result["distance"].as_array().unwrap().iter().map(|d| d.as_f64().unwrap()).collect();
    assert_eq!(distance.len(), 30);
    assert!(distance[..9].iter().all(|&d| d == 0.0) && distance[9] > 0.0, "{distance:?}");
    assert_eq!((result["iterations"].as_u64(), result["weights"].as_str()), (Some(30), Some("builtin:maze")));
    assert_eq!(result["before"]["cells"].as_array().unwrap().len(), 361);
    for (name, begin) in [("a.svg", &b"<svg"[..]), ("a.gif", b"GIF89a"), ("a.npz", b"PK")] {
        let text = ok(folder.path(), &format!("intervene kick.json --out {name}"));
        assert!(text.contains("recovery") && text.contains(name), "{text}");
        assert!(std::fs::read(folder.path().join(name)).unwrap().starts_with(begin), "{name}");
    }
}

#[test]
fn mistakes_in_scripts_name_their_place() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "late.json", KICK.replace("\"k\": 10", "\"k\": 31"));
    file(folder.path(), "odd.json", KICK.replace("deviation", "devaition"));
    file(folder.path(), "kick.json", KICK);
    let late = fails(folder.path(), "intervene late.json");
    assert!(late.starts_with("exit 1") && late.contains("interventions[0].k"), "{late}");
    assert!(fails(folder.path(), "intervene odd.json").contains("devaition"));
    assert!(fails(folder.path(), "intervene none.json").starts_with("exit 1"));
    assert!(fails(folder.path(), "intervene kick.json --out a.bmp").starts_with("exit 2"));
    let other = fails(folder.path(), "intervene kick.json --weights builtin:sudoku");
    assert!(other.contains("the task of builtin:sudoku"), "{other}");
}

#[test]
#[cfg(feature = "explore")]
fn the_first_line_is_the_address_of_a_page() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_sheaf"))
        .args(["explore", "maze", "--no-open", "--port", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let host = line.trim().trim_start_matches("http://").trim_end_matches('/').to_string();
    let mut answer = String::new();
    let asked = TcpStream::connect(&host).and_then(|mut stream| {
        write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
        stream.read_to_string(&mut answer)
    });
    server.kill().unwrap();
    server.wait().unwrap();
    asked.unwrap();
    assert!(line.starts_with("http://127.0.0.1:"), "{line}");
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("<title>sheaf explore</title>"),
        "{answer}"
    );
}
