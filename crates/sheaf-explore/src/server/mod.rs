//! `sheaf explore`: a page on this machine, and the server that computes for it.
//!
//! The server keeps no state: a request is a whole experiment, and the same request gives the same answer, so that
//! undo, scrubbing and shared links need nothing from it.
//!
//! | address | gives |
//! | --- | --- |
//! | `GET /` and the files of the page | what the program embeds |
//! | `GET /api/models` | the models that were loaded |
//! | `POST /api/solve` | an experiment, as the message of [`arrays`](crate::arrays) |
//!
//! It listens on the loopback interface. Requests must name that host, come from this page or no page at all, and
//! POSTs must carry `X-Sheaf: 1`, which another site's page cannot send: a site that resolves its own name to this
//! machine is refused. Bodies, sizes, iterations, time and the number of solves at once are limited. No request reaches
//! the file system.

mod assets;
mod guard;
mod solve;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use sheaf_admm::{Error, ErrorKind, Result};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::subject::Subject;

/// Largest body of a request, in bytes.
pub const MAX_BODY: usize = 1 << 20;
/// Longest time of a solve.
pub const MAX_TIME: Duration = Duration::from_secs(20);

/// What the server serves.
pub struct Config {
    /// The models, the first of a task being its default.
    pub subjects: Vec<Box<dyn Subject>>,
    /// The task that the page opens with.
    pub task: Option<String>,
    /// The port; 0 for a free one.
    pub port: u16,
    /// Solves that may run at once; the others wait.
    pub solves: usize,
}

/// What handlers share.
pub(crate) struct Shared {
    subjects: Vec<Box<dyn Subject>>,
    task: Option<String>,
    solves: Semaphore,
    port: u16,
}

/// A server that listens, but does not answer yet.
pub struct Server {
    listener: std::net::TcpListener,
    config: Config,
    address: SocketAddr,
}

impl Server {
    /// Takes the port.
    pub fn bind(config: Config) -> Result<Self> {
        let wanted = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), config.port);
        let refused = |e: std::io::Error| {
            Error::new(ErrorKind::Io, format!("port {}", config.port), "a port that is free", e)
                .hint("--port 0 takes any free port")
        };
        let listener = std::net::TcpListener::bind(wanted).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        Ok(Self { listener, config, address })
    }

    /// Where the page is.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Answers requests until the process ends.
    pub fn run(self) -> Result<()> {
        let failed = |e: std::io::Error| Error::new(ErrorKind::Io, "server", "a running server", e);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(failed)?;
        runtime.block_on(async {
            let listener = TcpListener::from_std(self.listener).map_err(failed)?;
            let app = app(self.config, self.address.port());
            axum::serve(listener, app).await.map_err(failed)
        })
    }
}

fn app(config: Config, port: u16) -> Router {
    let Config { subjects, task, solves, .. } = config;
    let shared = Arc::new(Shared { subjects, task, solves: Semaphore::new(solves.max(1)), port });
    Router::new()
        .route("/api/models", get(models))
        .route("/api/solve", post(solve::solve))
        .fallback(get(assets::file))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(shared.clone(), guard::guard))
        .with_state(shared)
}

async fn models(State(shared): State<Arc<Shared>>) -> Response {
    let models: Vec<Value> = shared.subjects.iter().map(|subject| subject.about()).collect();
    let version = env!("CARGO_PKG_VERSION");
    json_response(StatusCode::OK, &json!({"models": models, "task": shared.task, "version": version}))
}

fn json_response(status: StatusCode, value: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// An error as JSON.
fn error_response(status: StatusCode, error: &Error) -> Response {
    let (expected, got) = (error.expected(), error.got());
    json_response(
        status,
        &json!({"error": {"place": error.place(), "expected": expected, "got": got, "hint": error.hint_text()}}),
    )
}

/// The value of a header, if it is there once and is text.
fn only<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}
