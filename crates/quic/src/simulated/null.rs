//! A handshake that keeps no secrets, for runs that repeat to the byte.
//!
//! ```text
//!  client                                server
//!  Initial:    hello, parameters -->
//!                                    <-- Initial: hello;  Handshake: parameters
//!  Handshake:  done -->
//! ```
//!
//! The flights and packet spaces are those of TLS 1.3, and so is the tag's length, so that packets have the
//! sizes that protected ones have. What the tag holds is the packet's number and a checksum: a packet changed
//! on its way is dropped, as decryption would.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig,
    Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};

use super::seeded::checksum;

/// As long as AES-GCM's.
const TAG: usize = 16;
/// As much as AES header protection samples.
const SAMPLE: usize = 16;
/// Longest message of the handshake; parameters take about 100 bytes.
const LONGEST: usize = 4096;

/// Keys that leave packets as they are.
#[derive(Clone, Copy)]
struct Plain;

impl HeaderKey for Plain {
    fn decrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}
    fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}
    fn sample_size(&self) -> usize {
        SAMPLE
    }
}

fn tag(packet: u64, header: &[u8], payload: &[u8]) -> [u8; TAG] {
    let mut tag = [0; TAG];
    tag[..8].copy_from_slice(&packet.to_be_bytes());
    tag[8..].copy_from_slice(&checksum([header, payload]).to_be_bytes());
    tag
}

impl PacketKey for Plain {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let (content, place) = buf.split_at_mut(buf.len() - TAG);
        let (header, payload) = content.split_at(header_len);
        place.copy_from_slice(&tag(packet, header, payload));
    }
    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let length = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
        let (content, found) = payload.split_at(length);
        if found != tag(packet, header, content) {
            return Err(CryptoError);
        }
        payload.truncate(length);
        Ok(())
    }
    fn tag_len(&self) -> usize {
        TAG
    }
    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }
    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

fn keys() -> Keys {
    let header: KeyPair<Box<dyn HeaderKey>> = KeyPair { local: Box::new(Plain), remote: Box::new(Plain) };
    Keys { header, packet: packet_keys() }
}

fn packet_keys() -> KeyPair<Box<dyn PacketKey>> {
    KeyPair { local: Box::new(Plain), remote: Box::new(Plain) }
}

fn refusal(reason: &str) -> TransportError {
    let code = TransportErrorCode::PROTOCOL_VIOLATION;
    TransportError { code, frame: None, reason: reason.to_owned() }
}

/// Starts handshakes of either side.
pub struct Handshake;

impl ClientConfig for Handshake {
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        _server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(Exchange::new(Side::Client, params)))
    }
}

impl ServerConfig for Handshake {
    fn initial_keys(&self, _version: u32, _dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }
    fn retry_tag(&self, _version: u32, _orig_dst_cid: &ConnectionId, _packet: &[u8]) -> [u8; 16] {
        [0; 16]
    }
    fn start_session(self: Arc<Self>, _version: u32, params: &TransportParameters) -> Box<dyn Session> {
        Box::new(Exchange::new(Side::Server, params))
    }
}

/// What this side has to say next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Client: hello with parameters. Server: nothing before it has heard one.
    Start,
    /// Server: hello, then the keys of the next space. Client: those keys.
    Greeted,
    /// Server: parameters, then the keys of the last space. Client, once it has heard them: done, and those
    /// keys.
    Answered,
    /// Server: waits for the client's last word.
    Waiting,
    /// It is over.
    Done,
}

/// One side's handshake.
struct Exchange {
    side: Side,
    step: Step,
    /// A message is owed for this step.
    owed: bool,
    ours: Vec<u8>,
    theirs: Option<TransportParameters>,
    heard: Vec<u8>,
}

impl Exchange {
    fn new(side: Side, params: &TransportParameters) -> Exchange {
        let mut ours = Vec::new();
        params.write(&mut ours);
        let owed = side.is_client();
        Exchange { side, step: Step::Start, owed, ours, theirs: None, heard: Vec::new() }
    }

    /// A message: its length in two bytes, then its body.
    fn say(buf: &mut Vec<u8>, body: &[u8]) {
        buf.extend((body.len() as u16).to_be_bytes());
        buf.extend(body);
    }

    /// The next whole message heard.
    fn message(&mut self) -> Result<Option<Vec<u8>>, TransportError> {
        let [a, b, ..] = *self.heard else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([a, b]));
        if length > LONGEST {
            return Err(refusal("a message of the handshake is too long"));
        }
        if self.heard.len() < 2 + length {
            return Ok(None);
        }
        let rest = self.heard.split_off(2 + length);
        let message = std::mem::replace(&mut self.heard, rest);
        Ok(Some(message[2..].to_vec()))
    }

    fn learn(&mut self, body: &[u8]) -> Result<(), TransportError> {
        let read = TransportParameters::read(self.side, &mut &*body);
        self.theirs = Some(read.map_err(TransportError::from)?);
        Ok(())
    }
}

impl Session for Exchange {
    fn initial_keys(&self, _dst_cid: &ConnectionId, _side: Side) -> Keys {
        keys()
    }
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }
    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }
    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }
    fn early_data_accepted(&self) -> Option<bool> {
        None
    }
    fn is_handshaking(&self) -> bool {
        self.step != Step::Done
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.heard.extend_from_slice(buf);
        if self.heard.len() > 2 * LONGEST {
            return Err(refusal("a handshake that does not end"));
        }
        while let Some(body) = self.message()? {
            match (self.side, self.step) {
                (Side::Server, Step::Start) => {
                    self.learn(&body)?;
                    (self.step, self.owed) = (Step::Greeted, true);
                }
                (Side::Client, Step::Start) => (self.step, self.owed) = (Step::Greeted, true),
                (Side::Client, Step::Greeted | Step::Answered) => {
                    self.learn(&body)?;
                    (self.step, self.owed) = (Step::Answered, true);
                }
                (Side::Server, Step::Waiting) => self.step = Step::Done,
                _ => return Err(refusal("a message out of turn")),
            }
        }
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.theirs)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        if !std::mem::take(&mut self.owed) {
            return None;
        }
        match (self.side, self.step) {
            (Side::Client, Step::Start) => {
                Exchange::say(buf, &self.ours);
                None
            }
            (Side::Client, Step::Greeted) => Some(keys()),
            (Side::Client, _) => {
                Exchange::say(buf, &[]);
                self.step = Step::Done;
                Some(keys())
            }
            (Side::Server, Step::Greeted) => {
                Exchange::say(buf, &[]);
                (self.step, self.owed) = (Step::Answered, true);
                Some(keys())
            }
            (Side::Server, _) => {
                Exchange::say(buf, &self.ours);
                self.step = Step::Waiting;
                Some(keys())
            }
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(packet_keys())
    }
    fn is_valid_retry(&self, _orig_dst_cid: &ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        false
    }
    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_packet_is_refused() {
        let mut packet = b"header and some payload................".to_vec();
        PacketKey::encrypt(&Plain, 7, &mut packet, 6);
        let open = |number, packet: &[u8]| {
            let mut payload = BytesMut::from(&packet[6..]);
            PacketKey::decrypt(&Plain, number, &packet[..6], &mut payload).map(|()| payload.len())
        };
        assert_eq!(open(7, &packet).unwrap(), packet.len() - 6 - TAG);
        assert!(open(8, &packet).is_err());
        for at in 0..packet.len() {
            let mut changed = packet.clone();
            changed[at] ^= 1;
            assert!(open(7, &changed).is_err(), "byte {at}");
        }
        assert!(PacketKey::decrypt(&Plain, 7, &[], &mut BytesMut::from(&[0; 15][..])).is_err());
    }

    #[test]
    fn a_hostile_handshake_is_an_error() {
        let params = |side| Exchange {
            side,
            step: Step::Start,
            owed: side == Side::Client,
            ours: Vec::new(),
            theirs: None,
            heard: Vec::new(),
        };
        assert!(params(Side::Server).read_handshake(&[0xff; 40]).is_err());
        assert!(params(Side::Server).read_handshake(&[0, 3, 1, 0xff, 0]).is_err());
        let mut slow = params(Side::Server);
        assert!(!slow.read_handshake(&[0x0f]).unwrap());
        assert!((0..3).any(|_| slow.read_handshake(&[0; LONGEST]).is_err()));
    }
}
