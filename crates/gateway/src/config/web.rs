//! `[web]`: the live page.

use super::format;
use document::Document;
use std::net::SocketAddr;
use std::path::PathBuf;

/// `[web]`: where the page is served, and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSettings {
    /// Its address.
    pub listen: SocketAddr,
    /// The file of the token that opens it.
    pub token_file: Option<PathBuf>,
    /// Whether it is open to anyone.
    pub allow_unauthenticated: bool,
    /// The files of the certificate and of its key, with which it is served by HTTPS.
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// Reads `[web]`; without `listen`, there is no page.
pub(super) fn read(document: &mut Document<'_>) -> Option<Option<WebSettings>> {
    let written: format::Web = document.section("web")?;
    let allow_unauthenticated = written.allow_unauthenticated.unwrap_or(false);
    let token_file = written.token_file.map(|path| PathBuf::from(path.0));
    let [certificate, key] = [written.certificate, written.key].map(|path| path.map(|path| PathBuf::from(path.0)));
    if certificate.is_some() != key.is_some() {
        let (lone, other) = if key.is_none() { ("certificate", "key") } else { ("key", "certificate") };
        document.fault(&["web", lone], &format!(" needs {other}: the page is served by HTTPS with both"));
    }
    if token_file.is_some() && allow_unauthenticated {
        document.fault(&["web", "allow_unauthenticated"], " contradicts token_file: leave one of them out");
    }
    let Some(listen) = written.listen.map(|listen| listen.0) else {
        for key in ["token_file", "allow_unauthenticated", "certificate", "key"] {
            if document.node(&["web", key]).is_some() {
                document.fault(&["web", key], " has no effect without listen");
            }
        }
        return Some(None);
    };
    if !listen.ip().is_loopback() && token_file.is_none() && !allow_unauthenticated {
        let problem = " can be reached by other hosts: set token_file (`openssl rand -base64 24` makes a token), \
                       or allow_unauthenticated = true, or listen at a loopback address";
        document.fault(&["web", "listen"], problem);
    }
    Some(Some(WebSettings { listen, token_file, allow_unauthenticated, tls: certificate.zip(key) }))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::tests::{faults, minimal};
    use super::*;

    fn settings(web: &str) -> Option<WebSettings> {
        parse(&(minimal() + "[web]\n" + web), "x").unwrap().web
    }

    #[test]
    fn a_loopback_address_needs_no_token_and_no_address_is_no_page() {
        assert_eq!(settings(""), None);
        for listen in ["127.0.0.1:8080", "[::1]:8080"] {
            let web = settings(&format!("listen = \"{listen}\"\n")).unwrap();
            assert_eq!((web.listen, web.token_file), (listen.parse().unwrap(), None));
        }
    }

    #[test]
    fn other_addresses_need_a_token_or_to_be_told_that_they_are_open() {
        let open = "listen = \"192.0.2.1:8080\"\n";
        let found = faults(&(minimal() + "[web]\n" + open));
        assert!(found[0].contains("web.listen can be reached by other hosts: set token_file"), "{found:?}");
        assert!(settings(&format!("{open}allow_unauthenticated = true\n")).unwrap().allow_unauthenticated);
        let with_token = settings(&format!("{open}token_file = \"/etc/bentpipe/token\"\n")).unwrap();
        assert_eq!(with_token.token_file, Some("/etc/bentpipe/token".into()));
    }

    #[test]
    fn a_certificate_and_its_key_belong_together() {
        let listen = "listen = \"127.0.0.1:1\"\n";
        let both = settings(&format!("{listen}certificate = \"/c.pem\"\nkey = \"/k.pem\"\n")).unwrap();
        assert_eq!(both.tls, Some(("/c.pem".into(), "/k.pem".into())));
        for (lone, expected) in [
            ("certificate = \"/c.pem\"\n", "web.certificate needs key: the page is served by HTTPS with both"),
            ("key = \"/k.pem\"\n", "web.key needs certificate: the page is served by HTTPS with both"),
        ] {
            let found = faults(&(minimal() + "[web]\n" + listen + lone));
            assert!(found.iter().any(|fault| fault.contains(expected)), "{found:?}");
        }
    }

    #[test]
    fn contradictions_and_keys_without_effect_are_faults() {
        for (web, expected) in [
            ("token_file = \"/t\"\n", "web.token_file has no effect without listen"),
            ("allow_unauthenticated = true\n", "web.allow_unauthenticated has no effect without listen"),
            ("certificate = \"/c\"\nkey = \"/k\"\n", "web.key has no effect without listen"),
            (
                "listen = \"127.0.0.1:1\"\ntoken_file = \"/t\"\nallow_unauthenticated = true\n",
                "web.allow_unauthenticated contradicts token_file",
            ),
        ] {
            let found = faults(&(minimal() + "[web]\n" + web));
            assert!(found.iter().any(|fault| fault.contains(expected)), "{found:?}");
        }
    }
}
