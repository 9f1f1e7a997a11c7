//! The server over real sockets: who may ask, what is refused, and that it goes on.

#![cfg(feature = "server")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::thread;

use serde_json::{Value, json};
use sheaf_explore::server::{Config, MAX_BODY, Server};
use sheaf_explore::subject;

/// The port of a server that all tests share.
fn port() -> u16 {
    static PORT: OnceLock<u16> = OnceLock::new();
    *PORT.get_or_init(|| {
        let subjects = vec![subject::builtin("maze").unwrap(), subject::builtin("sudoku").unwrap()];
        let server =
            Server::bind(Config { subjects, task: Some("maze".into()), port: 0, solves: 1 }).unwrap();
        let port = server.url().trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
        thread::spawn(move || server.run());
        port
    })
}

/// Status, headers and body of a request with these lines.
fn ask(head: &str, body: &[u8]) -> (u16, String, Vec<u8>) {
    let mut stream = TcpStream::connect(("127.0.0.1", port())).unwrap();
    let head = head.replace("HOST", &format!("127.0.0.1:{}", port()));
    write!(stream, "{head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
    // A server that refuses early may close before it has read everything.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("an answer");
    let head = String::from_utf8(answer[..end].to_vec()).unwrap().to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head, answer[end + 4..].to_vec())
}

const POST: &str = "POST /api/solve HTTP/1.1\r\nHost: HOST\r\nX-Sheaf: 1";

fn solve(body: &Value) -> (u16, Vec<u8>) {
    let (status, _, body) = ask(POST, body.to_string().as_bytes());
    (status, body)
}

#[test]
fn the_page_and_all_its_parts_are_there_with_a_strict_policy() {
    let (status, head, body) = ask("GET / HTTP/1.1\r\nHost: HOST", b"");
    assert_eq!(status, 200);
    assert!(head.contains("default-src 'none'") && head.contains("nosniff"), "{head}");
    let page = String::from_utf8(body).unwrap();
    assert!(!page.contains("http://") && !page.contains("https://"), "the page names no other host");
    for name in ["style.css", "main.js", "icon.svg", "favicon.ico"] {
        assert_eq!(ask(&format!("GET /{name} HTTP/1.1\r\nHost: HOST"), b"").0, 200, "{name}");
    }
    let (status, _, body) = ask("GET /../../etc/passwd HTTP/1.1\r\nHost: HOST", b"");
    assert_eq!(status, 404);
    assert!(serde_json::from_slice::<Value>(&body).unwrap()["error"]["expected"].is_string());
}

#[test]
fn every_module_that_the_page_imports_is_served() {
    let mut names = vec!["main.js".to_string()];
    let mut seen = Vec::new();
    while let Some(name) = names.pop() {
        let (status, head, body) = ask(&format!("GET /{name} HTTP/1.1\r\nHost: HOST"), b"");
        assert!(status == 200 && head.contains("text/javascript"), "{name}: {status}");
        let text = String::from_utf8(body).unwrap();
        for part in text.split("from \"./").skip(1) {
            let next = part.split('"').next().unwrap().to_string();
            if !seen.contains(&next) {
                seen.push(next.clone());
                names.push(next);
            }
        }
    }
    assert!(seen.len() >= 7, "{seen:?}");
}

#[test]
fn foreign_hosts_origins_and_unmarked_posts_are_forbidden() {
    for head in [
        "GET / HTTP/1.1\r\nHost: evil.example",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1",
        "GET /api/models HTTP/1.1\r\nHost: HOST\r\nOrigin: http://evil.example",
        "POST /api/solve HTTP/1.1\r\nHost: HOST",
        "POST /api/solve HTTP/1.1\r\nHost: HOST\r\nX-Sheaf: 1\r\nOrigin: null",
        "DELETE / HTTP/1.1\r\nHost: HOST",
    ] {
        let (status, _, body) = ask(head, b"{}");
        assert_eq!(status, 403, "{head}");
        assert!(serde_json::from_slice::<Value>(&body).unwrap()["error"]["place"].is_string());
    }
}

#[test]
fn a_solve_gives_frames() {
    let (status, body) = solve(&json!({
        "model": "builtin:maze", "compare": true, "agent": 40, "flow": true,
        "script": {"task": "maze", "input": {"seed": 7}, "iterations": 8,
                   "interventions": [{"k": 4, "do": {"noise": {"of": "z", "agents": [1], "deviation": 1, "seed": 1}}}]}
    }));
    assert_eq!(status, 200);
    assert_eq!(&body[..6], b"SHEAF1");
    let len = u64::from_le_bytes(body[8..16].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&body[16..16 + len]).unwrap();
    assert_eq!((header["about"]["agents"].as_u64(), header["about"]["agent"].as_u64()), (Some(81), Some(40)));
    let find = |name: &str| {
        let arrays = header["arrays"].as_array().unwrap();
        arrays.iter().find(|a| a["name"] == name).unwrap_or_else(|| panic!("{name}")).clone()
    };
    for (name, shape) in [
        ("classes", json!([8, 361])),
        ("base_classes", json!([8, 361])),
        ("primal", json!([8, 81])),
        ("edges", json!([8, 272])),
        ("flow", json!([8, 272, 2])),
        ("distances", json!([8, 81])),
        ("x", json!([8, 10])),
        ("agent_maps", json!([8, 5, 10])),
        ("agent_diag", json!([10])),
        ("ends", json!([272, 4])),
    ] {
        assert_eq!(find(name)["shape"], shape, "{name}");
    }
    assert_eq!(header["about"]["comparison"]["first"], 4);
    let last = find("agent_maps");
    let end = last["offset"].as_u64().unwrap() + last["bytes"].as_u64().unwrap();
    assert!(16 + len + end as usize <= body.len());
}

#[test]
fn bad_requests_get_an_error_with_a_place_and_the_server_goes_on() {
    let deep = "[".repeat(100_000);
    let nested = format!("{{\"model\": \"builtin:maze\", \"script\": {deep}");
    for body in ["", "null", "{}", "{\"model\": 1}", nested.as_str(), "\u{0}\u{1}"] {
        let (status, _, answer) = ask(POST, body.as_bytes());
        assert_eq!(status, 400, "{}", &body[..body.len().min(40)]);
        assert!(serde_json::from_slice::<Value>(&answer).unwrap()["error"]["hint"].is_string());
    }
    for (script, place) in [
        (json!({"task": "maze", "iterations": 100_000}), "iterations"),
        (json!({"task": "maze", "input": {"size": 2}}), ""),
        (json!({"task": "maze", "input": {"size": 1_000_001}}), "input.size"),
        (json!({"task": "maze", "interventions": [{"k": 101, "do": {"rho": 1}}]}), "interventions[0].k"),
        (json!({"task": "maze", "interventions": [{"k": 1, "do": {"rho": -1}}]}), "interventions[0].do.rho"),
        (json!({"task": "sudoku"}), "task"),
    ] {
        let (status, body) = solve(&json!({"model": "builtin:maze", "script": script}));
        let error: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(status, 400, "{error}");
        assert!(place.is_empty() || error["error"]["place"] == place, "{error}");
    }
    let (status, body) = solve(&json!({"model": "other", "script": {"task": "maze"}}));
    assert_eq!(status, 400);
    assert!(String::from_utf8(body).unwrap().contains("builtin:maze"));
    let (status, _, _) = ask(POST, &vec![b' '; MAX_BODY + 1]);
    assert_eq!(status, 413);
    let (status, _) = solve(&json!({"model": "builtin:maze", "script": {"task": "maze", "iterations": 1}}));
    assert_eq!(status, 200);
}

#[test]
fn the_same_request_has_the_same_answer() {
    let body = json!({"model": "builtin:sudoku", "script": {"task": "sudoku", "input": {"seed": 5}, "iterations": 4}});
    let strip = |body: Vec<u8>| {
        let len = u64::from_le_bytes(body[8..16].try_into().unwrap()) as usize;
        body[16 + len..].to_vec()
    };
    assert_eq!(strip(solve(&body).1), strip(solve(&body).1));
}
