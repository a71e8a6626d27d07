//! Many datagrams a system call, with the kernel's arrival times and ECN: recvmmsg(2), sendmmsg(2),
//! socket(7), ip(7).

use std::io;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use units::{Ecn, Span};

use super::{BATCH, Incoming, Outgoing, SLOT};
use crate::waker::Waker;

/// Room for control messages: an arrival time (timespec) and a traffic class (int), each with its header.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 96]);

const NO_CONTROL: Control = Control([0; 96]);

/// A socket and the memory the kernel reads and writes.
pub(crate) struct Batched {
    socket: UdpSocket,
    v6: bool,
    slots: [[u8; SLOT]; BATCH],
    names: [libc::sockaddr_storage; BATCH],
    controls: [Control; BATCH],
}

impl Batched {
    pub fn new(socket: UdpSocket, v6: bool) -> io::Result<Batched> {
        // Arrival times and ECN are worth having, but a socket without them still works.
        let _ = set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS);
        let _ = if v6 {
            set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS)
        } else {
            set(&socket, libc::IPPROTO_IP, libc::IP_RECVTOS)
        };
        // SAFETY: all zeros is a valid sockaddr_storage (of no family).
        let names = [unsafe { mem::zeroed() }; BATCH];
        Ok(Batched { socket, v6, slots: [[0; SLOT]; BATCH], names, controls: [NO_CONTROL; BATCH] })
    }

    pub fn receive(&mut self, take: &mut dyn FnMut(Incoming<'_>)) -> io::Result<usize> {
        // SAFETY: all zeros is a valid iovec and a valid mmsghdr, both of nothing.
        let mut pieces: [libc::iovec; BATCH] = unsafe { mem::zeroed() };
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        for k in 0..BATCH {
            pieces[k] = libc::iovec { iov_base: self.slots[k].as_mut_ptr().cast(), iov_len: SLOT };
            let header = &mut messages[k].msg_hdr;
            header.msg_name = (&raw mut self.names[k]).cast();
            header.msg_namelen = mem::size_of::<libc::sockaddr_storage>() as u32;
            header.msg_iov = &mut pieces[k];
            header.msg_iovlen = 1;
            header.msg_control = self.controls[k].0.as_mut_ptr().cast();
            header.msg_controllen = self.controls[k].0.len() as _;
        }
        let fd = self.socket.as_raw_fd();
        // SAFETY: every pointer in `messages` leads to memory of `self` or of this frame, of the length
        // beside it.
        let count = unsafe {
            libc::recvmmsg(fd, messages.as_mut_ptr(), BATCH as u32, libc::MSG_DONTWAIT, ptr::null_mut())
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) };
        }
        for (k, message) in messages[..count as usize].iter().enumerate() {
            let Some(from) = address(&self.names[k]) else { continue };
            let (date_ns, ecn) = notes(&message.msg_hdr);
            let truncated = message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            let bytes = &self.slots[k][..(message.msg_len as usize).min(SLOT)];
            take(Incoming { bytes, from, date_ns, ecn, truncated });
        }
        Ok(count as usize)
    }

    pub fn send(&mut self, datagrams: &[Outgoing], to: Option<SocketAddr>) -> io::Result<usize> {
        let to = to.map(socket2::SockAddr::from);
        // SAFETY: as in `receive`.
        let mut pieces: [[libc::iovec; 3]; BATCH] = unsafe { mem::zeroed() };
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        let mut controls = [NO_CONTROL; BATCH];
        let datagrams = &datagrams[..datagrams.len().min(BATCH)];
        for (k, datagram) in datagrams.iter().enumerate() {
            pieces[k] = datagram.pieces().map(|piece| libc::iovec {
                iov_base: piece.as_ptr().cast_mut().cast(),
                iov_len: piece.len(),
            });
            let header = &mut messages[k].msg_hdr;
            if let Some(to) = &to {
                header.msg_name = to.as_ptr().cast_mut().cast();
                header.msg_namelen = to.len();
            }
            header.msg_iov = pieces[k].as_mut_ptr();
            header.msg_iovlen = 3;
            if datagram.meta.ecn != Ecn::NotEct {
                mark(header, &mut controls[k], datagram.meta.ecn, self.v6);
            }
        }
        let fd = self.socket.as_raw_fd();
        // SAFETY: every pointer in `messages` leads to memory that outlives the call; the kernel only reads
        // it.
        let count =
            unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), datagrams.len() as u32, libc::MSG_DONTWAIT) };
        if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
    }
}

fn set(socket: &UdpSocket, level: i32, option: i32) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option's value is the int `on`, of the length given.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            mem::size_of_val(&on) as u32,
        )
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The address in `name`; `None` if it is of no internet family.
fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: of this family, the storage holds a sockaddr_in, which is no larger and no more
            // aligned.
            let name = unsafe { &*ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(name.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: likewise a sockaddr_in6.
            let name = unsafe { &*ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
            let port = u16::from_be(name.sin6_port);
            Some(SocketAddrV6::new(ip, port, name.sin6_flowinfo, name.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// What the kernel noted beside a datagram: the date of its arrival, and its ECN bits.
fn notes(header: &libc::msghdr) -> (Option<u64>, Ecn) {
    let (mut date_ns, mut ecn) = (None, Ecn::NotEct);
    // SAFETY: the kernel filled the control buffer and its length; the macros of cmsg(3) stay within them,
    // and `data` of each type has the size the kernel gives it (copied unaligned).
    unsafe {
        let mut note = libc::CMSG_FIRSTHDR(header);
        while !note.is_null() {
            let data = libc::CMSG_DATA(note);
            match ((*note).cmsg_level, (*note).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let time = data.cast::<libc::timespec>().read_unaligned();
                    date_ns = Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => ecn = Ecn::from_bits(data.read()),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    ecn = Ecn::from_bits(data.cast::<libc::c_int>().read_unaligned() as u8);
                }
                _ => {}
            }
            note = libc::CMSG_NXTHDR(header, note);
        }
    }
    (date_ns, ecn)
}

/// Has the kernel send this datagram with `ecn`.
fn mark(header: &mut libc::msghdr, control: &mut Control, ecn: Ecn, v6: bool) {
    let bits = ecn as libc::c_int;
    let (level, kind) =
        if v6 { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) } else { (libc::IPPROTO_IP, libc::IP_TOS) };
    // SAFETY: `control` has room for one int and its header, is aligned for it, and outlives `header`'s use.
    unsafe {
        let length = mem::size_of::<libc::c_int>() as u32;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(length) as _;
        let note = libc::CMSG_FIRSTHDR(header);
        (*note).cmsg_level = level;
        (*note).cmsg_type = kind;
        (*note).cmsg_len = libc::CMSG_LEN(length) as _;
        libc::CMSG_DATA(note).cast::<libc::c_int>().write_unaligned(bits);
    }
}

/// ppoll(2) with nanoseconds. The waker alone is waited for where there is no socket.
pub(crate) fn wait(sockets: &[&Batched], writable: bool, waker: &Waker, timeout: Span) {
    let events = if writable { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
    let nothing = libc::pollfd { fd: -1, events: 0, revents: 0 };
    // The kernel skips entries whose descriptor is negative.
    let mut polled = [nothing; 4];
    polled[0] = libc::pollfd { fd: waker.event().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    for (slot, socket) in polled[1..].iter_mut().zip(sockets) {
        *slot = libc::pollfd { fd: socket.socket.as_raw_fd(), events, revents: 0 };
    }
    let ns = timeout.as_nanos().max(0);
    let timeout = libc::timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
    // SAFETY: `polled` and `timeout` outlive the call. An early return (a signal, an error) only means a look
    // too many.
    unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as _, &timeout, ptr::null()) };
}

/// An eventfd(2): a counter that can be waited for.
pub(crate) fn event() -> io::Result<OwnedFd> {
    // SAFETY: a new descriptor, if not negative, is ours alone.
    unsafe {
        match libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) {
            fd if fd < 0 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

pub(crate) fn ring(event: &OwnedFd) {
    let one = 1u64;
    // SAFETY: writes eight bytes from `one`. It can only fail where the counter is full, and then it is
    // ringing.
    unsafe { libc::write(event.as_raw_fd(), (&raw const one).cast(), 8) };
}

pub(crate) fn silence(event: &OwnedFd) {
    let mut count = 0u64;
    // SAFETY: reads eight bytes into `count`. It fails where nobody rang, and then there is nothing to
    // silence.
    unsafe { libc::read(event.as_raw_fd(), (&raw mut count).cast(), 8) };
}
