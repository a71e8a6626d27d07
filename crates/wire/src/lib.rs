//! What travels between sender and receiver, and the [`Endpoint`] trait that both worlds drive.
//!
//! Nine kinds of packet: [`Media`] (frames and padding), [`Feedback`] (what arrived, and when), [`Nack`],
//! [`KeyFrameRequest`] and [`Control`] for interactive video, [`Segment`] and [`SegmentAck`] for a reliable
//! byte stream, [`TimingProbe`] and [`TimingEcho`] for one-way delays within QUIC; and beside them the
//! [`Message`]s of a connection's control stream. `docs/wire.md` draws them byte by byte and says how the
//! feedback differs from RFC 8888 and the QUIC receive-timestamps draft, and why. Decoding never panics,
//! never allocates and refuses whatever is truncated, over-long or of another version with a [`WireError`].

mod codec;
mod control;
mod dialect;
mod endpoint;
mod feedback;
mod media;
mod message;
pub mod oracle;
mod plain;
mod segment;
mod timing;
mod uploading;
mod viewing;

pub use codec::{Kind, VERSION, WireError, peek};
pub use control::{Announcement, Control, KeyFrameRequest, Nack};
pub use dialect::{Context, Dialect, Draft, Native, Outgoing, Spoken, Written};
pub use endpoint::{Endpoint, MAX_DATAGRAM, RxMeta, TxMeta};
pub use feedback::{Arrival, Arrivals, Feedback, FeedbackWriter, PlainArrivals, Ranges};
pub use media::{Class, FrameId, Media, Near};
pub use message::{Message, Offer, Refusal, Role};
pub use segment::{Segment, SegmentAck, SegmentArrival};
pub use timing::{TimedArrival, TimingEcho, TimingProbe};
pub use uploading::{Quality, Rated, Uploading, Watchers, Watching};
pub use viewing::{Seen, SeenFrame, Status, Viewing, Wish};
