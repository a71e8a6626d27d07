//! What uploader and endpoint say beside the datagrams, on the rest of the control stream.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use quinn::SendStream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use wire::{Rated, Uploading, Watchers, WireError};

use crate::Waker;

/// What the peer said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// How good frames are that it coded.
    Quality(Vec<Rated>),
    /// How many watch at each delay.
    Watching(Vec<Watchers>),
    /// When the camera captured its last frame, in microseconds on the peer's clock.
    Filmed(u64),
}

/// What was said and heard so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TalkCounters {
    /// Messages heard.
    pub heard: u64,
    /// The oldest of them, dropped because nobody took them.
    pub overflowed: u64,
}

/// Messages that wait to be written, and that were heard and not yet taken, at most. Either side says ten a
/// second at most, and listens as often.
const WAITING: usize = 8;
/// Bytes of both.
pub(super) const MEMORY: usize = 2 * WAITING * Uploading::MAX_LEN.next_power_of_two();

#[derive(Debug, Default)]
struct Heard {
    waiting: VecDeque<Said>,
    counters: TalkCounters,
}

/// Our side of the talk.
pub(super) struct Talk {
    say: mpsc::Sender<Vec<u8>>,
    heard: Arc<Mutex<Heard>>,
}

/// Where the peer's messages go.
pub(super) struct Ear {
    heard: Arc<Mutex<Heard>>,
    waker: Waker,
}

impl Talk {
    /// Writes to `control` from now on, for as long as the talk lives, and rings `waker` when something is
    /// heard.
    pub fn start(control: SendStream, waker: Waker, runtime: &Handle) -> (Talk, Ear) {
        let (say, said) = mpsc::channel(WAITING);
        runtime.spawn(write(control, said));
        let heard = Arc::new(Mutex::default());
        (Talk { say, heard: heard.clone() }, Ear { heard, waker })
    }

    pub fn say(&self, message: Vec<u8>) -> bool {
        self.say.try_send(message).is_ok()
    }

    pub fn heard(&self) -> VecDeque<Said> {
        std::mem::take(&mut locked(&self.heard).waiting)
    }

    pub fn counters(&self) -> TalkCounters {
        locked(&self.heard).counters
    }
}

impl Ear {
    /// Takes a message whose kind is none of the control stream's own. One of a later version is passed over.
    ///
    /// # Errors
    /// [`WireError`] if it is malformed.
    pub fn hear(&self, message: &[u8]) -> Result<(), WireError> {
        let said = match Uploading::decode(message)? {
            Some(Uploading::Quality(quality)) => Said::Quality(quality.frames().collect()),
            Some(Uploading::Watching(watching)) => Said::Watching(watching.delays().collect()),
            Some(Uploading::Filmed(last_us)) => Said::Filmed(last_us),
            None => return Ok(()),
        };
        let mut heard = locked(&self.heard);
        heard.counters.heard += 1;
        if heard.waiting.len() == WAITING {
            heard.waiting.pop_front();
            heard.counters.overflowed += 1;
        }
        heard.waiting.push_back(said);
        drop(heard);
        self.waker.wake();
        Ok(())
    }
}

fn locked(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().expect("nothing panics while it holds this")
}

async fn write(mut control: SendStream, mut said: mpsc::Receiver<Vec<u8>>) {
    while let Some(message) = said.recv().await {
        // Whoever waits for datagrams hears that the connection is over.
        if control.write_all(&message).await.is_err() {
            return;
        }
    }
}
