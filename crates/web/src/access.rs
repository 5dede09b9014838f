//! Who may see the page.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::net::IpAddr;
use subtle::ConstantTimeEq;

/// The fewest characters of a token: with base64, 96 bit.
pub const MIN_TOKEN: usize = 16;

/// Who may see the page.
#[derive(Debug, Clone)]
pub enum Access {
    /// Programs on this host. The name under which a browser asks must be `localhost` or an address, so that no web page can
    /// have its own name resolve to this host and read the answers (DNS rebinding).
    Local,
    /// Who knows the token.
    Token(Token),
    /// Anyone.
    Open,
}

/// A secret that its owner shows as password (RFC 7617, with any user name) or as bearer token (RFC 6750).
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// The token in `text`, around which white space does not count; `None` if it is shorter than [`MIN_TOKEN`].
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (text.len() >= MIN_TOKEN).then(|| Self(text.as_bytes().to_vec()))
    }

    /// Compares in a time that depends on the lengths alone.
    fn is(&self, other: &[u8]) -> bool {
        self.0.ct_eq(other).into()
    }
}

impl Access {
    /// Whether a request with these headers is answered.
    ///
    /// # Errors
    /// The answer, if not.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Box<Response>> {
        let is_allowed = match self {
            Self::Open => true,
            Self::Local => is_local_name(headers),
            Self::Token(token) => shown(headers).is_some_and(|shown| token.is(&shown)),
        };
        match self {
            _ if is_allowed => Ok(()),
            Self::Token(_) => {
                let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"bentpipe\", charset=\"UTF-8\"")];
                let says = "the token of [web] token_file is the password; any user name will do\n";
                Err(Box::new((StatusCode::UNAUTHORIZED, challenge, says).into_response()))
            }
            _ => {
                let says = "without a token, the page is served under localhost and addresses only\n";
                Err(Box::new((StatusCode::FORBIDDEN, says).into_response()))
            }
        }
    }
}

/// The token that a request shows.
fn shown(headers: &HeaderMap) -> Option<Vec<u8>> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, credentials) = text.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(credentials.trim().as_bytes().to_vec());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = BASE64_STANDARD.decode(credentials.trim()).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

/// Whether the host that a request names is an address or `localhost`.
fn is_local_name(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    const SECRET: &str = "correct-horse-battery";

    fn answer(access: &Access, name: header::HeaderName, value: &str) -> Option<StatusCode> {
        let headers = HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())]);
        access.check(&headers).err().map(|response| response.status())
    }

    #[test]
    fn the_token_opens_as_password_and_as_bearer_token_and_nothing_else_does() {
        let access = Access::Token(Token::new(&format!("{SECRET}\n")).unwrap());
        let basic = |pair: &str| format!("Basic {}", BASE64_STANDARD.encode(pair));
        let ask = |value: &str| answer(&access, header::AUTHORIZATION, value);
        for right in [
            format!("Bearer {SECRET}"),
            format!("bearer  {SECRET}"),
            basic(&format!("me:{SECRET}")),
            basic(&format!(":{SECRET}")),
        ] {
            assert_eq!(ask(&right), None, "{right}");
        }
        let almost = &SECRET[..SECRET.len() - 1];
        for wrong in [
            format!("Bearer {almost}"),
            format!("Bearer {SECRET}x"),
            basic(SECRET),
            basic("me:"),
            "Basic !".into(),
            "Bearer".into(),
            format!("Digest {SECRET}"),
        ] {
            assert_eq!(ask(&wrong), Some(StatusCode::UNAUTHORIZED), "{wrong}");
        }
        assert_eq!(answer(&access, header::HOST, "localhost"), Some(StatusCode::UNAUTHORIZED));
    }

    #[test]
    fn short_tokens_are_none_and_tokens_are_not_shown() {
        assert!(Token::new("0123456789abcde \n").is_none());
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(!format!("{:?}", Access::Token(token)).contains("0123"));
    }

    #[test]
    fn a_name_that_resolves_here_is_refused_without_a_token() {
        for host in ["localhost", "localhost:8080", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:8080", "[::1]"] {
            assert_eq!(answer(&Access::Local, header::HOST, host), None, "{host}");
        }
        for host in ["attacker.example", "attacker.example:8080", "127.0.0.1.attacker.example", "", "[evil]:80"] {
            assert_eq!(answer(&Access::Local, header::HOST, host), Some(StatusCode::FORBIDDEN), "{host}");
        }
        assert!(Access::Local.check(&HeaderMap::new()).is_err());
        assert_eq!(answer(&Access::Open, header::HOST, "attacker.example"), None);
    }
}
