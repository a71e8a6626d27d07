//! What a sender is given to send.

use media::{Encoder, Source};
use units::Span;

/// What a sender has to send.
pub enum Supply {
    /// Frames of an encoder.
    Video(Video),
    /// Frames of a capture that a strategy codes in several tracks.
    Tracks(Tracks),
    /// Always something, of no meaning: the backlogged flow of textbooks, as padding.
    Backlog,
}

/// An encoder and what feeds it.
pub struct Video {
    /// The encoder, or a model of one.
    pub encoder: Box<dyn Encoder>,
    /// Pictures; a model needs none. Its end is the stream's end.
    pub source: Option<Box<dyn Source>>,
    /// Time between frames.
    pub interval: Span,
}

/// Several encoders and what feeds them all.
pub struct Tracks {
    /// An encoder for each of the strategy's tracks ([`Strategy::tracks`](crate::Strategy::tracks)).
    pub encoders: Vec<Box<dyn Encoder>>,
    /// Pictures; models need none. Its end is the streams' end.
    pub source: Option<Box<dyn Source>>,
    /// Time between frames.
    pub interval: Span,
}

impl From<Video> for Tracks {
    fn from(Video { encoder, source, interval }: Video) -> Tracks {
        Tracks { encoders: vec![encoder], source, interval }
    }
}

impl Supply {
    /// How many encoders there are, where there are frames.
    pub fn encoders(&self) -> Option<usize> {
        match self {
            Supply::Video(_) => Some(1),
            Supply::Tracks(tracks) => Some(tracks.encoders.len()),
            Supply::Backlog => None,
        }
    }

    /// Time between frames, where there are any.
    pub fn interval(&self) -> Option<Span> {
        match self {
            Supply::Video(Video { interval, .. }) | Supply::Tracks(Tracks { interval, .. }) => {
                Some(*interval)
            }
            Supply::Backlog => None,
        }
    }
}
