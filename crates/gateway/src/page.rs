//! The live page: what the crate `web` shows of this gateway.

use crate::config::WebSettings;
use crate::error::{StartError, while_doing};
use crate::handle::{Extent, Handle};
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

/// Reads the token and the certificate and listens, as `settings` say.
pub(crate) fn listen(settings: &WebSettings) -> Result<Page, StartError> {
    let access = match &settings.token_file {
        Some(file) => {
            let doing = || format!("[web] token_file {}", file.display());
            let text = std::fs::read_to_string(file).map_err(while_doing(doing()))?;
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
    Ok(Page { listener: TcpListener::bind(settings.listen).map_err(while_doing(doing))?, access, tls })
}

impl Page {
    /// Serves the page of `handle`'s gateway.
    pub(crate) fn serve(self, handle: Handle) -> Result<Server, StartError> {
        let source = move |detail| handle.report(Extent::Sample { has_streams: detail == Detail::Streams });
        Server::start(self.listener, self.access, self.tls, source).map_err(while_doing("starting the page of [web]"))
    }
}
