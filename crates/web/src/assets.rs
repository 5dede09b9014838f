//! The files of the page, in the program. uPlot 1.6.32 is MIT-licensed (`assets/uplot.LICENSE`).

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};

/// A file of the page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    kind: &'static str,
    text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! assets {
    ($(($path:literal, $file:literal, $kind:expr)),* $(,)?) => {
        &[$(Asset { path: $path, kind: $kind, text: include_str!(concat!("../assets/", $file)) }),*]
    };
}

/// All files.
pub(crate) const ASSETS: &[Asset] = assets![
    ("/", "index.html", HTML),
    ("/page.css", "page.css", CSS),
    ("/uplot.css", "uplot.css", CSS),
    ("/uplot.js", "uplot.js", SCRIPT),
    ("/uplot.LICENSE", "uplot.LICENSE", TEXT),
    ("/page.js", "page.js", SCRIPT),
    ("/charts.js", "charts.js", SCRIPT),
    ("/plot.js", "plot.js", SCRIPT),
    ("/tables.js", "tables.js", SCRIPT),
    ("/numbers.js", "numbers.js", SCRIPT),
    ("/stream.js", "stream.js", SCRIPT),
];

/// Headers of every answer. The policy allows this server's files and nothing else: no inline script or style, no frame, no form.
pub(crate) const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
];

impl IntoResponse for Asset {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, self.kind)], self.text).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
        ASSETS.iter().map(|asset| (asset.path, asset.text))
    }

    #[test]
    fn the_page_names_no_other_server() {
        for (path, text) in all() {
            // uPlot's first line says where it is from.
            let text = text.strip_prefix("/*! https://github.com/leeoniya/uPlot (v1.6.32) */").unwrap_or(text);
            for scheme in ["http://", "https://", "ws://", "wss://", "src=\"//", "@import"] {
                assert!(!text.contains(scheme), "{path}: {scheme}");
            }
        }
    }

    #[test]
    fn what_a_file_loads_is_served_and_what_is_served_is_loaded() {
        let whole: String = all().map(|(_, text)| text).collect();
        for (path, _) in all().filter(|(path, _)| *path != "/") {
            assert!(whole.contains(&format!(".{path}\"")), "{path} is loaded by a relative reference");
        }
        for loaded in whole.split("from \"./").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(all().any(|(path, _)| path == format!("/{loaded}")), "{loaded}");
        }
    }

    #[test]
    fn the_policy_needs_no_exception() {
        let html = ASSETS[0].text;
        assert!(!html.contains("<style") && !html.contains(" style=") && !html.contains(" onclick="));
        assert!(
            html.split("<script")
                .skip(1)
                .all(|script| script.starts_with(" src=") || script.starts_with(" type=\"module\" src="))
        );
        let [(_, policy), ..] = HEADERS;
        let policy = policy.to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    }
}
