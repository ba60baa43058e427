//! Which client ids a client may choose: `%u`, `%u-*`, `sensor-*`.
//!
//! Promise: an id that has the user's name in it is only for who has shown that it is this user. So a session under it
//! is nobody else's, and nobody can take the id away from that user by coming first.

use std::fmt;
use std::str::FromStr;

/// The user name's place.
const USER: &str = "%u";

/// Client ids that are one text, or begin with one, in which `%u` stands for the user name.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientIdPattern {
    text: Box<str>,
    is_beginning: bool,
}

/// A text that is no such pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no pattern of client ids: write an id, or its beginning and a *, with %u for the user name, as \"%u-*\""
)]
pub struct ClientIdPatternError(String);

impl FromStr for ClientIdPattern {
    type Err = ClientIdPatternError;

    fn from_str(text: &str) -> Result<ClientIdPattern, ClientIdPatternError> {
        let (beginning, is_beginning) = text.strip_suffix('*').map_or((text, false), |beginning| (beginning, true));
        let is_one = !text.is_empty() && !beginning.contains(['*', '\0']) && !beginning.replace(USER, "").contains('%');
        match is_one {
            true => Ok(ClientIdPattern { text: beginning.into(), is_beginning }),
            false => Err(ClientIdPatternError(text.to_owned())),
        }
    }
}

impl ClientIdPattern {
    /// Whether a client of this user may choose this id. Who has no user fits no pattern with a user's name.
    pub fn allows(&self, user: Option<&str>, client_id: &str) -> bool {
        let mut rest = client_id;
        for (nth, part) in self.text.split(USER).enumerate() {
            if nth > 0 {
                let Some(behind) = user.filter(|name| !name.is_empty()).and_then(|name| rest.strip_prefix(name)) else {
                    return false;
                };
                rest = behind;
            }
            let Some(behind) = rest.strip_prefix(part) else { return false };
            rest = behind;
        }
        self.is_beginning || rest.is_empty()
    }
}

impl fmt::Display for ClientIdPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, if self.is_beginning { "*" } else { "" })
    }
}

impl fmt::Debug for ClientIdPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_an_id_is_its_users() {
        for (pattern, user, client_id, allowed) in [
            ("%u-*", Some("anna"), "anna-phone", true),
            ("%u-*", Some("anna"), "anna-", true),
            ("%u-*", Some("anna"), "anna", false),
            ("%u-*", Some("anna"), "annabel-phone", false),
            ("%u-*", Some("bert"), "anna-phone", false),
            ("%u-*", None, "anna-phone", false),
            ("%u-*", Some(""), "-phone", false),
            ("%u", Some("anna"), "anna", true),
            ("%u", Some("anna"), "anna2", false),
            ("tv/%u/%u", Some("a"), "tv/a/a", true),
            ("tv/%u/%u", Some("a"), "tv/a/b", false),
            ("sensor-*", None, "sensor-7", true),
            ("sensor-*", Some("anna"), "sensors", false),
            ("*", None, "anything", true),
        ] {
            let pattern: ClientIdPattern = pattern.parse().unwrap();
            assert_eq!(pattern.allows(user, client_id), allowed, "{pattern} {user:?} {client_id}");
        }
        for text in ["", "a*b", "**", "%c-*", "%", "a\0*"] {
            assert!(text.parse::<ClientIdPattern>().is_err(), "{text}");
        }
    }
}
