//! Messages of the control stream: who comes, what for, and how it ends.
//!
//! Media travels in datagrams; whoever opens a connection first says on a reliable stream who they are and
//! what they want, and is answered. One message after another, each with its length before it:
//!
//! ```text
//!  0               2       3
//! +---------------+-------+---------------- ...
//! |    length     | kind  | fields of the kind
//! +---------------+-------+---------------- ...
//!   client                          server
//!     Open (version, role, token) ->
//!                                <- Ready, or Refused and the end
//!     media and feedback, in datagrams, either way
//!     Bye or Reload, either way
//! ```
//!
//! `length` counts what follows it, kind included. A text is a byte for its length, then UTF-8. Bytes beyond
//! a kind's fields are ignored and kinds not known are passed over, so that later versions may add both.

use crate::VERSION;
use crate::codec::{Reader, WireError, Writer};

/// What the one who connects wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// Send media.
    Publish = 0,
    /// Receive media.
    Watch = 1,
}

/// What the side that sends media sends with. Empty texts say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer<'a> {
    /// The codec of stream 0 as WebCodecs names it, such as `avc1.42E01F`.
    pub codec: &'a str,
    /// The congestion controller with its options, so that the receiver can build the half that lives with
    /// it.
    pub controller: &'a str,
}

/// Why somebody is turned away. The code of the connection's close is the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// The protocol's version is another.
    Version = 1,
    /// The token is not the server's.
    Token = 2,
    /// The server has as many guests as it takes.
    Busy = 3,
    /// The server does not do what the role asks for.
    Role = 4,
    /// The first message was none, or not an `Open`.
    Malformed = 5,
    /// No `Open` came in time.
    Late = 6,
    /// Any other reason; the text says which.
    Other = 7,
    /// A file of that name is there already, and is kept.
    Exists = 8,
    /// There is no room for the file where it would be written.
    NoSpace = 9,
    /// The file is larger than the receiver takes.
    TooLong = 10,
}

impl Refusal {
    /// The highest number in use.
    pub const LAST: u8 = Refusal::TooLong as u8;

    /// The refusal of this number; [`Other`](Refusal::Other) for numbers of a later version.
    pub fn of_code(code: u8) -> Refusal {
        use Refusal::{Busy, Exists, Late, Malformed, NoSpace, Other, Role, Token, TooLong, Version};
        let known = [Version, Token, Busy, Role, Malformed, Late, Exists, NoSpace, TooLong];
        known.into_iter().find(|refusal| *refusal as u8 == code).unwrap_or(Other)
    }
}

/// One message of the control stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// The first message of whoever connects.
    Open {
        /// The protocol's version, [`VERSION`].
        version: u8,
        /// Whether it publishes or watches.
        role: Role,
        /// The secret that whoever may do so knows.
        token: &'a str,
        /// What to publish as, or whom to watch; may be empty.
        name: &'a str,
        /// What a publisher sends with.
        offer: Offer<'a>,
    },
    /// Come in: from now on media may be sent.
    Ready {
        /// The protocol's version, [`VERSION`].
        version: u8,
        /// What a watched server sends with.
        offer: Offer<'a>,
    },
    /// Not so; the connection ends.
    Refused {
        /// The reason, as a code.
        why: Refusal,
        /// The same for people, with what to do about it.
        text: &'a str,
    },
    /// Nothing more will come, by intention; the connection ends.
    Bye {
        /// Why, for people; may be empty.
        text: &'a str,
    },
    /// Connect anew: the server is about to be replaced by another.
    Reload,
    /// What the receiver of a file has of it already, from an earlier attempt: the sender goes on from there
    /// if its file begins so.
    Have {
        /// Bytes from the file's start; 0 for nothing.
        bytes: u64,
        /// SHA-256 of those bytes.
        digest: [u8; 32],
    },
    /// A kind of a later version, to be passed over.
    Unknown(u8),
}

/// Kinds, as written. 0 is none, so that a stream of zeros is no message.
const OPEN: u8 = 1;
const READY: u8 = 2;
const REFUSED: u8 = 3;
const BYE: u8 = 4;
const RELOAD: u8 = 5;
const HAVE: u8 = 6;
/// Length and kind.
const HEAD: usize = 3;
/// Most bytes of a text: what its length byte can say.
const TEXT: usize = 255;

impl<'a> Message<'a> {
    /// The longest message, in bytes: an `Open` of four texts. Longer ones are refused unread, whatever their
    /// kind.
    pub const MAX_LEN: usize = HEAD + 2 + 4 * (1 + TEXT);

    /// Writes the message to `out` and returns its length. Texts beyond 255 bytes are cut.
    ///
    /// # Panics
    /// If `out` is too short; [`MAX_LEN`](Message::MAX_LEN) bytes never are.
    pub fn encode(&self, out: &mut [u8]) -> usize {
        let mut w = Writer::plain(out);
        w.u16(0);
        w.u8(self.kind());
        match *self {
            Message::Open { version, role, token, name, offer } => {
                w.u8(version);
                w.u8(role as u8);
                [token, name, offer.codec, offer.controller].iter().for_each(|text| write_text(&mut w, text));
            }
            Message::Ready { version, offer } => {
                w.u8(version);
                [offer.codec, offer.controller].iter().for_each(|text| write_text(&mut w, text));
            }
            Message::Refused { why, text } => {
                w.u8(why as u8);
                write_text(&mut w, text);
            }
            Message::Bye { text } => write_text(&mut w, text),
            Message::Have { bytes, digest } => {
                w.u64(bytes);
                w.bytes(&digest);
            }
            Message::Reload | Message::Unknown(_) => {}
        }
        let length = w.len();
        out[..2].copy_from_slice(&(length as u16 - 2).to_be_bytes());
        length
    }

    /// The message as bytes of its own.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![0; Message::MAX_LEN];
        let length = self.encode(&mut out);
        out.truncate(length);
        out
    }

    fn kind(&self) -> u8 {
        match self {
            Message::Open { .. } => OPEN,
            Message::Ready { .. } => READY,
            Message::Refused { .. } => REFUSED,
            Message::Bye { .. } => BYE,
            Message::Reload => RELOAD,
            Message::Have { .. } => HAVE,
            Message::Unknown(kind) => *kind,
        }
    }

    /// Reads the first message of `stream` and says how many bytes it took; `None` where more bytes are
    /// needed.
    ///
    /// # Errors
    /// [`WireError`] where the bytes can't become a message. Nothing after them can be made sense of either.
    pub fn decode(stream: &'a [u8]) -> Result<Option<(Message<'a>, usize)>, WireError> {
        let Some((length, rest)) = stream.split_first_chunk::<2>() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes(*length));
        if length == 0 || 2 + length > Message::MAX_LEN {
            return Err(WireError::Field("length"));
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let mut r = Reader(body);
        let message = Message::read(&mut r)?;
        Ok(Some((message, 2 + length)))
    }

    fn read(r: &mut Reader<'a>) -> Result<Message<'a>, WireError> {
        Ok(match r.u8()? {
            0 => return Err(WireError::Field("kind")),
            OPEN => Message::Open {
                version: r.u8()?,
                role: match r.u8()? {
                    0 => Role::Publish,
                    1 => Role::Watch,
                    _ => return Err(WireError::Field("role")),
                },
                token: read_text(r)?,
                name: read_text(r)?,
                offer: read_offer(r)?,
            },
            READY => Message::Ready { version: r.u8()?, offer: read_offer(r)? },
            REFUSED => Message::Refused { why: Refusal::of_code(r.u8()?), text: read_text(r)? },
            BYE => Message::Bye { text: read_text(r)? },
            RELOAD => Message::Reload,
            HAVE => {
                let bytes = r.u64()?;
                let digest = r.take(32)?.try_into().map_err(|_| WireError::Field("digest"))?;
                Message::Have { bytes, digest }
            }
            other => Message::Unknown(other),
        })
    }

    /// An `Open` of this version.
    pub fn open(role: Role, token: &'a str, name: &'a str, offer: Offer<'a>) -> Message<'a> {
        Message::Open { version: VERSION, role, token, name, offer }
    }

    /// A `Ready` of this version.
    pub fn ready(offer: Offer<'a>) -> Message<'a> {
        Message::Ready { version: VERSION, offer }
    }
}

pub(crate) fn write_text(w: &mut Writer<'_>, text: &str) {
    let fits = (0..=TEXT.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    let text = &text[..fits.unwrap_or(0)];
    w.u8(text.len() as u8);
    w.bytes(text.as_bytes());
}

pub(crate) fn read_text<'a>(r: &mut Reader<'a>) -> Result<&'a str, WireError> {
    let length = r.u8()?;
    std::str::from_utf8(r.take(usize::from(length))?).map_err(|_| WireError::Field("text"))
}

fn read_offer<'a>(r: &mut Reader<'a>) -> Result<Offer<'a>, WireError> {
    Ok(Offer { codec: read_text(r)?, controller: read_text(r)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(message: &Message<'_>, rest: &[u8]) -> Result<(), TestCaseError> {
        let mut bytes = message.to_vec();
        let length = bytes.len();
        prop_assert!(length <= Message::MAX_LEN);
        for cut in 0..length {
            prop_assert_eq!(Message::decode(&bytes[..cut]), Ok(None), "{} of {} bytes", cut, length);
        }
        bytes.extend_from_slice(rest);
        prop_assert_eq!(Message::decode(&bytes), Ok(Some((*message, length))));
        Ok(())
    }

    proptest! {
        #[test]
        fn messages_round_trip_whatever_follows(
            version: u8, watch: bool, texts in proptest::array::uniform4("\\PC{0,60}"), why in 1u8..=Refusal::LAST,
            kind in 7u8..=255, have: u64, digest: [u8; 32], rest in proptest::collection::vec(any::<u8>(), 0..40)
        ) {
            let [token, name, codec, controller] = texts.each_ref().map(String::as_str);
            let offer = Offer { codec, controller };
            let role = if watch { Role::Watch } else { Role::Publish };
            check(&Message::Open { version, role, token, name, offer }, &rest)?;
            check(&Message::Ready { version, offer }, &rest)?;
            check(&Message::Refused { why: Refusal::of_code(why), text: name }, &rest)?;
            check(&Message::Bye { text: token }, &rest)?;
            check(&Message::Reload, &rest)?;
            check(&Message::Have { bytes: have, digest }, &rest)?;
            check(&Message::Unknown(kind), &rest)?;
        }
    }

    #[test]
    fn the_longest_message_is_as_long_as_it_says_and_longer_texts_are_cut() {
        let long = "ä".repeat(200);
        let offer = Offer { codec: &long, controller: &long };
        let bytes = Message::open(Role::Watch, &long, &long, offer).to_vec();
        // 255 is no boundary between two-byte characters.
        assert_eq!(bytes.len(), Message::MAX_LEN - 4);
        let Ok(Some((Message::Open { token, .. }, _))) = Message::decode(&bytes) else { panic!("{bytes:?}") };
        assert_eq!(token.len(), 254);
    }

    #[test]
    fn what_is_no_message_is_refused_before_it_is_waited_for() {
        assert_eq!(Message::decode(&[0, 0]), Err(WireError::Field("length")));
        assert_eq!(Message::decode(&[0xff, 0xff]), Err(WireError::Field("length")));
        assert_eq!(Message::decode(&[0, 1, 0]), Err(WireError::Field("kind")));
        assert_eq!(Message::decode(&[0, 3, OPEN, 1, 2]), Err(WireError::Field("role")));
        assert_eq!(Message::decode(&[0, 2, BYE, 1]), Err(WireError::Truncated));
        assert_eq!(Message::decode(&[0, 10, HAVE, 0, 0, 0, 0, 0, 0, 0, 1, 7]), Err(WireError::Truncated));
        assert_eq!(Message::decode(&[0, 3, BYE, 1, 0xff]), Err(WireError::Field("text")));
    }

    #[test]
    fn fields_of_a_later_version_are_ignored() {
        let mut bytes = Message::Bye { text: "so long" }.to_vec();
        bytes.extend([1, 2, 3]);
        bytes[1] += 3;
        assert_eq!(Message::decode(&bytes), Ok(Some((Message::Bye { text: "so long" }, bytes.len()))));
    }
}
