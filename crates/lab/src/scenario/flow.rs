//! A flow: what all flows have, and what flows of its source have besides.

use bulk::Workload;
use cc::Setup;
use serde::Deserialize;
use session::preset::Choice;
use units::{Bytes, Rate, Span, Time};

use super::Encoder;

/// A sender and its receiver.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// A name for tables; by default that of its controller, numbered where several flows share it.
    pub name: String,
    /// Congestion controller, with options, or a preset that brings the policies along: `"default"` (the
    /// default), `"sqp:target=0.8"`.
    pub cc: String,
    /// What it sends, with the settings that only such flows have.
    pub source: Source,
    /// The links it passes, by name; by default all, in order.
    pub path: Option<Vec<String>>,
    /// When it starts, from the start of the run.
    pub start: Span,
    /// Starts up to this much later, by chance.
    pub start_spread: Span,
    /// When it stops; by default with the run.
    pub stop: Option<Span>,
    /// So many flows of this kind, ...
    pub count: u16,
    /// ... each starting this much after the one before.
    pub every: Span,
    /// Delay of its own access link, each way: adds twice this to its round trip.
    pub extra_delay: Span,
    /// Rate to start at; not of smoltcp, as the next two.
    pub initial: Rate,
    /// Lowest rate; by default the preset's, or 300 kbit/s.
    pub min: Option<Rate>,
    /// Highest rate of its media.
    pub max: Rate,
    /// How far the receiver's clock is ahead of the sender's.
    pub clock_offset: Span,
    /// How much the receiver's clock gains, in parts per million.
    pub clock_drift_ppm: f64,
}

/// What a flow sends, and how.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Frames of an encoder.
    Video(Box<Video>),
    /// As much as it may, always, as QUIC sends it.
    Backlog(Session),
    /// A stream of bytes, as TCP sends it.
    Tcp(Tcp),
    /// A stream of QUIC's, sent by quinn's state machine.
    Quic(Quic),
    /// A stream of TCP's, sent by smoltcp under one of its own controllers.
    Smoltcp(Smoltcp),
}

/// What flows over a session have, video and backlog.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Rate policy, with options, between the controller and the encoder, `"live"`, `"vidaptive:lambda=0.7"`;
    /// by default the preset's, or `"live"`. Of a backlog only its pacing counts.
    pub rate: Option<String>,
    /// Largest datagram (UDP payload).
    pub mtu: Bytes,
    /// Packets that leave together, 1 to 64: a pacer with a coarse timer, or segmentation offload.
    pub bunch: u32,
    /// Feedback of padding, which is all that a backlog sends, goes out after this many packets; by default
    /// the session's two.
    pub feedback_padding: Option<u32>,
}

/// What only video has.
#[derive(Clone, Debug, PartialEq)]
pub struct Video {
    /// What it has in common with a backlog.
    pub session: Session,
    /// What is done about lost packets, `"retransmit"` or `"none"`; by default the preset's, or
    /// `"retransmit"`.
    pub recovery: Option<String>,
    /// What each captured frame becomes and what leaves first, `"live"` (the default) or `"backup"`.
    pub strategy: Option<String>,
    /// From when to when it captures nothing, as of a camera that is off; what was captured before still
    /// leaves.
    pub pause: Vec<(Span, Span)>,
    /// How long after its capture a frame is worth showing; by default the session's.
    pub deadline: Option<Span>,
    /// Frames are skipped while the oldest unsent packet has waited this long; by default the session's.
    pub patience: Option<Span>,
    /// When frames that are ready are shown, with options, `"at-once"` (the default), `"fixed:delay=100ms"`,
    /// `"adaptive"`.
    pub playout: String,
    /// Whether the receiver asks for missing packets again.
    pub nack: bool,
    /// The receiver shows frames that lost slices, where its decoder can; the encoder must make slices.
    pub conceal: bool,
    /// What decoding a frame of a model's takes; by default no time.
    pub decode_time: Span,
    /// Feedback goes out after this many packets of frames at latest; by default the session's.
    pub feedback_packets: Option<u32>,
    /// Where its frames come from.
    pub encoder: Encoder,
}

/// What only our TCP has.
#[derive(Clone, Debug, PartialEq)]
pub struct Tcp {
    /// What it sends, as [`Workload`] reads it: `endless`, `transfer:1MB`, `pages`.
    pub workload: Workload,
    /// Whose rules of loss recovery it follows, `linux` (the default), `linux-unpaced`, `linux-no-offload`,
    /// `ns3` or `quic`.
    pub stack: Stack,
    /// Packets that leave together, 1 to 64, where the stack has none of its own.
    pub bunch: u32,
}

/// What only QUIC has.
#[derive(Clone, Debug, PartialEq)]
pub struct Quic {
    /// Bytes it sends; none for ever.
    pub bytes: Option<u64>,
    /// Largest datagram (UDP payload).
    pub mtu: Bytes,
    /// How packets are protected, `null` (the default) or `tls`.
    pub crypto: Protection,
    /// Whose controller the flow's `cc` names, `ours` (the default) or `quinn`, which has `newreno`, `cubic`
    /// and `bbr`.
    pub control: Control,
}

/// What only smoltcp has.
#[derive(Clone, Debug, PartialEq)]
pub struct Smoltcp {
    /// Bytes it sends; none for ever.
    pub bytes: Option<u64>,
    /// Largest segment with its header, without IP's.
    pub mtu: Bytes,
}

/// How a simulated QUIC connection protects its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protection {
    /// By a checksum only: packets as long as protected ones, the same bytes in every run.
    #[default]
    Null,
    /// TLS 1.3: the same sizes and times in every run.
    Tls,
}

/// Whose congestion control a QUIC flow is under.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    /// One of our registry's controllers.
    #[default]
    Ours,
    /// quinn's own of that name.
    Quinn,
}

/// A TCP stack by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// What scenarios call it, such as `linux`.
    pub name: String,
    /// What it stands for.
    pub config: bulk::SenderConfig,
}

impl Default for Stack {
    fn default() -> Stack {
        Stack { name: "linux".to_owned(), config: bulk::SenderConfig::linux() }
    }
}

impl Source {
    /// What scenario files call it.
    pub fn name(&self) -> &'static str {
        match self {
            Source::Video(_) => "video",
            Source::Backlog(_) => "backlog",
            Source::Tcp(_) => "tcp",
            Source::Quic(_) => "quic",
            Source::Smoltcp(_) => "smoltcp",
        }
    }

    /// The session, if it sends over one.
    pub fn session(&self) -> Option<&Session> {
        match self {
            Source::Video(video) => Some(&video.session),
            Source::Backlog(session) => Some(session),
            Source::Tcp(_) | Source::Quic(_) | Source::Smoltcp(_) => None,
        }
    }
}

impl Flow {
    /// The video, if it sends any.
    pub fn video(&self) -> Option<&Video> {
        if let Source::Video(video) = &self.source { Some(video) } else { None }
    }

    /// Our TCP, if it sends over it.
    pub fn tcp(&self) -> Option<&Tcp> {
        if let Source::Tcp(tcp) = &self.source { Some(tcp) } else { None }
    }

    /// The controller and the policies it runs under.
    pub fn choice(&self) -> Choice {
        let rate = self.source.session().and_then(|session| session.rate.as_deref());
        let recovery = self.video().and_then(|video| video.recovery.as_deref());
        let strategy = self.video().and_then(|video| video.strategy.as_deref());
        Choice::of(Some(&self.cc), rate, recovery).with_strategy(strategy)
    }

    /// The lowest rate.
    pub fn least(&self) -> Rate {
        let usual = || self.choice().preset.map_or(Setup::default().min, |preset| preset.least);
        self.min.unwrap_or_else(usual)
    }

    /// When it captures nothing.
    pub fn pauses(&self) -> impl Iterator<Item = (Time, Time)> {
        let pauses = self.video().into_iter().flat_map(|video| &video.pause);
        pauses.map(|&(from, to)| (Time::ZERO + from, Time::ZERO + to))
    }

    /// The flows this one stands for.
    pub(super) fn each(&self) -> impl Iterator<Item = Flow> + '_ {
        (0..self.count).map(|number| {
            let mut flow = Flow { count: 1, ..self.clone() };
            if !flow.name.is_empty() && self.count > 1 {
                flow.name = format!("{}-{}", self.name, number + 1);
            }
            let later = self.every * i64::from(number);
            flow.start += later;
            flow.stop = flow.stop.map(|stop| stop + later);
            if let Source::Video(video) = &mut flow.source {
                video.pause.iter_mut().for_each(|(from, to)| (*from, *to) = (*from + later, *to + later));
            }
            flow
        })
    }
}
