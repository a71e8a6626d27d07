//! A small process that tidies up after a link, also when the emulator was killed.
//!
//! The kernel takes devices and an empty namespace away by itself, and the command dies with the emulator.
//! What remains then are processes the command left in the background, and rules of address translation. The
//! guard holds one end of a line; when the other is gone, however that came, it ends those processes and
//! undoes the rules.
//!
//! ```text
//! emulator <--socket--> guard     `net FILE` and `undo COMMAND`, each acknowledged; at the end of the file it acts and ends
//! ```

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::error::LinkError;

/// What the guard is called; a guard leaves others of this name alone, for they tidy up after links inside.
const NAME: &std::ffi::CStr = c"framewire-guard";
/// How long processes have between being asked to end and being ended.
const GRACE: Duration = Duration::from_millis(300);
/// How long the guard tries.
const PATIENCE: Duration = Duration::from_secs(5);

/// The emulator's end of the line; dropping it makes the guard act, and waits for it.
pub struct Guard {
    line: Option<UnixStream>,
    process: libc::pid_t,
}

impl Guard {
    /// Starts the guard. To be called while the process has one thread, because it forks.
    ///
    /// # Errors
    /// [`LinkError`] if the system will have no more processes.
    pub fn start() -> Result<Guard, LinkError> {
        let failed = |source| LinkError::System { what: "start the process that tidies up", source };
        let (ours, its) = UnixStream::pair().map_err(failed)?;
        // SAFETY: with one thread, the child is a copy of a process in good order.
        match unsafe { libc::fork() } {
            process if process < 0 => Err(failed(io::Error::last_os_error())),
            0 => {
                drop(ours);
                watch(&its)
            }
            process => Ok(Guard { line: Some(ours), process }),
        }
    }

    /// From now on, whatever lives in the namespace that this file of /proc stands for is ended at the end.
    pub(crate) fn end_processes_in(&mut self, namespace: &str) -> io::Result<()> {
        self.say(&format!("net {namespace}"))
    }

    /// At the end, runs `command` (words without blanks).
    pub(crate) fn undo_with(&mut self, command: &[&str]) -> io::Result<()> {
        self.say(&format!("undo {}", command.join(" ")))
    }

    /// Says something and waits until it is understood.
    fn say(&mut self, text: &str) -> io::Result<()> {
        let Some(line) = &mut self.line else { return Ok(()) };
        writeln!(line, "{text}")?;
        line.read_exact(&mut [0])
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.line.take());
        // SAFETY: waits for a child of ours; its status is of no interest.
        unsafe { libc::waitpid(self.process, std::ptr::null_mut(), 0) };
    }
}

/// The guard's whole life.
fn watch(mut line: &UnixStream) -> ! {
    detach(line);
    let (mut namespaces, mut undo) = (Vec::new(), Vec::new());
    for text in BufReader::new(line).lines().map_while(Result::ok) {
        match text.split_once(' ') {
            // Open, it keeps the namespace, so that no other has its number until the guard is done.
            Some(("net", file)) => namespaces.extend(File::open(file)),
            Some(("undo", command)) => undo.push(command.to_owned()),
            _ => {}
        }
        // An emulator that does not wait for it is gone, and the next line is the end.
        let _ = line.write_all(b"\n");
    }
    for command in undo.iter().rev() {
        let mut words = command.split(' ');
        let mut command = Command::new(words.next().unwrap_or_default());
        let _ = command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
    namespaces.iter().filter_map(|file| Some(file.metadata().ok()?.ino())).for_each(clear);
    // SAFETY: ends this process without running what the emulator registered for its own end.
    unsafe { libc::_exit(0) }
}

/// Lets go of everything the emulator has open, of its terminal and of its signals.
fn detach(line: &UnixStream) {
    let kept = line.as_raw_fd() as libc::c_uint;
    // SAFETY: these change properties of this process only; the one descriptor it owns stays open.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        if let Some(last) = kept.checked_sub(1) {
            libc::syscall(libc::SYS_close_range, 0, last, 0);
        }
        libc::syscall(libc::SYS_close_range, kept + 1, libc::c_uint::MAX, 0);
    }
}

/// Ends every process in a namespace: asks first.
fn clear(namespace: u64) {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let signal = if begun.elapsed() < GRACE { libc::SIGTERM } else { libc::SIGKILL };
        let (others, guards) = inhabitants(namespace);
        if others.is_empty() && guards == 0 {
            return;
        }
        for process in others {
            // SAFETY: sends a signal.
            unsafe { libc::kill(process, signal) };
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The processes in a namespace, and how many guards there are besides.
fn inhabitants(namespace: u64) -> (Vec<libc::pid_t>, usize) {
    let (mut others, mut guards) = (Vec::new(), 0);
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(process) = entry.file_name().to_string_lossy().parse::<libc::pid_t>() else { continue };
        let path = entry.path();
        if !std::fs::metadata(path.join("ns/net")).is_ok_and(|net| net.ino() == namespace) {
            continue;
        }
        let name = std::fs::read(path.join("comm")).unwrap_or_default();
        if name.trim_ascii_end() == NAME.to_bytes() {
            guards += 1;
        } else {
            others.push(process);
        }
    }
    (others, guards)
}
