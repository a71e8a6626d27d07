//! Reads quantities from TOML strings (`"20ms"`, `"20mbit"`, `"1200B"`) and says what it would have accepted.
//!
//! Numbers without a unit are refused: nobody should have to guess whether 20 means milliseconds or seconds.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use netsim::{Loss, QueueSpec};
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Unexpected, Visitor};
use units::{Bytes, ParseQuantityError, Span};

/// A quantity written as text.
pub(super) struct Text<T>(pub T);

impl<'de, T: FromStr<Err = ParseQuantityError>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text<T>, D::Error> {
        deserializer.deserialize_any(TextVisitor(PhantomData)).map(Text)
    }
}

struct TextVisitor<T>(PhantomData<T>);

impl<T: FromStr<Err = ParseQuantityError>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No quantity reads from an empty text, and the refusal knows what would have been accepted.
        f.write_str("".parse::<T>().err().map_or("a quantity", |refusal| refusal.expected))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// A field that holds a quantity.
pub(super) fn quantity<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err = ParseQuantityError>,
    D: Deserializer<'de>,
{
    Text::deserialize(deserializer).map(|text| text.0)
}

/// A field that may be left out.
pub(super) fn optional<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err = ParseQuantityError>,
    D: Deserializer<'de>,
{
    quantity(deserializer).map(Some)
}

/// A list of pairs, `[["0s", "20mbit"], ["40s", "5mbit"]]`.
pub(super) fn pairs<'de, A, B, D>(deserializer: D) -> Result<Vec<(A, B)>, D::Error>
where
    A: FromStr<Err = ParseQuantityError>,
    B: FromStr<Err = ParseQuantityError>,
    D: Deserializer<'de>,
{
    let list = Vec::<(Text<A>, Text<B>)>::deserialize(deserializer)?;
    Ok(list.into_iter().map(|(a, b)| (a.0, b.0)).collect())
}

/// A list of pairs that may be left out.
pub(super) fn some_pairs<'de, A, B, D>(deserializer: D) -> Result<Option<Vec<(A, B)>>, D::Error>
where
    A: FromStr<Err = ParseQuantityError>,
    B: FromStr<Err = ParseQuantityError>,
    D: Deserializer<'de>,
{
    pairs(deserializer).map(Some)
}

/// A list of triples, `[["17s", "19s", "2mbit"]]`.
pub(super) fn triples<'de, A, B, C, D>(deserializer: D) -> Result<Vec<(A, B, C)>, D::Error>
where
    A: FromStr<Err = ParseQuantityError>,
    B: FromStr<Err = ParseQuantityError>,
    C: FromStr<Err = ParseQuantityError>,
    D: Deserializer<'de>,
{
    let list = Vec::<(Text<A>, Text<B>, Text<C>)>::deserialize(deserializer)?;
    Ok(list.into_iter().map(|(a, b, c)| (a.0, b.0, c.0)).collect())
}

/// A share of one: a number from 0 to 1, or text such as `"2%"`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share(pub f64);

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Share, D::Error> {
        deserializer.deserialize_any(ShareVisitor)
    }
}

struct ShareVisitor;

impl Visitor<'_> for ShareVisitor {
    type Value = Share;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a share such as 0.02 or \"2%\", from 0 to 1")
    }

    fn visit_f64<E: Error>(self, share: f64) -> Result<Share, E> {
        let valid = (0.0..=1.0).contains(&share);
        if valid { Ok(Share(share)) } else { Err(E::invalid_value(Unexpected::Float(share), &self)) }
    }

    fn visit_i64<E: Error>(self, share: i64) -> Result<Share, E> {
        self.visit_f64(share as f64)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Share, E> {
        let refuse = |visitor| E::invalid_value(Unexpected::Str(text), &visitor);
        match text.trim().strip_suffix('%').map(|number| number.trim().parse::<f64>()) {
            Some(Ok(percent)) if (0.0..=100.0).contains(&percent) => Ok(Share(percent / 100.0)),
            _ => Err(refuse(self)),
        }
    }
}

/// A queue, as the queue registry spells it.
pub(super) fn queue<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<QueueSpec>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

/// Random loss: a share (every packet for itself), or text as the simulator reads it
/// (`"ge:loss=3%,burst=4"`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RandomLoss(pub Loss);

impl<'de> Deserialize<'de> for RandomLoss {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RandomLoss, D::Error> {
        deserializer.deserialize_any(LossVisitor).map(RandomLoss)
    }
}

struct LossVisitor;

impl Visitor<'_> for LossVisitor {
    type Value = Loss;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a loss such as 0.02, \"2%\" or \"ge:loss=3%,burst=4\"")
    }

    fn visit_f64<E: Error>(self, share: f64) -> Result<Loss, E> {
        let valid = (0.0..=1.0).contains(&share);
        if valid { Ok(bernoulli(share)) } else { Err(E::invalid_value(Unexpected::Float(share), &self)) }
    }

    fn visit_i64<E: Error>(self, share: i64) -> Result<Loss, E> {
        self.visit_f64(share as f64)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Loss, E> {
        match ShareVisitor.visit_str::<E>(text) {
            Ok(share) => Ok(bernoulli(share.0)),
            Err(_) => text.parse().map_err(E::custom),
        }
    }
}

fn bernoulli(share: f64) -> Loss {
    if share > 0.0 { Loss::Bernoulli(share) } else { Loss::None }
}

/// The largest IP packet a link carries, from given times on; empty for any size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PacketLimit(pub Vec<(Span, Bytes)>);

impl<'de> Deserialize<'de> for PacketLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PacketLimit, D::Error> {
        deserializer.deserialize_any(LimitVisitor).map(PacketLimit)
    }
}

struct LimitVisitor;

impl<'de> Visitor<'de> for LimitVisitor {
    type Value = Vec<(Span, Bytes)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as 1500B, or sizes from given times on such as [[\"0s\", \"1500B\"], [\"9s\", \"1280B\"]]")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<(Span, Bytes)>, E> {
        Ok(vec![(Span::ZERO, text.parse().map_err(E::custom)?)])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<(Span, Bytes)>, A::Error> {
        let mut steps = Vec::new();
        while let Some((at, size)) = list.next_element::<(Text<Span>, Text<Bytes>)>()? {
            steps.push((at.0, size.0));
        }
        Ok(steps)
    }
}

/// Picture size in pixels, `"1280x720"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureSize {
    /// Columns, even.
    pub width: u32,
    /// Rows, even.
    pub height: u32,
}

impl PictureSize {
    /// The most that OpenH264 takes on a side.
    const LARGEST: u32 = 3840;
    /// The least.
    const SMALLEST: u32 = 16;
}

impl FromStr for PictureSize {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<PictureSize, ParseQuantityError> {
        let side = |text: &str| {
            let side = text.parse::<u32>().ok()?;
            let possible = (PictureSize::SMALLEST..=PictureSize::LARGEST).contains(&side);
            (possible && side % 2 == 0).then_some(side)
        };
        let size = text
            .split_once('x')
            .and_then(|(width, height)| Some(PictureSize { width: side(width)?, height: side(height)? }));
        size.ok_or_else(|| ParseQuantityError {
            found: text.to_owned(),
            expected: "a picture size such as 1280x720 (even sides from 16 to 3840)",
        })
    }
}

/// Anything that reads from text, and may be left out.
pub(super) fn some_parsed<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    String::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
}

/// A TCP stack's name, which may be left out.
pub(super) fn some_stack<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<super::Stack>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let Some(config) = bulk::Preset::find(&name) else {
        let known: Vec<_> = bulk::Preset::ALL.iter().map(|preset| preset.name).collect();
        return Err(D::Error::custom(format!("`{name}` is no TCP stack; {}", units::instead(&name, &known))));
    };
    Ok(Some(super::Stack { name, config }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_sizes() {
        assert_eq!("1280x720".parse(), Ok(PictureSize { width: 1280, height: 720 }));
        for bad in ["1280", "1281x720", "0x0", "1280x99999998", "-2x2", ""] {
            assert!(bad.parse::<PictureSize>().is_err(), "{bad}");
        }
    }
}
