//! `framewire serve`: a page that plays, and a sender for each browser that opens it.

use std::fs::File;
use std::io::{LineWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use media::{Codec, CodecChoice};
use real::Clock;
use real::quic::{AdmissionWatch, Credentials, Gate, Identity, Limits, Runtime, Token};
use real::web::{Pages, Visitor, WebServer};
use serde_json::json;
use session::ModeCount;
use session::preset::Choice;
use units::{Rate, Span};
use wire::SeenFrame;

use super::clip::Look;
use super::guest;
use super::losses::Losses;
use super::send;
use super::{catch_interrupts, go_on};
use crate::args::Rates;
use crate::failure::Failure;
use crate::operations::{
    self, Certificate, ConnectionLimits, Operations, Renewal, Status, Streams, Verbosity,
};
use crate::output;
use crate::shipped;
use crate::values::{CcList, Feed, Input, PageCodecs, PlayoutPolicy, RatePolicy};

/// `framewire serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire serve --input synthetic
  framewire serve --input clip.mp4 --cc copa --listen 127.0.0.1:4433 --token secret
  framewire serve --input clip.mp4 --cc copa:delta=0.58 --rate vidaptive --max 12mbit
  framewire serve --input clip.mp4 --strategy backup
  framewire serve --input clip.mp4 --size 640x360 --codec vixnn
  framewire serve --input clip.mp4 --viewers 16 --metrics 127.0.0.1:9090 --log-format json 2>> serve.log

Open the address it prints in a browser with WebTransport and WebCodecs. `make web` builds the page.")]
pub struct Serve {
    /// The clip: Y4M, anything ffmpeg reads, or `synthetic`; it repeats
    #[arg(long, value_name = "CLIP")]
    pub input: Input,
    /// Congestion controller each viewer begins with: NAME or NAME:OPTION=VALUE,OPTION=VALUE
    #[arg(long, value_name = "CC", default_value = session::preset::DEFAULT.name)]
    pub cc: CcList,
    /// Rate policy between controller and encoder, for every viewer: NAME or NAME:OPTION=VALUE,OPTION=VALUE;
    /// without it the one of `--cc default`, or `live`. `framewire send --help` says what each does
    #[arg(long, value_name = "POLICY")]
    pub rate: Option<RatePolicy>,
    #[command(flatten)]
    pub losses: Losses,
    /// Codec, NAME or NAME:OPTION=VALUE,OPTION=VALUE: `h264`, which the browser decodes, or `vixnn`, which
    /// the page decodes by itself, 640x360 at some 40 frames/s on one core. `framewire send --help` says what
    /// options it has
    #[arg(long, value_name = "CODEC", value_parser = PageCodecs, default_value = Codec::H264.name())]
    pub codec: CodecChoice,
    /// When pages show frames, NAME or NAME:OPTION=VALUE: `at-once`, each when it is ready; `adaptive`,
    /// evenly; or another of `framewire playouts`. A page whose address has `&playout=NAME` follows that
    /// instead
    #[arg(long, value_name = "POLICY", default_value = session::playout::REGISTRY[0].name)]
    pub playout: PlayoutPolicy,
    /// Address and port to listen on, TCP for the page and UDP for the media
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:4433")]
    pub listen: SocketAddr,
    /// Who knows this may watch; a new one is made and printed if left out
    #[arg(long, env = "FRAMEWIRE_TOKEN", hide_env_values = true)]
    pub token: Option<Token>,
    /// Viewers at a time, each with a sender of its own, and an encoder for each track of `--strategy`
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub viewers: u8,
    #[command(flatten)]
    pub look: Look,
    #[command(flatten)]
    pub rates: Rates,
    /// Folder of the page, instead of the one that `make web` built beside the command or that came inside it
    #[arg(long, value_name = "DIR")]
    pub web: Option<PathBuf>,
    /// Write down every frame captured and seen and how sending goes, a line of JSON each
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    #[command(flatten)]
    pub certificate: Certificate,
    #[command(flatten)]
    pub limits: ConnectionLimits,
    #[command(flatten)]
    pub operations: Operations,
}

/// How often the server looks whether it should close.
const LOOK_UP: Span = Span::from_millis(200);

/// What every viewer is shown.
#[derive(Clone)]
pub struct Show {
    /// The clip; it repeats.
    pub input: Feed,
    /// How it is shown.
    pub look: Look,
    /// The controller each viewer begins with.
    pub controller: String,
    /// The rate policy of every viewer, if it is not to be the one that goes with the controller.
    pub rate: Option<String>,
    /// What is done about losses, for every viewer.
    pub losses: Losses,
    /// What codes the pictures.
    pub codec: CodecChoice,
    /// When its page shows frames, as text.
    pub playout: String,
    /// The rate it begins at, and the one it never exceeds.
    pub rates: Rates,
    /// Told what happens.
    pub notes: Notes,
}

impl Show {
    /// What a viewer gets who wishes for `controller`.
    pub fn choice(&self, controller: &str) -> Choice {
        self.losses.choice(controller, self.rate.as_deref())
    }

    /// What is to be known of a controller under its rate policy, if anything.
    pub fn advice(&self, controller: &str) -> String {
        let choice = self.choice(controller);
        output::pair(&choice.controller, &choice.rate).unwrap_or_default()
    }
}

/// What happens to a viewer, for logs and measurements. Dates are microseconds since 1970 by this machine's
/// calendar.
#[derive(Clone, Copy, Debug)]
pub enum Note<'a> {
    /// A picture of the clip was captured.
    Captured {
        /// The number of the viewer's session.
        session: u32,
        /// The capture index in it.
        frame: u32,
        /// The picture's number, as burned in.
        picture: u32,
        /// Date of the capture.
        at: u64,
    },
    /// The viewer showed a frame.
    Seen {
        /// The number of the viewer's session.
        session: u32,
        /// What it said of it.
        frame: SeenFrame,
    },
    /// How sending goes, ten times a second.
    Sent {
        /// The number of the viewer's session.
        session: u32,
        /// Date of these figures.
        at: u64,
        /// Bytes of media and padding so far in this session.
        bytes: u64,
        /// What the controller advises.
        estimate: Option<Rate>,
        /// What the strategy is at, ...
        mode: &'static str,
        /// ... and what it has been at so far.
        modes: &'a [ModeCount],
    },
}

/// Takes notes; the number is the viewer's.
pub type Notes = Arc<dyn Fn(u64, &Note<'_>) + Send + Sync>;

/// This machine's date in microseconds since 1970.
pub fn date_us() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// Where and for whom to serve.
pub struct Service {
    server: WebServer,
    /// The page's address, without the token.
    pub page: SocketAddr,
    /// Where WebTransport listens.
    pub transport: SocketAddr,
    show: Arc<Show>,
    pages: Arc<Pages>,
    streams: Arc<Streams>,
    viewers: u64,
    // Last: what is above runs on it.
    runtime: Runtime,
}

/// What is said last needs a moment to get out.
const FAREWELL: Duration = Duration::from_millis(50);

impl Service {
    /// Listens for HTTP and WebTransport at `listen`.
    pub fn open(
        listen: SocketAddr,
        identity: &Identity,
        token: Token,
        limits: Limits,
        folder: Option<&Path>,
        show: Show,
    ) -> Result<Service, Failure> {
        let network = network(&show.codec)?;
        let pages = match page_folder(folder) {
            Some(folder) => Pages::read(&folder).map_err(Failure::input)?,
            None => Pages::of(shipped::PAGE),
        };
        let pages = Arc::new(pages);
        let runtime = Runtime::new(1).map_err(Failure::work)?;
        let gate = Gate::new(token, false, true);
        let server = WebServer::open(&runtime, listen, identity, gate, limits, Clock::shared());
        let server = server.map_err(Failure::input)?;
        if let Some(network) = network {
            pages.put(NETWORK, network);
        }
        let page = real::http::serve(&runtime, listen, pages.clone()).map_err(Failure::input)?;
        let (transport, show, streams) = (server.local(), Arc::new(show), Arc::default());
        let service = Service { server, page, transport, show, pages, streams, viewers: 0, runtime };
        service.introduce()(identity);
        Ok(service)
    }

    /// Tells pages that connect from now on by which certificate they know us.
    fn introduce(&self) -> impl Fn(&Identity) + Send + 'static {
        let (show, pages, port) = (self.show.clone(), self.pages.clone(), self.transport.port());
        move |identity| {
            let facts = facts(&show, port, &hash(identity)).to_string();
            pages.put("/server.json", facts.into_bytes());
        }
    }

    /// What the media's admission control does.
    fn watch(&self) -> AdmissionWatch {
        self.server.watch()
    }

    fn credentials(&self) -> Credentials {
        self.server.credentials()
    }

    /// Lets in who comes within a moment, each with a thread of its own.
    pub fn attend(&mut self) {
        let Some(visitor) = self.server.accept(LOOK_UP) else { return };
        self.viewers += 1;
        self.entertain(visitor);
    }

    /// Says goodbye to everybody.
    pub fn close(self) {
        let Service { server, runtime, .. } = self;
        drop(server);
        std::thread::sleep(FAREWELL);
        drop(runtime);
    }

    fn entertain(&self, visitor: Visitor) {
        let (show, streams, number) = (self.show.clone(), self.streams.clone(), self.viewers);
        let admission = self.watch();
        // A thread that can't be had costs this viewer the show, and nobody else: dropped, they are
        // disconnected.
        let thread = std::thread::Builder::new().name(format!("viewer {number}"));
        if let Err(error) =
            thread.spawn(move || guest::entertain(&show, &streams, &admission, number, visitor))
        {
            tracing::error!("no thread for viewer {number}: {error}");
        }
    }
}

/// Where pages find the network that decodes ViXNN.
const NETWORK: &str = "/vixnn.safetensors";

/// The file of the encoder's network, which decodes as well; none with another codec.
#[cfg(feature = "vixnn")]
fn network(choice: &CodecChoice) -> Result<Option<Vec<u8>>, Failure> {
    let is_vixnn = choice.codec == Codec::VIXNN;
    let file = is_vixnn.then(|| media::model_file(choice.options.model.as_deref()));
    file.transpose().map_err(Failure::input)
}

#[cfg(not(feature = "vixnn"))]
fn network(_: &CodecChoice) -> Result<Option<Vec<u8>>, Failure> {
    Ok(None)
}

/// The hash by which a browser may accept the certificate; nothing where it must be one that browsers trust
/// anyway.
fn hash(identity: &Identity) -> String {
    if identity.suits_browsers_by_fingerprint() { identity.fingerprint().to_string() } else { String::new() }
}

/// What the page asks its server before it connects.
fn facts(show: &Show, port: u16, hash: &str) -> serde_json::Value {
    let controllers: Vec<_> =
        cc::REGISTRY.iter().map(|entry| json!({ "name": entry.name, "about": entry.summary, "rate": show.choice(entry.name).rate })).collect();
    let Choice { rate, recovery, strategy, .. } = show.choice(&show.controller);
    json!({
        "port": port, "hash": hash, "controller": show.controller, "rate": rate, "strategy": strategy, "recovery": recovery,
        "codec": show.codec.codec.name(),
        "playout": show.playout, "maxBps": show.rates.max.as_bps(), "controllers": controllers,
    })
}

/// The folder of the built page: the one named, or where `make web` puts it beside the command; `None` for
/// the page that comes along inside the command.
pub(super) fn page_folder(named: Option<&Path>) -> Option<PathBuf> {
    if let Some(folder) = named {
        return Some(folder.to_owned());
    }
    let beside = std::env::current_exe().ok().and_then(|command| Some(command.parent()?.to_owned()));
    let candidates = beside.iter().flat_map(|folder| [folder.join("web"), folder.join("../web")]);
    let built = candidates.into_iter().find(|folder| folder.join("index.html").is_file());
    let here = PathBuf::from("target/web");
    // Without any, the folder where it should be is named.
    built.or_else(|| (here.join("index.html").is_file() || shipped::PAGE.is_empty()).then_some(here))
}

/// Serves until interrupted.
pub fn serve(args: &Serve) -> Result<(), Failure> {
    let controller = args.cc.only().map_err(Failure::Input)?.to_owned();
    let show = Show {
        input: Feed::Clip(args.input.clone()),
        look: args.look,
        controller,
        rate: args.rate.as_ref().map(|rate| rate.0.clone()),
        losses: args.losses.clone(),
        codec: args.codec.clone(),
        playout: args.playout.to_string(),
        rates: args.rates,
        notes: notes(args.log.as_deref())?,
    };
    let choice = show.choice(&show.controller);
    output::warn_of_pair(&choice.controller, &choice.rate);
    args.codec.codec.check().map_err(Failure::input)?;
    // A clip that can't be opened should be known now, and not when somebody comes to see it.
    drop(guest::clip(&show)?);
    if let Input::File(path) = &args.input {
        output::mention_sound(path);
    }
    let running = args.operations.start(Verbosity::events())?;
    let token = args.token.clone().unwrap_or_else(Token::generate);
    let limits = args.limits.limits(usize::from(args.viewers))?;
    let names = vec![args.listen.ip().to_string(), "localhost".to_owned()];
    let identity = args.certificate.identity(&names)?;
    let mut service =
        Service::open(args.listen, &identity, token.clone(), limits, args.web.as_deref(), show)?;
    let (status, watch, streams) = (Arc::new(Status::default()), service.watch(), service.streams.clone());
    let shown = status.clone();
    running.board.show(move |out| {
        shown.show(out);
        operations::of_admission(&watch, out);
        streams.show(out);
    });
    // Pages ask for the hash whenever they connect, so a certificate made here can be followed by another.
    let renewal = Renewal::of(&args.certificate, Renewal::Made(names));
    let _keeper = operations::keep(renewal, &identity, service.credentials(), &status, service.introduce());
    catch_interrupts();
    eprintln!("open http://{}/#token={} in a browser", service.page, token.secret());
    while go_on().is_continue() {
        service.attend();
    }
    service.close();
    Ok(())
}

/// Notes as lines of JSON in a file, or none.
fn notes(file: Option<&Path>) -> Result<Notes, Failure> {
    let Some(path) = file else { return Ok(Arc::new(|_, _| ())) };
    let file = File::create(path).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
    let file = Mutex::new(LineWriter::new(file));
    Ok(Arc::new(move |viewer, note| {
        let mut file = file.lock().expect("nothing panics while it holds this");
        // A full disk costs the log, not the show.
        let _ = writeln!(file, "{}", line(viewer, note));
    }))
}

fn line(viewer: u64, note: &Note<'_>) -> serde_json::Value {
    match *note {
        Note::Captured { session, frame, picture, at } => json!({
            "event": "captured", "viewer": viewer, "session": session, "frame": frame, "picture": picture, "at_us": at,
        }),
        Note::Seen { session, frame } => {
            let picture = Some(frame.picture).filter(|&picture| picture != u32::MAX);
            json!({
                "event": "seen", "viewer": viewer, "session": session, "frame": frame.frame, "picture": picture,
                "at_us": frame.shown, "delay_us": frame.delay_us,
            })
        }
        Note::Sent { session, at, bytes, estimate, mode, modes } => json!({
            "event": "sent", "viewer": viewer, "session": session, "at_us": at, "bytes": bytes,
            "estimate_bps": estimate.map(Rate::as_bps), "mode": mode, "modes": send::modes(modes),
        }),
    }
}
