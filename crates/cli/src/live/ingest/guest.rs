//! One uploader: its packets through receiver and decoders to the stream it uploads.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, OnceLock};

use ingest::Arrival;
use media::AnyDecoder;
use real::quic::Guest;
use real::{Channel, Driver, Limits, Peer, RealError, Settings, ThreadedDecoder};
use record::Tap;
use session::{Receiver, ReceiverConfig, Screen, Shown, capture_of};
use tracing::{info, warn};
use units::{RemoteTime, Span, Time};
use wire::{Offer, Refusal};

use super::Args;
use super::stream::{Desk, Gone, Stream};
use super::talk::{Rated, Talk};
use crate::failure::Failure;
use crate::live::{go_on, refused};
use crate::output;

/// The stream of an uploader over UDP, who says no name.
const UNNAMED: &str = "upload";

/// How often an uploader is listened to: what it says of a frame is to be known when a segment is made half a
/// second after it.
const TICK: Span = Span::from_millis(50);

/// Hands each decoded picture to its stream.
#[derive(Clone)]
struct Pictures {
    desk: Arc<Desk>,
    name: String,
    /// Over UDP it begins with the first picture: nobody says before that somebody uploads.
    stream: Arc<OnceLock<Result<Stream, String>>>,
    rated: Rated,
}

impl Pictures {
    fn of(desk: &Arc<Desk>, name: &str, rated: Rated) -> Pictures {
        Pictures { desk: desk.clone(), name: name.to_owned(), stream: Arc::default(), rated }
    }

    /// The stream; why there is none, in words for the uploader.
    fn stream(&self) -> &Result<Stream, String> {
        self.stream.get_or_init(|| self.desk.stream(&self.name))
    }

    fn take(&self, now: Time, shown: &Shown) {
        // A receiver hands its screen each picture once; who needs it for longer keeps a copy.
        let Some(picture) = shown.picture.clone() else { return };
        let again = capture_of(shown.stream) == upload::AGAIN;
        if let Ok(stream) = self.stream() {
            let (picture, rating) = (Arc::from(picture), self.rated.arrived(shown));
            stream.take(Arrival { captured: shown.captured, again, at: now, picture, rating });
        }
    }

    /// What the stream is called, once it has begun.
    fn called(&self) -> Option<&str> {
        self.stream.get()?.as_ref().ok().map(Stream::name)
    }

    /// The camera has ended.
    fn filmed(&self, last: RemoteTime) {
        if let Some(Ok(stream)) = self.stream.get() {
            stream.filmed(last);
        }
    }

    /// The uploader has left, of a stream that has begun.
    fn gone(&self, how: Gone) {
        if let Some(Ok(stream)) = self.stream.get() {
            stream.gone(how);
        }
    }
}

impl Screen for Pictures {
    fn show(&mut self, now: Time, shown: &Shown) {
        self.take(now, shown);
    }
    fn discard(&mut self, now: Time, unseen: &Shown) {
        self.take(now, unseen);
    }
}

/// Receives what an uploader over QUIC sends, until it ends.
pub fn by_quic(guest: Guest, desk: &Arc<Desk>) {
    let name = guest.request.name.clone();
    let pictures = Pictures::of(desk, &name, Rated::over_quic());
    if let Err(why) = pictures.stream() {
        return guest.refuse(Refusal::Other, why);
    }
    let peer = guest.peer();
    let channel = match guest.welcome(&Offer::default()) {
        Ok(channel) => channel,
        Err(error) => return warn!("{peer}: {error}"),
    };
    info!("{peer} uploads {name}");
    let mut driver = Driver::over(channel.clone());
    let mut talk = Talk::new(desk, &pictures.rated, Some(channel.clone()));
    let run = receive(&mut driver, &pictures, None, &mut talk);
    // The last of what it said, before the stream ends.
    talk.hear();
    let ended = channel.inbox().ended();
    let told = run.is_ok_and(|finished| finished);
    let orderly = told || ended.as_ref().is_some_and(real::Ended::is_orderly);
    channel.finish("the endpoint has all");
    pictures.gone(if orderly { Gone::Done } else { Gone::CutOff });
    if !orderly {
        let why = ended.map_or_else(|| "nothing is heard".to_owned(), |ended| ended.to_string());
        output::above_status(|| eprintln!("{name}: cut off, {}", output::plain(&why)));
    }
}

/// Receives one upload after the other over UDP.
pub fn by_udp(args: &Args, desk: &Arc<Desk>) -> Result<(), Failure> {
    let mut told = false;
    while go_on().is_continue() && !desk.has_ended(args.once) {
        let mut driver = Driver::open(args.listen.at, Peer::First, &Settings::default()).map_err(refused)?;
        if !std::mem::replace(&mut told, true) {
            eprintln!("listening on udp://{}", driver.local());
        }
        let pictures = Pictures::of(desk, UNNAMED, Rated::default());
        let mut talk = Talk::new(desk, &pictures.rated, None);
        let finished = receive(&mut driver, &pictures, Some(args.patience), &mut talk);
        let finished = finished.map_err(Failure::work)?;
        if let Some(Err(why)) = pictures.stream.get() {
            return Err(Failure::Work(why.clone()));
        }
        pictures.gone(if finished { Gone::Done } else { Gone::CutOff });
        desk.tend();
    }
    Ok(())
}

/// Runs a receiver until the uploader says that it is done, or the connection ends; over UDP, which has none,
/// until it was silent for this long. True if it said so.
fn receive(
    driver: &mut Driver,
    pictures: &Pictures,
    patience: Option<Span>,
    talk: &mut Talk,
) -> Result<bool, RealError> {
    let (clock, waker) = (driver.clock(), driver.waker());
    let trouble: Arc<Mutex<Option<String>>> = Arc::default();
    let told = trouble.clone();
    let decoder = move || {
        let told = told.clone();
        let unbuilt = move |error: media::CodecError| {
            told.lock().expect("nothing panics while it holds this").get_or_insert(error.to_string());
        };
        ThreadedDecoder::new(Box::new(AnyDecoder::new(unbuilt)), clock, waker.clone())
    };
    let screen = Box::new(pictures.clone());
    let receiver = Receiver::new(ReceiverConfig::default(), None, Some(screen), Tap::default());
    let mut receiver = receiver.with_decoders(Box::new(move |_| Some(Box::new(decoder())))).following();
    let (mut packets, mut last) = (0, clock.now());
    let limits = Limits { tick: TICK, ..Limits::default() };
    let run = driver.run(&mut receiver, &limits, &mut |now, receiver: &mut Receiver, counters| {
        if counters.received > packets {
            (packets, last) = (counters.received, now);
        }
        talk.tick(now, pictures.called());
        talk.filmed().into_iter().for_each(|last| pictures.filmed(last));
        let silent = patience.is_some_and(|patience| packets > 0 && now - last > patience);
        let over = receiver.is_finished() || receiver.trouble().is_some() || silent;
        if over { ControlFlow::Break(()) } else { go_on() }
    });
    if let Some(trouble) = trouble.lock().expect("nothing panics while it holds this").take() {
        warn!("{}: {trouble}", pictures.name);
    }
    match run {
        Ok(()) | Err(RealError::Ended { .. }) => Ok(receiver.is_finished()),
        Err(error) => Err(error),
    }
}
