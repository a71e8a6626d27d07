//! `framewire bulk receive`.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::registry::Unit;
use real::quic::{Identity, Token};
use real::transfer::{FileReceiver, News, Received, Store};
use record::{Traffic, Vantage};
use serde_json::json;

use super::args::{self, Place};
use super::failed;
use crate::failure::Failure;
use crate::live::{Log, catch_interrupts, go_on, ticker};
use crate::operations::{self, Exposition, Keeper, Renewal, Running, Status, Verbosity};
use crate::output;

/// Takes files until interrupted, or one.
pub fn receive(args: &args::Receive) -> Result<(), Failure> {
    let store = store(&args.output)?;
    let running = args.operations.start(Verbosity::warnings())?;
    let names = vec!["localhost".to_owned(), args.listen.ip().to_string()];
    let identity = args.certificate.identity(&names)?;
    let token = args.token.as_ref().map_or_else(Token::generate, |secret| secret.0.clone());
    let at_a_time = if args.once { 1 } else { FileReceiver::limits().guests };
    let limits = args.limits.limits(at_a_time)?;
    let log = Log::open(args.qlog.as_ref(), Vantage::Receiver, Traffic::Quic, &format!("{}", args.listen))?;
    let receiver = FileReceiver::open(args.listen, &identity, token.clone(), limits).map_err(failed)?;
    let mut receiver = receiver.recorded(log.recorder());
    let local = receiver.local().map_err(Failure::work)?;
    eprintln!("listening on quic://{local}  --pin {} --token {}", identity.fingerprint(), token.secret());
    catch_interrupts();
    let files = Arc::new(Files::default());
    let keeper = look_after(args, &identity, &receiver, &files, &running);
    let (bar, mut ended) = (ticker(), Ok(()));
    receiver.run(args.limit.get(), &store, &mut |news| {
        match news {
            News::Underway(bytes) => {
                files.bytes.store(bytes, Ordering::Relaxed);
                bar.set_message(format!("{:.1} MB", bytes as f64 / 1e6));
                return go_on();
            }
            News::Received(file) => {
                files.whole.fetch_add(1, Ordering::Relaxed);
                bar.suspend(|| report(args, &file));
            }
            News::Lost(error) if args.once => ended = Err(failed(error)),
            // One sender's trouble is not the next one's.
            News::Lost(error) => {
                files.lost.fetch_add(1, Ordering::Relaxed);
                bar.suspend(|| eprintln!("{error}"));
            }
        }
        if args.once { ControlFlow::Break(()) } else { go_on() }
    });
    bar.finish_and_clear();
    drop((keeper, receiver));
    log.finish()?;
    ended
}

/// Where files go; a folder that is missing is made.
fn store(output: &Place) -> Result<Store, Failure> {
    match output {
        Place::Null => Ok(Store::nowhere()),
        Place::Folder(folder) => Store::folder(folder)
            .map_err(|error| Failure::Input(format!("--output {}: {error}", folder.display()))),
    }
}

/// What has come so far.
#[derive(Debug, Default)]
struct Files {
    whole: AtomicU64,
    lost: AtomicU64,
    bytes: AtomicU64,
}

impl Files {
    fn show(&self, out: &mut Exposition<'_>) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let outcome = |name: &str| vec![("outcome", name.to_owned())];
        let files = [(outcome("whole"), get(&self.whole)), (outcome("lost"), get(&self.lost))];
        out.counter("framewire_files", "Files that were to be received", None, files);
        let bytes = [(vec![], get(&self.bytes))];
        out.counter("framewire_files", "Bytes of them that came", Some(Unit::Bytes), bytes);
    }
}

/// Shows what goes on, and renews the certificate when its files change.
fn look_after(
    args: &args::Receive,
    identity: &Identity,
    receiver: &FileReceiver,
    files: &Arc<Files>,
    running: &Running,
) -> Keeper {
    let (status, watch, files) = (Arc::new(Status::default()), receiver.watch(), files.clone());
    let shown = status.clone();
    running.board.show(move |out| {
        shown.show(out);
        operations::of_admission(&watch, out);
        files.show(out);
    });
    let renewal = Renewal::of(&args.certificate, Renewal::Never);
    operations::keep(renewal, identity, receiver.credentials(), &status, |next| {
        output::above_status(|| eprintln!("pin {}", next.fingerprint()));
    })
}

fn report(args: &args::Receive, file: &Received) {
    let seconds = file.elapsed.as_secs_f64();
    let goodput = (file.bytes - file.resumed) as f64 * 8.0 / seconds.max(1e-9);
    if args.format.json {
        return output::json(&json!({
            "peer": file.peer.to_string(), "name": file.name, "bytes": file.bytes,
            "resumed_bytes": file.resumed, "duration_s": seconds, "goodput_bps": goodput,
        }));
    }
    let already = match file.resumed {
        0 => String::new(),
        bytes => format!(" ({:.1} MB were here already)", bytes as f64 / 1e6),
    };
    println!(
        "{} from {}: {:.1} MB{already} in {seconds:.1} s, {:.2} Mbit/s",
        file.name,
        file.peer,
        file.bytes as f64 / 1e6,
        goodput / 1e6
    );
}
