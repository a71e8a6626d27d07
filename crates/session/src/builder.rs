//! Puts a sender together from names and defaults.

use cc::{Controller, OptionError, Setup};
use record::Tap;
use units::{Rate, Rng, Span};

use crate::config::SenderConfig;
use crate::preset::Choice;
use crate::sender::{Policies, Sender};
use crate::strategy::Strategy;
use crate::supply::{Supply, Video};
use crate::{rate, strategy};

/// Why a sender can't be built.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// There is no such controller or policy, or it does not take these options.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A strategy has each capture coded in so many tracks, and was given another number of encoders.
    #[error("strategy `{strategy}` needs {tracks} encoders for each capture, and was given {encoders}")]
    Encoders {
        /// The strategy's name.
        strategy: String,
        /// Encoders that it needs.
        tracks: usize,
        /// Encoders that it was given.
        encoders: usize,
    },
    /// It was given nothing to send.
    #[error("a sender needs a video or a backlog to send")]
    Nothing,
}

/// What a sender is made of; all but what it sends has a default.
///
/// ```
/// use framewire_session as session;
/// use media::{EncoderModel, ModelConfig, Table};
/// use session::{SenderBuilder, Video};
/// use units::{Rate, Span};
///
/// let interval = Span::from_nanos(33_333_333);
/// let encoder = Box::new(EncoderModel::new(ModelConfig::recorded(Table::big_buck_bunny(), 1))?);
/// let sender = SenderBuilder::default()
///     .controller("copa:delta=0.5") // left out: the preset "default"
///     .rates(Rate::from_kbps(300), Rate::from_mbps(2), Rate::from_mbps(8))
///     .deadline(Span::from_millis(250))
///     .video(Video { encoder, source: None, interval })
///     .build()?;
/// assert_eq!(sender.mtu(), 1200);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct SenderBuilder {
    config: SenderConfig,
    controller: Option<String>,
    rate: Option<String>,
    recovery: Option<String>,
    strategy: Option<String>,
    made: Option<Box<dyn Strategy>>,
    least: Option<Rate>,
    initial: Option<Rate>,
    most: Option<Rate>,
    path: Option<usize>,
    seed: Option<u64>,
    silent: bool,
    supplies: Vec<Supply>,
    tap: Tap,
}

impl SenderBuilder {
    /// Congestion controller with options, or a preset, by name: `"gcc"`, `"copa:delta=0.5"`. Default: the
    /// preset `"default"`.
    #[must_use]
    pub fn controller(self, controller: &str) -> SenderBuilder {
        SenderBuilder { controller: Some(controller.to_owned()), ..self }
    }

    /// Rate policy with options, by name. Default: what the preset says, or `"live"`.
    #[must_use]
    pub fn rate(self, rate: &str) -> SenderBuilder {
        SenderBuilder { rate: Some(rate.to_owned()), ..self }
    }

    /// Recovery policy by name. Default: what the preset says, or `"retransmit"`.
    #[must_use]
    pub fn recovery(self, recovery: &str) -> SenderBuilder {
        SenderBuilder { recovery: Some(recovery.to_owned()), ..self }
    }

    /// Strategy by name. Default: `"live"`, one track.
    #[must_use]
    pub fn strategy(self, strategy: &str) -> SenderBuilder {
        SenderBuilder { strategy: Some(strategy.to_owned()), ..self }
    }

    /// A strategy that was made already, in place of one by name.
    #[must_use]
    pub fn with_strategy(self, strategy: Box<dyn Strategy>) -> SenderBuilder {
        SenderBuilder { made: Some(strategy), ..self }
    }

    /// Controller and policies at once.
    #[must_use]
    pub fn choice(self, choice: &Choice) -> SenderBuilder {
        let lowest = choice.preset.map(|preset| preset.least);
        let builder = self.controller(&choice.controller).rate(&choice.rate).recovery(&choice.recovery);
        let builder = builder.strategy(&choice.strategy);
        SenderBuilder { least: builder.least.or(lowest), ..builder }
    }

    /// Lowest rate, the one to start at, highest: datagram bits a second. Default: 0.3, 2 and 100 Mbit/s, of
    /// a preset its own lowest.
    #[must_use]
    pub fn rates(self, least: Rate, initial: Rate, most: Rate) -> SenderBuilder {
        SenderBuilder { least: Some(least), ..self }.starting_at(initial, most)
    }

    /// The rate to start at and the highest; the lowest is the preset's, or 0.3 Mbit/s.
    #[must_use]
    pub fn starting_at(self, initial: Rate, most: Rate) -> SenderBuilder {
        SenderBuilder { initial: Some(initial), most: Some(most), ..self }
    }

    /// How long after its capture a frame is worth showing. Default: what suits the path
    /// ([`SenderConfig::deadline`]).
    #[must_use]
    pub fn deadline(mut self, deadline: Span) -> SenderBuilder {
        self.config.deadline = Some(deadline);
        self
    }

    /// Largest datagram in bytes (UDP payload), 128 to 1472. Default: 1200.
    #[must_use]
    pub fn mtu(mut self, mtu: usize) -> SenderBuilder {
        self.config.mtu = mtu;
        self
    }

    /// What the path carries at first, where that is less than [`mtu`](SenderBuilder::mtu): controllers count
    /// in it.
    #[must_use]
    pub fn path_mtu(self, path: usize) -> SenderBuilder {
        SenderBuilder { path: Some(path), ..self }
    }

    /// Session number, which both sides agree on. Default: 1.
    #[must_use]
    pub fn session(mut self, session: u32) -> SenderBuilder {
        self.config.session = session;
        self
    }

    /// Width and height of the source in pixels, announced to the receiver; a rate policy may then have
    /// pictures coded with fewer rows. Default: none.
    #[must_use]
    pub fn picture(mut self, width: u16, height: u16) -> SenderBuilder {
        self.config.picture = (width, height);
        self
    }

    /// Seed of what is random: the controller's streams and the jitter of frames. Default: the session
    /// number.
    #[must_use]
    pub fn seed(self, seed: u64) -> SenderBuilder {
        SenderBuilder { seed: Some(seed), ..self }
    }

    /// Tells the receiver nothing of the controller. It must then be given the half that lives there, if the
    /// controller has one.
    #[must_use]
    pub fn silent(self) -> SenderBuilder {
        SenderBuilder { silent: true, ..self }
    }

    /// Records what happens through `tap`.
    #[must_use]
    pub fn tap(self, tap: Tap) -> SenderBuilder {
        SenderBuilder { tap, ..self }
    }

    /// A stream of frames. Streams are numbered in the order they are given.
    #[must_use]
    pub fn video(self, video: Video) -> SenderBuilder {
        self.supply(Supply::Video(video))
    }

    /// Frames, or a backlog.
    #[must_use]
    pub fn supply(mut self, supply: Supply) -> SenderBuilder {
        self.supplies.push(supply);
        self
    }

    /// The sender.
    ///
    /// # Errors
    /// [`BuildError`] if a name or an option is unknown, or there is nothing to send.
    pub fn build(mut self) -> Result<Sender, BuildError> {
        let choice = Choice::of(self.controller.as_deref(), self.rate.as_deref(), self.recovery.as_deref());
        let setup = self.setup(&choice)?;
        let controller: Box<dyn Controller> = cc::build(&choice.controller.parse()?, &setup)?;
        let name = self.strategy.as_deref().unwrap_or(strategy::REGISTRY[0].name);
        let strategy = match self.made.take() {
            Some(made) => made,
            None => strategy::build(name, &choice.recovery)?,
        };
        for (capture, supply) in (0..).zip(&self.supplies) {
            let (tracks, encoders) = (strategy.tracks(capture).len(), supply.encoders());
            if encoders.is_some_and(|encoders| encoders != tracks) {
                let encoders = encoders.unwrap_or_default();
                return Err(BuildError::Encoders { strategy: name.to_owned(), tracks, encoders });
            }
        }
        let policies = Policies { rate: rate::build(&choice.rate.parse()?)?, strategy };
        let rng = Rng::stream(self.seed.unwrap_or(self.config.session.into()), "sender");
        let sender = Sender::new(self.config, &setup, controller, policies, self.supplies, rng, self.tap);
        Ok(if self.silent { sender } else { sender.announcing(&choice.controller, &setup) })
    }

    fn setup(&self, choice: &Choice) -> Result<Setup, BuildError> {
        let usual = Setup::default();
        let interval = self.supplies.iter().map(|supply| supply.interval().unwrap_or(usual.frame_interval));
        let initial = self.initial.unwrap_or(usual.initial);
        let least = self.least.or(choice.preset.map(|preset| preset.least)).unwrap_or(usual.min);
        Ok(Setup {
            mtu: self.path.unwrap_or(usize::MAX).min(self.config.mtu) as u32,
            initial,
            min: least.min(initial),
            max: self.most.unwrap_or(usual.max).max(initial),
            frame_interval: interval.min().ok_or(BuildError::Nothing)?,
            seed: self.seed.unwrap_or(usual.seed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(builder: SenderBuilder) -> Result<Sender, String> {
        builder.build().map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_wrong_is_said() {
        let backlog = || SenderBuilder::default().supply(Supply::Backlog);
        let error = |builder| built(builder).err().unwrap();
        assert_eq!(error(SenderBuilder::default()), "a sender needs a video or a backlog to send");
        assert!(error(backlog().controller("gc")).starts_with("no congestion controller is called `gc`"));
        assert!(error(backlog().rate("fast")).starts_with("no rate policy is called `fast`"));
        assert!(error(backlog().recovery("fec")).starts_with("no recovery policy is called `fec`"));
    }

    #[test]
    fn a_preset_brings_its_lowest_rate_unless_one_is_given() {
        let backlog = || SenderBuilder::default().supply(Supply::Backlog);
        let least = |builder: SenderBuilder| {
            let choice = Choice::of(builder.controller.as_deref(), None, None);
            builder.setup(&choice).unwrap().min.as_bps() / 1000
        };
        let kbps = Rate::from_kbps;
        assert_eq!([least(backlog()), least(backlog().controller("gcc"))], [50, 300]);
        assert_eq!(least(backlog().rates(kbps(80), kbps(500), kbps(900))), 80);
        assert_eq!(least(backlog().controller("gcc").starting_at(kbps(200), kbps(900))), 200);
    }
}
