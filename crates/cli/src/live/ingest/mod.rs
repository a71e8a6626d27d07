//! `framewire ingest`: the endpoint of uploads.

mod audience;
mod guest;
mod page;
mod stream;
mod talk;

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use ingest::Class;
use real::Clock;
use real::quic::{Gate, Identity, Runtime, Server, Token};
use serde_json::json;
use units::{Bytes, Rate, Span};

use super::{catch_interrupts, go_on, refuse_over_udp};
use crate::args::Format;
use crate::failure::Failure;
use crate::operations::{
    self, Certificate, ConnectionLimits, Operations, Renewal, Running, Status, Verbosity,
};
use crate::output;
use crate::table::Table;
use crate::values::{Listen, Scheme};

use stream::{Desk, Terms};

/// `framewire ingest`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire ingest --listen quic://0.0.0.0:4433 --out uploads
  framewire ingest --listen quic://0.0.0.0:4433 --out s3://bucket/live --delays 1s,10s,1min --http 0.0.0.0:8080
  framewire ingest --listen udp://127.0.0.1:4433 --out uploads --once --json

Each delay is a playlist of its own: http://HOST:PORT/NAME/live.m3u8, NAME/30s.m3u8, ... (HLS), and .mpd (DASH). A
segment enters it when its last frame is as old as the delay, in the best version there is by then; nothing that is
listed ever changes, so any player and any cache will do. NAME/movie.mp4 is the whole in its final version.

Killed and started again with the same --out and settings within --patience, it goes on with the streams it had.
Uploaders find it again if its certificate is the same (--cert, --key).")]
pub struct Args {
    /// Address and port to listen on for uploads: quic://ADDR:PORT, or udp://ADDR:PORT for one on a network
    /// of your own
    #[arg(long, value_name = "quic://ADDR:PORT")]
    pub listen: Listen,
    /// Where files go: a folder, or s3://BUCKET/PREFIX with the keys in AWS_ACCESS_KEY_ID and
    /// AWS_SECRET_ACCESS_KEY (AWS_ENDPOINT for a server other than Amazon's)
    #[arg(long, value_name = "DIR|s3://BUCKET/PREFIX")]
    pub out: String,
    /// Address and port of the page and the files, by HTTP
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080")]
    pub http: SocketAddr,
    /// Delays to watch at, rising, 8 at most; below 1s it is called `live`
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', default_value = "0.5s,5s,15s,30s")]
    pub delays: Vec<Span>,
    /// Length of a segment, 0.5s to 10s: what a viewer waits for at least
    #[arg(long, default_value = "2s")]
    pub segment: Span,
    /// Bitrate of segments; 0.15 bits for each pixel if left out, so that coding once more costs
    /// little of the upload's quality
    #[arg(long)]
    pub rate: Option<Rate>,
    /// How much of the past playlists list; all of it if left out
    #[arg(long, value_name = "TIME")]
    pub window: Option<Span>,
    /// Uploads at a time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub uploads: u8,
    /// Memory for the pictures of an upload that may still become better: 30 s of 1280x720 at 30 Hz take 0.5
    /// to 1 GB; the oldest make way
    #[arg(long, value_name = "SIZE", default_value = "1000MB")]
    pub memory: Bytes,
    /// How long an upload that was cut off may stay away before it is taken for ended
    #[arg(long, default_value = "1min")]
    pub patience: Span,
    /// End with the first upload
    #[arg(long)]
    pub once: bool,
    /// QUIC: the token that uploaders must show; made and printed if left out
    #[arg(long, env = "FRAMEWIRE_TOKEN", hide_env_values = true)]
    pub token: Option<Token>,
    /// Folder of the page, instead of the one that `make web` built beside the command or that came inside it
    #[arg(long, value_name = "DIR")]
    pub web: Option<PathBuf>,
    #[command(flatten)]
    pub certificate: Certificate,
    #[command(flatten)]
    pub format: Format,
    #[command(flatten)]
    pub limits: ConnectionLimits,
    #[command(flatten)]
    pub operations: Operations,
}

/// Segments shorter than this are mostly key frame, longer ones make live viewers wait.
const SEGMENTS: std::ops::RangeInclusive<Span> = Span::from_millis(500)..=Span::from_secs(10);
/// How often somebody who waits looks whether it was interrupted.
const LOOK_EVERY: Span = Span::from_millis(200);

/// Takes uploads until interrupted.
pub fn ingest(args: &Args) -> Result<(), Failure> {
    if args.listen.scheme == Scheme::Udp {
        let given = [("--token", args.token.is_some()), ("--cert", args.certificate.cert.is_some())];
        let given = given.into_iter().chain(args.limits.given());
        refuse_over_udp(&format!("udp://{}", args.listen.at), &Vec::from_iter(given))?;
    }
    let terms = terms(args)?;
    let running = args.operations.start(Verbosity::warnings())?;
    let runtime = Runtime::new(2).map_err(Failure::work)?;
    let desk = Arc::new(Desk::open(&args.out, terms)?);
    let http = page::serve(&runtime, args, &desk)?;
    let shown = desk.clone();
    running.board.show(move |out| shown.show(out));
    eprintln!("watch at http://{http}/");
    catch_interrupts();
    let taken = match args.listen.scheme {
        Scheme::Quic => by_quic(args, &runtime, &running, &desk),
        Scheme::Udp => guest::by_udp(args, &desk),
    };
    let streams = desk.close();
    taken?;
    report(args, &streams);
    Ok(())
}

fn terms(args: &Args) -> Result<Terms, Failure> {
    if !SEGMENTS.contains(&args.segment) {
        return Err(Failure::Input(format!("--segment {}: from 500ms to 10s", args.segment)));
    }
    if args.window.is_some_and(|window| window < args.segment * 3) {
        return Err(Failure::Input("--window: three segments at least (RFC 8216 section 6.2.2)".to_owned()));
    }
    let classes = Class::list(&args.delays).map_err(|error| Failure::Input(format!("--delays: {error}")))?;
    Ok(Terms {
        classes,
        segment: args.segment,
        rate: args.rate,
        window: args.window,
        memory: usize::try_from(args.memory.get()).unwrap_or(usize::MAX),
        patience: args.patience,
    })
}

/// Lets uploaders in who have the token, each on a thread of its own.
fn by_quic(args: &Args, runtime: &Runtime, running: &Running, desk: &Arc<Desk>) -> Result<(), Failure> {
    let identity = args.certificate.identity(&["localhost".to_owned()])?;
    let token = args.token.clone().unwrap_or_else(Token::generate);
    let made = args.token.is_none().then_some(&token);
    let limits = args.limits.limits(usize::from(args.uploads))?;
    let gate = Gate::new(token.clone(), true, false);
    let server = Server::open(runtime, args.listen.at, &identity, gate, limits, Clock::shared());
    let mut server = server.map_err(Failure::input)?;
    announce(&server, &identity, made)?;
    let (status, watch) = (Arc::new(Status::default()), server.watch());
    let shown = status.clone();
    running.board.show(move |out| {
        shown.show(out);
        operations::of_admission(&watch, out);
    });
    let renewal = Renewal::of(&args.certificate, Renewal::Never);
    let _keeper = operations::keep(renewal, &identity, server.credentials(), &status, |next| {
        output::above_status(|| eprintln!("pin {}", next.fingerprint()));
    });
    std::thread::scope(|scope| {
        while go_on() == ControlFlow::Continue(()) && !desk.has_ended(args.once) {
            desk.tend();
            if let Some(guest) = server.accept(LOOK_EVERY) {
                scope.spawn(move || guest::by_quic(guest, desk));
            }
        }
    });
    Ok(())
}

/// Says how to reach us, on standard error as all that is no result.
fn announce(server: &Server, identity: &Identity, made: Option<&Token>) -> Result<(), Failure> {
    let local = server.local().map_err(Failure::work)?;
    let (port, pin) = (local.port(), identity.fingerprint());
    eprintln!("listening on quic://{local}");
    eprintln!("pin {pin}");
    let token = made.map_or("TOKEN", Token::secret);
    if made.is_some() {
        eprintln!("token {token}");
    }
    eprintln!("framewire upload quic://HOST:{port}?pin={pin} --token {token} --name NAME --input CLIP");
    Ok(())
}

fn report(args: &Args, streams: &[(String, ingest::Status)]) {
    if args.format.json {
        let classes = |status: &ingest::Status| -> Vec<serde_json::Value> {
            let each = status.classes.iter();
            each.map(|class| {
                json!({
                    "name": class.name, "segments": class.segments, "frames": class.frames,
                    "missing": class.frames - class.arrived - class.repaired, "repaired": class.repaired,
                    "ssim": class.ssim, "rated": class.rated,
                })
            })
            .collect()
        };
        let of = |(name, status): &(String, ingest::Status)| {
            json!({
                "name": name, "seconds": status.newest.as_secs_f64(), "classes": classes(status),
                "dropped": status.dropped, "refused": status.refused,
            })
        };
        output::json(&json!({ "streams": streams.iter().map(of).collect::<Vec<_>>() }));
        return;
    }
    let mut table = Table::new(["stream", "class", "segments", "frames", "missing", "sent again", "SSIM"]);
    for (name, status) in streams {
        for class in &status.classes {
            table.row([
                name.clone(),
                class.name.clone(),
                class.segments.to_string(),
                class.frames.to_string(),
                (class.frames - class.arrived - class.repaired).to_string(),
                class.repaired.to_string(),
                class.ssim.map_or_else(|| "-".to_owned(), |ssim| format!("{ssim:.3}")),
            ]);
        }
    }
    print!("{table}");
}
