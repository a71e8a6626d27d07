//! Connection ids and keys for tokens that are the same in every run. Nothing here is secret: these
//! connections never leave the simulator.

use std::time::Duration;

use quinn_proto::crypto::{AeadKey, CryptoError, HandshakeTokenKey, HmacKey};
use quinn_proto::{ConnectionId, ConnectionIdGenerator, ValidationTokenConfig};
use units::Rng;

/// Length of every connection id: quinn's default, and the least that RFC 9000 section 7.2 allows for a
/// client's first.
const ID_LENGTH: usize = 8;

/// Connection ids from a named stream of random numbers.
pub struct Ids(Rng);

impl Ids {
    pub fn new(seed: u64, side: &str) -> Ids {
        Ids(Rng::stream(seed, &format!("quic/{side}/ids")))
    }
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.0.next_u64().to_be_bytes())
    }
    fn cid_len(&self) -> usize {
        ID_LENGTH
    }
    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// Where a client's first packet goes.
pub fn first_id(seed: u64) -> ConnectionId {
    ConnectionId::new(&Rng::stream(seed, "quic/first id").next_u64().to_be_bytes())
}

/// A server that hands out no tokens for later connections.
pub fn no_tokens() -> ValidationTokenConfig {
    let mut config = ValidationTokenConfig::default();
    config.sent(0);
    config
}

/// Folds bytes into a number, eight at a time: enough to tell a changed packet from a whole one.
pub fn checksum(parts: [&[u8]; 2]) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut fold = |word: u64| state = (state.rotate_left(23) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    for part in parts {
        let chunks = part.chunks_exact(8);
        let rest = chunks.remainder();
        chunks.for_each(|chunk| fold(u64::from_le_bytes(chunk.try_into().expect("eight bytes"))));
        rest.iter().for_each(|&byte| fold(u64::from(byte)));
        fold(part.len() as u64);
    }
    state ^ (state >> 32)
}

/// Signs reset tokens, and seals retry tokens, which are never sent.
pub struct Signer;

impl HmacKey for Signer {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        for (index, chunk) in signature_out.chunks_mut(8).enumerate() {
            let word = checksum([data, &[index as u8]]).to_be_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
    fn signature_len(&self) -> usize {
        32
    }
    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut expected = vec![0; signature.len()];
        self.sign(data, &mut expected);
        if expected == signature { Ok(()) } else { Err(CryptoError) }
    }
}

impl HandshakeTokenKey for Signer {
    fn aead_from_hkdf(&self, _random_bytes: &[u8]) -> Box<dyn AeadKey> {
        Box::new(Signer)
    }
}

impl AeadKey for Signer {
    fn seal(&self, _data: &mut Vec<u8>, _additional_data: &[u8]) -> Result<(), CryptoError> {
        Err(CryptoError)
    }
    fn open<'a>(&self, _data: &'a mut [u8], _additional: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        Err(CryptoError)
    }
}
