//! A WebRTC sender: str0m's state machine, a socket, and the two links between them.
//!
//! ```text
//! clip --> str0m --> link there (rate, queue, loss, delay, jitter) --> socket --> browser
//!                <-- link back (delay) <------------------------------ socket <--
//! ```
//!
//! Until the connection stands, datagrams pass the links by, so that each cell's draws begin with its video.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use str0m::change::{SdpAnswer, SdpOffer};
use str0m::media::{Direction, MediaTime, Mid};
use str0m::net::{Protocol, Receive};
use str0m::rtp::{Extension, ExtensionValues, RtpWrite};
use str0m::{Candidate, Event, Input, Output, Rtc, RtcConfig};

use crate::Error;
use crate::clip::{ENCODING, INTERVAL, PACED, Payloads};
use crate::path::{Cell, Datagram, Way};

/// RTP's clock for video, in Hz (RFC 6184 section 8.2.1).
pub const CLOCK: u32 = 90_000;
/// RTP timestamps from one frame to the next at 30 frames a second: frame `n` has the timestamp `n * STEP`.
pub const STEP: u32 = CLOCK / 30;
/// From the connection to the first frame.
const SETTLING: Duration = Duration::from_millis(300);

/// What a sender did.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// When frame 0 was captured; none if no connection came about.
    pub started: Option<Instant>,
    /// Key frames that the receiver asked for.
    pub key_requests: u32,
    /// Datagrams that entered the link to the receiver, and those it lost.
    pub offered: u32,
    /// See `offered`.
    pub lost: u32,
    /// By how much datagrams left the link later than they should have, in ms: the machine's disturbance.
    pub lateness_ms: Vec<f64>,
}

/// A sender at work on a thread of its own.
pub struct Running {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Sent, Error>>,
}

impl Running {
    /// Ends it.
    pub fn finish(self) -> Result<Sent, Error> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "a sender's thread panicked")?
    }
}

/// Answers a browser's offer and begins to send as soon as the connection stands. With `immediate`, every
/// packet says that its frame may be shown at once (header extension `playout-delay`, 0 to 0 ms).
pub fn start(
    offer: SdpOffer,
    clip: Arc<Vec<Payloads>>,
    cell: Cell,
    seed: u64,
    immediate: bool,
) -> Result<(SdpAnswer, Running), Error> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let address = socket.local_addr()?;
    let config = RtcConfig::new().set_rtp_mode(true).clear_codecs().enable_h264(true).enable_vp8(true);
    let mut rtc = config.set_extension(14, Extension::PlayoutDelay).build(Instant::now());
    rtc.add_local_candidate(Candidate::host(address, "udp")?);
    let answer = rtc.sdp_api().accept_offer(offer)?;
    let (arrivals, arrived) = channel();
    let stop = Arc::new(AtomicBool::new(false));
    read(socket.try_clone()?, arrivals, stop.clone())?;
    let (there, back) = cell.ways(seed);
    let mut sender = Peer {
        rtc,
        socket,
        address,
        there,
        back,
        arrived,
        clip,
        immediate,
        video: None,
        connected: None,
        next: Next::default(),
        sent: Sent::default(),
    };
    let stopped = stop.clone();
    let thread = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            sender.step()?;
        }
        sender.sent.offered = sender.there.offered();
        sender.sent.lost = sender.there.lost;
        Ok(sender.sent)
    });
    Ok((answer, Running { stop, thread }))
}

/// Reads the socket on a thread of its own: the standard library waits for a channel more precisely than for
/// a socket, whose time limits are rounded to the kernel's ticks.
fn read(socket: UdpSocket, arrivals: Sender<Datagram>, stop: Arc<AtomicBool>) -> Result<(), Error> {
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while !stop.load(Ordering::Relaxed) {
            // Errors are time limits, or news of a browser that is gone.
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
            if arrivals.send((buffer[..length].to_vec(), from)).is_err() {
                break;
            }
        }
    });
    Ok(())
}

/// The packet that leaves next.
#[derive(Default)]
struct Next {
    frame: u32,
    packet: usize,
    /// Of the frame, in the clip.
    place: usize,
    sequence: u64,
    key_wanted: bool,
}

struct Peer {
    rtc: Rtc,
    socket: UdpSocket,
    address: SocketAddr,
    there: Way,
    back: Way,
    arrived: Receiver<Datagram>,
    clip: Arc<Vec<Payloads>>,
    immediate: bool,
    video: Option<Mid>,
    connected: Option<Instant>,
    next: Next,
    sent: Sent,
}

impl Peer {
    /// Does what is due, then waits for what comes next.
    fn step(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        while self.due().is_some_and(|due| due <= now) {
            self.write(now)?;
        }
        while let Some((_, datagram)) = self.back.deliver(now) {
            self.hear(now, datagram)?;
        }
        self.rtc.handle_input(Input::Timeout(now))?;
        let timeout = self.poll(now)?;
        while let Some((due, (bytes, to))) = self.there.deliver(now) {
            self.socket.send_to(&bytes, to)?;
            self.sent.lateness_ms.push((Instant::now() - due).as_secs_f64() * 1e3);
        }
        let wake =
            [Some(timeout), self.due(), self.there.next(), self.back.next()].into_iter().flatten().min();
        let wait = wake.map_or(Duration::ZERO, |wake| wake.saturating_duration_since(Instant::now()));
        match self.arrived.recv_timeout(wait.min(Duration::from_millis(50))) {
            Ok(datagram) if self.sent.started.is_some_and(|start| start <= now) => {
                self.back.offer(Instant::now(), datagram);
            }
            Ok(datagram) => self.hear(Instant::now(), datagram)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err("the socket's reader ended".into()),
        }
        Ok(())
    }

    /// When the next packet leaves the encoder's pacer.
    fn due(&self) -> Option<Instant> {
        let nanos = |span: units::Span| Duration::from_nanos(span.as_nanos() as u64);
        let packets = self.clip[self.next.place].len();
        let captured = self.sent.started? + nanos(INTERVAL) * self.next.frame;
        let paced = nanos(PACED) * self.next.packet as u32 / (packets as u32 - 1).max(1);
        Some(captured + nanos(ENCODING) + paced)
    }

    /// Hands the next packet to str0m.
    fn write(&mut self, now: Instant) -> Result<(), Error> {
        let next = &mut self.next;
        let payloads = &self.clip[next.place];
        let mut values = ExtensionValues::default();
        if self.immediate {
            (values.play_delay_min, values.play_delay_max) = (Some(MediaTime::ZERO), Some(MediaTime::ZERO));
        }
        let mid = self.video.ok_or("the browser wants no video")?;
        let media = self.rtc.media(mid).ok_or("the video is gone")?;
        let pt = *media.remote_pts().first().ok_or("the browser takes no H.264")?;
        let last = next.packet + 1 == payloads.len();
        let time = next.frame.wrapping_mul(STEP);
        let packet = RtpWrite::new(pt, next.sequence.into(), time, now, payloads[next.packet].clone());
        let mut api = self.rtc.direct_api();
        let stream = api.stream_tx_by_mid(mid, None).ok_or("the video has no stream")?;
        stream.write_rtp(packet.marker(last).nackable(true).ext_vals(values));
        next.sequence += 1;
        next.packet += 1;
        if last {
            let again = next.key_wanted || next.place + 1 == self.clip.len();
            let place = if again { 0 } else { next.place + 1 };
            *next =
                Next { frame: next.frame + 1, packet: 0, place, key_wanted: false, sequence: next.sequence };
        }
        Ok(())
    }

    fn hear(&mut self, now: Instant, (bytes, source): Datagram) -> Result<(), Error> {
        let Ok(contents) = bytes.as_slice().try_into() else { return Ok(()) };
        let destination = self.address;
        let datagram = Receive { proto: Protocol::Udp, source, destination, contents };
        Ok(self.rtc.handle_input(Input::Receive(now, datagram))?)
    }

    /// Takes what str0m has to say; returns when it wants to be called again.
    fn poll(&mut self, now: Instant) -> Result<Instant, Error> {
        loop {
            match self.rtc.poll_output()? {
                Output::Timeout(at) => return Ok(at),
                Output::Transmit(datagram) => {
                    let (bytes, to) = (datagram.contents.to_vec(), datagram.destination);
                    match self.sent.started {
                        Some(start) if start <= now => self.there.offer(now, (bytes, to)),
                        _ => drop(self.socket.send_to(&bytes, to)?),
                    }
                }
                Output::Event(event) => self.take(now, &event),
            }
        }
    }

    fn take(&mut self, now: Instant, event: &Event) {
        match event {
            Event::MediaAdded(added) if added.direction == Direction::SendOnly => {
                self.video = Some(added.mid)
            }
            Event::KeyframeRequest(_) => {
                self.sent.key_requests += u32::from(!self.next.key_wanted);
                self.next.key_wanted = true;
            }
            Event::Connected if self.connected.is_none() => {
                self.connected = Some(now);
                self.sent.started = Some(now + SETTLING);
                let mut api = self.rtc.direct_api();
                let stream = self.video.and_then(|mid| api.stream_tx_by_mid(mid, None));
                // Every repair that is asked for is sent: no share of the rate is the most, as by default.
                if let Some(stream) = stream {
                    stream.set_rtx_cache(4_096, Duration::from_secs(3), None);
                }
            }
            _ => {}
        }
    }
}
