//! The grammar of `framewire bulk`.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Subcommand;
use real::quic::{Fingerprint, Token};
use units::{Bytes, Span};

use crate::args::Format;
use crate::operations::{Certificate, ConnectionLimits, Operations};
use crate::values::CcList;

/// How long a receiver may take to answer.
pub const PATIENCE: Span = Span::from_secs(10);

/// `framewire bulk`.
#[derive(Debug, Subcommand)]
pub enum Bulk {
    /// Send a file over QUIC under a congestion controller
    Send(Send),
    /// Receive what `framewire bulk send` sends
    Receive(Box<Receive>),
    /// Run the QUIC-DC paper's single-flow table for real, through an emulated link, beside the simulation
    Table(Table),
}

/// `framewire bulk send`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire bulk send big.iso quic://192.0.2.1:4433 --cc quic-dc:threshold=20ms --pin 5f2a... --token 91c3...
  framewire bulk send zeros:100MB quic://192.0.2.1:4433 --cc newreno --pin 5f2a... --token 91c3... --json

`framewire bulk receive` prints pin and token. docs/quic-controllers.md says what runs under QUIC, and how.")]
pub struct Send {
    /// The file to send, or zeros:SIZE to send so many zero bytes
    #[arg(value_name = "FILE")]
    pub file: Content,
    /// The receiver: quic://HOST:PORT
    #[arg(value_name = "quic://HOST:PORT")]
    pub target: Host,
    /// Congestion controller
    #[arg(long, value_name = "CC", default_value = "quic-dc")]
    pub cc: CcList,
    /// Fingerprint of the receiver's certificate, as it prints it; without one, a certificate this machine
    /// trusts is needed
    #[arg(long, value_name = "SHA256")]
    pub pin: Option<Fingerprint>,
    /// The receiver's token, as it prints it
    #[arg(long, env = "FRAMEWIRE_TOKEN", hide_env_values = true)]
    pub token: Secret,
    /// Size of datagrams (UDP payload), 1200 to 1452; by default 1200, and more where the path is found to
    /// carry it
    #[arg(long, value_parser = clap::value_parser!(u16).range(1200..=1452))]
    pub mtu: Option<u16>,
    /// Write what congestion control sees and decides to this file as qlog (JSON-SEQ)
    #[arg(long, value_name = "FILE.sqlog")]
    pub qlog: Option<PathBuf>,
    #[command(flatten)]
    pub format: Format,
}

/// `framewire bulk receive`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire bulk receive --listen 0.0.0.0:4433 --output downloads
  framewire bulk receive --listen 0.0.0.0:4433 --output null --once
  framewire bulk receive --listen 0.0.0.0:4433 --output downloads --metrics 127.0.0.1:9090 --log-level info

It prints the pin and the token that a sender needs.")]
pub struct Receive {
    /// Address and port to listen on
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: SocketAddr,
    /// Folder that files are written to, made if it is missing, or null. A file has the last part of the name
    /// the sender gives; an existing one is kept and the new one refused. What came of a file that is not
    /// whole is kept as .NAME.framewire-part, and the next attempt to send it goes on from there
    #[arg(long, value_name = "DIR|null")]
    pub output: Place,
    /// The secret that senders must know; by default a new one
    #[arg(long, env = "FRAMEWIRE_TOKEN", hide_env_values = true)]
    pub token: Option<Secret>,
    /// The largest file that is taken
    #[arg(long, default_value = "10000MB")]
    pub limit: Bytes,
    /// End after one file; other senders are told that this one is busy
    #[arg(long)]
    pub once: bool,
    /// Write what arrives when to this file as qlog (JSON-SEQ)
    #[arg(long, value_name = "FILE.sqlog")]
    pub qlog: Option<PathBuf>,
    #[command(flatten)]
    pub certificate: Certificate,
    #[command(flatten)]
    pub format: Format,
    #[command(flatten)]
    pub limits: ConnectionLimits,
    #[command(flatten)]
    pub operations: Operations,
}

/// `framewire bulk table`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire bulk table                              100 MB each: 32 transfers of about 90 s
  framewire bulk table --size 10MB --buffers 2      eight transfers of about 9 s
  framewire bulk table --buffers 2 --cc newreno,quic-dc:threshold=50ms

Seed 001: 10 Mbit/s, 50 ms of round trip, drop-tail buffers of 0.5 to 4 BDP (one is 62.5 kB).")]
pub struct Table {
    /// Bytes of each transfer
    #[arg(long, default_value = "100MB")]
    pub size: Bytes,
    /// Buffers in bandwidth-delay products
    #[arg(long, value_delimiter = ',', default_value = "4,2,1,0.5")]
    pub buffers: Vec<f64>,
    /// Controllers, instead of the paper's
    #[arg(long, value_name = "CC,CC,...")]
    pub cc: Option<CcList>,
    /// Simulate only, without the transfers in real time
    #[arg(long)]
    pub simulate: bool,
    #[command(flatten)]
    pub format: Format,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The bytes of a file.
    File(PathBuf),
    /// So many zeros.
    Zeros(u64),
}

impl FromStr for Content {
    type Err = String;

    fn from_str(text: &str) -> Result<Content, String> {
        match text.strip_prefix("zeros:") {
            Some(size) => {
                let bytes = size.parse::<Bytes>().map_err(|error| error.to_string())?;
                Ok(Content::Zeros(bytes.get()))
            }
            None if text.is_empty() => Err("a file's path, or zeros:100MB".to_owned()),
            None => Ok(Content::File(text.into())),
        }
    }
}

/// Where files go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// They are counted and thrown away.
    Null,
    /// Into a folder.
    Folder(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        match text {
            "null" => Ok(Place::Null),
            "" => Err("a folder, or null".to_owned()),
            path if std::path::Path::new(path).is_file() => Err(format!("`{path}` is a file, not a folder")),
            path => Ok(Place::Folder(path.into())),
        }
    }
}

/// A token that is not shown by accident.
#[derive(Clone, Debug)]
pub struct Secret(pub Token);

impl FromStr for Secret {
    type Err = String;

    fn from_str(text: &str) -> Result<Secret, String> {
        text.parse().map(Secret)
    }
}

/// A receiver's address; its name is looked up when it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The name, without brackets.
    pub name: String,
    port: u16,
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Host, String> {
        let accepted = || format!("`{text}` is not an address such as quic://192.0.2.1:4433");
        let address = text.strip_prefix("quic://").ok_or_else(accepted)?.trim_end_matches('/');
        let (host, port) = address.rsplit_once(':').ok_or_else(accepted)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(accepted)?;
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if name.is_empty() { Err(accepted()) } else { Ok(Host { name, port }) }
    }
}

impl Host {
    /// The first address the name stands for.
    ///
    /// # Errors
    /// A sentence if it stands for none.
    pub fn resolve(&self) -> Result<SocketAddr, String> {
        let found = (self.name.as_str(), self.port).to_socket_addrs().map_err(|e| format!("{self}: {e}"))?;
        found.into_iter().next().ok_or_else(|| format!("{self}: the name has no address"))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "quic://{}:{}", self.name, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_need_scheme_name_and_port() {
        let local: Host = "quic://[::1]:9".parse().unwrap();
        assert_eq!((local.name.as_str(), local.resolve().unwrap()), ("::1", "[::1]:9".parse().unwrap()));
        for bad in ["1.2.3.4:5", "quic://host", "quic://:1", "quic://h:0", "quic://h:99999", "udp://h:1"] {
            assert!(bad.parse::<Host>().unwrap_err().contains("is not an address such as"), "{bad}");
        }
    }

    #[test]
    fn defaults_are_acceptable() {
        use clap::Parser;
        for line in [
            "framewire bulk receive --listen 127.0.0.1:0 --output null",
            "framewire bulk send a.bin quic://h:1 --token t",
            "framewire bulk table",
        ] {
            crate::args::Args::try_parse_from(line.split(' ')).unwrap();
        }
    }

    #[test]
    fn contents_are_files_or_zeros() {
        assert_eq!("zeros:3kB".parse(), Ok(Content::Zeros(3_000)));
        assert_eq!("a.bin".parse(), Ok(Content::File("a.bin".into())));
        assert!("zeros:3".parse::<Content>().is_err() && "".parse::<Content>().is_err());
    }
}
