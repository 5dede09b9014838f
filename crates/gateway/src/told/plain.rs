//! Words as lines of JSON, for modems that speak something else: `{"up": "4Mbit/s", "down": "8Mbit/s", "rtt": "550ms"}`.
//!
//! A Unix socket takes one word a line and answers each with a line; HTTP takes one as the body of `PUT /told`, and shows
//! what counts at `GET /told`. (PUT, since a web page may have a browser send a POST anywhere unasked.) The word `null` takes
//! back what was said before.

use super::board::Board;
use super::{Report, Source, Word};
use axum::Router;
use axum::body::Bytes as Body;
use axum::extract::DefaultBodyLimit;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use kernel::clock;
use serde::Serialize;
use serde_json::{Map, Value};
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::str::FromStr;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use units::Duration;

/// Bytes of a word at most.
const LONGEST: usize = 4096;
/// Connections to the Unix socket at a time; others wait.
const CONNECTIONS: usize = 16;
/// How long to leave a listener alone that cannot accept, for want of descriptors.
const RESPITE: std::time::Duration = std::time::Duration::from_millis(100);
const EXAMPLE: &str = r#"{"up": "4Mbit/s", "down": "8Mbit/s", "rtt": "550ms", "for": "30s"}"#;

/// Takes words and passes them on.
#[derive(Debug, Clone)]
pub(super) struct Plain {
    pub(super) board: Board,
    /// How long a word counts at most.
    pub(super) max_age: Duration,
}

/// What the teller of a word gets back.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Answer {
    Taken { told: Report },
    Refused { error: String },
}

impl Answer {
    fn line(&self) -> Vec<u8> {
        // Numbers and text: always representable.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

impl Plain {
    /// Serves the Unix socket.
    pub(super) async fn serve_socket(&self, listener: UnixListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(listener)?;
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
            match listener.accept().await {
                Ok((stream, _)) => {
                    let plain = self.clone();
                    tokio::spawn(async move {
                        if let Err(error) = plain.converse(stream).await {
                            tracing::debug!(%error, "[feed] socket");
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "[feed] socket");
                    tokio::time::sleep(RESPITE).await;
                }
            }
        }
    }

    /// One word a line until the teller hangs up, or falls silent for longer than a word counts.
    async fn converse(&self, stream: UnixStream) -> io::Result<()> {
        let (read, mut write) = stream.into_split();
        let mut read = BufReader::new(read);
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut next = (&mut read).take(LONGEST as u64 + 1);
            let patience = (self.max_age * 2).into();
            let Ok(length) = tokio::time::timeout(patience, next.read_until(b'\n', &mut line)).await else {
                return Ok(());
            };
            if length? == 0 {
                return Ok(());
            }
            let too_long = line.len() > LONGEST;
            let answer =
                if too_long { refused(format!("the line is longer than {LONGEST} bytes")) } else { self.take(&line).1 };
            tokio::time::timeout(RESPITE * 50, write.write_all(&answer.line())).await??;
            if too_long {
                return Ok(());
            }
        }
    }

    /// Serves HTTP.
    pub(super) async fn serve_http(&self, listener: TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (put, show) = (self.clone(), self.clone());
        let routes = get(move || async move { respond(StatusCode::OK, &show.taken()) })
            .put(move |body: Body| async move {
                let (status, answer) = put.take(&body);
                respond(status, &answer)
            })
            .layer(DefaultBodyLimit::max(LONGEST));
        axum::serve(listener, Router::new().route("/told", routes)).await
    }

    /// Takes one word.
    fn take(&self, line: &[u8]) -> (StatusCode, Answer) {
        match parse(line, self.max_age) {
            Err(error) => (StatusCode::BAD_REQUEST, refused(error)),
            Ok(None) => {
                self.board.withdraw(Source::Feed);
                (StatusCode::OK, self.taken())
            }
            Ok(Some(word)) => match self.board.tell(Source::Feed, word) {
                Err(refusal) => (StatusCode::UNPROCESSABLE_ENTITY, refused(refusal.to_string())),
                Ok(()) => (StatusCode::OK, self.taken()),
            },
        }
    }

    fn taken(&self) -> Answer {
        Answer::Taken { told: Report::new(&self.board.told(), clock::now()) }
    }
}

fn refused(error: String) -> Answer {
    Answer::Refused { error }
}

fn respond(status: StatusCode, answer: &Answer) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], answer.line()).into_response()
}

/// Reads a word that counts for `max_age` at most, or that there is none.
pub(crate) fn parse(line: &[u8], max_age: Duration) -> Result<Option<Word>, String> {
    let value = serde_json::from_slice(line).map_err(|error| format!("{error}: expected a word such as {EXAMPLE}"))?;
    let mut keys = match value {
        Value::Null => return Ok(None),
        Value::Object(keys) => keys,
        _ => return Err(format!("expected a word such as {EXAMPLE}")),
    };
    let word = Word {
        up: quantity(&mut keys, "up", "a rate such as \"4Mbit/s\"")?,
        down: quantity(&mut keys, "down", "a rate such as \"8Mbit/s\"")?,
        rtt: quantity(&mut keys, "rtt", "a duration such as \"550ms\"")?,
        lasts: quantity::<Duration>(&mut keys, "for", "a duration such as \"30s\"")?
            .or(Some(max_age))
            .min(Some(max_age)),
    };
    match keys.keys().next() {
        Some(key) => Err(format!("unknown key {key:?}; known are up, down, rtt and for")),
        None => Ok(Some(word)),
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

    const AGE: Duration = Duration::from_secs(60);

    #[test]
    fn a_word_is_rates_and_a_round_trip_time_with_units() {
        let word = parse(br#"{"up": "4 Mbit/s", "rtt": "600ms", "for": "5s"}"#, AGE).unwrap().unwrap();
        assert_eq!((word.up, word.down), (Some(Rate::from_bps(4_000_000)), None));
        assert_eq!((word.rtt, word.lasts), (Some(Duration::from_millis(600)), Some(Duration::from_secs(5))));
        for line in ["{\"up\": \"4Mbit/s\"}\n", r#"{"up": "4Mbit/s", "for": "2h"}"#] {
            assert_eq!(parse(line.as_bytes(), AGE).unwrap().unwrap().lasts, Some(AGE));
        }
        assert_eq!(parse(b"null\n", AGE), Ok(None));
    }

    #[test]
    fn errors_say_what_where_and_what_is_allowed() {
        for (line, expected) in [
            ("4Mbit/s", "line 1 column"),
            ("[1]", "expected a word such as {\"up\""),
            ("{\"up\": 4}", "up = 4: expected a rate such as \"4Mbit/s\""),
            ("{\"up\": \"4\"}", "up = \"4\": expected a rate"),
            ("{\"rtt\": \"4Mbit/s\"}", "rtt = \"4Mbit/s\": expected a duration"),
            ("{\"upp\": \"4Mbit/s\"}", "unknown key \"upp\"; known are up, down, rtt and for"),
        ] {
            let error = parse(line.as_bytes(), AGE).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
