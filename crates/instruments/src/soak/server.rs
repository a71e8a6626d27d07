//! The server of a soak: what strangers attack and honest streams end at.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use real::quic::{
    AdmissionCounters, AdmissionWatch, Fingerprint, Gate, Guest, Identity, Limits, Reason, Runtime, Server,
    Token,
};
use real::{Clock, Driver, Limits as RunLimits};
use record::Tap;
use serde_json::{Map, Value};
use session::{Receiver, ReceiverConfig};
use units::Span;
use wire::Offer;

use super::peers::VISITORS;
use crate::Failure;

/// How often the server looks whether it is to be restarted, and a guest's thread whether it is over.
const TICK: Span = Span::from_millis(50);

/// ... and for how long it lets go of the server between.
const BETWEEN: Span = Span::from_millis(1);

/// The server, from one restart to the next.
struct Instance {
    server: Server,
    runtime: Runtime,
    /// Its guests' threads, and what ends them.
    guests: Vec<JoinHandle<()>>,
    over: Arc<AtomicBool>,
}

impl Instance {
    fn open(at: SocketAddr, identity: &Identity, token: &Token, limits: Limits) -> Result<Instance, Failure> {
        let runtime = Runtime::new(1).map_err(Failure::work)?;
        let gate = Gate::new(token.clone(), true, false);
        let server = Server::open(&runtime, at, identity, gate, limits, Clock::shared());
        let server = server.map_err(Failure::work)?;
        Ok(Instance { server, runtime, guests: Vec::new(), over: Arc::default() })
    }

    /// Ends it without a word, as a crash would: without its threads it says no goodbye.
    fn kill(self) -> AdmissionCounters {
        let Instance { server, runtime, guests, over } = self;
        let counters = server.counters();
        drop(runtime);
        over.store(true, Ordering::Relaxed);
        guests.into_iter().for_each(|guest| guest.join().expect("receiving does not panic"));
        counters
    }
}

/// A server that can be restarted and renewed while others use and attack it.
pub struct SoakServer {
    /// Where it listens.
    pub at: SocketAddr,
    /// What lets guests in.
    pub token: Token,
    limits: Limits,
    /// What every restart begins with, so that clients of the server before it are told (`Ended::Restarted`).
    identity: Identity,
    /// What newcomers are shown at present.
    pin: Mutex<Fingerprint>,
    /// None while it is being restarted.
    instance: Mutex<Option<Instance>>,
    /// What admission control counted before the last restart.
    before: Mutex<AdmissionCounters>,
    restarts: AtomicU64,
    reloads: AtomicU64,
    /// Bytes that arrived of each stream, by its name.
    arrived: Mutex<BTreeMap<String, u64>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds this")
}

impl SoakServer {
    /// A server for `streams` honest streams and what else there is.
    pub fn open(streams: usize) -> Result<Arc<SoakServer>, Failure> {
        let names = ["localhost".to_owned()];
        let identity = Identity::self_signed(&names).map_err(Failure::work)?;
        let usual = Limits::default();
        let limits = Limits {
            // After a restart or a silence, a peer's old place may not be free yet when it comes again.
            guests: 2 * (streams + VISITORS),
            // All of them have one address, where a limit for one must not stop the others.
            per_address: usual.strangers + 2 * (streams + VISITORS),
            handshakes_per_address: usual.handshakes,
            idle: Span::from_secs(3),
            keep_alive: Span::from_secs(1),
            ..usual
        };
        let token = Token::generate();
        let instance = Instance::open("127.0.0.1:0".parse().expect("an address"), &identity, &token, limits)?;
        let at = instance.server.local().map_err(Failure::work)?;
        Ok(Arc::new(SoakServer {
            at,
            token,
            limits,
            pin: Mutex::new(identity.fingerprint()),
            identity,
            instance: Mutex::new(Some(instance)),
            before: Mutex::default(),
            restarts: AtomicU64::new(0),
            reloads: AtomicU64::new(0),
            arrived: Mutex::default(),
        }))
    }

    /// Lets guests in until it is over, each with a thread of its own.
    pub fn serve(self: &Arc<SoakServer>, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            if let Some(instance) = &mut *lock(&self.instance) {
                self.attend(instance);
            }
            // Whoever waits for the server, to restart it, should get it.
            Clock::shared().sleep_until(Clock::shared().now() + BETWEEN);
        }
        if let Some(instance) = lock(&self.instance).take() {
            add(&mut lock(&self.before), &instance.kill());
        }
    }

    fn attend(self: &Arc<SoakServer>, instance: &mut Instance) {
        let Some(guest) = instance.server.accept(TICK) else { return };
        instance.guests.retain(|guest| !guest.is_finished());
        let (server, over) = (self.clone(), instance.over.clone());
        instance.guests.push(thread::spawn(move || server.receive(guest, &over)));
    }

    fn receive(&self, guest: Guest, over: &AtomicBool) {
        let name = guest.request.name.clone();
        // Who is gone before the welcome is gone.
        let Ok(channel) = guest.welcome(&Offer::default()) else { return };
        let mut receiver = Receiver::new(ReceiverConfig::default(), None, None, Tap::default());
        let (limits, mut counted) = (RunLimits { tick: TICK, ..RunLimits::default() }, 0);
        // How a connection ends is for the log; what matters here is that it does.
        let _ = Driver::over(channel).run(&mut receiver, &limits, &mut |_, receiver: &mut Receiver, _| {
            let bytes = receiver.counters().bytes;
            *lock(&self.arrived).entry(name.clone()).or_default() += bytes - counted;
            counted = bytes;
            if over.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }

    /// Ends the server without a word and opens another one at its address, as after a crash.
    ///
    /// # Errors
    /// If there is no other one to be had.
    pub fn restart(&self) -> Result<(), Failure> {
        let mut instance = lock(&self.instance);
        if let Some(instance) = instance.take() {
            add(&mut lock(&self.before), &instance.kill());
        }
        *instance = Some(Instance::open(self.at, &self.identity, &self.token, self.limits)?);
        *lock(&self.pin) = self.identity.fingerprint();
        self.restarts.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Shows newcomers another certificate from now on.
    ///
    /// # Errors
    /// If there is no other one to be had.
    pub fn replace_certificate(&self) -> Result<(), Failure> {
        let next = Identity::self_signed(&["localhost".to_owned()]).map_err(Failure::work)?;
        if let Some(instance) = &*lock(&self.instance) {
            instance.server.credentials().replace(&next).map_err(Failure::work)?;
            *lock(&self.pin) = next.fingerprint();
            self.reloads.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The certificate that newcomers are shown.
    pub fn pin(&self) -> Fingerprint {
        *lock(&self.pin)
    }

    /// Bytes that arrived so far of the stream of this name.
    pub fn arrived(&self, name: &str) -> u64 {
        lock(&self.arrived).get(name).copied().unwrap_or(0)
    }

    /// Tasks on the server's threads.
    pub fn tasks(&self) -> usize {
        lock(&self.instance)
            .as_ref()
            .map_or(0, |instance| instance.runtime.handle().metrics().num_alive_tasks())
    }

    /// The most tasks there can be: five for every connection that is let in, four for every other, four of
    /// the server's own.
    pub fn most_tasks(&self) -> usize {
        5 * self.limits.guests + 4 * self.limits.strangers + 4
    }

    fn counters(&self) -> AdmissionCounters {
        let mut sum = *lock(&self.before);
        if let Some(instance) = &*lock(&self.instance) {
            add(&mut sum, &instance.server.counters());
        }
        sum
    }

    /// Guests let in so far.
    pub fn accepted(&self) -> u64 {
        self.counters().admitted
    }

    /// Attempts refused so far.
    pub fn refused(&self) -> u64 {
        self.counters().refused.iter().sum()
    }

    /// The same by reason: an object of counts.
    pub fn refused_by_reason(&self) -> Value {
        let counters = self.counters();
        let each = Reason::ALL
            .into_iter()
            .map(|reason| (reason.label().to_owned(), counters.refused(reason).into()));
        Value::Object(each.collect::<Map<_, _>>())
    }

    /// How often it was restarted.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// How often its certificate was replaced.
    pub fn reloads(&self) -> u64 {
        self.reloads.load(Ordering::Relaxed)
    }

    /// What the present server's admission control does, if there is a server at present.
    pub fn watch(&self) -> Option<AdmissionWatch> {
        lock(&self.instance).as_ref().map(|instance| instance.server.watch())
    }
}

fn add(sum: &mut AdmissionCounters, more: &AdmissionCounters) {
    sum.handshakes += more.handshakes;
    sum.retried += more.retried;
    sum.admitted += more.admitted;
    sum.refused.iter_mut().zip(more.refused).for_each(|(sum, more)| *sum += more);
    sum.ended.iter_mut().zip(more.ended).for_each(|(sum, more)| *sum += more);
}
