//! A topic filter with places for the client's names: `devices/%c/#`, `chat/%u/inbox`.
//!
//! Promise: a name never widens a rule. A client chooses its id, so a client named `#` or `+/x` must not get more than
//! its own level. A name with `/`, `+`, `#` or `$` fits no permit. In a deny, the level of such a name becomes `+`, so
//! that the deny still holds.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use tidegate_wire::mqtt::check_filter;

/// The client id's place.
const CLIENT_ID: &str = "%c";
/// The user name's place.
const USER: &str = "%u";

/// A topic filter in which `%c` stands for the client id and `%u` for the user name.
#[derive(Clone, PartialEq, Eq)]
pub struct TopicPattern {
    text: Box<str>,
    has_places: bool,
}

/// Why a text is not a topic pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a topic filter: {reason}")]
pub struct TopicPatternError {
    text: String,
    reason: &'static str,
}

/// What a client is called.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Its client id.
    pub client_id: &'a str,
    /// Its user name, if it has shown that it is this user.
    pub user: Option<&'a str>,
}

impl FromStr for TopicPattern {
    type Err = TopicPatternError;

    fn from_str(text: &str) -> Result<TopicPattern, TopicPatternError> {
        let error = |reason| TopicPatternError { text: text.to_owned(), reason };
        let filled = text.replace(CLIENT_ID, "c").replace(USER, "u");
        match check_filter(&filled) {
            Err(malformed) => Err(error(malformed.what)),
            Ok(filter) if filter.share_group.is_some() => {
                Err(error("write the filter alone; a rule holds for shared subscriptions as well"))
            }
            Ok(_) => Ok(TopicPattern { text: text.into(), has_places: filled != text }),
        }
    }
}

impl TopicPattern {
    /// The filter for a client of these names: what a permit may use. `None` if a name is missing or does not fit into
    /// a level.
    pub fn narrow(&self, names: Names<'_>) -> Option<Cow<'_, str>> {
        if !self.has_places {
            return Some(Cow::Borrowed(&self.text));
        }
        let mut filter = String::with_capacity(self.text.len() + names.client_id.len());
        for (number, level) in self.text.split('/').enumerate() {
            if number > 0 {
                filter.push('/');
            }
            fill(level, names, &mut filter)?;
        }
        Some(Cow::Owned(filter))
    }

    /// The filter for all clients of a user: a level with a client id becomes `+`. `None` if the user's name is missing
    /// or does not fit into a level.
    pub fn of_any_client(&self, user: Option<&str>) -> Option<Cow<'_, str>> {
        if !self.has_places {
            return Some(Cow::Borrowed(&self.text));
        }
        let level = |level: &str| {
            let mut filled = String::new();
            match level.contains(CLIENT_ID) {
                true => filled.push('+'),
                false => fill(level, Names { client_id: "", user }, &mut filled)?,
            }
            Some(filled)
        };
        let levels: Option<Vec<String>> = self.text.split('/').map(level).collect();
        Some(Cow::Owned(levels?.join("/")))
    }

    /// A `%` with a letter behind it that stands for no name, so that it is itself: perhaps a slip.
    pub fn unknown_place(&self) -> Option<&str> {
        self.text.match_indices('%').find_map(|(at, _)| {
            let place = self.text.get(at..at + 2)?;
            let is_letter = place.as_bytes()[1].is_ascii_alphabetic();
            (is_letter && place != CLIENT_ID && place != USER).then_some(place)
        })
    }

    /// Whether it depends on the client id.
    pub fn names_client(&self) -> bool {
        self.text.contains(CLIENT_ID)
    }

    /// The filter for a client of these names: what a deny must use. A level whose name does not fit becomes `+`.
    pub fn wide(&self, names: Names<'_>) -> Cow<'_, str> {
        if !self.has_places {
            return Cow::Borrowed(&self.text);
        }
        let level = |level| {
            let mut filled = String::new();
            fill(level, names, &mut filled).map_or_else(|| "+".to_owned(), |()| filled)
        };
        Cow::Owned(self.text.split('/').map(level).collect::<Vec<_>>().join("/"))
    }
}

/// Adds `level` with its names filled in. What a name contains is not looked at for further places.
fn fill(level: &str, names: Names<'_>, filter: &mut String) -> Option<()> {
    let mut rest = level;
    while let Some(at) = rest.find('%') {
        let (before, place) = rest.split_at(at);
        filter.push_str(before);
        let (name, length) = match place {
            _ if place.starts_with(CLIENT_ID) => (Some(names.client_id), CLIENT_ID.len()),
            _ if place.starts_with(USER) => (names.user, USER.len()),
            _ => (Some("%"), 1),
        };
        filter.push_str(name.filter(|name| !name.is_empty() && !name.contains(['/', '+', '#', '$', '\0']))?);
        rest = &place[length..];
    }
    filter.push_str(rest);
    Some(())
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}
