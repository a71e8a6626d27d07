//! What both ends are told before they start.

use std::sync::Arc;

use quinn_proto::{EndpointConfig, TransportConfig, VarInt};
use units::Rng;

use super::{null, seeded, tls};

/// How packets are protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Crypto {
    /// Not at all, but for a checksum in the place of the authentication tag: packets are as long as
    /// protected ones, and the same in every run.
    #[default]
    Null,
    /// TLS 1.3 with a certificate that comes with the program.
    Tls,
}

/// A simulated connection's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedConfig {
    /// Seed of all that quinn draws.
    pub seed: u64,
    /// Largest datagram (UDP payload) in bytes, 1200 to 1472.
    pub mtu: u16,
    /// How packets are protected.
    pub crypto: Crypto,
    /// Bytes of the stream; `None`: there is always more.
    pub bytes: Option<u64>,
}

impl Default for SimulatedConfig {
    /// An endless stream in datagrams of 1472 bytes (an IPv4 packet of 1500), unprotected.
    fn default() -> SimulatedConfig {
        SimulatedConfig { seed: 1, mtu: 1472, crypto: Crypto::Null, bytes: None }
    }
}

/// Most bytes in quinn's send buffer: as `bulk`'s receive window, 1.3 s at 100 Mbit/s.
const SEND_WINDOW: u64 = 16 << 20;

impl SimulatedConfig {
    /// The transport both ends use: all of quinn's own settings but those that follow.
    pub(super) fn transport(&self) -> TransportConfig {
        let mut transport = TransportConfig::default();
        // The link's MTU is known, and a black hole is a loss like any other.
        transport.mtu_discovery_config(None).initial_mtu(self.mtu).min_mtu(self.mtu);
        // Only the congestion window limits; a link that is down for a minute does not end the run.
        transport.receive_window(VarInt::MAX).stream_receive_window(VarInt::MAX).send_window(SEND_WINDOW);
        transport.max_idle_timeout(None);
        // One datagram a call, as netsim carries them.
        transport.enable_segmentation_offload(false);
        transport
    }

    pub(super) fn endpoint(&self, side: &'static str) -> Arc<EndpointConfig> {
        let mut config = EndpointConfig::new(Arc::new(seeded::Signer));
        let seed = self.seed;
        let mut rng = Rng::stream(seed, &format!("quic/{side}"));
        let mut quinn = [0; 32];
        quinn.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next_u64().to_le_bytes()));
        config.rng_seed(Some(quinn)).grease_quic_bit(false);
        config.cid_generator(move || Box::new(seeded::Ids::new(seed, side)));
        Arc::new(config)
    }

    pub(super) fn client(&self, transport: TransportConfig) -> quinn_proto::ClientConfig {
        let mut client = match self.crypto {
            Crypto::Null => quinn_proto::ClientConfig::new(Arc::new(null::Handshake)),
            Crypto::Tls => quinn_proto::ClientConfig::new(tls::client()),
        };
        let seed = self.seed;
        client.initial_dst_cid_provider(Arc::new(move || seeded::first_id(seed)));
        client.transport_config(Arc::new(transport));
        client
    }

    pub(super) fn server(&self) -> Arc<quinn_proto::ServerConfig> {
        let crypto: Arc<dyn quinn_proto::crypto::ServerConfig> = match self.crypto {
            Crypto::Null => Arc::new(null::Handshake),
            Crypto::Tls => tls::server(),
        };
        let mut server = quinn_proto::ServerConfig::new(crypto, Arc::new(seeded::Signer));
        // Tokens would be signed with the date.
        server.validation_token_config(seeded::no_tokens());
        server.transport_config(Arc::new(self.transport()));
        Arc::new(server)
    }
}
