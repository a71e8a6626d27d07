//! Every frame when it is ready: the least delay, as uneven as the path.

use units::Time;

use super::{Entry, Playout, Ready};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "at-once",
    summary: "each frame when it is ready: the least delay; of frames that a repair held up, only the newest is seen",
    options: &[],
    build: |_| Ok(Box::new(AtOnce)),
};

/// Shows every frame as soon as it is decoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct AtOnce;

impl Playout for AtOnce {
    fn due(&mut self, frame: &Ready) -> Time {
        frame.now
    }

    fn fresh(&self) -> Box<dyn Playout> {
        Box::new(*self)
    }
}
