//! `--output play`: pictures in a window of ffplay.

use std::io::{BufWriter, ErrorKind};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use media::RawFrame;
use units::Span;

use super::y4m::Pictures;
use crate::failure::Failure;

/// Pictures waiting for the window: one being written, one to follow. With more the picture would only be
/// older.
const WAITING: usize = 2;

/// A window that shows the newest pictures. Closed on drop.
pub struct Player {
    pictures: Option<SyncSender<RawFrame>>,
    writer: Option<JoinHandle<()>>,
    child: Child,
    shown: bool,
}

impl Player {
    /// Opens the window with the first picture that comes.
    ///
    /// # Errors
    /// If there is no ffplay.
    pub fn open(label: Span) -> Result<Player, Failure> {
        let mut child = command().spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => Failure::Input(
                "--output play needs the program `ffplay`, which was not found; install it (apt-get install ffmpeg) or \
                 write to a .y4m file"
                    .to_owned(),
            ),
            _ => Failure::Work(format!("ffplay: {error}")),
        })?;
        let pipe = child.stdin.take().expect("the pipe was asked for");
        let (pictures, queue) = sync_channel(WAITING);
        let writer = std::thread::spawn(move || write(pipe, label, queue));
        Ok(Player { pictures: Some(pictures), writer: Some(writer), child, shown: true })
    }

    /// Shows a picture, or leaves it out where the window is slower than the pictures come. False once the
    /// window is closed.
    pub fn show(&mut self, picture: &RawFrame) -> bool {
        if let Some(pictures) = &self.pictures {
            self.shown &= !matches!(pictures.try_send(picture.clone()), Err(TrySendError::Disconnected(_)));
        }
        self.shown
    }
}

/// Shows what comes when it comes: no buffer, and late pictures dropped.
fn command() -> Command {
    let mut command = Command::new("ffplay");
    command.args(["-v", "error", "-window_title", "framewire", "-fflags", "nobuffer", "-flags", "low_delay"]);
    command.args(["-framedrop", "-probesize", "32", "-sync", "ext", "-f", "yuv4mpegpipe", "-i", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn write(pipe: ChildStdin, label: Span, queue: std::sync::mpsc::Receiver<RawFrame>) {
    let Ok(first) = queue.recv() else { return };
    let Ok(mut writer) = Pictures::new(BufWriter::new(pipe), &first, label) else { return };
    // A window that was closed takes no more.
    let _ = std::iter::once(first).chain(queue).try_for_each(|picture| writer.write(&picture));
}

impl Drop for Player {
    fn drop(&mut self) {
        self.pictures = None;
        // A window that takes nothing any more would keep its writer for ever.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}
