//! Both ends of WebTransport, with another implementation's client for the browser.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use units::{Rate, Span};
use wire::{Message, Offer, Refusal, Role, SeenFrame, Status, Viewing, Wish};
use wtransport::tls::Sha256Digest;
use wtransport::{ClientConfig, Connection, Endpoint, RecvStream, SendStream};

use super::{Heard, Visitor, WebChannel, WebServer};
use crate::channel::Channel;
use crate::quic::{Gate, Identity, Limits, Messages, Runtime, write};
use crate::{Clock, STEADY_DATAGRAM};

const PATIENCE: Span = Span::from_secs(5);

struct House {
    server: WebServer,
    identity: Identity,
    runtime: Runtime,
}

fn open(guests: usize) -> House {
    let runtime = Runtime::new(1).unwrap();
    let identity = Identity::self_signed(&["127.0.0.1".to_owned()]).unwrap();
    let gate = Gate::new("secret".parse().unwrap(), false, true);
    // Everybody here has one address.
    let limits = Limits { guests, handshakes_per_address: 20, ..Limits::default() };
    let listen = "127.0.0.1:0".parse().unwrap();
    let server = WebServer::open(&runtime, listen, &identity, gate, limits, Clock::shared()).unwrap();
    House { server, identity, runtime }
}

/// A browser's end of a session.
struct Guest {
    connection: Connection,
    control: SendStream,
    messages: Messages<RecvStream>,
}

impl House {
    fn connect(&self, path: &str) -> Option<Connection> {
        let hash = Sha256Digest::new(self.identity.fingerprint().0);
        let address = format!("https://127.0.0.1:{}{path}", self.server.local().port());
        self.runtime.handle().block_on(async {
            let config =
                ClientConfig::builder().with_bind_default().with_server_certificate_hashes([hash]).build();
            Endpoint::client(config).unwrap().connect(address).await.ok()
        })
    }

    fn come(&self, role: Role, token: &str) -> Guest {
        let connection = self.connect("/watch").unwrap();
        self.runtime.handle().block_on(async {
            let (mut control, receive) = connection.open_bi().await.unwrap().await.unwrap();
            write(&mut control, &Message::open(role, token, "", Offer::default())).await.unwrap();
            Guest { connection, control, messages: Messages::new(receive) }
        })
    }

    fn refusal(&self, guest: &mut Guest) -> Refusal {
        match self.runtime.handle().block_on(guest.messages.next()) {
            Ok(Message::Refused { why, text }) if !text.is_empty() => why,
            other => panic!("{other:?} is no refusal with words"),
        }
    }

    fn welcome(&mut self) -> Arc<WebChannel> {
        let visitor: Visitor = self.server.accept(PATIENCE).unwrap();
        assert_eq!(visitor.request.role, Role::Watch);
        visitor.welcome(&Offer { codec: "", controller: "sqp" }).unwrap()
    }
}

/// Asks until there is an answer.
fn wait<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..500 {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("nothing came within five seconds");
}

#[test]
fn who_knows_the_token_gets_media_and_is_heard() {
    let mut house = open(1);
    let mut guest = house.come(Role::Watch, "secret");
    let channel = house.welcome();
    let runtime = house.runtime.handle().clone();
    let ready = runtime.block_on(guest.messages.next());
    assert!(matches!(ready, Ok(Message::Ready { offer: Offer { controller: "sqp", .. }, .. })));

    // Datagrams there and back; the steady length fits from the start, less the session's number.
    assert!(channel.max_datagram() >= STEADY_DATAGRAM - 8);
    let media = Bytes::from(vec![7; STEADY_DATAGRAM - 8]);
    assert!(channel.has_room(media.len()));
    channel.send(media.clone()).unwrap();
    let got = runtime.block_on(guest.connection.receive_datagram()).unwrap();
    assert_eq!(got.payload(), media);
    assert!(channel.send(Bytes::from(vec![0; 2_000])).is_err());
    guest.connection.send_datagram([1, 2, 3]).unwrap();
    assert_eq!(wait(|| channel.inbox().take().pop_front()).bytes, [1, 2, 3]);

    // Wishes and frames seen are heard, in order, and the clock is told at once.
    let mut out = [0; Viewing::MAX_LEN];
    let wish = Wish { paused: true, max_bps: Rate::from_mbps(2).as_bps(), controller: "copa" };
    let length = Viewing::Wish(wish).encode(&mut out);
    runtime.block_on(guest.control.write_all(&out[..length])).unwrap();
    let frame = SeenFrame { frame: 1, picture: 2, shown: 3, delay_us: -4 };
    let length = Viewing::encode_seen(9, &[frame], &mut out);
    runtime.block_on(guest.control.write_all(&out[..length])).unwrap();
    let length = Viewing::ClockAsk { asked: 77 }.encode(&mut out);
    runtime.block_on(guest.control.write_all(&out[..length])).unwrap();
    runtime.block_on(guest.messages.next()).unwrap();
    let told = Viewing::decode(guest.messages.last());
    assert!(matches!(told, Ok(Some(Viewing::ClockTell { asked: 77, heard: 1.., .. }))), "{told:?}");
    let heard: Vec<Heard> = channel.heard().into();
    let wished = Heard::Wish { paused: true, max_bps: 2_000_000, controller: "copa".to_owned() };
    assert_eq!(heard, [wished, Heard::Seen { session: 9, frames: vec![frame] }]);

    let status = Status { session: 9, controller: "copa", ..Status::default() };
    assert!(channel.say(&Viewing::Status(status)));
    runtime.block_on(guest.messages.next()).unwrap();
    assert_eq!(Viewing::decode(guest.messages.last()), Ok(Some(Viewing::Status(status))));

    drop(guest);
    let ended = wait(|| channel.inbox().ended());
    assert!(ended.is_orderly(), "{ended}");
}

#[test]
fn strangers_publishers_and_one_too_many_are_told_why() {
    let mut house = open(1);
    let mut stranger = house.come(Role::Watch, "wrong");
    assert_eq!(house.refusal(&mut stranger), Refusal::Token);
    let mut publisher = house.come(Role::Publish, "secret");
    assert_eq!(house.refusal(&mut publisher), Refusal::Role);
    assert!(house.connect("/elsewhere").is_none());

    let first = house.come(Role::Watch, "secret");
    let channel = house.welcome();
    let mut second = house.come(Role::Watch, "secret");
    assert_eq!(house.refusal(&mut second), Refusal::Busy);
    assert!(house.server.accept(Span::from_millis(50)).is_none());
    // Whoever leaves makes room.
    drop(first);
    wait(|| channel.inbox().ended());
    drop(channel);
    let _third = house.come(Role::Watch, "secret");
    house.welcome();
}

#[test]
fn a_goodbye_arrives_before_the_session_is_closed() {
    let mut house = open(1);
    let mut guest = house.come(Role::Watch, "secret");
    let channel = house.welcome();
    let goodbye = std::thread::spawn(move || channel.farewell("the clip is broken"));
    let runtime = house.runtime.handle().clone();
    assert!(matches!(runtime.block_on(guest.messages.next()), Ok(Message::Ready { .. })));
    assert!(matches!(
        runtime.block_on(guest.messages.next()),
        Ok(Message::Bye { text: "the clip is broken" })
    ));
    // A guest that goes is not waited for any longer, and one that is gone is told nothing.
    drop(guest);
    goodbye.join().unwrap();
    let _next = house.come(Role::Watch, "secret");
    house.welcome();
}

#[test]
fn nonsense_on_the_control_stream_ends_the_session() {
    let mut house = open(1);
    let mut guest = house.come(Role::Watch, "secret");
    let channel = house.welcome();
    house.runtime.handle().block_on(guest.control.write_all(&[0, 2, 34, 9])).unwrap();
    assert!(!wait(|| channel.inbox().ended()).is_orderly());
}

#[test]
fn a_server_that_ends_closes_its_sessions() {
    let mut house = open(1);
    let guest = house.come(Role::Watch, "secret");
    let channel = house.welcome();
    let House { server, runtime, .. } = house;
    drop(server);
    wait(|| channel.inbox().ended());
    let closed = async { tokio::time::timeout(Duration::from_secs(5), guest.connection.closed()).await };
    assert!(runtime.handle().block_on(closed).is_ok());
}

#[test]
fn a_viewer_that_does_not_read_hears_no_more_and_others_do() {
    let mut house = open(2);
    let _deaf = house.come(Role::Watch, "secret");
    let to_the_deaf = house.welcome();
    let mut other = house.come(Role::Watch, "secret");
    let to_the_other = house.welcome();
    let status = Viewing::Status(Status { controller: "copa", ..Status::default() });
    let mut out = [0; Viewing::MAX_LEN];
    let length = status.encode(&mut out);
    // What it is told fills its own QUIC's window (1.25 MB), then ours for its stream, then our queue, and
    // that is all.
    let mut told = 0;
    for _ in 0..100_000 {
        told += usize::from(to_the_deaf.say(&status));
        if told % 32 == 0 {
            std::thread::yield_now();
        }
    }
    assert!(told * length < 2_000_000, "{told} messages of {length} bytes");
    assert!(!to_the_deaf.say(&status));
    assert!(to_the_other.say(&status));
    let runtime = house.runtime.handle().clone();
    assert!(matches!(runtime.block_on(other.messages.next()), Ok(Message::Ready { .. })));
    runtime.block_on(other.messages.next()).unwrap();
    assert_eq!(Viewing::decode(other.messages.last()), Ok(Some(status)));
}
