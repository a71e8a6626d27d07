//! What a sender and a receiver are told before they start.

use units::{Ecn, Span};

/// How losses are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detection {
    /// Three segments above have arrived (RFC 6675); a lost retransmission waits for the timeout. What ns-3
    /// does.
    Sack,
    /// One sent later has arrived, long enough ago; a probe finds losses at the tail (RFC 8985). What Linux
    /// does.
    #[default]
    RackTlp,
}

/// Which transmission of a segment an acknowledgement is attributed to, if there were several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attribution {
    /// The one that arrived: each keeps its own send time and delivery snapshot, as packets of QUIC do.
    #[default]
    Transmission,
    /// The latest: a retransmission overwrites its segment's send time and snapshot, as in Linux and ns-3. A
    /// late arrival of the original is taken for the retransmission's.
    Segment,
}

/// A sender's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderConfig {
    /// Connection number; the receiver takes segments of this one only.
    pub session: u32,
    /// Most payload in a segment, in bytes, 1 to 1448.
    pub mss: u32,
    /// How losses are found.
    pub detection: Detection,
    /// Which transmission an acknowledgement is attributed to.
    pub attribution: Attribution,
    /// With [`Attribution::Segment`], a segment sent more than once still gives a round-trip sample, from the
    /// timestamp that is echoed (RFC 7323), as in Linux. Without, it gives none (Karn's rule), and a timeout
    /// stays doubled until one that was sent once is acknowledged (RFC 6298 section 5). Deviation
    /// of [`SenderConfig::ns3`]: ns-3 reckons its timeout anew with every cumulative acknowledgement that
    /// advances (`TcpSocketBase::NewAck`).
    pub timestamps: bool,
    /// Least retransmission timeout.
    pub rto_min: Span,
    /// Greatest retransmission timeout, back-off included.
    pub rto_max: Span,
    /// How long the receiver may hold an acknowledgement back ([`ReceiverConfig::ack_delay`]).
    pub ack_delay: Span,
    /// The peer's receive window: most bytes from the first that is not acknowledged to the last sent.
    pub receive_window: u64,
    /// Takes a timeout back when an acknowledgement of what was sent before it shows that it was spurious (as
    /// RFC 3522; the acknowledgement names its transmission, where TCP would compare timestamps). What had
    /// been given up is in flight again.
    pub undo: bool,
    /// Begins with a handshake: an empty segment, and nothing else until it is answered, as TCP's SYN.
    /// Without, data goes at once.
    pub handshake: bool,
    /// The controller's pacing is kept. Without, whatever the window allows leaves at once, clocked by
    /// acknowledgements.
    pub paced: bool,
    /// Packets that leave together, 1 or more ([`Pacer::in_bunches`](transport::Pacer::in_bunches)).
    pub bunch: u32,
    /// Segmentation offload as in Linux: what the pace carries in a millisecond leaves together, two segments
    /// at least. `bunch` and the controller's burst then count for nothing.
    pub offload: bool,
    /// ECN bits to send with.
    pub ecn: Ecn,
}

impl Default for SenderConfig {
    /// Segments of 1448 bytes, RACK-TLP, a snapshot for each transmission, a timeout of 200 ms to 60 s
    /// (Linux's minimum, RFC 6298's maximum), a window of 16 MiB (at 100 Mbit/s, 1.3 s), nothing undone, no
    /// handshake, no ECN.
    fn default() -> SenderConfig {
        SenderConfig {
            session: 1,
            mss: 1448,
            detection: Detection::RackTlp,
            attribution: Attribution::Transmission,
            timestamps: true,
            rto_min: Span::from_millis(200),
            rto_max: Span::from_secs(60),
            ack_delay: Span::from_millis(40),
            receive_window: 16 << 20,
            undo: false,
            handshake: false,
            paced: true,
            bunch: 1,
            offload: false,
            ecn: Ecn::NotEct,
        }
    }
}

impl SenderConfig {
    /// As ns-3's TCP, which CC-Fuzz tested: SACK without RACK, snapshots overwritten, Karn's rule, a timeout
    /// of at least a second.
    pub fn ns3() -> SenderConfig {
        SenderConfig {
            detection: Detection::Sack,
            attribution: Attribution::Segment,
            timestamps: false,
            rto_min: Span::from_secs(1),
            handshake: true,
            ..SenderConfig::default()
        }
    }

    /// As Linux's TCP under the packet scheduler `fq`: RACK-TLP, snapshots overwritten, a timeout of at least
    /// 200 ms, spurious ones undone, segments in pairs and more.
    pub fn linux() -> SenderConfig {
        SenderConfig {
            attribution: Attribution::Segment,
            undo: true,
            handshake: true,
            offload: true,
            ..SenderConfig::default()
        }
    }

    /// As Linux's TCP under any other scheduler, `pfifo_fast` for one: [`SenderConfig::linux`] without
    /// pacing, which the kernel leaves to `fq` since 3.12 and does itself, since 4.13, for a controller that
    /// asks for it only (`tcp_needs_internal_pacing`; BBR does, CUBIC does not).
    pub fn linux_unpaced() -> SenderConfig {
        SenderConfig { paced: false, ..SenderConfig::linux() }
    }

    /// [`SenderConfig::linux`] with its offloads off (`ethtool -K DEVICE tso off gso off`): it differs from
    /// the others in how it recovers, not in how it sends.
    pub fn linux_no_offload() -> SenderConfig {
        SenderConfig { offload: false, ..SenderConfig::linux() }
    }
}

/// A sender's settings under a name.
pub struct Preset {
    /// What they are called in scenarios.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Makes the sender's settings that the name stands for.
    pub config: fn() -> SenderConfig,
}

impl Preset {
    /// All of them, in the order they are listed to people.
    pub const ALL: [Preset; 5] = [
        Preset {
            name: "quic",
            summary: "RACK-TLP, each transmission with its own snapshot, timeout of at least 200 ms",
            config: SenderConfig::default,
        },
        Preset {
            name: "linux",
            summary: "RACK-TLP, snapshots overwritten by retransmissions, timeout of at least 200 ms, undo, segments in pairs",
            config: SenderConfig::linux,
        },
        Preset {
            name: "linux-unpaced",
            summary: "the same, clocked by acknowledgements alone: Linux without its packet scheduler fq",
            config: SenderConfig::linux_unpaced,
        },
        Preset {
            name: "linux-no-offload",
            summary: "as linux, one segment at a time",
            config: SenderConfig::linux_no_offload,
        },
        Preset {
            name: "ns3",
            summary: "SACK (RFC 6675), snapshots overwritten by retransmissions, timeout of at least 1 s",
            config: SenderConfig::ns3,
        },
    ];

    /// The settings called `name`.
    pub fn find(name: &str) -> Option<SenderConfig> {
        Preset::ALL.iter().find(|preset| preset.name == name).map(|preset| (preset.config)())
    }
}

/// A receiver's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiverConfig {
    /// Connection number; `None` takes the first one heard.
    pub session: Option<u32>,
    /// An acknowledgement goes out at the latest with this many segments, at least 1 ...
    pub ack_every: u32,
    /// ... or this long after the first of them.
    pub ack_delay: Span,
    /// Most SACK blocks in an acknowledgement, 1 to 8.
    pub sack_blocks: usize,
    /// Report duplicates (RFC 2883).
    pub dsack: bool,
    /// Ranges kept out of order at most; a segment that would open another is dropped.
    pub ranges: usize,
}

impl Default for ReceiverConfig {
    /// Every second segment (RFC 5681 section 4.2) or after 40 ms (Linux's least), three SACK blocks (all
    /// that TCP's options hold beside timestamps), duplicates reported, 16384 ranges (more than a window of
    /// 16 MiB can have).
    fn default() -> ReceiverConfig {
        ReceiverConfig {
            session: None,
            ack_every: 2,
            ack_delay: Span::from_millis(40),
            sack_blocks: 3,
            dsack: true,
            ranges: 1 << 14,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_found_and_a_full_packet_has_1500_bytes() {
        for preset in &Preset::ALL {
            let config = Preset::find(preset.name).unwrap();
            assert_eq!(config.datagram() + 28, 1500, "{}", preset.name);
        }
        assert_eq!(Preset::find("ns3").unwrap().rto_min, Span::from_secs(1));
        assert!(Preset::find("windows").is_none());
    }
}
