//! A plain client and server of quinn's. The line marked below is all that runs another congestion
//! controller.
//!
//! `cargo run -p framewire-quic --example one_line`

use std::sync::Arc;

use framewire_quic as quic;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig};
use rustls::pki_types::CertificateDer;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Bytes that the client sends.
const SIZE: usize = 5_000_000;

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let identity = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
        let certificate = identity.cert.der().clone();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der());
        let config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
        let server = Endpoint::server(config, "127.0.0.1:0".parse()?)?;
        let address = server.local_addr()?;
        let receiving = tokio::spawn(receive(server));
        send(address, certificate).await?;
        let received = receiving.await??;
        println!("{received} bytes received");
        Ok(())
    })
}

async fn receive(server: Endpoint) -> Result<usize, Failure> {
    let connection = server.accept().await.ok_or("nobody came")?.await?;
    let mut stream = connection.accept_uni().await?;
    let bytes = stream.read_to_end(SIZE).await?;
    connection.close(0u32.into(), b"");
    server.wait_idle().await;
    Ok(bytes.len())
}

async fn send(address: std::net::SocketAddr, server: CertificateDer<'static>) -> Result<(), Failure> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(server)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    let mut transport = TransportConfig::default();
    // The one line. Without it quinn's own CUBIC runs.
    transport.congestion_controller_factory(quic::Congestion::new("copa")?);
    config.transport_config(Arc::new(transport));

    let mut client = Endpoint::client("127.0.0.1:0".parse()?)?;
    client.set_default_client_config(config);
    let connection = client.connect(address, "localhost")?.await?;
    let mut stream = connection.open_uni().await?;
    stream.write_all(&vec![0; SIZE]).await?;
    stream.finish()?;
    connection.closed().await;
    // Not needed to run the controller: what it has seen.
    if let Some(timing) = quic::Timing::of(connection.congestion_state()) {
        let totals = timing.totals();
        println!("{} packets sent, {} lost, window {} bytes", totals.sent, totals.lost, totals.window);
    }
    Ok(())
}
