//! Predicts whether a packet that is sent in the next 50 ms will be lost (Devdeep Ray's thesis,
//! CMU-CS-22-143, section 4.5.4), from what a sender's ledger knows: when packets left, when and after which
//! round trip they were acknowledged, when they were given up.
//!
//! ```text
//! sent, acknowledged, lost -> Features -> Input: 16 windows x 8 figures -> Predictor -> 0 ... 1 -> Watch: alarm
//! ```
//!
//! A sender keeps a [`Watch`]:
//!
//! ```
//! use framewire_predict::{Passage, Watch, build};
//! use units::{Span, Time};
//!
//! let mut watch = Watch::new(build("cnn")?);
//! watch.sent(Time::from_millis(1));
//! // A report: the newest packet's round trip, and each acknowledged packet's times at both ends.
//! let passage = Passage { sent_at: Time::from_millis(1), arrived_at: Time::from_millis(21).on_wire() };
//! watch.heard(Time::from_millis(41), Span::from_millis(40), [passage].into_iter());
//! watch.lost(Time::from_millis(41));
//! // Before each frame, say: true where what is sent next is likely to be lost.
//! let alarm: bool = watch.alarm(Time::from_millis(50));
//! # Ok::<(), framewire_predict::PredictError>(())
//! ```
//!
//! `docs/loss-predictor.md` says what the shipped network was trained on and how well it does.

mod features;
mod file;
mod network;
mod predictor;
mod watch;

pub use features::{FEATURES, Features, HORIZON, Input, Passage, Row, STRIDE, WINDOW, WINDOWS, round_trip};
pub use file::{About, oracle};
pub use network::Network;
pub use predictor::{Entry, PredictError, Predictor, REGISTRY, RttThreshold, build};
pub use watch::Watch;
