//! What people write after a flag, beyond what the other crates read themselves.

use std::ffi::OsStr;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use instruments::load::Hosts;
use media::{Codec, CodecChoice};
use real::quic::Fingerprint;
use session::preset::Choice;

/// One or more congestion controllers, each known to be buildable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CcList(pub Vec<String>);

impl FromStr for CcList {
    type Err = String;

    /// Reads `sqp,newreno,fixed` and `sqp:target=0.7,window=3,newreno`: a part with `=` and no `:` before it
    /// is an option of the controller before it.
    fn from_str(text: &str) -> Result<CcList, String> {
        let names = named(text);
        names.iter().try_for_each(|name| check(name))?;
        Ok(CcList(names))
    }
}

/// The names of a list with commas, each with its options: `a,b:x=1,y=2,c`.
pub fn named(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let head = part.split('=').next().unwrap_or_default();
        match names.last_mut() {
            Some(last) if part.contains('=') && !head.contains(':') => {
                last.push(if last.contains(':') { ',' } else { ':' });
                last.push_str(part);
            }
            _ => names.push(part.to_owned()),
        }
    }
    names
}

fn check(name: &str) -> Result<(), String> {
    let options = Choice::of(Some(name), None, None)
        .controller
        .parse()
        .map_err(|error: cc::OptionError| error.to_string())?;
    cc::build(&options, &cc::Setup::default()).map(|_| ()).map_err(|error| error.to_string())
}

/// A rate policy by name, with options, known to be buildable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RatePolicy(pub String);

impl FromStr for RatePolicy {
    type Err = String;

    /// Reads `live` and `vidaptive-paper:lambda=0.7,tau=33ms`.
    fn from_str(text: &str) -> Result<RatePolicy, String> {
        let built = text.parse().and_then(|options| session::rate::build(&options));
        built.map(|_| RatePolicy(text.to_owned())).map_err(|error: cc::OptionError| error.to_string())
    }
}

/// Reads a codec's name with its options; `--help` lists what there is.
#[derive(Clone, Copy, Debug)]
pub struct Codecs;

impl TypedValueParser for Codecs {
    type Value = CodecChoice;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<CodecChoice, clap::Error> {
        let read = |text: &str| -> Result<CodecChoice, String> { text.parse() };
        read.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Codec::ALL.iter().map(|codec| PossibleValue::new(codec.name()).help(codec.summary()))))
    }
}

/// Reads the name, with its options, of a codec that a page can play.
#[derive(Clone, Copy, Debug)]
pub struct PageCodecs;

impl PageCodecs {
    const PLAYED: [Codec; 2] = [Codec::H264, Codec::VIXNN];
}

impl TypedValueParser for PageCodecs {
    type Value = CodecChoice;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<CodecChoice, clap::Error> {
        let read = |text: &str| -> Result<CodecChoice, String> {
            let choice: CodecChoice = text.parse()?;
            if !PageCodecs::PLAYED.contains(&choice.codec) {
                return Err(format!("a page does not play {choice}; it plays h264 and vixnn"));
            }
            match choice.options.group {
                Some(2..) => Err("a page plays no groups of frames; leave `group` out".to_owned()),
                _ => Ok(choice),
            }
        };
        read.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |codec: Codec| PossibleValue::new(codec.name()).help(codec.summary());
        Some(Box::new(PageCodecs::PLAYED.into_iter().map(value)))
    }
}

/// What can stand at the ends of the flows of `bench load`, each with what it is.
pub fn hosts() -> impl TypedValueParser<Value = Hosts> {
    let names = Hosts::ALL.map(|hosts| PossibleValue::new(hosts.name()).help(hosts.summary()));
    let by_name = |name: String| Hosts::ALL.into_iter().find(|hosts| hosts.name() == name);
    PossibleValuesParser::new(names).map(move |name| by_name(name).expect("it is one of them"))
}

/// The recovery policies, by name.
pub fn recoveries() -> PossibleValuesParser {
    let entries = session::recovery::REGISTRY.iter();
    PossibleValuesParser::new(entries.map(|entry| PossibleValue::new(entry.name).help(entry.summary)))
}

/// Reads a strategy's name with its options, which is known to be buildable then; `--help` lists what there
/// is.
#[derive(Clone, Copy, Debug)]
pub struct Strategies;

impl TypedValueParser for Strategies {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        let read = |text: &str| -> Result<String, cc::OptionError> {
            session::strategy::build(text, session::recovery::REGISTRY[0].name).map(|_| text.to_owned())
        };
        read.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let entries = session::strategy::REGISTRY.iter();
        Some(Box::new(entries.map(|entry| PossibleValue::new(entry.name).help(entry.summary))))
    }
}

/// A playout policy by name, with options, known to be buildable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayoutPolicy(String);

impl PlayoutPolicy {
    /// One that has seen nothing yet.
    pub fn build(&self) -> Box<dyn session::Playout> {
        let policy = self.0.parse().and_then(|options| session::playout::build(&options));
        policy.expect("it was built when it was read")
    }
}

impl fmt::Display for PlayoutPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for PlayoutPolicy {
    type Err = String;

    /// Reads `adaptive` and `fixed:delay=100ms`.
    fn from_str(text: &str) -> Result<PlayoutPolicy, String> {
        let built = text.parse().and_then(|options| session::playout::build(&options));
        built.map(|_| PlayoutPolicy(text.to_owned())).map_err(|error: cc::OptionError| error.to_string())
    }
}

impl CcList {
    /// The one controller, where only one makes sense.
    ///
    /// # Errors
    /// A sentence if there are several.
    pub fn only(&self) -> Result<&str, String> {
        match self.0.as_slice() {
            [one] => Ok(one),
            several => Err(format!(
                "--cc names {}, but one flow has one; see `framewire compare`",
                several.join(" and ")
            )),
        }
    }
}

/// A clip to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Drawn as it goes.
    Synthetic,
    /// From a file.
    File(PathBuf),
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Input::Synthetic => f.write_str("synthetic"),
            Input::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl FromStr for Input {
    type Err = String;

    fn from_str(text: &str) -> Result<Input, String> {
        match text {
            "synthetic" => Ok(Input::Synthetic),
            "" => Err("a clip's path, or `synthetic`".to_owned()),
            path => Ok(Input::File(path.into())),
        }
    }
}

/// What to send: a clip, or pictures as they are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Feed {
    /// A clip, from a file or a generator.
    Clip(Input),
    /// A Y4M stream on standard input.
    Stdin,
    /// A camera: a device of Video4Linux.
    Camera(PathBuf),
}

/// The camera, where none is named.
const CAMERA: &str = "/dev/video0";

impl FromStr for Feed {
    type Err = String;

    fn from_str(text: &str) -> Result<Feed, String> {
        match text {
            "-" => Ok(Feed::Stdin),
            "camera" => Ok(Feed::Camera(CAMERA.into())),
            device if device.starts_with("/dev/video") => Ok(Feed::Camera(device.into())),
            "" => Err("a clip's path, `-`, `camera` or `synthetic`".to_owned()),
            clip => Ok(Feed::Clip(clip.parse()?)),
        }
    }
}

/// Where pictures go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sink {
    /// They are decoded and thrown away.
    Null,
    /// To a Y4M file.
    Y4m(PathBuf),
    /// To a window of ffplay.
    Play,
}

impl FromStr for Sink {
    type Err = String;

    fn from_str(text: &str) -> Result<Sink, String> {
        match text {
            "null" => Ok(Sink::Null),
            "play" => Ok(Sink::Play),
            path if path.ends_with(".y4m") => Ok(Sink::Y4m(path.into())),
            other => Err(format!("`{other}` is neither a .y4m file, nor play, nor null")),
        }
    }
}

/// How packets travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Plain UDP.
    Udp,
    /// Datagrams of a QUIC connection.
    Quic,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scheme::Udp => "udp",
            Scheme::Quic => "quic",
        })
    }
}

impl Scheme {
    /// A scheme and what follows it. There is no default: whoever leaves the scheme out would not know
    /// whether what travels is encrypted and whether a token is asked for.
    fn split(text: &str) -> Option<(Scheme, &str)> {
        match text.split_once("://")? {
            ("udp", rest) => Some((Scheme::Udp, rest)),
            ("quic", rest) => Some((Scheme::Quic, rest)),
            _ => None,
        }
    }
}

/// An address to send to; its name is looked up when it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// How packets travel there.
    pub scheme: Scheme,
    /// HOST:PORT.
    address: String,
    /// The fingerprint of its certificate, if the address says it (`?pin=`).
    pub pin: Option<Fingerprint>,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let accepted = || {
            format!(
                "`{text}` is not an address such as quic://host.example:4433?pin=... (encrypted, with a token) or udp://192.0.2.1:4433 (plain)"
            )
        };
        let (scheme, rest) = Scheme::split(text).ok_or_else(accepted)?;
        let (address, query) =
            rest.split_once('?').map_or((rest, None), |(front, query)| (front, Some(query)));
        let pin = match (scheme, query.map(|query| query.strip_prefix("pin="))) {
            (_, None) => None,
            (Scheme::Quic, Some(Some(pin))) => Some(pin.parse()?),
            _ => return Err(accepted()),
        };
        let address = address.trim_end_matches('/');
        let (host, port) = address.rsplit_once(':').ok_or_else(accepted)?;
        let port: u16 = port.parse().map_err(|_| accepted())?;
        if host.is_empty() || port == 0 {
            return Err(accepted());
        }
        Ok(Target { scheme, address: address.to_owned(), pin })
    }
}

impl Target {
    /// The first address the name stands for.
    ///
    /// # Errors
    /// A sentence if it stands for none.
    pub fn resolve(&self) -> Result<SocketAddr, String> {
        let found = self.address.to_socket_addrs().map_err(|error| format!("{self}: {error}"))?;
        found.into_iter().next().ok_or_else(|| format!("{self}: the name has no address"))
    }

    /// The host's name or address, without the brackets of an IPv6 one.
    pub fn host(&self) -> &str {
        let host = self.address.rsplit_once(':').map_or(&*self.address, |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.address)
    }
}

/// Where to listen, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// How packets come.
    pub scheme: Scheme,
    /// The address to listen at.
    pub at: SocketAddr,
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        let accepted = || {
            format!(
                "`{text}` is not an address such as quic://0.0.0.0:4433 (encrypted, with a token) or udp://[::]:4433 (plain)"
            )
        };
        let (scheme, at) = Scheme::split(text).ok_or_else(accepted)?;
        Ok(Listen { scheme, at: at.parse().map_err(|_| accepted())? })
    }
}

/// Width and height of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureSize {
    /// Columns in pixels, even.
    pub width: usize,
    /// Rows in pixels, even.
    pub height: usize,
}

impl FromStr for PictureSize {
    type Err = String;

    fn from_str(text: &str) -> Result<PictureSize, String> {
        let side = |text: &str| {
            let side = text.parse().ok()?;
            (side % 2 == 0 && (16..=media::MAX_SIDE).contains(&side)).then_some(side)
        };
        let sides = text.split_once('x').and_then(|(width, height)| Some((side(width)?, side(height)?)));
        let (width, height) = sides.ok_or_else(|| {
            format!(
                "`{text}` is not a size such as 1280x720, both sides even and from 16 to {}",
                media::MAX_SIDE
            )
        })?;
        Ok(PictureSize { width, height })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_follow_their_controller() {
        let list: CcList = "sqp:target=0.7,window=3, newreno,fixed:rate=8mbit".parse().unwrap();
        assert_eq!(list.0, ["sqp:target=0.7,window=3", "newreno", "fixed:rate=8mbit"]);
        assert!(list.only().is_err());
        assert_eq!("sqp,target=0.7".parse::<CcList>().unwrap().only(), Ok("sqp:target=0.7"));
        let error = "sqp,cubic9".parse::<CcList>().unwrap_err();
        assert!(
            error.starts_with("no congestion controller is called `cubic9`; did you mean `cubic`?"),
            "{error}"
        );
        assert!("sqp:nonsense=1".parse::<CcList>().unwrap_err().contains("has no option `nonsense`"));
        assert!("".parse::<CcList>().is_err());
    }

    #[test]
    fn targets_need_scheme_host_and_port() {
        assert_eq!("udp://[::1]:9".parse::<Target>().unwrap().resolve().unwrap(), "[::1]:9".parse().unwrap());
        for bad in [
            "1.2.3.4",
            "1.2.3.4:5",
            "udp://host",
            "udp://:1",
            "udp://h:0",
            "udp://h:99999",
            "tcp://h:1",
            "udp://h:1?pin=0",
        ] {
            assert!(bad.parse::<Target>().unwrap_err().contains("is not an address such as"), "{bad}");
        }
    }

    #[test]
    fn a_pin_is_part_of_the_address() {
        let pin = "00".repeat(32);
        let target: Target = format!("quic://[::1]:4433?pin={pin}").parse().unwrap();
        assert_eq!(
            (target.scheme, target.host(), target.pin.unwrap().to_string()),
            (Scheme::Quic, "::1", pin)
        );
        assert_eq!(target.to_string(), "quic://[::1]:4433");
        assert!("quic://h:1?pin=00".parse::<Target>().unwrap_err().contains("64 hexadecimal digits"));
    }

    #[test]
    fn an_address_to_listen_on_says_for_what() {
        let listen = |text: &str| text.parse::<Listen>().map(|listen| listen.scheme);
        assert_eq!(listen("udp://0.0.0.0:1"), Ok(Scheme::Udp));
        assert_eq!(listen("quic://[::]:1"), Ok(Scheme::Quic));
        for bad in ["0.0.0.0:1", "quic://host:1", "tcp://0.0.0.0:1"] {
            assert!(listen(bad).unwrap_err().contains("quic://0.0.0.0:4433"), "{bad}");
        }
    }

    #[test]
    fn sizes_are_even_and_bounded() {
        assert_eq!("640x360".parse(), Ok(PictureSize { width: 640, height: 360 }));
        for bad in ["640", "640x", "641x360", "0x0", "8x8", "99999998x2", "-2x2"] {
            assert!(bad.parse::<PictureSize>().is_err(), "{bad}");
        }
    }
}
