//! TLS 1.3 between the two gateways (RFC 8446), with raw public keys on both sides (RFC 7250): no certificates, no
//! names, no tickets. Only the ClientHello rides in a SYN; there is no early data, which could be replayed.

use super::identity::{self, SigningKey};
use crate::config::Settings;
use crate::error::{StartError, while_doing};
use crate::transport::key_log::KeyLog;
use ::satpep::{Cipher, PublicKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::{CertifiedKey, Signer};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, Connection, DigitallySignedStruct, DistinguishedName, Error,
    ServerConfig, ServerConnection, SignatureAlgorithm, SignatureScheme,
};
use socket2::Socket;
use std::io::{self, BufRead, Read, Write};
use std::sync::{Arc, PoisonError, RwLock};

#[cfg(test)]
mod tests;

/// What both sides speak inside TLS.
const PROTOCOL: &[u8] = b"bentpipe-tcp/1";

/// What connections are made with.
pub(super) struct Configs {
    server: Arc<ServerConfig>,
    /// Keys of the peers that may connect.
    initiators: Arc<Known>,
    /// For connections to peers, but for the key of each.
    client: ClientConfig,
    /// For each peer that has a gateway.
    clients: Vec<Option<Arc<ClientConfig>>>,
}

impl std::fmt::Debug for Configs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Configs")
    }
}

impl Configs {
    pub(super) fn new(settings: &Settings) -> Result<Self, StartError> {
        let failed = |error: Error| while_doing("setting TLS up")(io::Error::other(error));
        let provider = Arc::new(provider(settings.cipher));
        let key = Arc::new(SigningKey::new(&settings.private_key));
        let spki = CertificateDer::from(key.verification_key());
        let certified = Arc::new(CertifiedKey::new(vec![spki], Arc::new(Identity(key))));
        let known = || Arc::new(Known { keys: RwLock::default(), provider: Arc::clone(&provider) });
        let initiators = known();
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(failed)?
            .with_client_cert_verifier(Arc::clone(&initiators) as Arc<dyn ClientCertVerifier>)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&certified))));
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        let key_log = KeyLog::of(settings)?.map(Arc::new);
        if let Some(key_log) = &key_log {
            server.key_log = Arc::clone(key_log) as Arc<dyn rustls::KeyLog>;
        }
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(failed)?
            .dangerous()
            .with_custom_certificate_verifier(known())
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&certified))));
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        client.resumption = Resumption::disabled();
        client.enable_sni = false;
        if let Some(key_log) = key_log {
            client.key_log = key_log;
        }
        let mut configs = Self { server: Arc::new(server), initiators, client, clients: Vec::new() };
        for (at, peer) in settings.peers.iter().enumerate() {
            configs.set_peer(at, peer.public_key.as_ref());
        }
        Ok(configs)
    }

    /// The peer at place `at` has this key, or there is none that has one.
    pub(super) fn set_peer(&mut self, at: usize, key: Option<&PublicKey>) {
        let key = key.and_then(identity::verification_key);
        self.clients.resize(self.clients.len().max(at + 1), None);
        self.clients[at] = key.clone().map(|key| {
            let provider = Arc::clone(&self.initiators.provider);
            let mut client = self.client.clone();
            client
                .dangerous()
                .set_certificate_verifier(Arc::new(Known { keys: RwLock::new(vec![Some(key)]), provider }));
            Arc::new(client)
        });
        self.initiators.set(at, key);
    }

    /// The server's side of a connection.
    pub(super) fn accept(&self) -> io::Result<Tls> {
        let connection = ServerConnection::new(Arc::clone(&self.server)).map_err(io::Error::other)?;
        Ok(Tls::new(connection.into()))
    }

    /// The client's side of a connection to `peer`.
    pub(super) fn connect(&self, peer: usize) -> io::Result<Tls> {
        let config = self.clients.get(peer).and_then(Option::as_ref).ok_or(io::ErrorKind::InvalidInput)?;
        // The key is the name; this one is not sent.
        let name = ServerName::try_from("gateway.invalid").map_err(io::Error::other)?;
        let connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        Ok(Tls::new(connection.into()))
    }
}

fn provider(cipher: Cipher) -> CryptoProvider {
    let suite = match cipher {
        Cipher::Aes128Gcm => CipherSuite::TLS13_AES_128_GCM_SHA256,
        Cipher::ChaCha20Poly1305 => CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
    };
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.retain(|known| known.suite() == suite);
    provider
}

/// One connection's TLS.
#[derive(Debug)]
pub(super) struct Tls {
    connection: Connection,
    /// Bytes that wait to be sent, without what protects them.
    waiting: usize,
}

impl Tls {
    fn new(mut connection: Connection) -> Self {
        // The length is bounded where it is called.
        connection.set_buffer_limit(None);
        Self { connection, waiting: 0 }
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the other end has proved that it holds the key behind `key`.
    pub(super) fn is_with(&self, key: &PublicKey) -> bool {
        let shown = self.connection.peer_certificates().and_then(|shown| shown.first());
        shown.is_some_and(|shown| identity::verification_key(key).is_some_and(|known| known == shown.as_ref()))
    }

    /// Reads what has been decrypted into `buffer`, and from `socket` where that is nothing; 0 is the end, as the other
    /// side has announced it.
    ///
    /// # Errors
    /// Those of the socket; of kind `UnexpectedEof` for an end without close_notify, and `InvalidData` for
    /// what is not its.
    pub(super) fn read(&mut self, mut socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            // At the end of TCP, the next turn tells what kind of end that is.
            self.connection.read_tls(&mut socket)?;
            self.process(socket)?;
        }
    }

    /// Reads from `socket` into `arrived` once, and more often only if that does not complete a record. What is decrypted
    /// is appended to `decrypted`; returns how many bytes that is, 0 at the peer's close_notify.
    ///
    /// # Errors
    /// As [`Tls::read`], once no byte comes before them.
    pub(super) fn read_records(
        &mut self,
        mut socket: &Socket,
        arrived: &mut [u8],
        decrypted: &mut Vec<u8>,
    ) -> io::Result<usize> {
        let before = decrypted.len();
        loop {
            let rest = self.take_decrypted(decrypted);
            match (decrypted.len() - before, rest) {
                (0, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                (0, other) => return other.map(|()| 0),
                (count, _) => return Ok(count),
            }
            // Fails again if it has failed behind what was returned last.
            self.process(socket)?;
            let count = socket.read(arrived)?;
            let mut arrived = &arrived[..count];
            // At the end of TCP, the next turn tells what kind of end that is.
            while self.connection.read_tls(&mut arrived)? > 0 {
                let result = self.process(socket);
                let _ = self.take_decrypted(decrypted);
                if result.is_err() || arrived.is_empty() {
                    break;
                }
            }
        }
    }

    /// Appends all that waits to `decrypted`; then there is the end, or an error that says what comes next.
    fn take_decrypted(&mut self, decrypted: &mut Vec<u8>) -> io::Result<()> {
        let mut reader = self.connection.reader();
        loop {
            let count = match reader.fill_buf()? {
                [] => return Ok(()),
                chunk => {
                    decrypted.extend_from_slice(chunk);
                    chunk.len()
                }
            };
            reader.consume(count);
        }
    }

    /// Goes on with the handshake until it has ended.
    ///
    /// # Errors
    /// As [`Tls::read`]; of kind `WouldBlock` if it is the peer's turn.
    pub(super) fn advance(&mut self, mut socket: &Socket) -> io::Result<()> {
        loop {
            match self.flush(socket) {
                Err(error) if !is_later(&error) => return Err(error),
                _ if !self.is_handshaking() => return Ok(()),
                _ => {}
            }
            if self.connection.read_tls(&mut socket)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.process(socket)?;
        }
    }

    fn process(&mut self, mut socket: &Socket) -> io::Result<()> {
        self.connection.process_new_packets().map(drop).map_err(|error| {
            // An alert reports the reason to the peer.
            let _ = self.connection.write_tls(&mut socket);
            io::Error::new(io::ErrorKind::InvalidData, error)
        })
    }

    /// Encrypts `data`, which then waits to be sent.
    pub(super) fn write(&mut self, data: &[u8]) -> io::Result<()> {
        self.connection.writer().write_all(data)?;
        self.waiting += data.len();
        Ok(())
    }

    /// How many bytes of what was written wait to be sent, about.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Tells the peer the end of what is sent.
    pub(super) fn finish(&mut self) {
        self.connection.send_close_notify();
    }

    /// Sends what waits to be sent; an error of kind `WouldBlock` says that the socket takes no more.
    pub(super) fn flush(&mut self, mut socket: &Socket) -> io::Result<()> {
        while self.connection.wants_write() {
            let sent = self.connection.write_tls(&mut socket)?;
            // What protects them is less than a hundredth of long records.
            self.waiting = self.waiting.saturating_sub(sent);
        }
        self.waiting = 0;
        Ok(())
    }
}

/// Signs handshakes with the gateway's key.
#[derive(Debug, Clone)]
struct Identity(Arc<SigningKey>);

impl rustls::sign::SigningKey for Identity {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered.contains(&SignatureScheme::ED25519).then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(self.0.verification_key().into())
    }
}

impl Signer for Identity {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let mut random = [0; 64];
        SystemRandom::new().fill(&mut random).map_err(|_| Error::FailedToGetRandomBytes)?;
        Ok(self.0.sign(message, &random).to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

/// Knows the keys of those who may be at the other end.
#[derive(Debug)]
struct Known {
    /// By the place of the peer.
    keys: RwLock<Vec<Option<Vec<u8>>>>,
    provider: Arc<CryptoProvider>,
}

impl Known {
    fn set(&self, at: usize, key: Option<Vec<u8>>) {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let count = keys.len().max(at + 1);
        keys.resize(count, None);
        keys[at] = key;
    }

    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        if keys.iter().flatten().any(|key| key == shown.as_ref()) {
            return Ok(());
        }
        Err(Error::InvalidCertificate(rustls::CertificateError::ApplicationVerificationFailure))
    }

    fn verify(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.provider.signature_verification_algorithms)
    }
}

/// TLS 1.2 is not spoken.
fn refuse_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::PeerIncompatible(rustls::PeerIncompatible::ServerDoesNotSupportTls12Or13))
}

/// What both roles' verifiers do alike: raw keys, Ed25519, and no TLS 1.2.
macro_rules! as_with_raw_keys {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            refuse_tls12()
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.verify(message, cert, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    as_with_raw_keys!();
}

impl ClientCertVerifier for Known {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    as_with_raw_keys!();
}
/// Whether the socket will take bytes later: it is full, or its handshake has not ended.
pub(super) fn is_later(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
        || matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EALREADY | libc::ENOTCONN))
}
