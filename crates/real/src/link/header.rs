//! What a link wants to know of an IP packet: its flow and its ECN bits; and how a mark is written back.
//!
//! ```text
//! IPv4 (RFC 791)  |ver ihl| tos: dscp ecn | length | id | flags, fragment offset | ttl | protocol | checksum | from | to |
//! IPv6 (RFC 8200) |ver| traffic class: dscp ecn | flow label | length | next header | hops | from | to | extensions ...
//! ```
//!
//! The flow is what Linux's flow dissector makes of a packet: protocol, addresses and ports, without ports
//! for fragments (the later ones have none, and all fragments of a packet belong together).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use units::Ecn;

/// The flow a packet belongs to: addresses, protocol and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Protocol number (IANA), such as 6 for TCP and 17 for UDP.
    pub protocol: u8,
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
    /// Source and destination port; zeros where the protocol has none and for fragments.
    pub ports: (u16, u16),
}

impl Default for Flow {
    /// The flow of nobody.
    fn default() -> Flow {
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Flow { protocol: 0, source: nowhere, destination: nowhere, ports: (0, 0) }
    }
}

/// What is read of a packet's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The flow it belongs to.
    pub flow: Flow,
    /// Its ECN bits.
    pub ecn: Ecn,
}

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
/// Protocols whose header begins with the two ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];
/// IPv6 headers before the transport's: hop by hop, routing, fragment, destination options.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
/// Most extension headers looked behind; each kind may occur once, destination options twice (RFC 8200
/// section 4.1).
const MOST_EXTENSIONS: usize = 5;

impl Header {
    /// Reads the headers of `packet`; `None` if it is no IP packet or shorter than its headers.
    pub fn read(packet: &[u8]) -> Option<Header> {
        match packet.first()? >> 4 {
            4 => read_v4(packet),
            6 => read_v6(packet),
            _ => None,
        }
    }
}

fn read_v4(packet: &[u8]) -> Option<Header> {
    let header = packet.get(..IPV4_HEADER)?;
    let length = usize::from(header[0] & 0xf) * 4;
    if length < IPV4_HEADER {
        return None;
    }
    let behind = packet.get(length..)?;
    let more_fragments = header[6] & 0x20 != 0;
    let fragment = more_fragments || u16::from_be_bytes([header[6] & 0x1f, header[7]]) != 0;
    let address = |at: usize| Ipv4Addr::from(four(header, at)).into();
    let flow = Flow {
        protocol: header[9],
        source: address(12),
        destination: address(16),
        ports: if fragment { (0, 0) } else { ports(header[9], behind) },
    };
    Some(Header { flow, ecn: Ecn::from_bits(header[1]) })
}

fn read_v6(packet: &[u8]) -> Option<Header> {
    let header = packet.get(..IPV6_HEADER)?;
    let address = |at: usize| {
        let octets: [u8; 16] = header[at..at + 16].try_into().expect("the header has 40 bytes");
        Ipv6Addr::from(octets).into()
    };
    let (protocol, behind) = transport(header[6], &packet[IPV6_HEADER..]);
    let flow = Flow {
        protocol,
        source: address(8),
        destination: address(24),
        ports: behind.map_or((0, 0), |behind| ports(protocol, behind)),
    };
    Some(Header { flow, ecn: Ecn::from_bits(header[1] >> 4) })
}

/// The protocol behind IPv6's extension headers, and its bytes unless the packet is a fragment.
fn transport(first: u8, mut rest: &[u8]) -> (u8, Option<&[u8]>) {
    let mut next = first;
    for _ in 0..MOST_EXTENSIONS {
        let [following, length, ..] = *rest else { return (next, Some(rest)) };
        match next {
            FRAGMENT => return (following, None),
            HOP_BY_HOP | ROUTING | DESTINATION => {
                next = following;
                rest = rest.get((usize::from(length) + 1) * 8..).unwrap_or_default();
            }
            _ => break,
        }
    }
    (next, Some(rest))
}

fn ports(protocol: u8, behind: &[u8]) -> (u16, u16) {
    match *behind {
        [a, b, c, d, ..] if WITH_PORTS.contains(&protocol) => {
            (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
        }
        _ => (0, 0),
    }
}

fn four(bytes: &[u8], at: usize) -> [u8; 4] {
    bytes[at..at + 4].try_into().expect("the header has 20 bytes")
}

impl Flow {
    /// The number queues know the flow by: a hash of all five fields, the same on every machine and in every
    /// run. Two flows share a number by chance alone, one pair in 65,536.
    pub fn number(&self) -> u16 {
        let address = |address: IpAddr| match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        let (source, destination) = (address(self.source), address(self.destination));
        let ports = u64::from(self.ports.0) << 16 | u64::from(self.ports.1);
        let words = [source as u64, (source >> 64) as u64, destination as u64, (destination >> 64) as u64];
        let hash = words.iter().fold(ports << 8 | u64::from(self.protocol), |hash, word| mix(hash ^ word));
        (hash >> 48) as u16
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014) after an odd constant, so that zero does not stay
/// zero.
fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Writes ECN bits into an IP packet that [`Header::read`] accepted; IPv4's checksum follows (RFC 1624,
/// equation 3).
pub fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    match packet {
        [first, tos, rest @ ..] if *first >> 4 == 4 && rest.len() >= IPV4_HEADER - 2 => {
            let before = u16::from_be_bytes([*first, *tos]);
            *tos = *tos & !3 | ecn as u8;
            let after = u16::from_be_bytes([*first, *tos]);
            let checksum = [rest[8], rest[9]];
            [rest[8], rest[9]] = updated(u16::from_be_bytes(checksum), before, after).to_be_bytes();
        }
        [first, second, ..] if *first >> 4 == 6 => *second = *second & !0x30 | (ecn as u8) << 4,
        _ => {}
    }
}

/// `HC' = ~(~HC + ~m + m')` in one's complement.
fn updated(checksum: u16, before: u16, after: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    let folded = (sum & 0xffff) + (sum >> 16);
    !(((folded & 0xffff) + (folded >> 16)) as u16)
}

/// What must hold of any bytes: the body of a fuzz target, which `cargo test` runs too.
///
/// # Panics
/// If it does not hold.
pub fn oracle(bytes: &[u8]) {
    let Some(header) = Header::read(bytes) else { return };
    let _ = header.flow.number();
    for bits in 0..4 {
        let mut marked = bytes.to_vec();
        set_ecn(&mut marked, Ecn::from_bits(bits));
        let read = Header::read(&marked).expect("a mark leaves a packet a packet");
        assert_eq!(read, Header { ecn: Ecn::from_bits(bits), ..header });
        set_ecn(&mut marked, header.ecn);
        let same = |at: usize| marked[at] == bytes[at] || bytes[0] >> 4 == 4 && (10..12).contains(&at);
        assert!(
            (0..bytes.len()).all(same),
            "only the checksum may differ, and only where it was wrong or zero"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 over a header whose checksum field counts as written: zero means right.
    fn sum(header: &[u8]) -> u16 {
        let words = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum = words.sum::<u32>();
        !(((sum & 0xffff) + (sum >> 16)) as u16)
    }

    fn v4(protocol: u8, tos: u8, fragment: u16, ports: (u16, u16)) -> Vec<u8> {
        let mut packet = vec![0x45, tos, 0, 28, 0, 1];
        packet.extend(fragment.to_be_bytes());
        packet.extend([64, protocol, 0, 0, 100, 64, 0, 2, 100, 64, 0, 1]);
        let checksum = sum(&packet).to_be_bytes();
        packet[10..12].copy_from_slice(&checksum);
        packet.extend(ports.0.to_be_bytes());
        packet.extend(ports.1.to_be_bytes());
        packet.extend([0; 4]);
        packet
    }

    fn v6(chain: &[(u8, &[u8])], transport: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0x20, 0, 0, 0, 0, chain[0].0, 64];
        packet.extend([1; 16]);
        packet.extend([2; 16]);
        for (_, extension) in &chain[..chain.len() - 1] {
            packet.extend(*extension);
        }
        packet.extend(transport);
        packet
    }

    #[test]
    fn five_fields_of_an_ipv4_packet() {
        let header = Header::read(&v4(17, 0b10, 0, (5000, 443))).unwrap();
        assert_eq!(header.ecn, Ecn::Ect0);
        let flow = header.flow;
        assert_eq!((flow.protocol, flow.ports), (17, (5000, 443)));
        assert_eq!(flow.source.to_string(), "100.64.0.2");
        assert_eq!(flow.destination.to_string(), "100.64.0.1");
        let icmp = Header::read(&v4(1, 0, 0, (2048, 7))).unwrap();
        assert_eq!(icmp.flow.ports, (0, 0));
    }

    #[test]
    fn all_fragments_of_a_packet_are_one_flow() {
        let first = Header::read(&v4(17, 0, 0x2000, (5000, 443))).unwrap();
        let last = Header::read(&v4(17, 0, 0x00b9, (7, 9))).unwrap();
        assert_eq!(first, last);
        // `Don't fragment` is no fragment.
        assert_eq!(Header::read(&v4(17, 0, 0x4000, (5000, 443))).unwrap().flow.ports, (5000, 443));
    }

    #[test]
    fn ipv6_is_read_behind_its_extensions() {
        let udp = [0x13, 0x88, 1, 0xbb, 0, 8, 0, 0];
        let plain = Header::read(&v6(&[(17, &[])], &udp)).unwrap();
        assert_eq!((plain.flow.protocol, plain.flow.ports, plain.ecn), (17, (5000, 443), Ecn::Ect0));
        let hop = [DESTINATION, 0, 0, 0, 0, 0, 0, 0];
        let options = [17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let behind = v6(&[(HOP_BY_HOP, &hop), (DESTINATION, &options), (17, &[])], &udp);
        assert_eq!(Header::read(&behind).unwrap(), plain);
        let fragment = [17, 0, 0, 1, 0, 0, 0, 9];
        let fragment = Header::read(&v6(&[(FRAGMENT, &fragment), (17, &[])], &udp)).unwrap();
        assert_eq!((fragment.flow.protocol, fragment.flow.ports), (17, (0, 0)));
    }

    #[test]
    fn a_mark_keeps_the_checksum_right() {
        for tos in 0..=255u8 {
            let mut packet = v4(6, tos, 0, (1, 2));
            set_ecn(&mut packet, Ecn::Ce);
            assert_eq!(packet[1], tos | 3);
            assert_eq!(sum(&packet[..20]), 0, "tos {tos:#x}");
        }
        let mut packet = v6(&[(17, &[])], &[0; 8]);
        set_ecn(&mut packet, Ecn::Ce);
        assert_eq!(packet[..4], [0x60, 0x30, 0, 0]);
    }

    #[test]
    fn flows_spread_over_the_numbers() {
        let flow = |port: u16| Header::read(&v4(17, 0, 0, (port, 443))).unwrap().flow.number();
        let mut numbers: Vec<u16> = (0..1000).map(flow).collect();
        numbers.sort_unstable();
        numbers.dedup();
        // 1000 of 65,536 drawn at random: 7.6 pairs coincide on average.
        assert!(numbers.len() >= 980, "{}", numbers.len());
        let lanes = numbers.iter().filter(|&&number| number % 1024 < 512).count();
        assert!((420..580).contains(&lanes), "{lanes}");
        assert_eq!(flow(5000), flow(5000));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            oracle(&bytes);
        }

        #[test]
        fn nearly_right_packets_neither(
            version in prop::sample::select(vec![0x45u8, 0x46, 0x4f, 0x60]), next in any::<u8>(),
            bytes in prop::collection::vec(any::<u8>(), 0..120)
        ) {
            let mut packet = [&[version], &bytes[..]].concat();
            if let Some(protocol) = packet.get_mut(6) {
                *protocol = [0, 17, 43, 44, 60, next][usize::from(next) % 6];
            }
            oracle(&packet);
        }
    }
}
