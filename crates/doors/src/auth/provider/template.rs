//! The id of a wallet, made of what a token claims: `wallet:{sub}`.
//!
//! Promise: no two users who differ in a claim get the same wallet by one template, and no claim makes an id of another
//! template. What is put in has no `:`, which separates the parts of ids, nor anything that means more than itself in
//! an id, a pattern, a topic or a filter.

use std::fmt;
use std::str::FromStr;

use tidegate_machines::ledger::{is_account_id, is_printable};

/// Longest part that a claim may put into an id, in bytes.
const PART_BYTES_MAX: usize = 64;
/// Between parts of ids.
const SEPARATOR: char = ':';

/// A text with claims in it, as the configuration writes it: `wallet:{sub}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Claim(Box<str>),
}

/// A template that cannot be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?}: expected an account id in which {{CLAIM}} stands for a claim of the token, such as \"wallet:{{sub}}\"; a \
     part between two colons is a text or a claim, not both"
)]
pub struct TemplateError(pub String);

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Template, TemplateError> {
        let wrong = || TemplateError(text.to_owned());
        let part = |part: &str| match part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(claim) if !claim.is_empty() && !claim.contains(['{', '}']) => Some(Part::Claim(claim.into())),
            None if !part.contains(['{', '}']) => Some(Part::Text(part.into())),
            _ => None,
        };
        // The name of a claim may have colons, as that of Auth0's have.
        let parts = split(text).ok_or_else(wrong)?.into_iter().map(part).collect::<Option<Vec<_>>>();
        let template = Template { parts: parts.ok_or_else(wrong)? };
        let is_of_user = template.parts.iter().any(|part| matches!(part, Part::Claim(_)));
        let is_id = template.fill(|_| Some("x".into())).is_some_and(|id| is_account_id(&id));
        if is_of_user && is_id { Ok(template) } else { Err(wrong()) }
    }
}

impl Template {
    /// The claims that it needs.
    pub fn claims(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Claim(claim) => Some(&**claim),
            Part::Text(_) => None,
        })
    }

    /// The id with what `claim` says in the place of each claim; `None` if it says nothing of one.
    pub fn fill(&self, claim: impl Fn(&str) -> Option<Box<str>>) -> Option<Box<str>> {
        let filled = self.parts.iter().map(|part| match part {
            Part::Text(text) => Some(text.clone()),
            Part::Claim(name) => claim(name),
        });
        Some(filled.collect::<Option<Vec<_>>>()?.join(&SEPARATOR.to_string()).into())
    }

    /// Whether some user may get the wallet `id`.
    pub fn may_make(&self, id: &str) -> bool {
        let parts: Vec<&str> = id.split(SEPARATOR).collect();
        let fits = |(part, text): (&Part, &&str)| match part {
            Part::Text(own) => **own == **text,
            Part::Claim(_) => is_part(text),
        };
        parts.len() == self.parts.len() && self.parts.iter().zip(&parts).all(fits)
    }

    /// Whether some wallet may be of both.
    pub fn overlaps(&self, other: &Template) -> bool {
        let fits = |(one, two): (&Part, &Part)| match (one, two) {
            (Part::Text(one), Part::Text(two)) => one == two,
            (Part::Text(text), Part::Claim(_)) | (Part::Claim(_), Part::Text(text)) => is_part(text),
            (Part::Claim(_), Part::Claim(_)) => true,
        };
        self.parts.len() == other.parts.len() && self.parts.iter().zip(&other.parts).all(fits)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, part) in self.parts.iter().enumerate() {
            let colon = if place == 0 { "" } else { ":" };
            match part {
                Part::Text(text) => write!(f, "{colon}{text}")?,
                Part::Claim(claim) => write!(f, "{colon}{{{claim}}}")?,
            }
        }
        Ok(())
    }
}

/// The parts between colons, but for colons in braces; `None` if a brace is not closed.
fn split(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut from, mut is_claim) = (Vec::new(), 0, false);
    for (at, character) in text.char_indices() {
        match character {
            '{' if is_claim => return None,
            '{' => is_claim = true,
            '}' => is_claim = false,
            SEPARATOR if !is_claim => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    (!is_claim).then_some(parts)
}

/// Whether `text` can be a part of an account id that a claim has put there.
pub(in crate::auth) fn is_part(text: &str) -> bool {
    is_name_part(text) && !text.contains(SEPARATOR)
}

/// Whether `text` can stand in the name of a user: the same, and colons.
pub(in crate::auth) fn is_name_part(text: &str) -> bool {
    let means_more = ['/', '*', '+', '#', '$', '%', '{', '}', '?', '\\', '"', '\''];
    (1..=PART_BYTES_MAX).contains(&text.len()) && is_printable(text) && !text.contains(means_more)
}
