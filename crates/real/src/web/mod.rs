//! Browsers: a page over HTTP, and media over WebTransport beside it. `docs/browser.md` says how it looks
//! from the other side.
//!
//! ```text
//!   GET / ---------------------> Pages (TCP, plain HTTP: a page of 127.0.0.1 is trusted to use WebTransport)
//!   CONNECT, webtransport -----> WebServer (UDP, QUIC, HTTP/3)
//!       Open, token -----------> Gate --> Visitor --> WebServer::accept
//!       Ready <------------------------- Visitor::welcome --> WebChannel, under a Driver on a thread of its own
//!       Wish, Seen, ClockAsk --> heard there
//! ```

mod link;
mod pages;
mod server;
#[cfg(test)]
mod tests;

pub use link::{Heard, WebChannel};
pub use pages::{PageError, Pages};
pub use server::{Visitor, WebServer};
