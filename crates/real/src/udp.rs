//! A UDP socket as a driver's way to its peer.

use std::io;
use std::net::SocketAddr;

use units::Span;
use wire::{Control, Media};

use crate::clock::{Calendar, Clock};
use crate::driver::{Port, Take};
use crate::error::RealError;
use crate::settings::{Counters, Peer, Settings};
use crate::socket::{self, BATCH, Incoming, Outgoing, SLOT, Socket};
use crate::waker::Waker;

pub(crate) struct UdpPort {
    socket: Socket,
    clock: Clock,
    calendar: Calendar,
    connected: bool,
    peer: Option<SocketAddr>,
}

impl UdpPort {
    pub fn open(local: SocketAddr, peer: Peer, settings: &Settings) -> Result<UdpPort, RealError> {
        let peer = match peer {
            Peer::At(peer) => Some(peer),
            Peer::First => None,
        };
        let socket = Socket::open(local, peer, settings.batched)?;
        let calendar = Calendar::new(settings.clock);
        Ok(UdpPort { socket, clock: settings.clock, calendar, connected: peer.is_some(), peer })
    }

    /// A datagram was not sent; whether we are done with it.
    fn give_up(&self, error: &io::Error, counters: &mut Counters) -> Result<bool, RealError> {
        match error.kind() {
            // News of an earlier datagram; this one was not tried, and will be.
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => counters.refused += 1,
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::PermissionDenied => {
                return Err(RealError::Permission(self.peer.unwrap_or(self.local())));
            }
            _ => {
                counters.unsent += 1;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Port for UdpPort {
    fn local(&self) -> SocketAddr {
        self.socket.local()
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    fn room(&self) -> usize {
        SLOT
    }

    fn receive(&mut self, counters: &mut Counters, take: &mut Take<'_>) -> Result<bool, RealError> {
        let UdpPort { socket, clock, calendar, peer, .. } = self;
        let now = clock.now();
        let read = socket.receive(&mut |incoming| {
            if admit(&incoming, peer, counters) {
                let stamp = incoming.date_ns.map(|date| calendar.time_of(date, now));
                take(incoming.bytes, stamp, incoming.ecn);
            }
        });
        match read {
            Ok(count) => {
                counters.reads += u64::from(count > 0);
                Ok(count == BATCH)
            }
            Err(error) => excuse(error, self.local(), counters).map(|()| false),
        }
    }

    fn send(&mut self, datagrams: &[Outgoing], counters: &mut Counters) -> Result<usize, RealError> {
        let to = if self.connected { None } else { self.peer };
        let mut done = 0;
        while done < datagrams.len() {
            match self.socket.send(&datagrams[done..], to) {
                Ok(count) => {
                    let sent = &datagrams[done..done + count];
                    counters.sent_bytes +=
                        sent.iter().map(|datagram| datagram.meta.length as u64).sum::<u64>();
                    counters.sent += count as u64;
                    counters.writes += 1;
                    done += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    counters.blocked += 1;
                    break;
                }
                Err(error) => done += usize::from(self.give_up(&error, counters)?),
            }
        }
        Ok(done)
    }

    fn wait(&self, blocked: bool, waker: &Waker, timeout: Span) {
        socket::wait(&[&self.socket], blocked, waker, timeout);
    }
}

/// Passes over errors of a read that are news of an earlier datagram's fate.
fn excuse(error: io::Error, local: SocketAddr, counters: &mut Counters) -> Result<(), RealError> {
    use io::ErrorKind::{
        ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, NetworkUnreachable,
    };
    match error.kind() {
        ConnectionRefused | ConnectionReset => counters.refused += 1,
        Interrupted | HostUnreachable | NetworkUnreachable => {}
        _ => return Err(RealError::new(local, error)),
    }
    Ok(())
}

/// Whether a datagram is the peer's; the first that opens a session makes its sender the peer.
fn admit(incoming: &Incoming<'_>, peer: &mut Option<SocketAddr>, counters: &mut Counters) -> bool {
    if incoming.truncated {
        counters.oversize += 1;
        return false;
    }
    if peer.is_none() && opens_session(incoming.bytes) {
        *peer = Some(incoming.from);
    }
    let known =
        peer.is_some_and(|peer| peer.ip() == incoming.from.ip() && peer.port() == incoming.from.port());
    counters.foreign += u64::from(!known);
    known
}

/// Media, padding or a hello: what a sender sends first.
pub(crate) fn opens_session(bytes: &[u8]) -> bool {
    Media::decode(bytes).is_ok() || matches!(Control::decode(bytes), Ok(Control::Hello { .. }))
}
