//! Those who come to a soak's server: honest ones, and others.

use std::net::UdpSocket;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cc::{Options, Setup};
use real::quic::{Call, Fingerprint, Limits, QuicChannel, QuicError, Runtime, Token, Trust};
use real::{Clock, Driver, Limits as RunLimits, STEADY_DATAGRAM};
use record::Tap;
use session::{Policies, Sender, SenderConfig, Supply};
use units::{Rate, Rng, Span};
use wire::{Offer, Role};

use super::server::SoakServer;

/// Visitors at a time.
pub const VISITORS: usize = 2;
/// Who could not come in tries again after this.
const AGAIN: Span = Span::from_millis(250);
/// How long a client waits for an answer: a server that is being restarted has none for a moment.
const PATIENCE: Span = Span::from_secs(3);
/// Who only begins a connection is gone after this: within a handshake, on loopback.
const HASTE: Span = Span::from_millis(1);
/// Strangers come this often. A server lets 20 of them a second try.
const STRANGER_EVERY: Span = Span::from_millis(300);
/// Garbage: bursts of so many packets, so far apart; 2000 a second.
const BURST: usize = 100;
const BURST_EVERY: Span = Span::from_millis(50);

/// What an honest stream is called.
pub fn honest_name(number: u8) -> String {
    format!("honest {number}")
}

/// What all peers know.
#[derive(Clone, Copy)]
pub struct Peers<'a> {
    pub server: &'a Arc<SoakServer>,
    pub over: &'a AtomicBool,
    pub rate: Rate,
}

impl Peers<'_> {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn pause(&self, span: Span) {
        let clock = Clock::shared();
        let until = clock.now() + span;
        while clock.now() < until && !self.is_over() {
            clock.sleep_until((clock.now() + Span::from_millis(50)).min(until));
        }
    }

    fn call(
        &self,
        runtime: &Runtime,
        name: &str,
        token: &Token,
        pin: Fingerprint,
        patience: Span,
    ) -> Result<Arc<QuicChannel>, QuicError> {
        let call = Call {
            peer: self.server.at,
            host: "localhost",
            trust: Trust::Pin(pin),
            role: Role::Publish,
            token,
            name,
            offer: Offer::default(),
            patience,
            clock: Clock::shared(),
            limits: Limits { idle: PATIENCE, keep_alive: PATIENCE / 3, ..Limits::default() },
        };
        call.connect(runtime).map(|session| session.channel)
    }

    /// Sends over `channel` until `length` is over or the connection is; drops it without a word.
    fn send(&self, channel: &Arc<QuicChannel>, session: u32, length: Span) {
        let setup =
            Setup { mtu: STEADY_DATAGRAM as u32, initial: self.rate, max: self.rate, ..Setup::default() };
        let fixed: Options =
            format!("fixed:rate={}bit", self.rate.as_bps()).parse().expect("a rate is an option");
        let controller = cc::build(&fixed, &setup).expect("the registry knows fixed");
        let config = SenderConfig { session, mtu: STEADY_DATAGRAM, ..SenderConfig::default() };
        let rng = Rng::stream(u64::from(session), "soak");
        let supplies = vec![Supply::Backlog];
        let mut sender =
            Sender::new(config, &setup, controller, Policies::default(), supplies, rng, Tap::default());
        let until = Some(Clock::shared().now() + length);
        let limits = RunLimits { until, tick: Span::from_millis(50), ..RunLimits::default() };
        // A connection that ends is what restarts are for.
        let _ = Driver::over(channel.clone()).run(&mut sender, &limits, &mut |_, _, _| {
            if self.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }

    /// A stream that is always there, or on its way back.
    pub fn honest(self, number: u8) {
        let name = honest_name(number);
        let mut session = u32::from(number) << 24;
        while !self.is_over() {
            let Ok(runtime) = Runtime::new(1) else { return self.pause(AGAIN) };
            match self.call(&runtime, &name, &self.server.token, self.server.pin(), PATIENCE) {
                Ok(channel) => {
                    session += 1;
                    self.send(&channel, session, Span::from_secs(i64::from(u32::MAX)));
                    channel.finish("the soak is over");
                }
                Err(_) => self.pause(AGAIN),
            }
        }
    }

    /// Comes, sends for a few seconds and goes, now with a goodbye, now without.
    pub fn visitor(self, number: usize) {
        let mut rng = Rng::stream(number as u64, "visitor");
        let mut session = 0x8000_0000 | (number as u32) << 24;
        while !self.is_over() {
            let Ok(runtime) = Runtime::new(1) else { return self.pause(AGAIN) };
            let called = self.call(&runtime, "visitor", &self.server.token, self.server.pin(), PATIENCE);
            if let Ok(channel) = called {
                session += 1;
                self.send(&channel, session, Span::from_millis(500 + rng.below(3_000) as i64));
                if rng.chance(0.5) {
                    channel.finish("that was all");
                }
                // Without its threads a client vanishes, goodbye or not.
                drop(runtime);
            }
            self.pause(AGAIN);
        }
    }

    /// Wrong tokens, wrong pins, and connections that are begun and left.
    pub fn strangers(self) {
        let (mut rng, none) = (Rng::stream(1, "strangers"), Fingerprint([0; 32]));
        while !self.is_over() {
            let wrong = Token::generate();
            let (token, pin, patience) = match rng.below(3) {
                0 => (&wrong, self.server.pin(), PATIENCE),
                1 => (&self.server.token, none, PATIENCE),
                _ => (&wrong, self.server.pin(), HASTE),
            };
            // Threads of its own, which take what it holds with them; that it is refused is counted by
            // admission control.
            let Ok(runtime) = Runtime::new(1) else { return };
            let _ = self.call(&runtime, "stranger", token, pin, patience);
            self.pause(STRANGER_EVERY);
        }
    }

    /// Packets that are none, of forms that make a QUIC server look at them.
    pub fn garbage(self) {
        let Ok(socket) = UdpSocket::bind("127.0.0.1:0") else { return };
        let mut rng = Rng::stream(1, "garbage");
        while !self.is_over() {
            for _ in 0..BURST {
                let length = [1, 20, 60, 1_200][rng.below(4) as usize];
                let mut bytes: Vec<u8> = (0..length).map(|_| rng.next_u64() as u8).collect();
                // Long headers with the fixed bit, short headers, and what comes.
                bytes[0] = [0xc3, 0x40, bytes[0]][rng.below(3) as usize];
                if length == 1_200 {
                    // Version 1: as far as it goes, an Initial.
                    bytes[1..6].copy_from_slice(&[0, 0, 0, 1, 8]);
                }
                // A full buffer on loopback drops; that is the garbage's loss.
                let _ = socket.send_to(&bytes, self.server.at);
            }
            self.pause(BURST_EVERY);
        }
    }
}
