//! `framewire bulk receive`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::registry::Unit;
use real::quic::{Identity, Token};
use real::transfer::{Dock, Landed};
use serde_json::json;

use super::args::{self, Place};
use super::failed;
use crate::failure::Failure;
use crate::live::{catch_interrupts, go_on, ticker};
use crate::operations::{self, Exposition, Keeper, Renewal, Running, Status, Verbosity};
use crate::output;

/// Takes files until interrupted, or one.
pub fn receive(args: &args::Receive) -> Result<(), Failure> {
    let running = args.operations.start(Verbosity::warnings())?;
    let names = vec!["localhost".to_owned(), args.listen.ip().to_string()];
    let identity = args.certificate.identity(&names)?;
    let token = args.token.as_ref().map_or_else(Token::generate, |secret| secret.0.clone());
    let limits = args.doors.limits(Dock::limits().guests)?;
    let mut dock = Dock::open(args.listen, &identity, token.clone(), limits).map_err(failed)?;
    let local = dock.local().map_err(Failure::work)?;
    eprintln!("listening on quic://{local}  --pin {} --token {}", identity.fingerprint(), token.secret());
    catch_interrupts();
    let files = Arc::new(Files::default());
    let _keeper = look_after(args, &identity, &dock, &files, &running);
    loop {
        let bar = ticker();
        let before = files.bytes.load(Ordering::Relaxed);
        let landed = dock.take(args.limit.get(), &mut |name| place(&args.output, name), &mut |bytes| {
            files.bytes.store(before + bytes, Ordering::Relaxed);
            bar.set_message(format!("{:.1} MB", bytes as f64 / 1e6));
            go_on()
        });
        bar.finish_and_clear();
        match landed {
            Ok(None) => return Ok(()),
            Ok(Some(landed)) => {
                files.bytes.store(before + landed.bytes, Ordering::Relaxed);
                files.whole.fetch_add(1, Ordering::Relaxed);
                report(args, &landed);
            }
            Err(error) if args.once => return Err(failed(error)),
            // One sender's trouble is not the next one's.
            Err(error) => {
                files.lost.fetch_add(1, Ordering::Relaxed);
                eprintln!("{error}");
            }
        }
        if args.once {
            return Ok(());
        }
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
    dock: &Dock,
    files: &Arc<Files>,
    running: &Running,
) -> Keeper {
    let (status, watch, files) = (Arc::new(Status::default()), dock.watch(), files.clone());
    let shown = status.clone();
    running.board.show(move |out| {
        shown.show(out);
        operations::of_door(&watch, out);
        files.show(out);
    });
    let renewal = Renewal::of(&args.certificate, Renewal::Never);
    operations::keep(renewal, identity, dock.credentials(), &status, |next| {
        output::above_status(|| eprintln!("pin {}", next.fingerprint()));
    })
}

/// A place for a file that somebody else has named: within the folder, and never over another file.
fn place(output: &Place, name: &str) -> io::Result<Box<dyn Write>> {
    let Place::Folder(folder) = output else { return Ok(Box::new(io::sink())) };
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, format!("`{name}` is no name for a file"));
    let file = match Path::new(name).components().next_back() {
        Some(Component::Normal(last)) => last,
        _ => return Err(refused()),
    };
    Ok(Box::new(BufWriter::new(File::create_new(folder.join(file))?)))
}

fn report(args: &args::Receive, landed: &Landed) {
    let seconds = landed.elapsed.as_secs_f64();
    let goodput = landed.bytes as f64 * 8.0 / seconds.max(1e-9);
    if args.format.json {
        return output::json(&json!({
            "peer": landed.peer.to_string(), "name": landed.name, "bytes": landed.bytes, "duration_s": seconds,
            "goodput_bps": goodput,
        }));
    }
    println!(
        "{} from {}: {:.1} MB in {seconds:.1} s, {:.2} Mbit/s",
        landed.name,
        landed.peer,
        landed.bytes as f64 / 1e6,
        goodput / 1e6
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leads_out_of_the_folder_nor_over_a_file() {
        let folder = std::env::temp_dir().join(format!("framewire-bulk-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let output = Place::Folder(folder.clone());
        for bad in ["", "..", "/", "a/.."] {
            assert!(place(&output, bad).is_err(), "{bad:?}");
        }
        place(&output, "../../up/there.bin").unwrap().write_all(b"x").unwrap();
        assert!(folder.join("there.bin").is_file());
        assert!(place(&output, "there.bin").is_err(), "an existing file is kept");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
