//! One of quinn's endpoints with at most one connection, driven by the calls of [`wire::Endpoint`].

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::BytesMut;
use quinn_proto::{
    AcceptError, Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, Incoming,
};
use units::{Ecn, Time};
use wire::{RxMeta, TxMeta};

use super::{SimulatedConfig, tls};
use crate::clock::{Epoch, Moment};

/// Addresses that netsim never looks at; RFC 5737's, which belong to nobody.
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 50_000);
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 443);

/// Answers outside a connection kept at most, such as a refusal; more are not owed to anybody.
const MOST_ANSWERS: usize = 8;

/// An endpoint of quinn's and its connection.
pub struct Core {
    endpoint: Endpoint,
    epoch: Epoch,
    remote: SocketAddr,
    connection: Option<(ConnectionHandle, Connection)>,
    /// Datagrams that belong to no connection, to be sent.
    answers: Vec<Vec<u8>>,
    buf: Vec<u8>,
    wake: Option<Time>,
}

impl Core {
    pub fn client(config: &SimulatedConfig, epoch: Epoch) -> Core {
        Core::new(Endpoint::new(config.endpoint("client"), None, false, None), epoch, SERVER)
    }

    pub fn server(config: &SimulatedConfig, epoch: Epoch) -> Core {
        let endpoint = Endpoint::new(config.endpoint("server"), Some(config.server()), false, None);
        Core::new(endpoint, epoch, CLIENT)
    }

    fn new(endpoint: Endpoint, epoch: Epoch, remote: SocketAddr) -> Core {
        Core { endpoint, epoch, remote, connection: None, answers: Vec::new(), buf: Vec::new(), wake: None }
    }

    /// Opens the connection, as its client.
    pub fn connect(&mut self, now: Time, client: quinn_proto::ClientConfig) {
        let now = self.epoch.moment(now);
        let opened = self.endpoint.connect(now, client, self.remote, tls::NAME);
        self.connection = Some(opened.expect("address, version and name are fixed and valid"));
        self.settle();
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The connection, once there is one.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut().map(|(_, connection)| connection)
    }

    pub fn receive(&mut self, now: Time, datagram: &[u8], meta: &RxMeta) {
        let at = self.epoch.moment(now);
        let mut whole = BytesMut::from(datagram);
        whole.extend_from_slice(meta.payload.as_deref().unwrap_or_default());
        self.buf.clear();
        let ecn = codepoint(meta.ecn);
        match self.endpoint.handle(at, self.remote, None, ecn, whole, &mut self.buf) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some((ours, connection)) = &mut self.connection
                    && *ours == handle
                {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(at, incoming),
            Some(DatagramEvent::Response(transmit)) => self.answer(transmit.size),
            None => {}
        }
        self.settle();
    }

    /// One connection is all there is; others are refused.
    fn accept(&mut self, at: Moment, incoming: Incoming) {
        if self.connection.is_some() {
            let transmit = self.endpoint.refuse(incoming, &mut self.buf);
            return self.answer(transmit.size);
        }
        match self.endpoint.accept(incoming, at, &mut self.buf, None) {
            Ok(accepted) => self.connection = Some(accepted),
            Err(AcceptError { response: Some(transmit), .. }) => self.answer(transmit.size),
            Err(AcceptError { response: None, .. }) => {}
        }
    }

    fn answer(&mut self, size: usize) {
        if self.answers.len() < MOST_ANSWERS {
            self.answers.push(self.buf[..size].to_vec());
        }
    }

    pub fn wake(&mut self, now: Time) {
        let due = self.wake.is_some_and(|at| at <= now);
        let at = self.epoch.moment(now);
        if let Some((_, connection)) = &mut self.connection
            && due
        {
            connection.handle_timeout(at);
            self.settle();
        }
    }

    pub fn next_wake(&self) -> Option<Time> {
        self.wake
    }

    /// Writes the next datagram into `out`.
    pub fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        if let Some(answer) = self.answers.pop() {
            out[..answer.len()].copy_from_slice(&answer);
            return Some(TxMeta { head: answer.len(), length: answer.len(), ..TxMeta::default() });
        }
        let at = self.epoch.moment(now);
        let (_, connection) = self.connection.as_mut()?;
        self.buf.clear();
        let transmit = connection.poll_transmit(at, 1, &mut self.buf);
        self.settle();
        let transmit = transmit?;
        let length = transmit.size;
        out[..length].copy_from_slice(&self.buf[..length]);
        let ecn = transmit.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8));
        Some(TxMeta { head: length, length, ecn, ..TxMeta::default() })
    }

    /// Passes on what connection and endpoint have to tell each other, and notes when the connection wants to
    /// be woken.
    fn settle(&mut self) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(answer);
            }
        }
        let epoch = self.epoch;
        self.wake = connection.poll_timeout().map(|at| epoch.time(at));
    }

    /// Lets `look` at the connection and passes on what came of it.
    pub fn with_connection<T>(&mut self, look: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        let seen = look(self.connection()?);
        self.settle();
        Some(seen)
    }
}

fn codepoint(ecn: Ecn) -> Option<EcnCodepoint> {
    match ecn {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some(EcnCodepoint::Ect0),
        Ecn::Ect1 => Some(EcnCodepoint::Ect1),
        Ecn::Ce => Some(EcnCodepoint::Ce),
    }
}
