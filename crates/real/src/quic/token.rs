//! The secret that whoever may publish or watch knows.

use std::fmt;
use std::str::FromStr;

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

/// A bearer token. It is printed only on purpose, by [`secret`](Token::secret).
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Bytes of a token made here: as strong as the TLS around it.
const RANDOM: usize = 16;

impl Token {
    /// A new one that nobody can guess: 32 hexadecimal digits.
    ///
    /// # Panics
    /// If the system has no randomness to give.
    pub fn generate() -> Token {
        let mut bytes = [0; RANDOM];
        SystemRandom::new().fill(&mut bytes).expect("the system has a source of randomness");
        Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Whether `shown` is this token. How long the answer takes says nothing about where they differ, nor how
    /// long either is.
    pub fn admits(&self, shown: &str) -> bool {
        let [ours, theirs] = [&self.0[..], shown].map(|text| digest(&SHA256, text.as_bytes()));
        ours.as_ref().ct_eq(theirs.as_ref()).into()
    }

    /// The token itself, to be sent or shown to its owner.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl FromStr for Token {
    type Err = String;

    /// Takes any text that fits the wire.
    fn from_str(text: &str) -> Result<Token, String> {
        match text.len() {
            1..=255 => Ok(Token(text.to_owned())),
            0 => Err("a token is not empty".to_owned()),
            length => Err(format!("a token of {length} bytes is too long: 255 at most")),
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_admits_itself_alone() {
        let token = Token::generate();
        assert_eq!(token.secret().len(), 2 * RANDOM);
        assert!(token.admits(token.secret()));
        assert!(
            !token.admits("")
                && !token.admits(&token.secret()[1..])
                && !token.admits(Token::generate().secret())
        );
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    #[test]
    fn tokens_fit_the_wire() {
        assert!("".parse::<Token>().is_err() && "x".repeat(256).parse::<Token>().is_err());
        assert!("x".repeat(255).parse::<Token>().is_ok());
    }
}
