//! The control stream: [`Message`]s over any reliable byte stream, and the gate that only those with the
//! token pass.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use wire::{Message, Offer, Refusal, Role, VERSION, WireError};

use super::Token;

/// Reads messages from a stream, one at a time.
pub struct Messages<R> {
    stream: R,
    bytes: Vec<u8>,
    taken: usize,
}

/// Why there is no further message.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The stream ended or broke.
    #[error("the control stream ended")]
    Ended,
    /// What came is no message.
    #[error("the control stream is broken: {0}")]
    Broken(#[from] WireError),
}

impl<R: AsyncRead + Unpin> Messages<R> {
    /// Messages of `stream`, from its start.
    pub fn new(stream: R) -> Messages<R> {
        Messages { stream, bytes: Vec::with_capacity(Message::MAX_LEN), taken: 0 }
    }

    /// Waits for the next message. Never holds more than one message's worth of bytes.
    ///
    /// # Errors
    /// [`ControlError`] at the stream's end and where bytes are no message; there is nothing to be read after
    /// either.
    pub async fn next(&mut self) -> Result<Message<'_>, ControlError> {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        while Message::decode(&self.bytes)?.is_none() {
            let room = (Message::MAX_LEN - self.bytes.len()) as u64;
            let mut limited = (&mut self.stream).take(room);
            match limited.read_buf(&mut self.bytes).await {
                Ok(0) | Err(_) => return Err(ControlError::Ended),
                Ok(_) => {}
            }
        }
        let (message, length) = Message::decode(&self.bytes)?.ok_or(ControlError::Ended)?;
        self.taken = length;
        Ok(message)
    }

    /// The bytes of the message that [`next`](Messages::next) returned last, for those of a kind it does not
    /// know.
    pub fn last(&self) -> &[u8] {
        &self.bytes[..self.taken]
    }
}

/// Writes one message.
///
/// # Errors
/// [`ControlError::Ended`] if the stream takes no more.
pub async fn write<W: AsyncWrite + Unpin>(stream: &mut W, message: &Message<'_>) -> Result<(), ControlError> {
    stream.write_all(&message.to_vec()).await.map_err(|_| ControlError::Ended)
}

/// What somebody who may come in asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whether it publishes or watches.
    pub role: Role,
    /// What as, or whom; may be empty.
    pub name: String,
    /// A publisher's codec; may be empty.
    pub codec: String,
    /// A publisher's controller with its options; may be empty.
    pub controller: String,
}

impl Request {
    /// The offer as it travels.
    pub fn offer(&self) -> Offer<'_> {
        Offer { codec: &self.codec, controller: &self.controller }
    }
}

/// Decides who comes in.
#[derive(Clone, Debug)]
pub struct Gate {
    token: Token,
    publish: bool,
    watch: bool,
}

impl Gate {
    /// A gate for those who know `token`, to do what is allowed here.
    pub fn new(token: Token, publish: bool, watch: bool) -> Gate {
        Gate { token, publish, watch }
    }

    /// Waits for the first message, no longer than `within`, and judges it.
    ///
    /// # Errors
    /// Why they may not come in, and the same in words for them.
    pub async fn greet<R: AsyncRead + Unpin>(
        &self,
        messages: &mut Messages<R>,
        within: Duration,
    ) -> Result<Request, (Refusal, String)> {
        let refuse = |why: Refusal, text: String| Err((why, text));
        match tokio::time::timeout(within, messages.next()).await {
            Err(_) => refuse(Refusal::Late, "nobody said what for".to_owned()),
            Ok(Err(error)) => refuse(Refusal::Malformed, error.to_string()),
            Ok(Ok(message)) => self.judge(&message),
        }
    }

    /// Whether the first message opens the gate.
    ///
    /// # Errors
    /// As [`greet`](Gate::greet).
    pub fn judge(&self, message: &Message<'_>) -> Result<Request, (Refusal, String)> {
        let refuse = |why, text: &str| Err((why, text.to_owned()));
        let Message::Open { version, role, token, name, offer } = *message else {
            return refuse(Refusal::Malformed, "the first message must be an Open");
        };
        if version != VERSION {
            let text = format!(
                "this server speaks version {VERSION}, you speak {version}: update the older of the two"
            );
            return Err((Refusal::Version, text));
        }
        // The token comes before all that a stranger could learn something from.
        if !self.token.admits(token) {
            return refuse(Refusal::Token, "the token is wrong: take the one the server was started with");
        }
        match role {
            Role::Publish if !self.publish => refuse(Refusal::Role, "this server takes no media"),
            Role::Watch if !self.watch => refuse(Refusal::Role, "this server sends no media"),
            _ => Ok(Request {
                role,
                name: name.to_owned(),
                codec: offer.codec.to_owned(),
                controller: offer.controller.to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime of one thread").block_on(future)
    }

    fn gate() -> Gate {
        Gate::new("secret".parse().unwrap(), true, false)
    }

    fn refusal(message: &Message<'_>) -> Refusal {
        gate().judge(message).unwrap_err().0
    }

    #[test]
    fn messages_come_one_by_one_however_their_bytes_do() {
        let bytes = [
            Message::open(Role::Publish, "t", "", Offer::default()),
            Message::Reload,
            Message::Bye { text: "x" },
        ]
        .map(|message| message.to_vec())
        .concat();
        for cut in 0..bytes.len() {
            let (front, back) = bytes.split_at(cut);
            let mut messages = Messages::new(front.chain(back));
            block_on(async {
                assert!(matches!(messages.next().await, Ok(Message::Open { token: "t", .. })));
                assert!(matches!(messages.next().await, Ok(Message::Reload)));
                assert!(matches!(messages.next().await, Ok(Message::Bye { text: "x" })));
                assert!(matches!(messages.next().await, Err(ControlError::Ended)));
            });
        }
    }

    #[test]
    fn endless_bytes_are_no_message_and_take_no_memory() {
        let mut messages = Messages::new(tokio::io::repeat(0x03));
        // 0x0303 would be a length within bounds; the kind 3 is a Refused, whose text can't be cut short.
        block_on(async {
            let mut seen = 0;
            while messages.next().await.is_ok() && seen < 1_000 {
                seen += 1;
            }
            assert!(seen == 1_000 && messages.bytes.capacity() < 4 * Message::MAX_LEN);
        });
        let mut messages = Messages::new(tokio::io::repeat(0xff));
        assert!(matches!(block_on(messages.next()), Err(ControlError::Broken(_))));
    }

    #[test]
    fn only_the_token_opens_the_gate_and_only_to_what_is_allowed() {
        let offer = Offer { codec: "avc1.42E01F", controller: "sqp" };
        let request = gate().judge(&Message::open(Role::Publish, "secret", "cam", offer)).unwrap();
        assert_eq!((request.name.as_str(), request.offer()), ("cam", offer));
        assert_eq!(refusal(&Message::open(Role::Publish, "Secret", "", offer)), Refusal::Token);
        assert_eq!(refusal(&Message::open(Role::Watch, "", "", offer)), Refusal::Token);
        assert_eq!(refusal(&Message::open(Role::Watch, "secret", "", offer)), Refusal::Role);
        assert_eq!(refusal(&Message::Reload), Refusal::Malformed);
        let older = Message::Open { version: 0, role: Role::Publish, token: "secret", name: "", offer };
        assert_eq!(refusal(&older), Refusal::Version);
    }

    #[test]
    fn a_stream_that_ends_opens_nothing() {
        let mut messages = Messages::new(&b"\0"[..]);
        let refused = block_on(gate().greet(&mut messages, Duration::from_secs(5))).unwrap_err();
        assert_eq!(refused.0, Refusal::Malformed);
    }

    #[test]
    fn silence_opens_nothing_either() {
        let (ours, _theirs) = tokio::io::duplex(64);
        let mut messages = Messages::new(ours);
        let refused = block_on(gate().greet(&mut messages, Duration::from_millis(20))).unwrap_err();
        assert_eq!(refused.0, Refusal::Late);
    }
}
