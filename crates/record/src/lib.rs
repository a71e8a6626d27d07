//! What happened, when and where: [`Event`], the [`Recorder`] trait and its sinks.
//!
//! Endpoints and links report through a [`Tap`]: a handle that knows which node it belongs to and how that
//! node's clock relates to the world's, so that every recorded time is world time. Events are for people and
//! metrics; nothing that runs may read them back.

mod event;
mod facts;
mod qlog;
mod shared;
mod sink;
mod topic;

pub use event::{Dropped, Event, NodeId, Real};
pub use facts::Fact;
pub use qlog::{Origin, QLOG_BYTES, Qlog, Traffic, Vantage};
pub use shared::{Reentrant, Shared, Sink, Tap};
pub use sink::{Fan, Hash, Memory, Recorder};
pub use topic::{Topic, Topics};
