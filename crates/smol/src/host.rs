//! A machine with one of smoltcp's interfaces and one socket.

use smoltcp::iface::{Config as Settings, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use units::{Rng, Span, Time};

use crate::clock::{moment, time};
use crate::config::Config;
use crate::device::Wire;
use crate::segment::{Arrival, Segment, Side};

/// What IP and UDP add to a datagram.
const OVERHEAD: usize = 28;
/// Bytes in the buffers at either end, and so the receive window: 0.3 s at 100 Mbit/s. What congestion
/// control is to limit, it does not.
const WINDOW: usize = 4 << 20;
/// Bytes in the buffers that hardly anything goes through.
const LEAST: usize = 1 << 12;
/// If smoltcp asks to be polled at once, after it was, it is polled again so much later: a host whose timer
/// ticks every millisecond.
const TICK: Span = Span::from_millis(1);

/// Interface, socket and device.
pub struct Host {
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    wire: Wire,
    side: Side,
    mtu: usize,
    wake: Option<Time>,
}

impl Host {
    pub fn new(config: &Config, side: Side) -> Host {
        let mtu = usize::from(config.mtu);
        let mut wire = Wire::new(mtu + OVERHEAD);
        let mut settings = Settings::new(HardwareAddress::Ip);
        settings.random_seed = Rng::stream(config.seed, &format!("smoltcp/{side:?}")).next_u64();
        let mut interface = Interface::new(settings, &mut wire, moment(Time::ZERO));
        interface.update_ip_addrs(|addresses| {
            let ours = IpCidr::new(IpAddress::Ipv4(side.address().into()), 24);
            addresses.push(ours).expect("an interface has room for an address");
        });
        let (received, sent) = match side {
            Side::Client => (LEAST, WINDOW),
            Side::Server => (WINDOW, LEAST),
        };
        let mut socket = Socket::new(SocketBuffer::new(vec![0; received]), SocketBuffer::new(vec![0; sent]));
        socket.set_congestion_control(config.control.smoltcps());
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(socket);
        Host { interface, sockets, socket, wire, side, mtu, wake: None }
    }

    /// Opens the connection.
    pub fn connect(&mut self) {
        let remote = (IpAddress::Ipv4(self.side.other().address().into()), self.side.other().port());
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        let opened = socket.connect(self.interface.context(), remote, self.side.port());
        opened.expect("a new socket, and addresses that are fixed and valid");
    }

    /// Waits for a connection.
    pub fn listen(&mut self) {
        let port = self.side.port();
        self.socket().listen(port).expect("a new socket, and a port that is not zero");
    }

    pub fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.socket)
    }

    /// Reads a datagram; see [`Arrival::read`].
    pub fn read<'a>(&self, datagram: &'a [u8], length: usize) -> Option<Arrival<'a>> {
        Arrival::read(datagram, length, self.mtu)
    }

    /// Hands smoltcp what has arrived.
    pub fn hear(&mut self, now: Time, arrival: &Arrival<'_>) {
        self.wire.put(arrival.packet(self.side.other()));
        self.poll(now);
    }

    /// Lets smoltcp do what it wants to do now.
    pub fn poll(&mut self, now: Time) {
        let at = moment(now);
        self.interface.poll(at, &mut self.wire, &mut self.sockets);
        let wanted = self.interface.poll_at(at, &self.sockets).map(time);
        self.wake = wanted.map(|wanted| if wanted > time(at) { wanted } else { now + TICK });
    }

    pub fn next_wake(&self) -> Option<Time> {
        self.wake
    }

    /// The next segment to be sent.
    pub fn take(&mut self) -> Option<Segment> {
        self.wire.take()
    }
}
