//! UDP sockets that read and write many datagrams at a time, with arrival times and ECN where the system has
//! them.

#[cfg(target_os = "linux")]
pub(crate) mod linux;
mod plain;

use std::io;
use std::net::{SocketAddr, UdpSocket};

use bytes::Bytes;
use units::{Ecn, Span};
use wire::{MAX_DATAGRAM, TxMeta};

use crate::RealError;
use crate::waker::Waker;

/// Most datagrams read or written at once.
pub(crate) const BATCH: usize = 32;
/// Longest datagram read; a longer one is dropped and counted.
pub(crate) const SLOT: usize = 2048;
/// Socket buffers asked for, in bytes: 100 ms at 300 Mbit/s. Linux grants what net.core.rmem_max allows.
const BUFFER: usize = 4 << 20;
/// What follows a datagram's header and payload up to its length.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// A datagram that has arrived.
pub(crate) struct Incoming<'a> {
    pub bytes: &'a [u8],
    pub from: SocketAddr,
    /// The date at which the kernel took it in, in ns since 1970.
    pub date_ns: Option<u64>,
    pub ecn: Ecn,
    /// It was longer than a slot.
    pub truncated: bool,
}

/// A datagram to be sent.
pub(crate) struct Outgoing {
    pub head: [u8; SLOT],
    pub meta: TxMeta,
}

impl Outgoing {
    pub fn new() -> Outgoing {
        const { assert!(SLOT >= MAX_DATAGRAM) };
        Outgoing { head: [0; SLOT], meta: TxMeta::default() }
    }

    /// The datagram in three pieces: header, payload, zeros.
    pub fn pieces(&self) -> [&[u8]; 3] {
        let head = &self.head[..self.meta.head];
        let payload: &[u8] = self.meta.payload.as_ref().map_or(&[], Bytes::as_ref);
        let zeros = self.meta.length.saturating_sub(head.len() + payload.len());
        [head, payload, &ZEROS[..zeros.min(ZEROS.len())]]
    }
}

/// A UDP socket, by the best means there are.
pub(crate) struct Socket {
    means: Means,
    local: SocketAddr,
}

enum Means {
    #[cfg(target_os = "linux")]
    Batched(Box<linux::Batched>),
    Plain(Box<plain::Plain>),
}

impl Socket {
    /// A socket at `local`; connected to `peer`, if one is given, so that it hears no other.
    pub fn open(local: SocketAddr, peer: Option<SocketAddr>, batched: bool) -> Result<Socket, RealError> {
        let socket = bind(local).map_err(|source| RealError::new(local, source))?;
        if let Some(peer) = peer {
            socket.connect(peer).map_err(|source| RealError::new(peer, source))?;
        }
        let local = socket.local_addr().map_err(|source| RealError::new(local, source))?;
        let means = Means::new(socket, local, batched).map_err(|source| RealError::new(local, source))?;
        Ok(Socket { means, local })
    }

    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Takes what has arrived, at most [`BATCH`] datagrams, without waiting; returns how many there were.
    pub fn receive(&mut self, take: &mut dyn FnMut(Incoming<'_>)) -> io::Result<usize> {
        match &mut self.means {
            #[cfg(target_os = "linux")]
            Means::Batched(socket) => socket.receive(take),
            Means::Plain(socket) => socket.receive(take),
        }
    }

    /// Sends datagrams to `to` (or the connected peer) without waiting; returns how many were sent before the
    /// system would take no more. An error is about the first that was not.
    pub fn send(&mut self, datagrams: &[Outgoing], to: Option<SocketAddr>) -> io::Result<usize> {
        match &mut self.means {
            #[cfg(target_os = "linux")]
            Means::Batched(socket) => socket.send(datagrams, to),
            Means::Plain(socket) => socket.send(datagrams, to),
        }
    }
}

impl Means {
    fn new(socket: UdpSocket, local: SocketAddr, batched: bool) -> io::Result<Means> {
        #[cfg(target_os = "linux")]
        if batched {
            return Ok(Means::Batched(Box::new(linux::Batched::new(socket, local.is_ipv6())?)));
        }
        let _ = (local, batched);
        Ok(Means::Plain(Box::new(plain::Plain::new(socket))))
    }

    #[cfg(target_os = "linux")]
    fn batched(&self) -> Option<&linux::Batched> {
        match self {
            Means::Batched(socket) => Some(socket),
            Means::Plain(_) => None,
        }
    }
}

/// A socket at `local` that never waits, with buffers as large as the system grants.
pub(crate) fn bind(local: SocketAddr) -> io::Result<UdpSocket> {
    let domain = socket2::Domain::for_address(local);
    let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, Some(socket2::Protocol::UDP))?;
    // Smaller buffers than asked for are no reason to fail.
    let _ = socket.set_recv_buffer_size(BUFFER);
    let _ = socket.set_send_buffer_size(BUFFER);
    socket.set_nonblocking(true)?;
    socket.bind(&local.into())?;
    Ok(socket.into())
}

/// Waits until a socket has something to read (or, if `writable`, room to write), the waker rings, or
/// `timeout` is over.
pub(crate) fn wait(sockets: &[&Socket], writable: bool, waker: &Waker, timeout: Span) {
    if waker.is_rung() || !timeout.is_positive() {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        let batched: Option<Vec<_>> = sockets.iter().map(|socket| socket.means.batched()).collect();
        if let Some(batched) = batched {
            return linux::wait(&batched, writable, waker, timeout);
        }
    }
    let _ = (sockets, writable);
    plain::wait(timeout);
}
