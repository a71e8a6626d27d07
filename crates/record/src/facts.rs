//! Events as names and values, for tables.

use units::{Rate, RelativeDelay, Span, Time};

use crate::event::Real;
use crate::{Dropped, Event};

/// One value of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fact {
    /// A count, a number, a time or span in nanoseconds, a rate in bit/s, or 1 for what is so and 0 for what
    /// is not.
    Int(i64),
    /// A quantity; NaN where it is not known.
    Real(f64),
    /// A name or a cause.
    Text(&'static str),
}

macro_rules! whole {
    ($($kind:ty)*) => { $(impl From<$kind> for Fact {
        fn from(value: $kind) -> Fact {
            // Numbers of packets and bytes stay far below this.
            Fact::Int(i64::try_from(value).unwrap_or(i64::MAX))
        }
    })* };
}

whole!(u8 u16 u32 u64);

impl From<bool> for Fact {
    fn from(value: bool) -> Fact {
        Fact::Int(value.into())
    }
}

impl From<Time> for Fact {
    fn from(value: Time) -> Fact {
        value.as_nanos().into()
    }
}

impl From<Span> for Fact {
    fn from(value: Span) -> Fact {
        Fact::Int(value.as_nanos())
    }
}

impl From<RelativeDelay> for Fact {
    fn from(value: RelativeDelay) -> Fact {
        Fact::Int(value.as_nanos())
    }
}

impl From<Rate> for Fact {
    fn from(value: Rate) -> Fact {
        value.as_bps().into()
    }
}

impl From<Real> for Fact {
    fn from(value: Real) -> Fact {
        Fact::Real(value.0)
    }
}

impl From<Dropped> for Fact {
    fn from(value: Dropped) -> Fact {
        Fact::Text(value.name())
    }
}

impl Dropped {
    /// What tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Dropped::QueueFull => "queue full",
            Dropped::LinkLoss => "link loss",
            Dropped::QueuePolicy => "queue policy",
            Dropped::Oversize => "oversize",
            Dropped::Malformed => "malformed",
            Dropped::Foreign => "foreign",
            Dropped::Duplicate => "duplicate",
            Dropped::Stale => "stale",
            Dropped::FarFuture => "far future",
            Dropped::BufferFull => "buffer full",
            Dropped::Policed => "policed",
        }
    }
}

/// An event's name, and its fields by theirs, in the order of [`Event`].
macro_rules! facts {
    ($event:expr, $($variant:ident $name:literal { $($field:ident $key:literal),* })*) => {
        match *$event {
            $(Event::$variant { $($field),* } => ($name, vec![$(($key, Fact::from($field))),*]),)*
            Event::Observed { name, value } => {
                ("observed", vec![("name", Fact::Text(name)), ("value", value.into())])
            }
        }
    };
}

impl Event {
    /// Its name, and its fields with theirs: spans end in `_ns`, rates in `_bps`.
    ///
    /// ```
    /// use framewire_record::{Event, Fact};
    ///
    /// let (name, facts) = Event::PacketLost { packet: 7, size: 1200 }.facts();
    /// assert_eq!((name, facts[0]), ("packet_lost", ("packet", Fact::Int(7))));
    /// ```
    #[rustfmt::skip]
    pub fn facts(&self) -> (&'static str, Vec<(&'static str, Fact)>) {
        facts! { self,
            LinkEnqueued "link_enqueued" { flow "flow", size "size", backlog "backlog_bytes", packets "backlog_packets" }
            LinkDeparted "link_departed" { flow "flow", size "size", sojourn "sojourn_ns" }
            LinkDropped "link_dropped" { flow "flow", size "size", cause "cause" }
            Delivered "delivered" { flow "flow", size "size", delay "delay_ns" }
            PacketSent "packet_sent" {
                packet "packet", size "size", stream "stream", frame "frame", version "version", index "index",
                retransmission "retransmission", in_flight "in_flight"
            }
            PacketReceived "packet_received" {
                packet "packet", size "size", stream "stream", frame "frame", version "version", owd "delay_ns"
            }
            PacketAcked "packet_acked" { packet "packet", size "size" }
            PacketLost "packet_lost" { packet "packet", size "size" }
            LossSpurious "loss_spurious" { packet "packet" }
            Rtt "rtt" { latest "latest_ns", smoothed "smoothed_ns" }
            Decision "decision" { window "window", pacing "pacing_bps", media "media_bps" }
            HostDropped "host_dropped" { cause "cause" }
            FrameCaptured "frame_captured" { stream "stream", frame "frame" }
            FrameSkipped "frame_skipped" { stream "stream", frame "frame" }
            FrameEncoded "frame_encoded" {
                stream "stream", frame "frame", version "version", size "size", key "key", target "target_bps",
                height "height", psnr "psnr_db", ssim "ssim"
            }
            FrameSent "frame_sent" { stream "stream", frame "frame", version "version", packets "packets" }
            FrameAssembled "frame_assembled" { stream "stream", frame "frame", version "version", size "size" }
            FrameDisplayed "frame_displayed" {
                stream "stream", frame "frame", version "version", captured_local "captured_ns", late "late"
            }
            FrameAbandoned "frame_abandoned" { stream "stream", frame "frame", version "version" }
            FrameQuality "frame_quality" {
                stream "stream", frame "frame", version "version", psnr "psnr_db", ssim "ssim"
            }
            NackSent "nack_sent" { count "count" }
            KeyFrameRequested "key_frame_requested" { stream "stream" }
            FeedbackSent "feedback_sent" { sequence "sequence", size "size" }
            FeedbackReceived "feedback_received" { sequence "sequence" }
            StreamDataMoved "stream_data_moved" { stream "stream", offset "offset", length "length" }
            FrameQualityModelled "frame_quality_modelled" {
                stream "stream", frame "frame", version "version", psnr "psnr_db", ssim "ssim"
            }
        }
    }
}
