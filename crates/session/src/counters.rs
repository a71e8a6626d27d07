//! What was dropped instead of handled, and the totals a person asks for first.

/// A sender's counts since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Datagrams sent that carried media or padding.
    pub packets: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Packets of frames that were sent again.
    pub retransmissions: u64,
    /// Packets that were given up as lost.
    pub lost: u64,
    /// ... of which arrived after all.
    pub spurious: u64,
    /// Frames captured.
    pub captured: u64,
    /// Frames that were captured late, because the source had no picture when they were due.
    pub starved: u64,
    /// Frames of first tracks not encoded because the sender was behind, or left out by the encoder.
    pub skipped: u64,
    /// ... of which because the encoder had no time for them.
    pub shed: u64,
    /// Frames left out because a reliable track had as much on its way as it may keep.
    pub held_back: u64,
    /// Frames left out at first and encoded after all, when what waited had left.
    pub resumed: u64,
    /// Times the size of pictures changed.
    pub resized: u64,
    /// Frames the encoder delivered.
    pub encoded: u64,
    /// Frames dropped unsent or half sent because they had waited too long or could not be decoded any more,
    /// the outbox was full or the path's MTU fell.
    pub expired: u64,
    /// Times everything that waited was dropped, because the oldest of it had waited too long.
    pub resets: u64,
    /// Packets sent for a rate policy that keeps the pace with dummies.
    pub dummies: u64,
    /// Bytes of those.
    pub dummy_bytes: u64,
    /// ... of which repeated a packet of a frame instead of carrying nothing.
    pub repeats: u64,
    /// Errors of the encoder.
    pub encoder_errors: u64,
    /// Probes sent because nothing was heard.
    pub timeouts: u64,
    /// Datagrams that do not decode.
    pub malformed: u64,
    /// Datagrams of another session or kind.
    pub foreign: u64,
    /// Reports of packets never sent.
    pub implausible: u64,
}

/// How much of a session a strategy was at one thing, such as Prism's `recovery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeCount {
    /// As the strategy calls it ([`Strategy::mode`](crate::Strategy::mode)).
    pub mode: &'static str,
    /// Frames captured meanwhile.
    pub frames: u64,
    /// Times that it began.
    pub entered: u64,
}

/// A receiver's counts since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverCounters {
    /// Packets accepted.
    pub packets: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Feedback packets sent.
    pub feedback: u64,
    /// Requests to send packets again.
    pub nacks: u64,
    /// Key frames asked for.
    pub key_requests: u64,
    /// Frames of which every packet arrived.
    pub assembled: u64,
    /// Frames shown.
    pub displayed: u64,
    /// ... of which after their deadline.
    pub late: u64,
    /// Frames that were ready and never shown, because a newer one was due as well.
    pub passed_over: u64,
    /// Frames handed to the decoder though parts of them are missing.
    pub concealed: u64,
    /// Frames that were no longer waited for.
    pub abandoned: u64,
    /// ... of which to make room for newer ones.
    pub crowded_out: u64,
    /// Frames that would not decode.
    pub decode_errors: u64,
    /// Datagrams that do not decode.
    pub malformed: u64,
    /// Datagrams of another session or kind.
    pub foreign: u64,
    /// Packets that had arrived before; dropped.
    pub duplicates: u64,
    /// Packets of frames long gone, and those that come ten seconds and more after later numbers.
    pub stale: u64,
    /// Packets numbered so far ahead that they can only be wrong.
    pub far_future: u64,
    /// Packets dropped because a buffer was full.
    pub buffer_full: u64,
}

impl ReceiverCounters {
    /// Packets refused as malformed, foreign or implausible: what feedback reports to the sender.
    pub fn refused(&self) -> u32 {
        (self.malformed + self.foreign + self.far_future) as u32
    }
}
