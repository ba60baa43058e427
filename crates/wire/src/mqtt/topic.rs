//! The grammar of topic names and topic filters, and which match: the reference that tries and access lists are tested
//! against.
//!
//! ```text
//!   a/b/c        a name; also a filter that matches itself       $share/group/filter   one member gets each message
//!   a/+/c        + stands for one level                          $queue/filter         a group of its own
//!   a/#          # stands for this level and all below
//! ```

use crate::mqtt::Malformed;

/// The group of `$queue/` filters. No `$share/` filter can name it: share names have no wildcards.
pub const QUEUE_GROUP: &str = "+queue";

/// A topic filter, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter<'a> {
    /// The group of a shared subscription.
    pub share_group: Option<&'a str>,
    /// What topics must match.
    pub filter: &'a str,
}

/// `Ok` when a message can be published on `topic`. Levels may be empty; characters were checked when the text was
/// decoded, but U+0000 is refused here too, for topics that come from elsewhere. What is wrong is malformed, or, where
/// it is empty, a protocol error (MQTT 5, 3.3.2.1): 0x90 is for topics that are correct and not accepted.
/// `[MQTT-4.7.3-2]`: topics and filters contain no U+0000.
#[inline]
pub fn check_topic(topic: &str) -> Result<(), Malformed> {
    if topic.is_empty() {
        return Err(Malformed::protocol("MQTT-4.7.3-1", "an empty topic name"));
    }
    if topic.len() > usize::from(u16::MAX) {
        return Err(Malformed::packet("MQTT-4.7.3-3", "a topic name of more than 65,535 bytes"));
    }
    // No early exit: so the loop is a few wide instructions.
    let (wildcard, null) = topic.bytes().fold((false, false), |(wildcard, null), byte| {
        (wildcard | (byte == b'#') | (byte == b'+'), null | (byte == 0))
    });
    if wildcard {
        return Err(Malformed::packet("MQTT-3.3.2-2", "a topic name with a wildcard"));
    }
    if null {
        return Err(Malformed::packet("MQTT-4.7.3-2", "a topic name with U+0000"));
    }
    Ok(())
}

/// Takes a filter apart and checks it: where wildcards may stand, and the name of a share group. What is wrong is
/// malformed, or, where it is empty, a protocol error: 0x8F is for filters that are correct and not accepted.
pub fn check_filter(text: &str) -> Result<Filter<'_>, Malformed> {
    if text.len() > usize::from(u16::MAX) {
        return Err(Malformed::packet("MQTT-4.7.3-3", "a topic filter of more than 65,535 bytes"));
    }
    if let Some(shared) = text.strip_prefix("$share/") {
        let Some((group, _)) = shared.split_once('/') else {
            return Err(Malformed::packet("MQTT-4.8.2-2", "a shared subscription without a topic filter"));
        };
        if group.is_empty() {
            return Err(Malformed::packet("MQTT-4.8.2-1", "an empty share name"));
        }
        if group.contains(['+', '#']) {
            return Err(Malformed::packet("MQTT-4.8.2-2", "a share name with a wildcard"));
        }
    }
    let parts = split_filter(text);
    check_levels(parts.filter)?;
    Ok(parts)
}

/// Takes a filter apart that was [checked](check_filter) before, without looking at its levels again.
pub fn split_filter(text: &str) -> Filter<'_> {
    let shared = text.strip_prefix("$share/").and_then(|shared| shared.split_once('/'));
    if let Some((group, filter)) = shared {
        return Filter { share_group: Some(group), filter };
    }
    match text.strip_prefix("$queue/") {
        Some(filter) => Filter { share_group: Some(QUEUE_GROUP), filter },
        None => Filter { share_group: None, filter: text },
    }
}

fn check_levels(filter: &str) -> Result<(), Malformed> {
    if filter.is_empty() {
        return Err(Malformed::protocol("MQTT-4.7.3-1", "an empty topic filter"));
    }
    if filter.contains('\0') {
        return Err(Malformed::packet("MQTT-4.7.3-2", "a topic filter with U+0000"));
    }
    // One pass over the bytes: a filter of a hundred levels is looked at often, and most levels have no wildcard.
    let bytes = filter.as_bytes();
    for (at, byte) in bytes.iter().enumerate().filter(|(_, byte)| matches!(byte, b'+' | b'#')) {
        let begins = at == 0 || bytes[at - 1] == b'/';
        let next = bytes.get(at + 1);
        match byte {
            b'#' if !begins || next.is_some() => {
                return Err(Malformed::packet("MQTT-4.7.1-1", "# stands alone in the last level of a topic filter"));
            }
            b'+' if !begins || next.is_some_and(|next| *next != b'/') => {
                return Err(Malformed::packet("MQTT-4.7.1-2", "+ stands alone in its level of a topic filter"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a message on `topic` is for `filter` (without its share group). Compares bytes: no normalisation.
/// `[MQTT-4.7.3-4]`: topics are compared byte by byte, without normalisation.
pub fn filter_matches(filter: &str, topic: &str) -> bool {
    // Neither wildcard reaches topics of the server's own.
    // [MQTT-4.7.2-1]: a filter that begins with a wildcard matches no topic that begins with $.
    if topic.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let mut levels = topic.split('/');
    for pattern in filter.split('/') {
        if pattern == "#" {
            return true;
        }
        match levels.next() {
            Some(level) if pattern == "+" || pattern == level => {}
            _ => return false,
        }
    }
    levels.next().is_none()
}

/// Whether every topic that `filter` matches is one that `pattern` matches: what an access list asks about a
/// subscription.
pub fn filter_covers(pattern: &str, filter: &str) -> bool {
    // A wildcard in front matches no topic that begins with $, on either side.
    // [MQTT-4.7.2-1]: a filter that begins with a wildcard matches no topic that begins with $.
    if filter.starts_with('$') && pattern.starts_with(['+', '#']) {
        return false;
    }
    // The only two patterns that are written differently and match the same.
    let pattern = if pattern == "+/#" { "#" } else { pattern };
    let mut levels = filter.split('/');
    for allowed in pattern.split('/') {
        if allowed == "#" {
            return true;
        }
        match levels.next() {
            Some("#") | None => return false,
            Some(level) if allowed == "+" || allowed == level => {}
            Some(_) => return false,
        }
    }
    levels.next().is_none()
}

#[cfg(test)]
mod tests;
