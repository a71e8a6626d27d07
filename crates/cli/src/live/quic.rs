//! QUIC for `send` and `receive`: who may, and the channel.

use std::sync::Arc;

use media::Codec;
use real::quic::{
    AdmissionWatch, Call, Gate, Guest, Identity, Limits, QuicChannel, QuicError, Reason, Runtime, Server,
    Token, Trust,
};
use real::{Channel, Clock};
use units::Span;
use wire::{Offer, Refusal, Role};

use super::go_on;
use crate::args::{self, Contact};
use crate::failure::Failure;
use crate::operations::{self, Keeper, Renewal, Running, Status};
use crate::output;
use crate::values::Target;

/// A server that has not answered by then will not.
const PATIENCE: Span = Span::from_secs(10);
/// How often a server that waits looks whether it was interrupted.
const LOOK_EVERY: Span = Span::from_millis(200);

/// A channel and the threads it lives on, in the order they are to go.
pub struct Line {
    /// The connection's datagrams, for a driver.
    pub channel: Arc<QuicChannel>,
    /// What the sender says of its controller; may be empty.
    pub controller: String,
    _keeper: Option<Keeper>,
    _server: Option<Server>,
    _runtime: Runtime,
}

fn failure(error: QuicError) -> Failure {
    if error.is_of_input() { Failure::input(error) } else { Failure::work(error) }
}

fn runtime(threads: usize) -> Result<Runtime, Failure> {
    Runtime::new(threads).map_err(|error| Failure::Work(format!("no threads for QUIC: {error}")))
}

/// Who is called, and by whom.
#[derive(Clone, Copy)]
pub struct Dial<'a> {
    /// The receiver's address.
    pub target: &'a Target,
    /// How it is known, and what it wants to be shown.
    pub contact: &'a Contact,
    /// What is sent is called this.
    pub name: &'a str,
    /// What it is coded with.
    pub codec: Codec,
    /// The congestion controller, with its options.
    pub controller: &'a str,
}

/// Connects to a receiver and is let in.
pub fn call(dial: &Dial<'_>) -> Result<Line, Failure> {
    let Dial { target, contact, name, codec, controller } = *dial;
    let token = contact.token.as_ref().ok_or_else(|| {
        Failure::Input(
            "quic:// needs --token (or FRAMEWIRE_TOKEN): the one that `framewire receive` printed".to_owned(),
        )
    })?;
    let trust = match (contact.pin.or(target.pin), &contact.ca) {
        (Some(pin), _) => Trust::Pin(pin),
        (None, Some(file)) => Trust::File(file.clone()),
        (None, None) => Trust::System,
    };
    let call = Call {
        peer: target.resolve().map_err(Failure::Input)?,
        host: target.host(),
        trust,
        role: Role::Publish,
        token,
        name,
        offer: Offer { codec: codec.web_name(), controller },
        patience: PATIENCE,
        clock: Clock::shared(),
        limits: Limits::default(),
    };
    let runtime = runtime(1)?;
    let session = call.connect(&runtime).map_err(failure)?;
    Ok(Line {
        channel: session.channel,
        controller: String::new(),
        _keeper: None,
        _server: None,
        _runtime: runtime,
    })
}

/// Listens until a sender that may has come, for as long as `--timeout` says.
pub fn answer(args: &args::Receive, running: &Running) -> Result<Line, Failure> {
    let identity = args.certificate.identity(&["localhost".to_owned()])?;
    let token = args.token.clone().unwrap_or_else(Token::generate);
    let made = args.token.is_none().then_some(&token);
    let gate = Gate::new(token.clone(), true, false);
    // One sender is received; whoever comes beside it is told so.
    let limits = args.limits.limits(1)?;
    let runtime = runtime(1)?;
    let server = Server::open(&runtime, args.listen.at, &identity, gate, limits, Clock::shared());
    let mut server = server.map_err(failure)?;
    announce(&server, &identity, made)?;
    let keeper = look_after(args, &identity, &server, running);
    let guest = wait(&mut server, args.timeout)?;
    let controller = guest.request.controller.clone();
    if let Err(error) = super::receive::half(args, &controller) {
        guest.refuse(
            Refusal::Other,
            "the receiver does not know the sender's controller; update the older of the two",
        );
        return Err(error);
    }
    if let Some(Err(error)) = Codec::by_web_name(&guest.request.codec).map(Codec::check) {
        guest.refuse(Refusal::Other, "the receiver was built without the sender's codec");
        return Err(Failure::work(error));
    }
    eprintln!("receiving {} from quic://{}", or_else(&guest.request.name, "a stream"), guest.peer());
    let channel = guest.welcome(&Offer::default()).map_err(failure)?;
    Ok(Line { channel, controller, _keeper: Some(keeper), _server: Some(server), _runtime: runtime })
}

/// Shows what admission control does, and renews the certificate when its files change.
fn look_after(args: &args::Receive, identity: &Identity, server: &Server, running: &Running) -> Keeper {
    let (status, watch) = (Arc::new(Status::default()), server.watch());
    let shown = status.clone();
    running.board.show(move |out| {
        shown.show(out);
        operations::of_admission(&watch, out);
    });
    let renewal = Renewal::of(&args.certificate, Renewal::Never);
    operations::keep(renewal, identity, server.credentials(), &status, |next| {
        output::above_status(|| eprintln!("pin {}", next.fingerprint()));
    })
}

fn or_else<'a>(name: &'a str, unnamed: &'a str) -> std::borrow::Cow<'a, str> {
    if name.is_empty() { unnamed.into() } else { output::plain(name).into() }
}

/// Says how to reach us, on standard error as all that is no result. A token that was given is its owner's to
/// show.
fn announce(server: &Server, identity: &Identity, made: Option<&Token>) -> Result<(), Failure> {
    let local = server.local().map_err(Failure::work)?;
    let (port, pin) = (local.port(), identity.fingerprint());
    eprintln!("listening on quic://{local}");
    eprintln!("pin {pin}");
    let token = made.map_or("TOKEN", Token::secret);
    if made.is_some() {
        eprintln!("token {token}");
    }
    eprintln!("framewire send quic://HOST:{port}?pin={pin} --token {token} --input CLIP");
    Ok(())
}

fn wait(server: &mut Server, timeout: Span) -> Result<Guest, Failure> {
    let clock = Clock::shared();
    let until = clock.now() + timeout;
    while clock.now() < until && go_on().is_continue() {
        if let Some(guest) = server.accept(LOOK_EVERY) {
            return Ok(guest);
        }
    }
    let local = server.local().map_err(Failure::work)?;
    Err(Failure::Work(format!("nothing came to quic://{local} for {timeout}{}", refused(&server.watch()))))
}

/// Whether somebody tried, in words to go on with.
fn refused(watch: &AdmissionWatch) -> String {
    let counters = watch.counters();
    let but = match counters.refused(Reason::Token) {
        0 => String::new(),
        some => format!("; {some} without the right token were refused"),
    };
    match counters.refused(Reason::Handshake) {
        0 => but,
        some => format!("{but}; {some} did not finish the handshake (is their pin or CA the right one?)"),
    }
}

/// Goodbye, and why the channel ended if that was not by intention.
pub fn hang_up(line: &Line, text: &str) -> Result<(), Failure> {
    let ended = line.channel.inbox().ended();
    line.channel.finish(text);
    match ended {
        Some(ended) if !ended.is_orderly() => {
            Err(Failure::Work(format!("quic://{}: {ended}", line.channel.peer())))
        }
        _ => Ok(()),
    }
}
