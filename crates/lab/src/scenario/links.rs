//! The links that flows share: one `[link]`, or several `[[link]]`, each with a name for paths to name.
//!
//! ```text
//! [[flow]] path = ["ab", "cd"] ----> [[link]] ab ----> [[link]] cd ----> receiver         a parking lot:
//! [[flow]] path = ["ab"] ----------> [[link]] ab ----> receiver                           the first flow meets
//! [[flow]] path = ["cd"] ----------------------------> [[link]] cd ----> receiver         one other at each link
//! ```

use std::fmt;
use std::ops::Deref;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use units::Span;

use super::{Link, Scenario, ScenarioError};

/// The links of a scenario, in the file's order; at least one.
///
/// Most scenarios have one, and most of what reads a scenario is about one: this is the first link wherever a
/// [`Link`] is expected. What can't be said of several refuses them ([`Scenario::require_one_link`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    all: Vec<Link>,
    /// Whether they were written as a list.
    listed: bool,
}

impl Deref for Links {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.all[0]
    }
}

impl Links {
    /// All of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Link> {
        self.all.iter()
    }

    /// Whether there are more than one.
    pub fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// What each is called, where there are several; nothing of a single link.
    pub fn names(&self) -> Vec<String> {
        if self.are_several() { self.iter().map(|link| link.name.clone()).collect() } else { Vec::new() }
    }

    /// Where the file has link number `index` (from 0): `link`, or `link[2]`.
    pub fn field(&self, index: usize) -> String {
        if self.listed { format!("link[{}]", index + 1) } else { "link".to_owned() }
    }

    /// The numbers (from 0) of the links that a `path` names; of all, in order, where there is none.
    ///
    /// # Panics
    /// If it names a link that there is not, which a checked scenario does not.
    pub fn on(&self, path: Option<&[String]>) -> Vec<usize> {
        let find = |name: &String| self.iter().position(|link| link.name == *name);
        match path {
            None => (0..self.all.len()).collect(),
            Some(names) => names.iter().map(|name| find(name).expect("paths were checked")).collect(),
        }
    }
}

impl<'de> Deserialize<'de> for Links {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Links, D::Error> {
        deserializer.deserialize_any(LinksVisitor)
    }
}

struct LinksVisitor;

impl<'de> Visitor<'de> for LinksVisitor {
    type Value = Links;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table [link], or several tables [[link]]")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Links, A::Error> {
        let link = Link::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Links { all: vec![link], listed: false })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Links, A::Error> {
        let all = Vec::<Link>::deserialize(SeqAccessDeserializer::new(seq))?;
        if all.is_empty() {
            return Err(A::Error::custom("an empty list; a scenario needs a [link], or several [[link]]"));
        }
        Ok(Links { all, listed: true })
    }
}

impl Scenario {
    /// The links that flow number `index` passes, by their numbers from 0 on.
    pub fn path_of(&self, index: usize) -> Vec<usize> {
        self.link.on(self.flows[index].path.as_deref())
    }

    /// Propagation delay of the links that flow number `index` passes.
    pub fn delay_ahead(&self, index: usize) -> Span {
        let delays = self.path_of(index).into_iter().filter_map(|link| self.link.all[link].delay);
        delays.fold(Span::ZERO, |sum, delay| sum + delay)
    }

    /// Propagation delay of its way back: what `[feedback]` says, or as much as ahead.
    pub fn delay_back(&self, index: usize) -> Span {
        let said = self.feedback.as_ref().and_then(|feedback| feedback.delay);
        said.unwrap_or_else(|| self.delay_ahead(index))
    }

    /// Refuses a scenario of several links for `what`, such as "a search", which can only be about one.
    ///
    /// # Errors
    /// [`ScenarioError`] that says what to do.
    pub fn require_one_link(&self, what: &str) -> Result<(), ScenarioError> {
        let count = self.link.all.len();
        let trouble = format!(
            "{what} knows a single bottleneck, and there are {count} links: leave one, and no `path`"
        );
        if count > 1 { Err(self.error(self.link.field(1), trouble)) } else { Ok(()) }
    }
}
