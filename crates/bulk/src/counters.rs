//! The totals a person asks for first.

/// A sender's counts since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Segments sent, again or for the first time.
    pub packets: u64,
    /// Datagram bytes of those.
    pub bytes: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Stream bytes the receiver is known to have in order.
    pub acked_bytes: u64,
    /// Transmissions given up.
    pub lost: u64,
    /// ... of which arrived after all.
    pub spurious: u64,
    /// Times a loss was found and repaired without a timeout.
    pub recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// ... of which were taken back.
    pub undone: u64,
    /// Tail loss probes.
    pub probes: u64,
    /// Acknowledgements heard.
    pub acks: u64,
    /// ... of which acknowledged nothing new in order, while something was outstanding.
    pub duplicate_acks: u64,
    /// Duplicates the receiver reported.
    pub dsacks: u64,
    /// Datagrams that do not decode.
    pub malformed: u64,
    /// Datagrams of another connection or kind.
    pub foreign: u64,
    /// Acknowledgements of what was never sent.
    pub implausible: u64,
}

/// A receiver's counts since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverCounters {
    /// Segments accepted.
    pub packets: u64,
    /// Stream bytes accepted, each once.
    pub bytes: u64,
    /// Stream bytes delivered in order.
    pub delivered: u64,
    /// Acknowledgements sent.
    pub acks: u64,
    /// Segments that held nothing new.
    pub duplicates: u64,
    /// Segments dropped because too many ranges were out of order.
    pub buffer_full: u64,
    /// Datagrams that do not decode.
    pub malformed: u64,
    /// Datagrams of another connection or kind.
    pub foreign: u64,
}
