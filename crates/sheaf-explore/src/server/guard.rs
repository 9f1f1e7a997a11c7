//! Who may ask: requests to this host, from this page, and the headers of every answer.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use sheaf_admm::{Error, ErrorKind};

use super::{Shared, error_response, only};

/// The header that a POST must carry. A page of another origin cannot send it without being asked first.
pub const MARK: (&str, &str) = ("x-sheaf", "1");

/// Everything comes from this server; pictures may also be made by the page itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Refuses foreign hosts and origins, and adds the headers that keep the page to itself.
pub(super) async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let mut response = match check(request.method(), request.headers(), shared.port) {
        Ok(()) => next.run(request).await,
        Err(error) => error_response(StatusCode::FORBIDDEN, &error),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

fn check(method: &Method, headers: &HeaderMap, port: u16) -> Result<(), Error> {
    let refused = |place: &str, expected: String, got: &str| {
        Err(Error::new(ErrorKind::Unsupported, place, expected, format!("`{got}`")))
    };
    let host = only(headers, "host").unwrap_or_default();
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    if !hosts.iter().any(|known| known.eq_ignore_ascii_case(host)) {
        return refused("Host", hosts.join(" or "), host);
    }
    if headers.contains_key(header::ORIGIN) {
        let origin = only(headers, "origin").unwrap_or_default();
        if origin != format!("http://{host}") {
            return refused("Origin", format!("http://{host}"), origin);
        }
    }
    if method != Method::GET && method != Method::HEAD && only(headers, MARK.0) != Some(MARK.1) {
        let got = only(headers, MARK.0).unwrap_or_default();
        return refused("X-Sheaf", format!("the header `X-Sheaf: {}`", MARK.1), got);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        pairs.iter().for_each(|(name, value)| {
            map.append(*name, HeaderValue::from_static(value));
        });
        map
    }

    #[test]
    fn only_this_host_this_origin_and_marked_posts_pass() {
        let fine = |method, pairs: &[_]| check(method, &headers(pairs), 80).is_ok();
        let (host, own) = (("host", "127.0.0.1:80"), ("origin", "http://127.0.0.1:80"));
        assert!(fine(&Method::GET, &[host]) && fine(&Method::GET, &[("host", "localhost:80")]));
        assert!(fine(&Method::POST, &[host, own, ("x-sheaf", "1")]));
        assert!(fine(&Method::POST, &[host, ("x-sheaf", "1")]));
        for (method, pairs) in [
            (&Method::GET, &[][..]),
            (&Method::GET, &[("host", "127.0.0.1")]),
            (&Method::GET, &[("host", "127.0.0.1:81")]),
            (&Method::GET, &[("host", "evil.example:80")]),
            (&Method::GET, &[host, host]),
            (&Method::GET, &[host, ("origin", "http://evil.example")]),
            (&Method::GET, &[host, ("origin", "null")]),
            (&Method::GET, &[host, ("origin", "http://localhost:80")]),
            (&Method::POST, &[host, own]),
            (&Method::POST, &[host, own, ("x-sheaf", "2")]),
            (&Method::DELETE, &[host]),
        ] {
            assert!(!fine(method, pairs), "{method} {pairs:?}");
        }
    }
}
