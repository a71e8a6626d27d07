//! The vocabulary of a run.

use std::hash::{Hash, Hasher};

use units::{Rate, RelativeDelay, Span, Time};

/// A host or link; the world that runs them numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

/// A float that can be hashed (by its bits), so that events can be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Real(pub f64);

impl Hash for Real {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// Why something was dropped instead of handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dropped {
    /// The queue was full.
    QueueFull,
    /// The link's loss process took it.
    LinkLoss,
    /// Active queue management took it.
    QueuePolicy,
    /// Larger than the link carries.
    Oversize,
    /// Bytes that do not decode.
    Malformed,
    /// Bytes of another session or protocol version.
    Foreign,
    /// Seen before.
    Duplicate,
    /// Too old to matter.
    Stale,
    /// Numbers so far ahead that they can only be wrong.
    FarFuture,
    /// A bounded buffer was full.
    BufferFull,
    /// A policer found it too early.
    Policed,
}

/// One thing that happened. Sizes are bytes, `packet` is the sender's packet number, `frame` the capture
/// index and `version` which coding of it, 0 the first.
#[derive(Clone, Copy, Debug, PartialEq, Hash)]
#[allow(missing_docs, reason = "fields are named by the vocabulary above and explained per variant")]
pub enum Event {
    /// A link accepted a packet of `flow`; `backlog` bytes stand in its queue with it, `packets` packets.
    LinkEnqueued { flow: u16, size: u32, backlog: u32, packets: u32 },
    /// A packet left the queue's server after `sojourn` since its arrival at the link (waiting and
    /// serialisation).
    LinkDeparted { flow: u16, size: u32, sojourn: Span },
    /// A link dropped a packet of `flow`.
    LinkDropped { flow: u16, size: u32, cause: Dropped },
    /// A packet reached the far end of a path, `delay` after its sender handed it over.
    Delivered { flow: u16, size: u32, delay: Span },

    /// The sender handed a packet to the network. `frame` is `u32::MAX` for packets of no frame.
    PacketSent {
        packet: u64,
        size: u32,
        stream: u8,
        frame: u32,
        version: u8,
        index: u16,
        retransmission: bool,
        in_flight: u32,
    },
    /// The receiver accepted a media or padding packet.
    PacketReceived { packet: u64, size: u32, stream: u8, frame: u32, version: u8, owd: RelativeDelay },
    /// The sender learnt that a packet arrived.
    PacketAcked { packet: u64, size: u32 },
    /// The sender gave a packet up.
    PacketLost { packet: u64, size: u32 },
    /// A packet given up had arrived after all.
    LossSpurious { packet: u64 },
    /// A round-trip sample, with the smoothed value after it.
    Rtt { latest: Span, smoothed: Span },
    /// What the controller wants now. `u64::MAX` window and [`Rate::MAX`] stand for "no limit".
    Decision { window: u64, pacing: Rate, media: Rate },
    /// A named inner quantity of a controller, for plots.
    Observed { name: &'static str, value: Real },
    /// Bytes or packets a host dropped instead of handling.
    HostDropped { cause: Dropped },

    /// A frame was captured (its raw picture was read).
    FrameCaptured { stream: u8, frame: u32 },
    /// A captured frame was not encoded, because the sender was behind or the encoder left it out.
    FrameSkipped { stream: u8, frame: u32 },
    /// The encoder finished a frame of `height` rows, 0 if they are not known. `psnr` (luma, dB) and `ssim`
    /// are NaN where the encoder does not know them.
    FrameEncoded {
        stream: u8,
        frame: u32,
        version: u8,
        size: u32,
        key: bool,
        target: Rate,
        height: u16,
        psnr: Real,
        ssim: Real,
    },
    /// The last packet of a frame left for the first time. It was cut into `packets`; those with a higher
    /// index were parity.
    FrameSent { stream: u8, frame: u32, version: u8, packets: u16 },
    /// Every packet of a frame has arrived.
    FrameAssembled { stream: u8, frame: u32, version: u8, size: u32 },
    /// A frame was shown. `late`: after its deadline, as the receiver judges it.
    FrameDisplayed { stream: u8, frame: u32, version: u8, captured_local: Time, late: bool },
    /// The receiver stopped waiting for a frame.
    FrameAbandoned { stream: u8, frame: u32, version: u8 },
    /// Picture quality of a displayed frame against its own source, measured outside the receiver.
    FrameQuality { stream: u8, frame: u32, version: u8, psnr: Real, ssim: Real },
    /// The receiver asked for `count` packets again.
    NackSent { count: u16 },
    /// The receiver asked for a key frame.
    KeyFrameRequested { stream: u8 },
    /// The receiver sent a feedback packet.
    FeedbackSent { sequence: u32, size: u32 },
    /// The sender heard a feedback packet; what follows from it comes next.
    FeedbackReceived { sequence: u32 },
    /// The application read `length` bytes of a QUIC stream, the first of which is byte `offset` of the
    /// stream.
    StreamDataMoved { stream: u64, offset: u64, length: u32 },
    /// What a model makes of the picture quality of a displayed frame, by what arrived of it: there is no
    /// picture.
    FrameQualityModelled { stream: u8, frame: u32, version: u8, psnr: Real, ssim: Real },
}
