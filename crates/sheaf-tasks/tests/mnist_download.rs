//! Downloads from a small local server: checked, resumed, with fallback to the next mirror.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sheaf_admm::ErrorKind;
use sheaf_tasks::mnist::download::{FILES, Fetched, RemoteFile, fetch, from_dir, parse_mirrors, sha256_of};

/// How a server answers.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Correctly.
    Good,
    /// Ignores ranges: always sends the whole file.
    NoRanges,
    /// Closes the connection after this many bytes of the body.
    CutsAfter(usize),
    /// Sends an HTML page instead.
    Missing,
    /// Sends different bytes of the same length.
    Wrong,
    /// Answers a range request with a different range.
    WrongRange,
}

/// A server that lives as long as the test process and records its requests.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<Option<String>>>>,
}

fn serve(files: HashMap<String, Vec<u8>>, manner: Manner) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/mnist/", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that disconnects does not stop the server.
            let _ = answer(stream, &files, manner, &kept);
        }
    });
    Server { address, asked }
}

fn answer(
    mut stream: TcpStream,
    files: &HashMap<String, Vec<u8>>,
    manner: Manner,
    asked: &Mutex<Vec<Option<String>>>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let name = first.split(' ').nth(1).unwrap_or_default().trim_start_matches("/mnist/").to_string();
    let mut range = None;
    for line in lines {
        let line = line?.to_lowercase();
        if line.is_empty() {
            break;
        }
        range = range.or(line.strip_prefix("range: ").map(str::to_string));
    }
    asked.lock().unwrap().push(range.clone());
    let Some(body) = files.get(&name).filter(|_| manner != Manner::Missing) else {
        return stream
            .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nConnection: close\r\n\r\ngone");
    };
    let mut body = body.clone();
    if manner == Manner::Wrong {
        body.iter_mut().for_each(|b| *b ^= 1);
    }
    let start = match range.filter(|_| manner != Manner::NoRanges) {
        Some(r) => r["bytes=".len()..].trim_end_matches('-').parse::<usize>().unwrap(),
        None => 0,
    };
    let said = if manner == Manner::WrongRange { start.saturating_sub(1) } else { start };
    let status = if start > 0 {
        format!("206 Partial Content\r\nContent-Range: bytes {said}-{}/{}", body.len() - 1, body.len())
    } else {
        "200 OK".to_string()
    };
    let rest = &body[start..];
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", rest.len())?;
    match manner {
        Manner::CutsAfter(n) => stream.write_all(&rest[..n.min(rest.len())]),
        _ => stream.write_all(rest),
    }
}

struct Case {
    dir: PathBuf,
    bytes: Vec<u8>,
    sha: String,
}

impl Case {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("sheaf-download-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let bytes: Vec<u8> = (0..200_000u64).map(|i| (i * i / 7) as u8).collect();
        let original = dir.join("original");
        std::fs::write(&original, &bytes).unwrap();
        let sha = sha256_of(&original).unwrap();
        Self { dir, bytes, sha }
    }

    fn out(&self) -> PathBuf {
        self.dir.join("out")
    }

    fn server(&self, manner: Manner) -> Server {
        serve(HashMap::from([("some-file.gz".to_string(), self.bytes.clone())]), manner)
    }

    fn fetch(&self, mirrors: &[&Server]) -> sheaf_admm::Result<Fetched> {
        let file = RemoteFile { name: "some-file.gz", bytes: self.bytes.len() as u64, sha256: &self.sha };
        let mirrors: Vec<String> = mirrors.iter().map(|s| s.address.clone()).collect();
        let mut last = 0;
        let fetched = fetch(&file, &self.out(), &mirrors, &mut |p| {
            assert!(p.done <= p.total && p.total == 200_000 && p.file == "some-file.gz");
            last = p.done;
        });
        assert!(fetched.is_err() || last == 200_000, "progress ends at the end");
        fetched
    }

    fn arrived(&self) -> bool {
        std::fs::read(self.out().join("some-file.gz")).is_ok_and(|b| b == self.bytes) && !self.part().exists()
    }

    fn part(&self) -> PathBuf {
        self.out().join("some-file.gz.part")
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn a_file_comes_once_and_is_then_present() {
    let case = Case::new("once");
    let server = case.server(Manner::Good);
    assert_eq!(case.fetch(&[&server]).unwrap(), Fetched::Downloaded { resumed: 0 });
    assert!(case.arrived());
    assert_eq!(case.fetch(&[&server]).unwrap(), Fetched::Present);
    assert_eq!(server.asked.lock().unwrap().len(), 1);
}

#[test]
fn a_download_that_was_cut_off_continues_where_it_stopped() {
    let case = Case::new("resume");
    let cut = case.server(Manner::CutsAfter(120_000));
    let error = case.fetch(&[&cut]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(
        error.to_string().contains("of 200000 bytes") && error.to_string().contains("run again to continue")
    );
    let have = std::fs::metadata(case.part()).unwrap().len();
    assert!(have > 0 && have <= 120_000);
    let good = case.server(Manner::Good);
    assert_eq!(case.fetch(&[&good]).unwrap(), Fetched::Downloaded { resumed: have });
    assert_eq!(*good.asked.lock().unwrap(), [Some(format!("bytes={have}-"))]);
    assert!(case.arrived());
}

#[test]
fn a_mirror_without_ranges_starts_again_and_one_with_wrong_ranges_is_passed_over() {
    let case = Case::new("ranges");
    std::fs::create_dir_all(case.out()).unwrap();
    std::fs::write(case.part(), &case.bytes[..50_000]).unwrap();
    let (wrong, whole) = (case.server(Manner::WrongRange), case.server(Manner::NoRanges));
    assert_eq!(case.fetch(&[&wrong, &whole]).unwrap(), Fetched::Downloaded { resumed: 0 });
    assert!(case.arrived());
}

#[test]
fn mirrors_that_are_down_or_wrong_are_passed_over() {
    let case = Case::new("mirrors");
    // The listener is dropped at the end of the statement: no server answers at its address.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let dead = Server { address: format!("http://{address}"), asked: Arc::default() };
    let (missing, wrong) = (case.server(Manner::Missing), case.server(Manner::Wrong));
    let error = case.fetch(&[&dead, &missing, &wrong]).unwrap_err().to_string();
    assert!(error.contains("answered 404") && error.contains("are not those of some-file.gz"), "{error}");
    assert!(error.contains("SHEAF_MNIST_MIRRORS") && !case.part().exists());
    assert!(case.fetch(&[]).unwrap_err().to_string().contains("no mirror was given"));
    let good = case.server(Manner::Good);
    assert!(case.fetch(&[&missing, &wrong, &good]).is_ok() && case.arrived());
}

#[test]
fn a_part_of_something_else_is_thrown_away() {
    let case = Case::new("foreign");
    std::fs::create_dir_all(case.out()).unwrap();
    for len in [70_000, 200_000, 300_000] {
        let _ = std::fs::remove_file(case.out().join("some-file.gz"));
        std::fs::write(case.part(), vec![7; len]).unwrap();
        assert_eq!(case.fetch(&[&case.server(Manner::Good)]).unwrap(), Fetched::Downloaded { resumed: 0 });
        assert!(case.arrived());
    }
}

#[test]
fn a_file_that_was_damaged_on_the_disk_is_fetched_again() {
    let case = Case::new("damaged");
    let server = case.server(Manner::Good);
    case.fetch(&[&server]).unwrap();
    std::fs::write(case.out().join("some-file.gz"), b"scratched").unwrap();
    assert_eq!(case.fetch(&[&server]).unwrap(), Fetched::Downloaded { resumed: 0 });
    assert!(case.arrived());
}

#[test]
fn mirrors_are_separated_by_commas_or_spaces() {
    assert_eq!(parse_mirrors(" http://a/x, http://b\n,http://c "), ["http://a/x", "http://b", "http://c"]);
    assert!(FILES.iter().all(|f| f.sha256.len() == 64 && f.name.ends_with("-ubyte.gz")));
}

fn idx(shape: &[u32], bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, shape.len() as u8];
    shape.iter().for_each(|n| file.extend(n.to_be_bytes()));
    file.extend(bytes);
    file
}

fn write_set(dir: &Path, labels: &[u8]) {
    std::fs::create_dir_all(dir).unwrap();
    for split in ["train", "t10k"] {
        std::fs::write(dir.join(format!("{split}-images-idx3-ubyte")), idx(&[2, 2, 2], &[3; 8])).unwrap();
        let labels = idx(&[labels.len() as u32], labels);
        std::fs::write(dir.join(format!("{split}-labels-idx1-ubyte")), labels).unwrap();
    }
}

#[test]
fn another_set_is_taken_from_a_folder_and_a_broken_one_is_not() {
    let case = Case::new("from");
    let from = case.dir.join("from");
    write_set(&from, &[0, 1]);
    assert!(!from_dir(&from, &case.out()).unwrap(), "this is not MNIST");
    assert_eq!(std::fs::read_dir(case.out()).unwrap().count(), 4);
    assert!(!from_dir(&from, &from).unwrap(), "in place");
    write_set(&from, &[0, 1, 2]);
    let other = case.dir.join("other");
    assert!(from_dir(&from, &other).unwrap_err().to_string().contains("a label for each"));
    assert!(!other.exists());
}
