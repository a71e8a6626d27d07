//! Puts a receiver together from names and defaults.

use cc::ReceiverHalf;
use media::Decoder;
use record::Tap;

use crate::builder::BuildError;
use crate::config::ReceiverConfig;
use crate::display::Screen;
use crate::playout;
use crate::receiver::Receiver;

/// What a receiver is made of; everything has a default. Without a decoder it counts frames, without a screen
/// nobody sees them.
///
/// ```
/// use framewire_session as session;
/// use session::{ReceiverBuilder, ReceiverConfig};
///
/// let receiver = ReceiverBuilder::default()
///     .session(7) // left out: the first session heard
///     .playout("adaptive") // left out: each frame is shown as soon as it can be
///     .config(ReceiverConfig { nack: false, ..ReceiverConfig::default() })
///     .build()?;
/// assert_eq!(receiver.counters().displayed, 0);
///
/// let wrong = ReceiverBuilder::default().playout("adaptve").build();
/// assert!(wrong.err().unwrap().to_string().contains("adaptive"));
/// # Ok::<(), session::BuildError>(())
/// ```
#[derive(Default)]
pub struct ReceiverBuilder {
    config: ReceiverConfig,
    session: Option<u32>,
    playout: Option<String>,
    remember: Option<usize>,
    half: Option<Box<dyn ReceiverHalf>>,
    decoder: Option<Box<dyn Decoder>>,
    screen: Option<Box<dyn Screen>>,
    tap: Tap,
}

impl ReceiverBuilder {
    /// Session number, which both sides agree on. Default: the first one heard.
    #[must_use]
    pub fn session(self, session: u32) -> ReceiverBuilder {
        ReceiverBuilder { session: Some(session), ..self }
    }

    /// Playout policy with options, by name: when a frame that is ready is shown. `"at-once"`,
    /// `"fixed:delay=100ms"`, `"adaptive"`. Default: at once.
    #[must_use]
    pub fn playout(self, playout: &str) -> ReceiverBuilder {
        ReceiverBuilder { playout: Some(playout.to_owned()), ..self }
    }

    /// Remembers what arrived of the newest `frames` frames, and when, for those who watch later
    /// ([`Receiver::versions`]). Default: nothing is remembered.
    #[must_use]
    pub fn remember(self, frames: usize) -> ReceiverBuilder {
        ReceiverBuilder { remember: Some(frames), ..self }
    }

    /// When feedback is sent, and whether missing packets are asked for again.
    #[must_use]
    pub fn config(self, config: ReceiverConfig) -> ReceiverBuilder {
        ReceiverBuilder { config, ..self }
    }

    /// Decodes stream 0. Default: nothing is decoded, and frames are counted by their packets.
    #[must_use]
    pub fn decoder(self, decoder: Box<dyn Decoder>) -> ReceiverBuilder {
        ReceiverBuilder { decoder: Some(decoder), ..self }
    }

    /// Shows frames, in order and each at most once.
    #[must_use]
    pub fn screen(self, screen: Box<dyn Screen>) -> ReceiverBuilder {
        ReceiverBuilder { screen: Some(screen), ..self }
    }

    /// The half of the sender's controller that lives at the receiver, of GCC for instance. Default: built
    /// from what the sender says of its controller in its hello ([`Receiver::following`]).
    #[must_use]
    pub fn half(self, half: Box<dyn ReceiverHalf>) -> ReceiverBuilder {
        ReceiverBuilder { half: Some(half), ..self }
    }

    /// Records what happens through `tap`.
    #[must_use]
    pub fn tap(self, tap: Tap) -> ReceiverBuilder {
        ReceiverBuilder { tap, ..self }
    }

    /// The receiver.
    ///
    /// # Errors
    /// [`BuildError`] if there is no such playout policy, or it does not take the options.
    pub fn build(self) -> Result<Receiver, BuildError> {
        let config = ReceiverConfig { session: self.session.or(self.config.session), ..self.config };
        let receiver = Receiver::new(config, self.decoder, self.screen, self.tap);
        let receiver = match self.half {
            Some(half) => receiver.with_half(Some(half)),
            None => receiver.following(),
        };
        let receiver = match self.remember {
            Some(frames) => receiver.remembering(frames),
            None => receiver,
        };
        match &self.playout {
            Some(playout) => Ok(receiver.with_playout(playout::build(&playout.parse()?)?)),
            None => Ok(receiver),
        }
    }
}
