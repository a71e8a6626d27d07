//! Our congestion controllers inside QUIC's own streams: live under quinn, and in virtual time.
//!
//! ```text
//!  an application's streams -> quinn -> Congestion builds --> Adapter: Ledger, Rtt -> Report -> cc::Controller
//!                                '----- window() <------------------- Decision <--------------------'
//!  Timing (probes, echoes) ---- datagrams of quinn's ---> Echoes          one-way delays, for controllers that use them
//! ```
//!
//! An application of quinn's changes one line (`examples/one_line.rs` is all of it):
//!
//! ```
//! # use framewire_quic as quic;
//! # fn main() -> Result<(), quic::CongestionError> {
//! # let mut transport = quinn::TransportConfig::default();
//! transport.congestion_controller_factory(quic::Congestion::new("quic-dc:threshold=20ms")?);
//! # Ok(())
//! # }
//! ```
//!
//! [`simulated`] drives quinn's state machine as a [`wire::Endpoint`], so that the same code that runs live
//! runs on netsim's links in virtual time, the same bytes at the same nanoseconds every time. What quinn
//! tells a controller, and what of a [`cc::Report`] is rebuilt from it, is in `docs/quic-controllers.md`.

mod adapter;
mod clock;
mod congestion;
mod echoes;
mod ledger;
mod rtt;
pub mod simulated;
mod state;
mod timing;

pub use adapter::Adapter;
pub use clock::Epoch;
pub use congestion::{Congestion, CongestionError};
pub use echoes::{EchoCounters, Echoes};
pub use state::Totals;
pub use timing::Timing;
