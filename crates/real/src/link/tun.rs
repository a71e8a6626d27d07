//! TUN devices: network interfaces whose packets a process reads and writes (Linux, `tuntap.rst`,
//! netdevice(7)).
//!
//! Opened without offloads, so that the kernel cuts TCP's large segments and fills in checksums before we see
//! a packet: one read is one packet as it would stand on a wire. A device lives as long as the descriptor it
//! was made by, so that nothing is left of it however the process ends.

use std::ffi::c_short;
use std::io;
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::addresses::{self, Block};
use super::error::LinkError;

/// Packets that wait in a device until we read them, as many as before an Ethernet interface (`ether_setup`).
/// More would be a buffer that no link knows of.
const QUEUE: i32 = 1000;

/// One end of a link.
#[derive(Debug)]
pub(crate) struct Tun {
    fd: OwnedFd,
    name: String,
}

impl Tun {
    /// Makes the device `name` in the calling thread's network namespace; an error of kind
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy) if there is one of that name.
    pub fn create(name: &str) -> Result<Tun, LinkError> {
        let path = c"/dev/net/tun";
        let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
        // SAFETY: `path` is a C string; a new descriptor, if not negative, is ours alone.
        let fd = unsafe {
            match libc::open(path.as_ptr(), flags) {
                fd if fd < 0 => return Err(no_tun(io::Error::last_os_error())),
                fd => OwnedFd::from_raw_fd(fd),
            }
        };
        let mut request = request(name);
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_TUN_EXCL) as c_short;
        // SAFETY: TUNSETIFF reads and writes an ifreq.
        let failed = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        match failed {
            0 => Ok(Tun { fd, name: name.to_owned() }),
            _ => Err(LinkError::new("make a TUN device", io::Error::last_os_error())),
        }
    }

    /// Gives it `address` in `block`, in IPv4 and, where the kernel has it, in IPv6, and brings it up; if
    /// `forward`, the kernel forwards what comes from it in IPv6 too.
    pub fn configure(
        &self,
        block: Block,
        address: Ipv4Addr,
        mtu: u32,
        forward: bool,
    ) -> Result<(), LinkError> {
        let what = "set up the TUN device";
        let control = Control::new(libc::AF_INET).map_err(|source| LinkError::new(what, source))?;
        let steps = || {
            control.set(&self.name, libc::SIOCSIFMTU, |r| r.ifr_ifru.ifru_mtu = mtu as i32)?;
            // Linux keeps this for the machine's own root; others have its default of 500. The field shares
            // its place with the MTU's.
            let _ = control.set(&self.name, libc::SIOCSIFTXQLEN, |r| r.ifr_ifru.ifru_mtu = QUEUE);
            control.set(&self.name, libc::SIOCSIFADDR, |r| r.ifr_ifru.ifru_addr = internet(address))?;
            control
                .set(&self.name, libc::SIOCSIFNETMASK, |r| r.ifr_ifru.ifru_addr = internet(block.mask()))?;
            // Without multicast the kernel sends no group reports of its own into the link.
            let flags = (libc::IFF_UP | libc::IFF_POINTOPOINT | libc::IFF_NOARP) as c_short;
            quieten(&self.name);
            control.set(&self.name, libc::SIOCSIFFLAGS, |r| r.ifr_ifru.ifru_flags = flags)
        };
        steps().map_err(|source| LinkError::new(what, source))?;
        // A machine without IPv6 still has a link.
        let _ = self.configure_v6(block, address);
        if forward {
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{}/forwarding", self.name), "1");
        }
        Ok(())
    }

    fn configure_v6(&self, block: Block, address: Ipv4Addr) -> io::Result<()> {
        let request = libc::in6_ifreq {
            ifr6_addr: libc::in6_addr { s6_addr: addresses::v6(address).octets() },
            ifr6_prefixlen: addresses::v6_prefix(block.prefix()).into(),
            ifr6_ifindex: self.index()? as i32,
        };
        let control = Control::new(libc::AF_INET6)?;
        // SAFETY: on an IPv6 socket SIOCSIFADDR reads an in6_ifreq.
        check(unsafe { libc::ioctl(control.0.as_raw_fd(), libc::SIOCSIFADDR as _, &raw const request) })
    }

    fn index(&self) -> io::Result<u32> {
        let name = std::ffi::CString::new(self.name.as_str()).map_err(io::Error::other)?;
        // SAFETY: `name` is a C string.
        match unsafe { libc::if_nametoindex(name.as_ptr()) } {
            0 => Err(io::Error::last_os_error()),
            index => Ok(index),
        }
    }

    /// Sends everything that has no better way through this device, by way of `gateway` at its other end.
    pub fn become_default_route(&self, gateway: Ipv4Addr) -> Result<(), LinkError> {
        let what = "set the default route";
        default_v4(gateway).map_err(|source| LinkError::new(what, source))?;
        let _ = self.index().and_then(|index| default_v6(gateway, index));
        Ok(())
    }

    /// The next packet that the kernel sends through the device, into `buffer`; `None` if there is none now.
    #[inline]
    pub fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        // SAFETY: the kernel writes at most `len` bytes at the pointer, both of `buffer`.
        let count = unsafe { libc::read(self.fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
        if count >= 0 {
            return Ok(Some(&buffer[..count as usize]));
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        }
    }

    /// Hands the kernel a packet that comes out of the device.
    #[inline]
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        // SAFETY: the kernel reads at most `len` bytes at the pointer, both of `packet`.
        let count = unsafe { libc::write(self.fd.as_raw_fd(), packet.as_ptr().cast(), packet.len()) };
        if count < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Its descriptor, to wait on.
    pub fn fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn no_tun(source: io::Error) -> LinkError {
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => LinkError::NoTun(source),
        _ => LinkError::new("open /dev/net/tun", source),
    }
}

/// Brings the namespace's own loopback device up.
pub(crate) fn raise_loopback() -> io::Result<()> {
    let up = (libc::IFF_UP | libc::IFF_LOOPBACK | libc::IFF_RUNNING) as c_short;
    Control::new(libc::AF_INET)?.set("lo", libc::SIOCSIFFLAGS, |r| r.ifr_ifru.ifru_flags = up)
}

/// Keeps IPv6 from making link-local addresses and asking for routers, which would be packets nobody sent.
fn quieten(device: &str) {
    let path = |file: &str| format!("/proc/sys/net/ipv6/conf/{device}/{file}");
    // Where there is no IPv6 there is nothing to quieten.
    let _ = std::fs::write(path("addr_gen_mode"), "1");
    let _ = std::fs::write(path("router_solicitations"), "0");
}

/// A socket for the ioctls of netdevice(7).
struct Control(OwnedFd);

impl Control {
    fn new(family: i32) -> io::Result<Control> {
        // SAFETY: a new descriptor, if not negative, is ours alone.
        unsafe {
            match libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) {
                fd if fd < 0 => Err(io::Error::last_os_error()),
                fd => Ok(Control(OwnedFd::from_raw_fd(fd))),
            }
        }
    }

    fn set(&self, device: &str, what: libc::c_ulong, fill: impl FnOnce(&mut libc::ifreq)) -> io::Result<()> {
        let mut request = request(device);
        fill(&mut request);
        // SAFETY: the ioctls used here read an ifreq.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), what as _, &raw const request) })
    }
}

fn check(code: i32) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A request about the interface `name`, which has at most 15 characters.
fn request(name: &str) -> libc::ifreq {
    assert!(name.len() < libc::IFNAMSIZ, "{name} is too long for an interface");
    // SAFETY: all zeros is a valid ifreq.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *slot = byte as libc::c_char;
    }
    request
}

fn internet(address: Ipv4Addr) -> libc::sockaddr {
    // SAFETY: all zeros is a valid sockaddr_in, and the two have the same size and no stricter alignment.
    unsafe {
        let mut name: libc::sockaddr_in = mem::zeroed();
        name.sin_family = libc::AF_INET as libc::sa_family_t;
        name.sin_addr.s_addr = u32::from_ne_bytes(address.octets());
        mem::transmute::<libc::sockaddr_in, libc::sockaddr>(name)
    }
}

fn default_v4(gateway: Ipv4Addr) -> io::Result<()> {
    let anywhere = internet(Ipv4Addr::UNSPECIFIED);
    // SAFETY: all zeros is a valid rtentry, without a device named.
    let mut route: libc::rtentry = unsafe { mem::zeroed() };
    route.rt_dst = anywhere;
    route.rt_genmask = anywhere;
    route.rt_gateway = internet(gateway);
    route.rt_flags = (libc::RTF_UP | libc::RTF_GATEWAY) as _;
    let control = Control::new(libc::AF_INET)?;
    // SAFETY: SIOCADDRT reads an rtentry.
    check(unsafe { libc::ioctl(control.0.as_raw_fd(), libc::SIOCADDRT as _, &raw const route) })
}

/// `struct in6_rtmsg` of linux/ipv6_route.h.
#[repr(C)]
struct RouteV6 {
    to: [u8; 16],
    from: [u8; 16],
    gateway: [u8; 16],
    kind: u32,
    to_bits: u16,
    from_bits: u16,
    metric: u32,
    info: libc::c_ulong,
    flags: u32,
    device: libc::c_int,
}

fn default_v6(gateway: Ipv4Addr, index: u32) -> io::Result<()> {
    let route = RouteV6 {
        to: [0; 16],
        from: [0; 16],
        gateway: addresses::v6(gateway).octets(),
        kind: 0,
        to_bits: 0,
        from_bits: 0,
        metric: 1,
        info: 0,
        flags: u32::from(libc::RTF_UP | libc::RTF_GATEWAY),
        device: index as i32,
    };
    let control = Control::new(libc::AF_INET6)?;
    // SAFETY: on an IPv6 socket SIOCADDRT reads an in6_rtmsg.
    check(unsafe { libc::ioctl(control.0.as_raw_fd(), libc::SIOCADDRT as _, &raw const route) })
}

/// Packets that the kernel dropped before `device`, in the calling thread's namespace, because we had not
/// read those before them; `None` where it does not tell.
pub(crate) fn overruns(device: &str) -> Option<u64> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").ok()?;
    transmit_drops(&table, device)
}

/// The column `drop` under `Transmit`: eight columns about receiving come first, then bytes, packets and
/// errors.
fn transmit_drops(table: &str, device: &str) -> Option<u64> {
    let row = table.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    row.split_whitespace().nth(11)?.parse().ok()
}

/// What the calling thread's namespace has: each interface's name, IPv4 address and prefix length.
pub(crate) fn interfaces() -> io::Result<Vec<(String, Block)>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs fills in a list, which is read before it is freed; every entry's name is a C string,
    // and its addresses, where there are any, are of the family they name.
    unsafe {
        check(libc::getifaddrs(&raw mut list))?;
        let mut found = Vec::new();
        let mut entry = list;
        while let Some(this) = entry.as_ref() {
            entry = this.ifa_next;
            let (Some(address), Some(mask)) = (this.ifa_addr.as_ref(), this.ifa_netmask.as_ref()) else {
                continue;
            };
            if i32::from(address.sa_family) == libc::AF_INET {
                let v4 = |name: &libc::sockaddr| {
                    Ipv4Addr::from(
                        (*std::ptr::from_ref(name).cast::<libc::sockaddr_in>()).sin_addr.s_addr.to_ne_bytes(),
                    )
                };
                let name = std::ffi::CStr::from_ptr(this.ifa_name).to_string_lossy().into_owned();
                let prefix = v4(mask).to_bits().leading_ones() as u8;
                found.push((name, Block::around(v4(address), prefix)));
            }
        }
        libc::freeifaddrs(list);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_read_from_the_kernels_table() {
        let table = "Inter-|   Receive                                                |  Transmit\n \
             face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo\n   \
             fw0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n   fw0.1: 0 0 0 0 0 0 0 0 0 0 0 7 0 0 0 0\n";
        assert_eq!((transmit_drops(table, "fw0"), transmit_drops(table, "fw0.1")), (Some(12), Some(7)));
        assert_eq!(transmit_drops(table, "fw1"), None);
        assert_eq!(overruns("lo"), Some(0));
    }
}
