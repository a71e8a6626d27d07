//! A flow as its table is written: any field may be there or not. Reading it refuses fields that its source
//! does not have.

use bulk::Workload;
use cc::Setup;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use units::{Bytes, Rate, Span};

use super::flow::{Control, Flow, Protection, Quic, Session, Smoltcp, Source, Stack, Tcp, Video};
use super::{Encoder, text};

/// Reads the `[[flow]]` tables of a scenario. An error that is about more than the form of a field begins
/// with its path, such as `flow[2].mtu`.
pub(super) fn flows<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Flow>, D::Error> {
    let tables = Vec::<Written>::deserialize(deserializer)?.into_iter().enumerate();
    let read = |(index, table): (usize, Written)| {
        let refuse = |(field, what)| D::Error::custom(format!("flow[{}].{field}: {what}", index + 1));
        table.read().map_err(refuse)
    };
    tables.map(read).collect()
}

/// What a flow sends, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Video,
    Backlog,
    Tcp,
    Quic,
    Smoltcp,
}

impl Kind {
    /// As a file has it.
    fn quoted(self) -> &'static str {
        match self {
            Kind::Video => "\"video\"",
            Kind::Backlog => "\"backlog\"",
            Kind::Tcp => "\"tcp\"",
            Kind::Quic => "\"quic\"",
            Kind::Smoltcp => "\"smoltcp\"",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    name: String,
    cc: Option<String>,
    #[serde(default)]
    source: Kind,
    path: Option<Vec<String>>,
    rate: Option<String>,
    recovery: Option<String>,
    strategy: Option<String>,
    #[serde(default, deserialize_with = "text::some_parsed")]
    workload: Option<Workload>,
    #[serde(default, deserialize_with = "text::some_stack")]
    stack: Option<Stack>,
    crypto: Option<Protection>,
    control: Option<Control>,
    #[serde(default, deserialize_with = "text::quantity")]
    start: Span,
    #[serde(default, deserialize_with = "text::quantity")]
    start_spread: Span,
    #[serde(default, deserialize_with = "text::optional")]
    stop: Option<Span>,
    #[serde(default, deserialize_with = "text::some_pairs")]
    pause: Option<Vec<(Span, Span)>>,
    #[serde(default = "one")]
    count: u16,
    #[serde(default, deserialize_with = "text::quantity")]
    every: Span,
    #[serde(default, deserialize_with = "text::quantity")]
    extra_delay: Span,
    #[serde(default, deserialize_with = "text::optional")]
    mtu: Option<Bytes>,
    bunch: Option<u32>,
    #[serde(default, deserialize_with = "text::optional")]
    initial: Option<Rate>,
    #[serde(default, deserialize_with = "text::optional")]
    min: Option<Rate>,
    #[serde(default, deserialize_with = "text::optional")]
    max: Option<Rate>,
    #[serde(default, deserialize_with = "text::quantity")]
    clock_offset: Span,
    #[serde(default)]
    clock_drift_ppm: f64,
    #[serde(default, deserialize_with = "text::optional")]
    deadline: Option<Span>,
    #[serde(default, deserialize_with = "text::optional")]
    patience: Option<Span>,
    playout: Option<String>,
    nack: Option<bool>,
    conceal: Option<bool>,
    #[serde(default, deserialize_with = "text::optional")]
    decode_time: Option<Span>,
    feedback_packets: Option<u32>,
    feedback_padding: Option<u32>,
    encoder: Option<Encoder>,
}

fn one() -> u16 {
    1
}

/// A field that is wrong, and what is wrong with it.
type Refusal = (&'static str, String);

/// A field that not every source has.
struct Own {
    name: &'static str,
    /// Whether the table has it.
    given: bool,
    /// The sources that have it.
    of: &'static [Kind],
}

impl Written {
    fn read(self) -> Result<Flow, Refusal> {
        self.check_fit()?;
        let setup = Setup::default();
        Ok(Flow {
            source: self.source()?,
            name: self.name,
            path: self.path,
            cc: self.cc.unwrap_or_else(|| session::preset::DEFAULT.name.to_owned()),
            start: self.start,
            start_spread: self.start_spread,
            stop: self.stop,
            count: self.count,
            every: self.every,
            extra_delay: self.extra_delay,
            initial: self.initial.unwrap_or(setup.initial),
            min: self.min,
            max: self.max.unwrap_or(setup.max),
            clock_offset: self.clock_offset,
            clock_drift_ppm: self.clock_drift_ppm,
        })
    }

    fn source(&self) -> Result<Source, Refusal> {
        Ok(match self.source {
            Kind::Video => Source::Video(Box::new(self.video())),
            Kind::Backlog => Source::Backlog(self.session()),
            Kind::Tcp => Source::Tcp(Tcp {
                workload: self.workload.unwrap_or_default(),
                stack: self.stack.clone().unwrap_or_default(),
                bunch: self.bunch.unwrap_or(1),
            }),
            Kind::Quic => Source::Quic(Quic {
                bytes: self.bytes()?,
                mtu: self.mtu(),
                crypto: self.crypto.unwrap_or_default(),
                control: self.control.unwrap_or_default(),
            }),
            Kind::Smoltcp => Source::Smoltcp(Smoltcp { bytes: self.bytes()?, mtu: self.mtu() }),
        })
    }

    fn session(&self) -> Session {
        Session {
            rate: self.rate.clone(),
            mtu: self.mtu(),
            bunch: self.bunch.unwrap_or(1),
            feedback_padding: self.feedback_padding,
        }
    }

    fn video(&self) -> Video {
        let usual = || session::playout::REGISTRY[0].name.to_owned();
        Video {
            session: self.session(),
            recovery: self.recovery.clone(),
            strategy: self.strategy.clone(),
            pause: self.pause.clone().unwrap_or_default(),
            deadline: self.deadline,
            patience: self.patience,
            playout: self.playout.clone().unwrap_or_else(usual),
            nack: self.nack.unwrap_or(true),
            conceal: self.conceal.unwrap_or(false),
            decode_time: self.decode_time.unwrap_or_default(),
            feedback_packets: self.feedback_packets,
            encoder: self.encoder.clone().unwrap_or_default(),
        }
    }

    fn mtu(&self) -> Bytes {
        self.mtu.unwrap_or(Bytes::new(u64::from(Setup::default().mtu)))
    }

    /// Bytes of a stream that ends, where streams are one transfer.
    fn bytes(&self) -> Result<Option<u64>, Refusal> {
        match self.workload.unwrap_or_default() {
            Workload::Endless => Ok(None),
            Workload::Transfer(bytes) => Ok(Some(bytes)),
            Workload::Pages(_) => {
                let what = format!(
                    "a flow with source = {} sends `endless` or `transfer:1MB`; `pages` are for {}",
                    self.source.quoted(),
                    Kind::Tcp.quoted()
                );
                Err(("workload", what))
            }
        }
    }

    /// The fields that not every source has.
    fn own(&self) -> [Own; 22] {
        const VIDEO: &[Kind] = &[Kind::Video];
        const SESSION: &[Kind] = &[Kind::Video, Kind::Backlog];
        const RATES: &[Kind] = &[Kind::Video, Kind::Backlog, Kind::Tcp, Kind::Quic];
        let own = |name, given, of| Own { name, given, of };
        [
            own("rate", self.rate.is_some(), SESSION),
            own("recovery", self.recovery.is_some(), VIDEO),
            own("strategy", self.strategy.is_some(), VIDEO),
            own("workload", self.workload.is_some(), &[Kind::Tcp, Kind::Quic, Kind::Smoltcp]),
            own("stack", self.stack.is_some(), &[Kind::Tcp]),
            own("crypto", self.crypto.is_some(), &[Kind::Quic]),
            own("control", self.control.is_some(), &[Kind::Quic]),
            own("pause", self.pause.is_some(), VIDEO),
            own("mtu", self.mtu.is_some(), &[Kind::Video, Kind::Backlog, Kind::Quic, Kind::Smoltcp]),
            own("bunch", self.bunch.is_some(), &[Kind::Video, Kind::Backlog, Kind::Tcp]),
            own("initial", self.initial.is_some(), RATES),
            own("min", self.min.is_some(), RATES),
            own("max", self.max.is_some(), RATES),
            own("deadline", self.deadline.is_some(), VIDEO),
            own("patience", self.patience.is_some(), VIDEO),
            own("playout", self.playout.is_some(), VIDEO),
            own("nack", self.nack.is_some(), VIDEO),
            own("conceal", self.conceal.is_some(), VIDEO),
            own("decode_time", self.decode_time.is_some(), VIDEO),
            own("feedback_packets", self.feedback_packets.is_some(), VIDEO),
            own("feedback_padding", self.feedback_padding.is_some(), SESSION),
            own("encoder", self.encoder.is_some(), VIDEO),
        ]
    }

    fn check_fit(&self) -> Result<(), Refusal> {
        let misfit = self.own().into_iter().find(|own| own.given && !own.of.contains(&self.source));
        misfit.map_or(Ok(()), |own| Err((own.name, own.refusal(self.source))))
    }
}

impl Own {
    /// Which sources have the field, and what to do where another was written.
    fn refusal(&self, found: Kind) -> String {
        let of: Vec<&str> = self.of.iter().map(|kind| kind.quoted()).collect();
        let named = match of.as_slice() {
            [one] => format!("only flows with source = {one} have it"),
            all => format!("only flows with one of the sources {} have it", all.join(", ")),
        };
        format!("{named}, and this one's is {}: remove it, or change `source`", found.quoted())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::scenario::{Scenario, Source};

    const SOURCES: [(&str, &str); 5] =
        [("video", "sqp"), ("backlog", "sqp"), ("tcp", "cubic"), ("quic", "cubic"), ("smoltcp", "cubic")];
    /// Every field that not all sources have, with a value it may have.
    const OWN: [(&str, &str); 22] = [
        ("rate", "\"live\""),
        ("recovery", "\"none\""),
        ("strategy", "\"backup\""),
        ("workload", "\"transfer:1MB\""),
        ("stack", "\"ns3\""),
        ("crypto", "\"tls\""),
        ("control", "\"ours\""),
        ("pause", "[[\"1s\", \"2s\"]]"),
        ("mtu", "\"1300B\""),
        ("bunch", "4"),
        ("initial", "\"1mbit\""),
        ("min", "\"100kbit\""),
        ("max", "\"50mbit\""),
        ("deadline", "\"200ms\""),
        ("patience", "\"50ms\""),
        ("playout", "\"adaptive\""),
        ("nack", "false"),
        ("conceal", "true\nencoder = { kind = \"h264\", slices = true }"),
        ("decode_time", "\"10ms\""),
        ("feedback_packets", "4"),
        ("feedback_padding", "4"),
        ("encoder", "{ fps = 30.0 }"),
    ];

    fn read(source: &str, cc: &str, lines: &str) -> Result<Scenario, String> {
        let flow = format!("[[flow]]\ncc = \"{cc}\"\nsource = \"{source}\"\n{lines}\n");
        let text = format!("duration = \"9s\"\n[link]\ndelay = \"20ms\"\n{flow}");
        Scenario::parse(&text, Path::new("x.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_field_is_read_by_the_sources_that_its_refusal_names_and_by_no_other() {
        for (field, value) in OWN {
            let mut readers = Vec::new();
            let mut refusals = Vec::new();
            for (source, cc) in SOURCES {
                let plain = read(source, cc, "").unwrap();
                match read(source, cc, &format!("{field} = {value}")) {
                    // What is read makes a difference; `control` has its default's value here.
                    Ok(scenario) => {
                        assert!(scenario.flows != plain.flows || field == "control", "{source}: {field}");
                        readers.push(format!("\"{source}\""));
                    }
                    Err(refusal) => refusals.push((source, refusal)),
                }
            }
            assert!(!readers.is_empty() && !refusals.is_empty(), "{field}");
            for (source, refusal) in refusals {
                let (named, own) = refusal.split_once(", and this one's is ").expect(&refusal);
                assert!(named.starts_with(&format!("x.toml:7: flow[1].{field}: only flows")), "{refusal}");
                assert!(own.starts_with(&format!("\"{source}\": remove it")), "{refusal}");
                assert!(named.ends_with(&format!("{} have it", readers.join(", "))), "{refusal}");
            }
        }
    }

    #[test]
    fn the_second_flows_field_is_found_in_the_second_table() {
        let refusal =
            read("video", "sqp", "pause = []\n[[flow]]\ncc = \"cubic\"\nsource = \"tcp\"\npause = []");
        assert_eq!(
            refusal.unwrap_err(),
            "x.toml:11: flow[2].pause: only flows with source = \"video\" have it, and this one's is \"tcp\": \
             remove it, or change `source`"
        );
    }

    #[test]
    fn streams_of_others_are_endless_or_one_transfer() {
        let of = |lines| read("quic", "cubic", lines).unwrap().flows.remove(0).source;
        let bytes = |source| if let Source::Quic(quic) = source { quic.bytes } else { None };
        assert_eq!((bytes(of("")), bytes(of("workload = \"transfer:1MB\""))), (None, Some(1_000_000)));
        for source in ["quic", "smoltcp"] {
            let pages = read(source, "cubic", "workload = \"pages\"").unwrap_err();
            assert!(pages.starts_with("x.toml:7: flow[1].workload: a flow with source = "), "{pages}");
        }
    }
}
