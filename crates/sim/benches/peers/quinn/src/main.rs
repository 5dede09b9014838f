//! One transfer over quinn, to compare with the simulator's QUIC. See `../quic.py`.
//!
//! `quinn-transfer server ADDRESS` takes one stream and answers with the time at which its last byte came;
//! `quinn-transfer client ADDRESS BYTES newreno|cubic` sends it and prints what it took from the first packet to that byte, in s, and how many
//! packets were sent and lost. Both run on one machine: they compare times of its clock.

use quinn::congestion::{ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::rustls::RootCertStore;
use quinn::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use quinn::rustls::{self, DigitallySignedStruct, SignatureScheme};
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// UDP payload of a full packet: 1,500 bytes with IPv4.
const PAYLOAD: u16 = 1472;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match words[..] {
        ["server", address] => runtime.block_on(serve(address.parse()?)),
        ["client", address, bytes, control] => runtime.block_on(send(address.parse()?, bytes.parse()?, control)),
        _ => Err("usage: quinn-transfer server ADDRESS | client ADDRESS BYTES newreno|cubic".into()),
    }
}

/// Full packets from the start, as the simulator's, and each for itself.
fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.initial_mtu(PAYLOAD).mtu_discovery_config(None).enable_segmentation_offload(false);
    transport
}

fn control(name: &str) -> Result<Arc<dyn ControllerFactory + Send + Sync>> {
    // RFC 9002, section 7.2, for full packets of this size; quinn's own is for 1,200 bytes.
    let window = 14_720;
    match name {
        "newreno" => {
            let mut config = NewRenoConfig::default();
            config.initial_window(window);
            Ok(Arc::new(config))
        }
        "cubic" => {
            let mut config = CubicConfig::default();
            config.initial_window(window);
            Ok(Arc::new(config))
        }
        _ => Err(format!("{name}: unknown").into()),
    }
}

async fn serve(address: SocketAddr) -> Result<()> {
    let certified = rcgen::generate_simple_self_signed(["peer".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut config = ServerConfig::with_single_cert(vec![certified.cert.into()], key.into())?;
    config.transport_config(Arc::new(transport()));
    let endpoint = Endpoint::server(config, address)?;
    let connection = endpoint.accept().await.ok_or("closed")?.await?;
    let (mut answer, mut stream) = connection.accept_bi().await?;
    while stream.read_chunk(usize::MAX, true).await?.is_some() {}
    answer.write_all(&now().as_nanos().to_be_bytes()).await?;
    answer.finish()?;
    connection.closed().await;
    Ok(())
}

async fn send(address: SocketAddr, bytes: usize, control_name: &str) -> Result<()> {
    let mut transport = transport();
    transport.congestion_controller_factory(control(control_name)?);
    let mut crypto =
        rustls::ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    crypto.dangerous().set_certificate_verifier(Arc::new(AnyServer));
    let mut config = ClientConfig::new(Arc::new(quinn::crypto::rustls::QuicClientConfig::try_from(crypto)?));
    config.transport_config(Arc::new(transport));
    let endpoint = Endpoint::client("0.0.0.0:0".parse()?)?;
    let start = now();
    let connection = endpoint.connect_with(config, address, "peer")?.await?;
    let (mut stream, mut answer) = connection.open_bi().await?;
    stream.write_all(&vec![0; bytes]).await?;
    stream.finish()?;
    let end: [u8; 16] = answer.read_to_end(16).await?.try_into().map_err(|_| "no time in the answer")?;
    let end = Duration::from_nanos(u128::from_be_bytes(end).try_into()?);
    let path = connection.stats().path;
    println!("{:.4},{},{}", (end - start).as_secs_f64(), path.sent_packets, path.lost_packets);
    connection.close(0_u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Believes every certificate: the namespaces have no other server.
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
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
