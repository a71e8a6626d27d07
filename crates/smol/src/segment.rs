//! smoltcp's IP packets as the simulator's datagrams, and back.
//!
//! ```text
//!  IP packet:  20 bytes of IP | ports 4 | sequence number 4, acknowledgement 4, flags 2, window 2 | checksum 2, urgent 2 | options | data
//!  datagram:                              '------------------- the first 12 bytes ------------------'              options | data
//! ```
//!
//! netsim adds the 28 bytes of IP and UDP to every datagram. TCP's ports, checksum and urgent pointer take
//! the same eight bytes as UDP's header; left out here, every packet is as long on the link as smoltcp made
//! it. Nobody uses them: there is one connection, and no link of the simulator changes a bit.
//!
//! All data is zeros, so that it need not be carried, but for the first bytes: they hold the [`Stamp`] from
//! which records know a segment's transmissions apart. Neither end looks at it otherwise.

use units::Time;

/// Bytes of TCP's header in a datagram, without options.
pub const HEADER: usize = 12;

const IP: usize = 20;
const TCP: usize = 20;
const STAMP: usize = 16;
const PROTOCOL: u8 = 6;
const PORTS: [u16; 2] = [50_000, 5_201];
/// RFC 5737's addresses, which belong to nobody.
const ADDRESSES: [[u8; 4]; 2] = [[192, 0, 2, 1], [192, 0, 2, 2]];

/// An end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Opens the connection and sends.
    Client,
    /// Listens and receives.
    Server,
}

impl Side {
    /// The other end.
    pub fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
    pub fn address(self) -> [u8; 4] {
        ADDRESSES[self as usize]
    }
    pub fn port(self) -> u16 {
        PORTS[self as usize]
    }
}

/// Which transmission a segment is, and when it left: for records alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The transmission's number; a repair has one of its own.
    pub packet: u64,
    /// When it left, on the sender's clock.
    pub sent: Time,
}

/// A segment on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The datagram but for its data.
    head: Vec<u8>,
    /// Bytes of the stream it carries.
    pub data: usize,
}

impl Segment {
    /// What of a `packet` that smoltcp wrote goes into a datagram.
    pub fn of(packet: &[u8]) -> Segment {
        let tcp = &packet[IP..];
        let length = usize::from(tcp[12] >> 4) * 4;
        let head = [&tcp[4..16], &tcp[TCP..length]].concat();
        Segment { head, data: tcp.len() - length }
    }

    /// Sequence number of its first byte.
    pub fn number(&self) -> u32 {
        word(&self.head)
    }

    /// Length of the datagram.
    pub fn length(&self) -> usize {
        self.head.len() + self.data
    }

    /// Writes the datagram but for zeros at its end into `out`; returns how much was written.
    pub fn write(&self, stamp: Stamp, out: &mut [u8]) -> usize {
        let head = self.head.len();
        out[..head].copy_from_slice(&self.head);
        if self.data < STAMP {
            out[head..head + self.data].fill(0);
            return head + self.data;
        }
        out[head..head + 8].copy_from_slice(&stamp.packet.to_be_bytes());
        out[head + 8..head + STAMP].copy_from_slice(&stamp.sent.as_nanos().to_be_bytes());
        head + STAMP
    }
}

/// A datagram that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    datagram: &'a [u8],
    /// Its full length; beyond `datagram` there are zeros.
    length: usize,
    /// Bytes of header and options.
    head: usize,
}

impl<'a> Arrival<'a> {
    /// Reads a datagram of `length` bytes, `datagram` and zeros after it; `None` if it holds no TCP header or
    /// is longer than `mtu`.
    pub fn read(datagram: &'a [u8], length: usize, mtu: usize) -> Option<Arrival<'a>> {
        let length = length.max(datagram.len());
        let head = (usize::from(*datagram.get(8)? >> 4) * 4).checked_sub(TCP - HEADER)?;
        let whole = (HEADER..=datagram.len()).contains(&head) && length <= mtu;
        whole.then_some(Arrival { datagram, length, head })
    }

    /// What it acknowledges: the next byte wanted.
    pub fn acknowledged(&self) -> u32 {
        word(&self.datagram[4..])
    }

    /// Which transmission it is, if it has enough data to say.
    pub fn stamp(&self) -> Option<Stamp> {
        let (packet, rest) = self.datagram[self.head..].split_first_chunk()?;
        let (sent, _) = rest.split_first_chunk()?;
        Some(Stamp { packet: u64::from_be_bytes(*packet), sent: Time::from_nanos(u64::from_be_bytes(*sent)) })
    }

    /// The IP packet from `from` that smoltcp reads.
    pub fn packet(&self, from: Side) -> Vec<u8> {
        let data = self.length - self.head;
        let total = IP + TCP - HEADER + self.length;
        let mut packet = Vec::with_capacity(total);
        packet.extend([0x45, 0]);
        packet.extend((total as u16).to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, PROTOCOL, 0, 0]);
        packet.extend(from.address());
        packet.extend(from.other().address());
        packet.extend(from.port().to_be_bytes());
        packet.extend(from.other().port().to_be_bytes());
        packet.extend(&self.datagram[..HEADER]);
        packet.extend([0; 4]);
        packet.extend(&self.datagram[HEADER..self.head]);
        debug_assert_eq!(packet.len() + data, total);
        packet.resize(total, 0);
        packet
    }
}

fn word(bytes: &[u8]) -> u32 {
    let bytes = bytes.first_chunk().expect("a header has sequence number and acknowledgement");
    u32::from_be_bytes(*bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAMPED: Stamp = Stamp { packet: 7, sent: Time::from_millis(3) };

    #[test]
    fn a_packet_is_as_long_as_smoltcp_made_it() {
        // 1460 bytes of data and four of options.
        let mut packet = vec![0; IP + TCP + 4 + 1_000];
        packet[IP + 4..IP + 12].copy_from_slice(&[0, 0, 0, 5, 0, 0, 0, 9]);
        packet[IP + 12] = 6 << 4;
        let segment = Segment::of(&packet);
        assert_eq!((segment.length() + 28, segment.data, segment.number()), (packet.len(), 1_000, 5));
        let mut out = [0; 1500];
        let written = segment.write(STAMPED, &mut out);
        let arrival = Arrival::read(&out[..written], segment.length(), 1472).unwrap();
        assert_eq!((arrival.acknowledged(), arrival.stamp()), (9, Some(STAMPED)));
        assert_eq!(Segment::of(&arrival.packet(Side::Client)), segment);
        assert_eq!(Arrival::read(&out[..written], 1_473, 1_472), None);
    }

    proptest! {
        /// Whatever comes: nothing, or a packet whose lengths agree, so that reading it again gives the same.
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), more in 0usize..300) {
            let length = bytes.len() + more;
            let Some(arrival) = Arrival::read(&bytes, length, 400) else { return Ok(()) };
            prop_assert!(length <= 400);
            let packet = arrival.packet(Side::Server);
            prop_assert_eq!(packet.len(), length + 28);
            let segment = Segment::of(&packet);
            prop_assert_eq!(segment.length(), length);
            let mut out = [0; 500];
            let written = segment.write(STAMPED, &mut out);
            let again = Arrival::read(&out[..written], length, 400).unwrap();
            prop_assert_eq!(again.packet(Side::Server), packet);
            prop_assert_eq!(again.stamp().is_some(), segment.data >= STAMP);
        }
    }
}
