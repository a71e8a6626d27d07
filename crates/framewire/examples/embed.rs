//! A host with an encoder and a socket of its own: a synthetic game, coded as H.264, from one thread to
//! another over UDP.
//!
//! ```text
//! cargo run --release -p framewire --example embed
//! ```

#![allow(clippy::disallowed_methods, reason = "a host has a clock")]

use std::error::Error;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use framewire::media::{Codec, CodecConfig, Source, SyntheticConfig, SyntheticGame};
use framewire::{Endpoint, MAX_DATAGRAM, Rate, Receiver, RxMeta, Screen, Shown, Span, Time, Video};

/// The host's screen: counts what it is given.
struct Counter(Arc<AtomicU32>);

impl Screen for Counter {
    fn show(&mut self, _now: Time, shown: &Shown) {
        self.0.fetch_add(u32::from(shown.picture.is_some()), Relaxed);
    }
}

/// One clock for both threads; two hosts may each have their own.
fn now() -> Time {
    static START: OnceLock<Instant> = OnceLock::new();
    Time::from_nanos(START.get_or_init(Instant::now).elapsed().as_nanos() as u64)
}

/// The host's loop around an endpoint: what arrives, what time brings, what is to leave.
fn drive<E: Endpoint>(mut endpoint: E, socket: &UdpSocket, done: impl Fn(&E) -> bool) -> std::io::Result<E> {
    let (mut datagram, mut out) = ([0; 2048], [0; MAX_DATAGRAM]);
    while !done(&endpoint) {
        let wait = endpoint.next_wake().map_or(10_000, |at| (at - now()).as_micros().clamp(100, 10_000));
        socket.set_read_timeout(Some(Duration::from_micros(wait as u64)))?;
        if let Ok(length) = socket.recv(&mut datagram) {
            endpoint.receive(now(), &datagram[..length], RxMeta { length, ..RxMeta::default() });
        }
        endpoint.wake(now());
        while let Some(meta) = endpoint.transmit(now(), &mut out) {
            // A full socket buffer is a lost packet like any other.
            _ = socket.send(meta.datagram(&mut out));
        }
    }
    Ok(endpoint)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (near, far) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;

    let interval = Span::from_nanos(33_333_333);
    let source =
        SyntheticGame::new(SyntheticConfig { interval, frames: Some(90), ..SyntheticConfig::new(320, 180) });
    let (initial, max) = (Rate::from_kbps(500), Rate::from_mbps(2));
    let codec = CodecConfig { width: 320, height: 180, interval, initial, max, slices: None, latency: None };
    let encoder = Box::new(Codec::H264.encoder(codec)?);
    let video = Video { encoder, source: Some(Box::new(source) as Box<dyn Source>), interval };
    let sender = framewire::sender().starting_at(initial, max).picture(320, 180).video(video).build()?;

    let shown = Arc::new(AtomicU32::new(0));
    let screen = Box::new(Counter(shown.clone()));
    let receiver = framewire::receiver().decoder(Codec::H264.decoder()?).screen(screen).build()?;

    let far = thread::spawn(move || drive(receiver, &far, Receiver::is_finished));
    let sender = drive(sender, &near, framewire::Sender::is_finished)?;
    far.join().expect("the receiver's thread")?;
    println!("{} of {} frames shown", shown.load(Relaxed), sender.counters().captured);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_clip_crosses() {
        super::main().unwrap();
    }
}
