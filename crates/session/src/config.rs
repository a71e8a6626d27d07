//! What a sender and a receiver are told before they start.

use units::Span;

/// A sender's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderConfig {
    /// Session number; the receiver takes packets of this one only.
    pub session: u32,
    /// Largest datagram (UDP payload) in bytes, 128 to 1472. A driver whose path carries less is sent less.
    pub mtu: usize,
    /// How long after its capture a frame is worth showing. Nothing is repeated that can't make it. `None`:
    /// 400 ms (ITU-T G.114's limit for conversation), and on long paths as long as two repairs take
    /// ([`SenderConfig::REPAIR_TRIPS`]).
    pub deadline: Option<Span>,
    /// Capture is skipped while the oldest unsent packet has waited this long: what is encoded now would only
    /// wait too.
    pub patience: Span,
    /// Packets that leave together, 1 or more ([`Pacer::in_bunches`](transport::Pacer::in_bunches)).
    pub bunch: u32,
    /// ECN bits to send with.
    pub ecn: units::Ecn,
    /// The source's width and height in pixels, announced to the receiver; (0, 0) where there are no
    /// pictures. A rate policy may have them coded with fewer rows, which the encoder must then be able to do
    /// ([`media::Ask::height`]).
    pub picture: (u16, u16),
}

impl SenderConfig {
    /// Where no deadline is given, a frame is worth showing for so long after its capture: ITU-T G.114's
    /// limit for conversation.
    pub const DEADLINE: Span = Span::from_millis(400);
    /// ... and for so many round trips after its first packet left: half a one for that packet, one for each
    /// of two repairs, and what it takes to notice a loss. A picture that stands still until a key frame
    /// arrives, which takes a round trip as well, is worth less.
    pub const REPAIR_TRIPS: i64 = 3;
}

impl Default for SenderConfig {
    /// 1200-byte datagrams (the QUIC minimum every path carries), a deadline that suits the path, capture
    /// skipped after 100 ms of waiting, no ECN.
    fn default() -> SenderConfig {
        SenderConfig {
            session: 1,
            mtu: 1200,
            deadline: None,
            patience: Span::from_millis(100),
            bunch: 1,
            ecn: units::Ecn::NotEct,
            picture: (0, 0),
        }
    }
}

/// A receiver's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiverConfig {
    /// Session number; `None` takes the first one heard.
    pub session: Option<u32>,
    /// Feedback goes out at latest this long after the first unreported packet.
    pub feedback_delay: Span,
    /// ... and after this many unreported packets that carry media.
    pub feedback_packets: u32,
    /// ... or this many that carry padding: a backlogged flow is acknowledged like TCP, every other packet.
    pub feedback_padding: u32,
    /// Ask for missing packets again.
    pub nack: bool,
    /// Show frames of which parts are missing, where the decoder can make pictures of them
    /// ([`media::Decoder::uses_parts`]): once their deadline has passed, or as soon as a newer frame is there
    /// where nothing is asked for again. Frames whose packets decode alone ([`media::Decoder::standalone`])
    /// are shown so in any case.
    pub conceal: bool,
    /// What decoding a frame takes where there is nothing to decode: the model of a decoder, one a track.
    pub decode_time: Span,
}

impl ReceiverConfig {
    /// Packets of padding that a report tells of where nothing else is said: a backlogged flow is
    /// acknowledged every other packet (RFC 9000 section 13.2.2).
    pub const PADDING: u32 = 2;
}

impl Default for ReceiverConfig {
    /// Feedback per frame and at most every 20 ms or 32 packets, every second packet of a backlogged flow
    /// (RFC 9000 section 13.2.2), missing packets asked for, no
    /// frame shown of which parts are missing, a model of a decoder that takes no time.
    fn default() -> ReceiverConfig {
        ReceiverConfig {
            session: None,
            feedback_delay: Span::from_millis(20),
            feedback_packets: 32,
            feedback_padding: ReceiverConfig::PADDING,
            nack: true,
            conceal: false,
            decode_time: Span::ZERO,
        }
    }
}
