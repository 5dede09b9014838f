//! Link updates as JSON, for modems that do not speak DLEP: `{"rate": "4Mbit/s", "receive_rate": "8Mbit/s", "rtt": "550ms"}`.
//!
//! A Unix socket takes one update a line and answers each with a line; HTTP takes one as the body of `PUT /link`, and shows
//! the link state at `GET /link`. (PUT, since a web page may have a browser send a POST anywhere unasked. A browser's PUT names its page's origin, and is refused.) The line `null` withdraws
//! the update before.

use super::board::Board;
use super::{LinkUpdate, Source};
use axum::Router;
use axum::body::Bytes as Body;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use kernel::clock;
use serde::Serialize;
use serde_json::{Map, Value};
use status::Link;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::str::FromStr;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use units::Duration;

/// The most bytes of an update.
const MAX_BYTES: usize = 4096;
/// Connections to the Unix socket at a time; others wait.
const CONNECTIONS: usize = 16;
/// How long to leave a listener alone that cannot accept, for want of descriptors.
const RESPITE: std::time::Duration = std::time::Duration::from_millis(100);
/// What is valid for less is over before it is used: changes come at most each 20 ms.
const LEAST_VALIDITY: Duration = Duration::from_millis(100);
const EXAMPLE: &str = r#"{"rate": "4Mbit/s", "receive_rate": "8Mbit/s", "rtt": "550ms", "valid_for": "30s"}"#;

/// Takes updates and passes them on.
#[derive(Debug, Clone)]
pub(super) struct Api {
    pub(super) board: Board,
    /// The longest validity of an update.
    pub(super) max_validity: Duration,
}

/// The answer to an update.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Answer {
    Accepted { link: Link },
    Rejected { error: String },
}

impl Answer {
    fn line(&self) -> Vec<u8> {
        // Numbers and text: always representable.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

impl Api {
    /// Serves the Unix socket.
    pub(super) async fn serve_socket(&self, listener: UnixListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(listener)?;
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
            match listener.accept().await {
                Ok((stream, _)) => {
                    let api = self.clone();
                    tokio::spawn(async move {
                        if let Err(error) = api.converse(stream).await {
                            tracing::debug!(%error, "[updates] socket");
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "[updates] socket");
                    tokio::time::sleep(RESPITE).await;
                }
            }
        }
    }

    /// One update a line until the reporter disconnects, or sends nothing for longer than an update is valid.
    async fn converse(&self, stream: UnixStream) -> io::Result<()> {
        let (read, mut write) = stream.into_split();
        let mut read = BufReader::new(read);
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut next = (&mut read).take(MAX_BYTES as u64 + 1);
            let patience = (self.max_validity * 2).into();
            let Ok(length) = tokio::time::timeout(patience, next.read_until(b'\n', &mut line)).await else {
                return Ok(());
            };
            if length? == 0 {
                return Ok(());
            }
            let too_long = line.len() > MAX_BYTES;
            let answer = if too_long {
                rejected(format!("the line is longer than {MAX_BYTES} bytes"))
            } else {
                self.take(&line).1
            };
            tokio::time::timeout(RESPITE * 50, write.write_all(&answer.line())).await??;
            if too_long {
                return Ok(());
            }
        }
    }

    /// Serves HTTP.
    pub(super) async fn serve_http(&self, listener: TcpListener) -> io::Result<()> {
        let (put, show) = (self.clone(), self.clone());
        let routes = get(move || async move { respond(StatusCode::OK, &show.accepted()) })
            .put(move |headers: HeaderMap, body: Body| async move {
                // A page under a name that resolves to this host needs no preflight, but its browser says where it is from.
                if headers.contains_key(header::ORIGIN) {
                    let refused = rejected("requests of web pages (with the header Origin) are refused".to_owned());
                    return respond(StatusCode::FORBIDDEN, &refused);
                }
                let (status, answer) = put.take(&body);
                respond(status, &answer)
            })
            .layer(DefaultBodyLimit::max(MAX_BYTES));
        web::http::serve(listener, None, Router::new().route("/link", routes)).await
    }

    /// Takes one update.
    fn take(&self, line: &[u8]) -> (StatusCode, Answer) {
        match parse(line, self.max_validity) {
            Err(error) => (StatusCode::BAD_REQUEST, rejected(error)),
            Ok(None) => {
                self.board.withdraw(Source::Api);
                (StatusCode::OK, self.accepted())
            }
            Ok(Some(update)) => match self.board.report(Source::Api, update) {
                Err(rejection) => (StatusCode::UNPROCESSABLE_ENTITY, rejected(rejection.to_string())),
                Ok(()) => (StatusCode::OK, self.accepted()),
            },
        }
    }

    fn accepted(&self) -> Answer {
        Answer::Accepted { link: Link::new(&self.board.selected(), clock::now()) }
    }
}

fn rejected(error: String) -> Answer {
    Answer::Rejected { error }
}

fn respond(status: StatusCode, answer: &Answer) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], answer.line()).into_response()
}

/// Parses an update, valid for `max_validity` at most; `None` withdraws the one before.
pub(crate) fn parse(line: &[u8], max_validity: Duration) -> Result<Option<LinkUpdate>, String> {
    let value =
        serde_json::from_slice(line).map_err(|error| format!("{error}: expected an update such as {EXAMPLE}"))?;
    let mut keys = match value {
        Value::Null => return Ok(None),
        Value::Object(keys) => keys,
        _ => return Err(format!("expected an update such as {EXAMPLE}")),
    };
    let update = LinkUpdate {
        rate: quantity(&mut keys, "rate", "a rate such as \"4Mbit/s\"")?,
        receive_rate: quantity(&mut keys, "receive_rate", "a rate such as \"8Mbit/s\"")?,
        rtt: quantity(&mut keys, "rtt", "a duration such as \"550ms\"")?,
        valid_for: quantity::<Duration>(&mut keys, "valid_for", "a duration such as \"30s\"")?
            .or(Some(max_validity))
            .min(Some(max_validity)),
    };
    if let Some(key) = keys.keys().next() {
        return Err(format!("unknown key {key:?}; known are rate, receive_rate, rtt and valid_for"));
    }
    match update.valid_for {
        Some(valid_for) if valid_for < LEAST_VALIDITY => {
            Err(format!("valid_for = {valid_for}: expected at least {LEAST_VALIDITY}; null withdraws an update"))
        }
        _ => Ok(Some(update)),
    }
}

fn quantity<T: FromStr>(keys: &mut Map<String, Value>, key: &str, allowed: &str) -> Result<Option<T>, String> {
    let Some(value) = keys.remove(key) else { return Ok(None) };
    let read = value.as_str().and_then(|text| text.parse().ok());
    read.map(Some).ok_or_else(|| format!("{key} = {value}: expected {allowed}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rate;

    const VALIDITY: Duration = Duration::from_secs(60);

    #[test]
    fn an_update_is_rates_and_a_round_trip_time_with_units() {
        let update = parse(br#"{"rate": "4 Mbit/s", "rtt": "600ms", "valid_for": "5s"}"#, VALIDITY).unwrap().unwrap();
        assert_eq!((update.rate, update.receive_rate), (Some(Rate::from_bps(4_000_000)), None));
        assert_eq!((update.rtt, update.valid_for), (Some(Duration::from_millis(600)), Some(Duration::from_secs(5))));
        for line in ["{\"rate\": \"4Mbit/s\"}\n", r#"{"rate": "4Mbit/s", "valid_for": "2h"}"#] {
            assert_eq!(parse(line.as_bytes(), VALIDITY).unwrap().unwrap().valid_for, Some(VALIDITY));
        }
        assert_eq!(parse(b"null\n", VALIDITY), Ok(None));
    }

    #[test]
    fn errors_say_what_where_and_what_is_allowed() {
        for (line, expected) in [
            ("4Mbit/s", "line 1 column"),
            ("[1]", "expected an update such as {\"rate\""),
            ("{\"rate\": 4}", "rate = 4: expected a rate such as \"4Mbit/s\""),
            ("{\"rate\": \"4\"}", "rate = \"4\": expected a rate"),
            ("{\"rtt\": \"4Mbit/s\"}", "rtt = \"4Mbit/s\": expected a duration"),
            ("{\"rate\": \"4Mbit/s\", \"valid_for\": \"0s\"}", "valid_for = 0s: expected at least 100ms"),
            ("{\"ratee\": \"4Mbit/s\"}", "unknown key \"ratee\"; known are rate, receive_rate, rtt and valid_for"),
        ] {
            let error = parse(line.as_bytes(), VALIDITY).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn no_line_of_an_attacker_is_taken_for_a_capacity() {
        let nested = [b"{\"rate\": ".as_slice(), &b"[".repeat(4000)].concat();
        let lines: [&[u8]; 14] = [
            b"",
            b"\n",
            b"\xff\xfe",
            b"{\"rate\": \"4Mbit/s\"",
            b"{\"rate\": \"4Mbit/s\"} {\"rate\": \"5Mbit/s\"}",
            b"{\"rate\": \"-4Mbit/s\"}",
            b"{\"rate\": \"NaN Mbit/s\"}",
            b"{\"rate\": \"infMbit/s\"}",
            b"{\"rate\": \"1e400Gbit/s\"}",
            b"{\"rate\": null}",
            b"{\"rtt\": \"-1s\"}",
            b"{\"rtt\": \"99999999999999999999h\"}",
            b"{\"rate\": \"4Mbit/s\", \"valid_for\": 30}",
            &nested,
        ];
        for line in lines {
            let outcome = parse(line, VALIDITY);
            let error = outcome.expect_err(&line.escape_ascii().to_string());
            assert!(error.contains("expected"), "{error}");
        }
    }
}
