//! TLS 1.3 for the page (RFC 8446).

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A certificate and its key.
#[derive(Debug, Clone)]
pub struct Tls(pub(crate) Arc<ServerConfig>);

impl Tls {
    /// Of the certificates (the server's first, then those that signed it) and the private key in two PEM files.
    ///
    /// # Errors
    /// If a file cannot be read or holds something else, or the key is not the certificate's: the message names the setting
    /// and the file.
    pub fn read(certificate: &Path, key: &Path) -> io::Result<Self> {
        let certificates = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .and_then(|all| if all.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(all) })
            .map_err(|error| fault("certificate", certificate, "certificate", &error))?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| fault("key", key, "private key", &error))?;
        let invalid = |error: rustls::Error| {
            let (certificate, key) = (certificate.display(), key.display());
            io::Error::new(io::ErrorKind::InvalidData, format!("certificate {certificate}, key {key}: {error}"))
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(invalid)?
            .with_no_client_auth()
            .with_single_cert(certificates, private)
            .map_err(invalid)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

/// What is wrong with the file of setting `setting`, which is to hold a `what`.
fn fault(setting: &str, file: &Path, what: &str, error: &pem::Error) -> io::Error {
    let problem = match error {
        pem::Error::Io(error) => return io::Error::new(error.kind(), format!("{setting} {}: {error}", file.display())),
        pem::Error::NoItemsFound => format!("holds no {what} in PEM (-----BEGIN …)"),
        other => format!("holds no {what} in PEM: {other:?}"),
    };
    io::Error::new(io::ErrorKind::InvalidData, format!("{setting} {}: {problem}", file.display()))
}
