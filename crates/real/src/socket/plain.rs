//! One datagram at a time, by the standard library alone: for systems without anything better.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use units::{Ecn, Span};

use super::{BATCH, Incoming, Outgoing, SLOT};

pub(crate) struct Plain {
    socket: UdpSocket,
    buffer: [u8; SLOT],
    scratch: Vec<u8>,
}

impl Plain {
    pub fn new(socket: UdpSocket) -> Plain {
        Plain { socket, buffer: [0; SLOT], scratch: Vec::new() }
    }

    pub fn receive(&mut self, take: &mut dyn FnMut(Incoming<'_>)) -> io::Result<usize> {
        for count in 0..BATCH {
            match self.socket.recv_from(&mut self.buffer) {
                Ok((length, from)) => {
                    let (bytes, truncated) = (&self.buffer[..length], length == SLOT);
                    take(Incoming { bytes, from, date_ns: None, ecn: Ecn::NotEct, truncated });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(count),
                Err(error) if count == 0 => return Err(error),
                Err(_) => return Ok(count),
            }
        }
        Ok(BATCH)
    }

    pub fn send(&mut self, datagrams: &[Outgoing], to: Option<SocketAddr>) -> io::Result<usize> {
        for (count, datagram) in datagrams.iter().enumerate() {
            self.scratch.clear();
            datagram.pieces().iter().for_each(|piece| self.scratch.extend_from_slice(piece));
            let sent = match to {
                Some(to) => self.socket.send_to(&self.scratch, to),
                None => self.socket.send(&self.scratch),
            };
            match sent {
                Ok(_) => {}
                Err(error) if count == 0 => return Err(error),
                Err(_) => return Ok(count),
            }
        }
        Ok(datagrams.len())
    }
}

/// Sleeps for a while: without a way to wait for several things at once, they are looked at 4000 times a
/// second.
pub(crate) fn wait(timeout: Span) {
    const LOOK_EVERY: Span = Span::from_micros(250);
    std::thread::sleep(Duration::from_nanos(timeout.min(LOOK_EVERY).as_nanos().max(0) as u64));
}
