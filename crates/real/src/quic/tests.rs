//! Both ends in one process, over loopback.

use std::net::{SocketAddr, UdpSocket};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use units::{Span, Time};
use wire::{Message, Offer, Rated, Refusal, Role, Uploading, Watchers};

use super::*;
use crate::channel::{Channel, Ended, STEADY_DATAGRAM, Unsent};
use crate::testing::{LOCALHOST, Metronome, Notebook, percentile};
use crate::{Clock, Driver, Limits as RunLimits, RealError};

const PATIENCE: Span = Span::from_secs(10);

fn names() -> Vec<String> {
    vec!["localhost".to_owned()]
}

/// Limits under which a test need not wait long for an end.
fn quick() -> Limits {
    Limits {
        idle: Span::from_millis(800),
        keep_alive: Span::from_millis(150),
        open_within: Span::from_millis(300),
        ..Limits::default()
    }
}

/// A server, and what it takes to be let in.
struct House {
    /// Of the server, then of the clients.
    runtimes: [Runtime; 2],
    server: Server,
    at: SocketAddr,
    token: Token,
    pin: Fingerprint,
    limits: Limits,
}

impl House {
    fn of(identity: &Identity, limits: Limits, listen: SocketAddr) -> House {
        let runtimes = [0, 1].map(|_| Runtime::new(1).unwrap());
        let token = Token::generate();
        let gate = Gate::new(token.clone(), true, false);
        let server = Server::open(&runtimes[0], listen, identity, gate, limits, Clock::shared()).unwrap();
        let at = server.local().unwrap();
        House { runtimes, server, at, token, pin: identity.fingerprint(), limits }
    }

    fn new(limits: Limits) -> House {
        House::of(&Identity::self_signed(&names()).unwrap(), limits, LOCALHOST.parse().unwrap())
    }

    fn call<'a>(&self, token: &'a Token) -> Call<'a> {
        Call {
            peer: self.at,
            host: "localhost",
            trust: Trust::Pin(self.pin),
            role: Role::Publish,
            token,
            name: "test",
            offer: Offer { codec: "avc1.42E01F", controller: "sqp" },
            patience: PATIENCE,
            clock: Clock::shared(),
            limits: self.limits,
        }
    }

    /// Two ends of a connection that both sides agree on, the caller's first.
    fn connect(&mut self) -> (Arc<QuicChannel>, Arc<QuicChannel>) {
        let token = self.token.clone();
        let call = self.call(&token);
        let House { runtimes, server, .. } = self;
        thread::scope(|scope| {
            let near = scope.spawn(|| call.connect(&runtimes[1]).unwrap().channel);
            let guest = server.accept(PATIENCE).expect("somebody comes");
            assert_eq!((guest.request.name.as_str(), guest.request.offer()), ("test", call.offer));
            let far = guest.welcome(&Offer::default()).unwrap();
            (near.join().unwrap(), far)
        })
    }

    /// Why somebody who calls like this is not let in.
    fn error(&self, change: impl FnOnce(&mut Call<'_>)) -> QuicError {
        let token = self.token.clone();
        let mut call = self.call(&token);
        change(&mut call);
        call.connect(&self.runtimes[1]).expect_err("the caller must not be let in")
    }
}

fn run_limits(ms: i64) -> RunLimits {
    let until = Some(Clock::shared().now() + Span::from_millis(ms));
    RunLimits { until, tick: Span::from_millis(10), ..RunLimits::default() }
}

fn go_on<E: ?Sized>(_: Time, _: &mut E, _: &crate::Counters) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Runs `sender` to its end over `near` against a notebook at `far`; `on_tick` sees each of the sender's
/// ticks.
fn converse(
    near: &Arc<QuicChannel>,
    far: &Arc<QuicChannel>,
    sender: &mut Metronome,
    on_tick: &mut dyn FnMut(&Metronome),
) -> (Notebook, crate::Counters) {
    let mut far = Driver::over(far.clone());
    let mut near = Driver::over(near.clone());
    let mut notebook = Notebook::new(Clock::shared());
    let stop = far.stop();
    thread::scope(|scope| {
        scope.spawn(|| far.run(&mut notebook, &run_limits(20_000), &mut go_on).unwrap());
        let mut done_at = None;
        near.run(sender, &run_limits(20_000), &mut |now, sender: &mut Metronome, _| {
            on_tick(sender);
            match sender.is_done() && now - *done_at.get_or_insert(now) > Span::from_millis(200) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })
        .unwrap();
        stop.stop();
    });
    (notebook, *near.counters())
}

/// Waits for a channel to end; for two idle timeouts at most.
fn end_of(channel: &QuicChannel, limits: &Limits) -> Ended {
    let clock = Clock::shared();
    let deadline = clock.now() + limits.idle * 2 + Span::from_secs(2);
    while clock.now() < deadline {
        if let Some(ended) = channel.inbox().ended() {
            return ended;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("the channel goes on");
}

#[test]
fn datagrams_arrive_intact_in_order_and_in_time() {
    let mut house = House::new(Limits::default());
    let (near, far) = house.connect();
    let mut sender = Metronome::new(5_000, Span::from_micros(200), STEADY_DATAGRAM);
    let (notebook, counters) = converse(&near, &far, &mut sender, &mut |_| ());
    let [p50, p99] = [0.5, 0.99].map(|p| percentile(&notebook.told, p));
    println!("5000 packets a second over QUIC: one way p50 {p50} p99 {p99}; {:?}", near.stats());
    assert_eq!((notebook.damaged, counters.unsent), (0, 0));
    assert!(notebook.packets.len() >= 4_950, "{} of 5000 arrived", notebook.packets.len());
    assert!(notebook.packets.is_sorted());
    assert!(sender.heard >= 490, "{} answers", sender.heard);
    // Packets 200 us apart go two or three at a time.
    assert!(counters.writes < 3_500, "{} writes", counters.writes);
    assert!(p50 < Span::from_millis(10));
}

#[test]
fn an_unpaced_burst_waits_for_room_and_loses_nothing_on_our_side() {
    let mut house = House::new(Limits::default());
    let (near, far) = house.connect();
    let mut sender = Metronome::new(2_000, Span::ZERO, STEADY_DATAGRAM);
    let (notebook, counters) = converse(&near, &far, &mut sender, &mut |_| ());
    assert_eq!(counters.sent, 2_000);
    // 2.3 MB at once: what is missing was dropped by a socket's buffer or by the far inbox, and is counted
    // there.
    let kept = notebook.packets.len() as u64 + far.inbox().counters().overflowed;
    assert!(kept >= 1_500, "{kept} of 2000 arrived, {} lost on the way", near.stats().lost);
}

#[test]
fn wrong_certificates_are_named_with_what_helps() {
    let house = House::new(quick());
    let error = house.error(|call| call.trust = Trust::Pin(Fingerprint([7; 32])));
    let text = error.to_string();
    assert!(text.contains(&house.pin.to_string()) && text.contains("0707"), "{text}");
    assert!(error.is_of_input());
    let error = house.error(|call| call.trust = Trust::System);
    assert!(
        matches!(error, QuicError::Distrusted { distrust: Distrust::Unknown(found), .. } if found == house.pin)
    );
    assert!(error.to_string().contains("--pin"), "{error}");
}

#[test]
fn expired_certificates_are_refused_even_if_pinned() {
    let day = Duration::from_secs(86_400);
    let (start, end) = (SystemTime::now() - 2 * day, SystemTime::now() - day);
    let identity = Identity::self_signed_for(&names(), start, end).unwrap();
    let house = House::of(&identity, quick(), LOCALHOST.parse().unwrap());
    let error = house.error(|_| ());
    assert!(matches!(error, QuicError::Distrusted { distrust: Distrust::Expired, .. }), "{error}");
    assert!(error.to_string().contains("renew it"), "{error}");
}

#[test]
fn a_certificate_from_files_is_trusted_by_who_signed_it_and_for_its_name_alone() {
    let folder = std::env::temp_dir().join(format!("framewire-quic-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.join(name));
    let pair = rcgen::generate_simple_self_signed(names()).unwrap();
    std::fs::write(&cert, pair.cert.pem()).unwrap();
    std::fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
    let identity = Identity::from_pem(&cert, &key).unwrap();
    assert_eq!(identity.fingerprint(), Fingerprint::of(pair.cert.der()));
    let other = Identity::from_pem(&cert, &cert).err().unwrap().to_string();
    assert!(other.contains("private key in PEM"), "{other}");

    let mut house = House::of(&identity, quick(), LOCALHOST.parse().unwrap());
    let error =
        house.error(|call| (call.trust, call.host) = (Trust::File(cert.clone()), "elsewhere.example"));
    assert!(
        matches!(&error, QuicError::Distrusted { distrust: Distrust::Name(name), .. } if name == "elsewhere.example")
    );
    let token = house.token.clone();
    let call = Call { trust: Trust::File(cert.clone()), ..house.call(&token) };
    let House { runtimes, server, .. } = &mut house;
    thread::scope(|scope| {
        let near = scope.spawn(|| call.connect(&runtimes[1]).map(drop));
        let _far = server.accept(PATIENCE).unwrap().welcome(&Offer::default()).unwrap();
        near.join().unwrap().unwrap();
    });
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn without_the_token_nobody_gets_in() {
    let mut house = House::new(quick());
    let wrong = Token::generate();
    let error = house.call(&wrong).connect(&house.runtimes[1]).unwrap_err();
    assert!(
        matches!(error, QuicError::Refused { why: Refusal::Token, .. }) && error.is_of_input(),
        "{error}"
    );
    assert!(error.to_string().contains("the token is wrong"), "{error}");
    let error = house.error(|call| call.role = Role::Watch);
    assert!(matches!(error, QuicError::Refused { why: Refusal::Role, .. }), "{error}");
    assert!(house.server.accept(Span::from_millis(50)).is_none());
    let counters = house.server.counters();
    assert_eq!([Reason::Token, Reason::Role].map(|reason| counters.refused(reason)), [1, 1]);
    assert_eq!(counters.admitted, 0);
}

/// A connection past TLS that has said nothing yet.
struct Bare {
    connection: quinn::Connection,
    /// Lives as long as the connection.
    _endpoint: quinn::Endpoint,
}

fn bare(house: &House) -> Bare {
    let (tls, _) = Trust::Pin(house.pin).client_tls(ALPN).unwrap();
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    config.transport_config(house.limits.transport().unwrap());
    let runtime = house.runtimes[1].handle();
    runtime.block_on(async {
        let endpoint = quinn::Endpoint::client(LOCALHOST.parse().unwrap()).unwrap();
        let connection = endpoint.connect_with(config, house.at, "localhost").unwrap().await.unwrap();
        Bare { connection, _endpoint: endpoint }
    })
}

/// The code a connection was closed with.
fn code(house: &House, connection: &quinn::Connection) -> u64 {
    match house.runtimes[1].handle().block_on(connection.closed()) {
        quinn::ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
        other => panic!("{other}"),
    }
}

#[test]
fn whoever_says_nothing_or_nonsense_is_sent_away() {
    let mut house = House::new(quick());
    let runtime = house.runtimes[1].handle().clone();
    let silent = bare(&house);
    let half = bare(&house);
    let nonsense = bare(&house);
    let early = bare(&house);
    let _half = runtime.block_on(async {
        let (mut send, _) = half.connection.open_bi().await.unwrap();
        send.write_all(&Message::open(Role::Publish, "x", "", Offer::default()).to_vec()[..5]).await.unwrap();
        send
    });
    let _nonsense = runtime.block_on(async {
        let (mut send, _) = nonsense.connection.open_bi().await.unwrap();
        send.write_all(&[0xff; 3_000]).await.unwrap();
        send
    });
    // Media without a word opens nothing.
    (0..100).for_each(|_| early.connection.send_datagram(Bytes::from_static(&[1; 1_000])).unwrap());
    assert_eq!(code(&house, &nonsense.connection), Refusal::Malformed as u64);
    for bare in [&silent, &half, &early] {
        assert_eq!(code(&house, &bare.connection), Refusal::Late as u64);
    }
    assert!(house.server.accept(Span::from_millis(10)).is_none());
}

#[test]
fn a_moved_client_is_followed() {
    let mut house = House::new(Limits::default());
    let (near, far) = house.connect();
    let before = far.peer();
    let mut sender = Metronome::new(4_000, Span::from_micros(500), STEADY_DATAGRAM);
    let mut moved = None;
    let (notebook, counters) = converse(&near, &far, &mut sender, &mut |sender| {
        if sender.sent > 1_500 && moved.is_none() {
            moved = Some(near.rebind(LOCALHOST.parse().unwrap()).unwrap());
        }
    });
    assert_ne!(far.peer(), before);
    assert_eq!(Some(far.peer().port()), moved.map(|local| local.port()));
    assert_eq!((notebook.damaged, counters.unsent), (0, 0));
    // What was on its way back to the old port is lost, and a round trip of the path's validation costs
    // nothing.
    assert!(notebook.packets.len() >= 3_900, "{} of 4000 arrived", notebook.packets.len());
    assert!(sender.heard >= 350, "{} answers", sender.heard);
}

#[test]
fn empty_and_oversize_datagrams_are_refused_and_the_rest_goes_on() {
    let mut house = House::new(Limits::default());
    let (near, far) = house.connect();
    assert!(near.max_datagram() >= STEADY_DATAGRAM, "{}", near.max_datagram());
    let long = Bytes::from(vec![0; 3_000]);
    assert!(
        matches!(near.send(long), Err(Unsent::Oversize { length: 3_000, max }) if max == near.max_datagram())
    );
    near.send(Bytes::new()).unwrap();
    near.send(Bytes::from_static(b"x")).unwrap();
    let mut sender = Metronome::new(50, Span::from_micros(500), STEADY_DATAGRAM);
    let (notebook, _) = converse(&near, &far, &mut sender, &mut |_| ());
    assert_eq!(notebook.packets.len(), 50);
    assert_eq!(far.inbox().counters().unfit, 1);
}

/// Passes datagrams on to `to` and back as long as they are no longer than `most` says.
fn narrow_path(to: SocketAddr, most: &'static AtomicUsize) -> SocketAddr {
    let [near, far] = [0, 1].map(|_| UdpSocket::bind(LOCALHOST).unwrap());
    let at = near.local_addr().unwrap();
    far.connect(to).unwrap();
    let client = Arc::new(std::sync::Mutex::new(None));
    let (there, back) = ((near.try_clone().unwrap(), far.try_clone().unwrap()), (near, far));
    let seen = client.clone();
    // The threads end with the test's process.
    thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok((length, from)) = there.0.recv_from(&mut buffer) {
            *seen.lock().unwrap() = Some(from);
            if length <= most.load(Ordering::Relaxed) {
                let _ = there.1.send(&buffer[..length]);
            }
        }
    });
    thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok(length) = back.1.recv(&mut buffer) {
            let to = *client.lock().unwrap();
            if let Some(to) = to.filter(|_| length <= most.load(Ordering::Relaxed)) {
                let _ = back.0.send_to(&buffer[..length], to);
            }
        }
    });
    at
}

#[test]
fn a_path_that_narrows_loses_no_media() {
    static MOST: AtomicUsize = AtomicUsize::new(1_452);
    let mut house = House::new(Limits::default());
    house.at = narrow_path(house.at, &MOST);
    let (near, far) = house.connect();
    let wide = Clock::shared().now() + Span::from_secs(5);
    while near.stats().mtu < 1_400 && Clock::shared().now() < wide {
        let mut sender = Metronome::new(100, Span::from_micros(200), STEADY_DATAGRAM);
        converse(&near, &far, &mut sender, &mut |_| ());
    }
    assert!(near.stats().mtu >= 1_400, "the path's MTU is found out: {:?}", near.stats());
    MOST.store(1_250, Ordering::Relaxed);
    let mut sender = Metronome::new(2_000, Span::from_micros(500), STEADY_DATAGRAM);
    let (notebook, counters) = converse(&near, &far, &mut sender, &mut |_| ());
    assert_eq!((notebook.damaged, counters.unsent), (0, 0));
    assert!(notebook.packets.len() >= 1_950, "{} of 2000 arrived", notebook.packets.len());
}

#[test]
fn a_goodbye_ends_the_other_side_in_good_order() {
    let mut house = House::new(Limits::default());
    let (near, far) = house.connect();
    near.finish("the clip is over");
    let ended = end_of(&far, &house.limits);
    assert_eq!(ended, Ended::Bye("the clip is over".to_owned()));
    let mut driver = Driver::over(far.clone());
    let mut notebook = Notebook::new(Clock::shared());
    let error = driver.run(&mut notebook, &run_limits(5_000), &mut go_on).unwrap_err();
    assert!(matches!(error, RealError::Ended { ended, .. } if ended.is_orderly()));
    assert_eq!(near.inbox().ended(), Some(Ended::Local));
    assert_eq!(near.send(Bytes::from_static(b"late")), Err(Unsent::Closed));
}

#[test]
fn a_server_started_anew_says_so_and_a_dead_one_is_found_out() {
    let identity = Identity::self_signed(&names()).unwrap();
    // A machine at work for somebody else may take longer than `quick`'s 800 ms to start the successor.
    let patient = Limits { idle: Span::from_secs(3), ..quick() };
    let mut house = House::of(&identity, patient, LOCALHOST.parse().unwrap());
    let (near, far) = house.connect();
    let House { runtimes: [server_threads, client_threads], server, at, limits, .. } = house;
    // Without its threads a server dies wordlessly.
    drop(server_threads);
    drop((server, far));
    let successor = House::of(&identity, patient, at);
    // A keep-alive may have brought the news already, and then nothing can be sent.
    let sent = near.send(Bytes::from(vec![1; 1_000]));
    assert!(matches!(sent, Ok(()) | Err(Unsent::Closed)), "{sent:?}");
    assert_eq!(end_of(&near, &limits), Ended::Restarted);

    let mut house = successor;
    let (near, far) = house.connect();
    let House { runtimes: [server_threads, more_threads], server, .. } = house;
    drop(server_threads);
    drop((server, far));
    assert_eq!(end_of(&near, &limits), Ended::Silent(limits.idle));
    drop((client_threads, more_threads));
}

#[test]
fn there_are_only_so_many_places() {
    let mut house = House::new(Limits { guests: 1, ..quick() });
    let first = house.connect();
    let error = house.error(|_| ());
    assert!(
        matches!(error, QuicError::Refused { why: Refusal::Busy, .. }) && !error.is_of_input(),
        "{error}"
    );
    first.0.finish("");
    end_of(&first.1, &house.limits);
    drop(first);
    house.connect();
}

#[test]
fn handshakes_have_a_rate_and_an_honest_stream_does_not_feel_it() {
    let mut house = House::new(Limits { handshakes: 4, ..quick() });
    let (near, far) = house.connect();
    let (at, server) = (house.at, &house.server);
    let mut sender = Metronome::new(3_000, Span::from_micros(500), STEADY_DATAGRAM);
    let (notebook, _) = thread::scope(|scope| {
        scope.spawn(|| {
            let (tls, _) = Trust::System.client_tls(ALPN).unwrap();
            let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
            let config = quinn::ClientConfig::new(Arc::new(crypto));
            let _inside = house.runtimes[1].handle().enter();
            let endpoint = quinn::Endpoint::client(LOCALHOST.parse().unwrap()).unwrap();
            let many = (0..60).map(|_| endpoint.connect_with(config.clone(), at, "localhost").unwrap());
            let many: Vec<_> = many.collect();
            house.runtimes[1].handle().block_on(async { tokio::time::sleep(Duration::from_secs(1)).await });
            drop(many);
        });
        converse(&near, &far, &mut sender, &mut |_| ())
    });
    let counters = server.counters();
    println!("60 attempts at once, 4 a second allowed: {counters:?}");
    assert!(counters.handshakes <= 4 + 8, "{counters:?}");
    assert!(counters.turned_away() + counters.retried >= 40, "{counters:?}");
    assert!(notebook.packets.len() >= 2_950, "{} of 3000 arrived", notebook.packets.len());
}

#[test]
fn a_receiver_that_stops_reading_costs_its_inbox_alone() {
    let mut house = House::new(Limits::default());
    let (near, far) = house.connect();
    // Nobody drives the far end.
    let mut driver = Driver::over(near.clone());
    let mut sender = Metronome::new(3_000, Span::from_micros(100), STEADY_DATAGRAM);
    driver.run(&mut sender, &run_limits(1_000), &mut go_on).unwrap();
    assert_eq!(driver.counters().sent, 3_000);
    let counters = far.inbox().counters();
    assert!(counters.received > 2_500 && counters.overflowed > 1_500, "{counters:?}");
    let held: usize = far.inbox().take().iter().map(|datagram| datagram.bytes.len()).sum();
    assert!(held <= crate::channel::WAITING_BYTES);
}

#[test]
fn nobody_there_is_told_from_somebody_else() {
    let house = House::new(quick());
    let nobody = UdpSocket::bind(LOCALHOST).unwrap();
    let error = house.error(|call| {
        (call.peer, call.patience) = (nobody.local_addr().unwrap(), Span::from_millis(300));
    });
    assert!(matches!(error, QuicError::Silent { .. }) && !error.is_of_input(), "{error}");
}

#[test]
fn a_replaced_certificate_is_for_newcomers_and_those_inside_stay() {
    let mut house = House::new(Limits::default());
    let (near, far) = house.connect();
    let old = house.pin;
    let next = Identity::self_signed(&names()).unwrap();
    house.server.credentials().replace(&next).unwrap();
    let error = house.error(|_| ());
    let found = next.fingerprint();
    assert!(
        matches!(error, QuicError::Distrusted { distrust: Distrust::Pin { pinned, found: seen }, .. } if pinned == old && seen == found),
        "{error}"
    );
    house.pin = found;
    house.connect();
    let mut sender = Metronome::new(200, Span::from_micros(500), STEADY_DATAGRAM);
    let (notebook, _) = converse(&near, &far, &mut sender, &mut |_| ());
    assert_eq!(near.inbox().ended(), None);
    assert!(notebook.packets.len() >= 190, "{} of 200 arrived", notebook.packets.len());
}

#[test]
fn an_admission_watch_knows_who_is_here_and_how_they_went() {
    let mut house = House::new(quick());
    let watch = house.server.watch();
    let (near, far) = house.connect();
    assert_eq!(watch.occupancy(), Occupancy { guests: 1, strangers: 0, memory: Limits::MEMORY });
    near.finish("enough");
    end_of(&far, &house.limits);
    drop(far);
    let deadline = Clock::shared().now() + PATIENCE;
    while watch.counters().ended.iter().sum::<u64>() == 0 && Clock::shared().now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
    let bye = Ended::KINDS.iter().position(|kind| *kind == "bye").unwrap();
    assert_eq!((watch.occupancy().guests, watch.counters().ended[bye]), (0, 1));
}

#[test]
fn both_ends_are_heard_beside_the_media_within_bounds() {
    let mut house = House::new(quick());
    let (near, far) = house.connect();
    let until = |done: &dyn Fn() -> bool| {
        let deadline = Clock::shared().now() + Span::from_secs(5);
        while !done() {
            assert!(Clock::shared().now() < deadline);
            thread::sleep(Duration::from_millis(5));
        }
    };
    let rated = |frame| Rated::new(0, frame, 0.5).unwrap();
    assert!(near.say(Uploading::quality(&[rated(1), rated(2)])));
    let watchers = Watchers { delay_ms: 500, viewers: 3 };
    assert!(far.say(Uploading::watching(&[watchers])));
    // A kind of a later version is passed over, and does not disturb what follows.
    assert!(near.say(vec![0, 2, 99, 1]));
    assert!(near.say(Uploading::quality(&[rated(3)])));
    until(&|| far.talked().heard == 2 && near.talked().heard == 1);
    assert_eq!(near.heard(), [Said::Watching(vec![watchers])]);
    assert_eq!(far.heard(), [Said::Quality(vec![rated(1), rated(2)]), Said::Quality(vec![rated(3)])]);
    // Whoever does not listen keeps the newest few.
    for frame in 0..50 {
        until(&|| near.say(Uploading::quality(&[rated(frame)])));
    }
    until(&|| far.talked().heard == 52);
    let kept = far.heard();
    assert_eq!(
        (kept.len() as u64, kept.back()),
        (50 - far.talked().overflowed, Some(&Said::Quality(vec![rated(49)])))
    );
    assert!(kept.len() < 20 && far.inbox().ended().is_none());
    // What can't be such a message ends the connection.
    assert!(near.say(vec![0, 2, 37, 200]));
    until(&|| near.inbox().ended().is_some());
    let ended = near.inbox().ended().unwrap();
    assert!(matches!(&ended, Ended::Refused(Refusal::Malformed, _)), "{ended:?}");
}
