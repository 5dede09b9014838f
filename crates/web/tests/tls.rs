//! The page by HTTPS.

use crate::site::Site;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use web::{Access, Tls};

/// A certificate of `localhost` that signs itself, and its key: for tests alone.
fn files() -> [PathBuf; 2] {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    [data.join("certificate.pem"), data.join("key.pem")]
}

fn site() -> Site {
    let [certificate, key] = files();
    let tls = Tls::read(&certificate, &key).unwrap();
    Site::with(TcpListener::bind("127.0.0.1:0").unwrap(), Access::Local, Some(tls))
}

fn connect(site: &Site) -> TcpStream {
    let stream = TcpStream::connect(site.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// What the server answers to a client that trusts the certificate.
fn get(site: &Site, path: &str) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files()[0]).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let mut connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut stream = connect(site);
    let mut tls = Stream::new(&mut connection, &mut stream);
    write!(tls, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    // The server ends TCP without TLS's own end.
    let _ = tls.read_to_string(&mut answer);
    answer
}

#[test]
fn a_client_that_trusts_the_certificate_gets_the_page() {
    let site = site();
    assert!(get(&site, "/").starts_with("HTTP/1.1 200"));
    assert!(get(&site, "/history?span=minutes").contains("capacity_bps"));
}

#[test]
fn what_is_no_tls_gets_nothing_and_harms_nobody() {
    let site = site();
    let garbage: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &[0; 4096],
        &[0x16, 3, 1, 0xff, 0xff, 1, 2, 3],
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
    ];
    for bytes in garbage {
        let mut stream = connect(&site);
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        // Either an alert or a reset.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 10 && !answer.starts_with(b"HTTP"), "{answer:?}");
    }
    assert!(get(&site, "/").starts_with("HTTP/1.1 200"));
}

#[test]
fn bad_files_are_named_with_what_is_wrong_with_them() {
    let [certificate, key] = files();
    let directory = tempfile::tempdir().unwrap();
    let absent = directory.path().join("absent.pem");
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "not a certificate\n").unwrap();
    let broken = directory.path().join("broken.pem");
    std::fs::write(&broken, "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n").unwrap();
    let other = directory.path().join("other.pem");
    // A key of the same kind that is another's.
    let text = "-----BEGIN PRIVATE KEY-----\nOTHER-----END PRIVATE KEY-----\n";
    std::fs::write(&other, text.replace("OTHER", OTHER_KEY)).unwrap();
    for (certificate, key, expected) in [
        (&absent, &key, vec!["certificate ", "absent.pem: No such file"]),
        (&certificate, &absent, vec!["key ", "absent.pem: No such file"]),
        (&empty, &key, vec!["certificate ", "empty.pem: holds no certificate in PEM"]),
        (&certificate, &empty, vec!["key ", "empty.pem: holds no private key in PEM"]),
        (&broken, &key, vec!["certificate ", "broken.pem: holds no certificate in PEM"]),
        (&certificate, &certificate, vec!["key ", "certificate.pem: holds no private key in PEM"]),
        (&certificate, &other, vec!["certificate.pem", "other.pem", "mismatch"]),
    ] {
        let said = Tls::read(certificate, key).unwrap_err().to_string();
        let missing: Vec<_> =
            expected.iter().filter(|part| !said.to_lowercase().contains(&part.to_lowercase())).collect();
        assert!(missing.is_empty(), "{said}: {missing:?}");
    }
}

const OTHER_KEY: &str = "\
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQggIZhyIv9oixyklcX\n\
Wm9NVywJXPHQgoa3NEpfEvwrPA2hRANCAAQWx1kuYxDm6sSd4gBwGjGA1+nnGt86\n\
zhrv4SwG0GP+TTHa49F4ZBCjeRJmWXjFNogy0wST14xUX/VX800nOq6U\n\
";
