//! The dashboard at `/`: three files in the binary, and what they show, at `/live`.
//!
//! The files come from here alone and the browser is told to load nothing else, so the page works offline and a name that
//! pretends to be a script stays text.

use super::respond;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};

const RULES: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// One of the page's files.
pub(super) fn file(path: &str) -> Option<Response<Vec<u8>>> {
    let (content_type, text) = match path {
        "/" => ("text/html; charset=utf-8", include_str!("page/page.html")),
        "/page.css" => ("text/css; charset=utf-8", include_str!("page/page.css")),
        "/page.js" => ("text/javascript; charset=utf-8", include_str!("page/page.js")),
        "/charts.js" => ("text/javascript; charset=utf-8", include_str!("page/charts.js")),
        _ => return None,
    };
    let mut response = respond(StatusCode::OK, content_type, text.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(RULES));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // The next version of the binary has another page.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Some(response)
}
