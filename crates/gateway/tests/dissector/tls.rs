//! TLS as it is between gateways, with its secrets for Wireshark.

use super::tunnels::Sent;
use ring::signature::Ed25519KeyPair;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::{default_provider, sign::any_eddsa_type};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, Error, KeyLog, ServerConfig, ServerConnection,
    SignatureScheme,
};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

/// The secrets of connections, in the format of `SSLKEYLOGFILE`.
#[derive(Debug, Clone, Default)]
pub struct Secrets(Arc<Mutex<String>>);

impl KeyLog for Secrets {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let [random, secret] =
            [client_random, secret].map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        self.0.lock().expect("no test fails while it logs").push_str(&format!("{label} {random} {secret}\n"));
    }
}

impl Secrets {
    /// All of them.
    pub fn text(&self) -> String {
        self.0.lock().expect("no test fails while it logs").clone()
    }

    /// A connection whose ends say `sent` to each other inside of TLS: what each sends then, from the handshake on.
    pub fn encrypt(&self, sent: &[Sent]) -> Vec<Sent> {
        let mut ends = [Connection::from(self.client()), Connection::from(server())];
        let mut out = Vec::new();
        while ends.iter().any(|end| end.is_handshaking()) {
            (0..2).for_each(|from| out.extend(carry(&mut ends, from)));
        }
        // The server may have tickets to send.
        (0..2).for_each(|from| out.extend(carry(&mut ends, from)));
        for one in sent {
            let from = usize::from(!one.is_initiator);
            ends[from].writer().write_all(&one.bytes).expect("there is room");
            out.extend(carry(&mut ends, from));
        }
        out
    }

    fn client(&self) -> ClientConnection {
        let config = ClientConfig::builder_with_provider(default_provider().into()).with_protocol_versions(&[&TLS13]);
        let config = config.expect("a version").dangerous().with_custom_certificate_verifier(Arc::new(AnyServer));
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = vec![b"bentpipe-tcp/1".to_vec()];
        config.key_log = Arc::new(self.clone());
        ClientConnection::new(config.into(), ServerName::try_from("gateway").expect("a name")).expect("a connection")
    }
}

/// Carries what an end has to send to the other one.
fn carry(ends: &mut [Connection; 2], from: usize) -> Option<Sent> {
    let mut bytes = Vec::new();
    while ends[from].wants_write() {
        ends[from].write_tls(&mut bytes).expect("memory");
    }
    let other = &mut ends[1 - from];
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        other.read_tls(&mut rest).expect("memory");
        other.process_new_packets().expect("what the other end makes");
        // Nobody asks what it was.
        let _ = other.reader().read(&mut [0; 4096]);
    }
    (!bytes.is_empty()).then_some(Sent { is_initiator: from == 0, bytes })
}

fn server() -> ServerConnection {
    let key = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).expect("a key");
    let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(key.as_ref())).expect("a key");
    let public_key = CertificateDer::from(key.public_key().expect("a public key").as_ref().to_vec());
    let resolver = AlwaysResolvesServerRawPublicKeys::new(CertifiedKey::new(vec![public_key], key).into());
    let config = ServerConfig::builder_with_provider(default_provider().into()).with_protocol_versions(&[&TLS13]);
    let mut config = config.expect("a version").with_no_client_auth().with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![b"bentpipe-tcp/1".to_vec()];
    ServerConnection::new(config.into()).expect("a connection")
}

/// Takes any raw public key.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("it is TLS 1.3".into()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
