//! The live page: what the crate `web` shows of this gateway.

use crate::config::WebSettings;
use crate::error::{StartError, while_doing};
use crate::handle::{Extent, Handle};
use crate::late_listener;
use kernel::text_file;
use std::io;
use std::net::TcpListener;
use web::{Access, Detail, MIN_TOKEN, Server, Tls, Token};

/// The page's listener, and whom it will answer.
#[derive(Debug)]
pub(crate) struct Page {
    listener: TcpListener,
    access: Access,
    tls: Option<Tls>,
}

/// Reads the token and the certificate and listens, as `settings` say, where a process before this one may have left (`has_left`).
pub(crate) fn listen(settings: &WebSettings, has_left: bool) -> Result<Page, StartError> {
    let access = match &settings.token_file {
        Some(file) => {
            let doing = || format!("[web] token_file {}", file.display());
            let text = text_file::read(file, text_file::WRITTEN).map_err(while_doing(doing()))?;
            let too_short =
                || io::Error::new(io::ErrorKind::InvalidData, format!("shorter than {MIN_TOKEN} characters"));
            Access::Token(Token::new(&text).ok_or_else(too_short).map_err(while_doing(doing()))?)
        }
        None if settings.allow_unauthenticated => Access::Open,
        None => Access::Local,
    };
    let files = settings.tls.as_ref();
    let tls = files.map(|(certificate, key)| Tls::read(certificate, key)).transpose().map_err(while_doing("[web]"))?;
    let doing = format!("[web] listen {}", settings.listen);
    let listener = late_listener::listen(settings.listen, has_left).map_err(while_doing(doing))?;
    Ok(Page { listener, access, tls })
}

impl Page {
    /// Serves the page of `handle`'s gateway.
    pub(crate) fn serve(self, handle: Handle) -> Result<Server, StartError> {
        let source = move |detail| handle.report(Extent::Sample { has_streams: detail == Detail::Streams });
        Server::start(self.listener, self.access, self.tls, source).map_err(while_doing("starting the page of [web]"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn settings(token_file: Option<PathBuf>) -> WebSettings {
        WebSettings { listen: ([127, 0, 0, 1], 0).into(), token_file, allow_unauthenticated: false, tls: None }
    }

    #[test]
    fn the_page_is_open_to_all_only_where_that_is_asked_for() {
        let access = |settings: &WebSettings| listen(settings, false).unwrap().access;
        assert!(matches!(access(&settings(None)), Access::Local));
        assert!(matches!(access(&WebSettings { allow_unauthenticated: true, ..settings(None) }), Access::Open));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        std::fs::write(&file, "  0123456789abcdef\n").unwrap();
        let contradictory = WebSettings { allow_unauthenticated: true, ..settings(Some(file)) };
        let access = access(&contradictory);
        assert!(matches!(access, Access::Token(_)), "a token is never passed over");
        assert!(!format!("{access:?}").contains("0123"), "nor shown");
    }

    #[test]
    fn a_token_that_cannot_be_read_or_guessed_easily_opens_nothing_and_is_not_shown() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        let refused = || listen(&settings(Some(file.clone())), false).unwrap_err().to_string();
        assert!(refused().starts_with(&format!("[web] token_file {}: ", file.display())), "{}", refused());
        for token in [&b""[..], b"\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n", b"0123456789abcde", b"\xff0123456789abcdef"] {
            std::fs::write(&file, token).unwrap();
            let error = refused();
            assert!(error.starts_with("[web] token_file "), "{error}");
            assert!(!error.contains("0123"), "{error}");
        }
        std::fs::write(&file, "0123456789abcde").unwrap();
        assert!(refused().ends_with("token: shorter than 16 characters"), "{}", refused());
    }

    #[test]
    fn what_keeps_the_page_from_being_served_is_named_by_key_and_file() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = listen(&WebSettings { listen: address, ..settings(None) }, false).unwrap_err().to_string();
        assert!(error.starts_with(&format!("[web] listen {address}: ")), "{error}");
        let directory = tempfile::tempdir().unwrap();
        let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| directory.path().join(name));
        std::fs::write(&certificate, "-----BEGIN CERTIFICATE-----\nnone\n").unwrap();
        let error =
            listen(&WebSettings { tls: Some((certificate, key)), ..settings(None) }, false).unwrap_err().to_string();
        assert!(error.starts_with("[web]") && error.contains(".pem"), "{error}");
    }
}
