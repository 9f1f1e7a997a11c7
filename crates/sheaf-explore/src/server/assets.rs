//! The files of the page, embedded in the program.

use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use sheaf_admm::{Error, ErrorKind};

use super::error_response;

/// Name, type and bytes of every file.
macro_rules! files {
    ($($name:literal $kind:literal)*) => {
        &[$(($name, $kind, include_bytes!(concat!("../../assets/", $name)))),*]
    };
}

const FILES: &[(&str, &str, &[u8])] = files! {
    "index.html" "text/html; charset=utf-8"
    "style.css" "text/css; charset=utf-8"
    "icon.svg" "image/svg+xml"
    "main.js" "text/javascript; charset=utf-8"
    "state.js" "text/javascript; charset=utf-8"
    "wire.js" "text/javascript; charset=utf-8"
    "board.js" "text/javascript; charset=utf-8"
    "controls.js" "text/javascript; charset=utf-8"
    "charts.js" "text/javascript; charset=utf-8"
    "agent.js" "text/javascript; charset=utf-8"
    "edit.js" "text/javascript; charset=utf-8"
    "colours.js" "text/javascript; charset=utf-8"
    "export.js" "text/javascript; charset=utf-8"
};

pub(super) async fn file(uri: Uri) -> Response {
    let name = match uri.path() {
        "/" => "index.html",
        // Browsers ask for it whatever the page says.
        "/favicon.ico" => "icon.svg",
        path => path.trim_start_matches('/'),
    };
    match FILES.iter().find(|(own, ..)| *own == name) {
        Some((_, kind, bytes)) => ([(header::CONTENT_TYPE, *kind)], *bytes).into_response(),
        None => {
            let error = Error::new(ErrorKind::OutOfRange, "address", "a file of the page", uri.path());
            error_response(StatusCode::NOT_FOUND, &error)
        }
    }
}
