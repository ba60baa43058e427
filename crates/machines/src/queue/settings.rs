//! What an operator says of one queue.

use super::key::NUMBER_END;
use super::limits::{
    AHEAD_MS_MAX, LEASE_MS_MAX, NOTES_BYTES_MAX, OWNER_BYTES_MAX, QUEUE_NAME_CHARS_MAX, WINDOW_BYTES_MAX,
};
use super::message_table::NEVER;
use super::state::later;
use crate::TimeMs;
use crate::encoding::{Parsed, Reader, put_bytes, put_text, put_varint, require};

/// The settings of a queue. All times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a lease lasts if its receiver does not say.
    pub lease_ms: u64,
    /// How long a message waits before its first delivery if its sender does not say.
    pub delay_ms: u64,
    /// After how long a message is dropped that nobody acknowledged; `None` for never.
    pub expiry_ms: Option<u64>,
    /// Deliveries after which a message goes to the dead letter queue; `None` for as many as it takes.
    pub attempts_max: Option<u16>,
    /// Where messages go that were delivered too often, or rejected as dead: the name of another queue.
    pub dead_letter: Option<Box<str>>,
    /// How long a rejected message waits after its first delivery; twice as long after each further one...
    pub retry_ms: u64,
    /// ... and so long at most.
    pub retry_max_ms: u64,
    /// How long the ids of messages are remembered; `None` for ever, 0 for not at all.
    pub id_window_ms: Option<u64>,
    /// Whether that of a message which is scheduled when it is sent begins when it is due then: until that, it is found
    /// by its id, and taken once. Each takes memory until then. Nothing that happens to it later changes that.
    pub ids_until_due: bool,
    /// Messages a second that are handed out; `None` for as many as are asked for.
    pub rate_per_s: Option<u32>,
    /// Messages that may be handed out at once under that rate.
    pub burst: u32,
    /// Messages are taken and none is handed out.
    pub is_paused: bool,
    /// Messages that may wait at once; `None` for as many as the server's own bound allows.
    pub messages_max: Option<u64>,
    /// How long it is remembered at most what became of a message that is gone.
    pub trail_ms: u64,
    /// When messages are handed out, as `"mon-fri 08:00-20:00 Europe/Berlin"`; `None` for always. A text here: what it
    /// says of a moment changes with the rules of time zones, so no decision of the state rests on it.
    pub delivery_window: Option<Box<str>>,
    /// Messages a second that one consumer is handed out; `None` for as many as it asks for. Not counted in the state.
    pub consumer_rate_per_s: Option<u32>,
    /// Messages that one consumer may be handed out at once under that rate.
    pub consumer_burst: u32,
    /// What the doors know of the queue beside: bytes whose form is theirs.
    pub notes: Box<[u8]>,
    /// Who made it, and whose share of the shard's bounds it takes; `None` if the configuration did. No setting that is
    /// changed: whoever gives a queue other settings gives those of its owner with them.
    pub owner: Option<Box<str>>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            lease_ms: 30_000,
            delay_ms: 0,
            expiry_ms: None,
            attempts_max: None,
            dead_letter: None,
            retry_ms: 0,
            retry_max_ms: 3_600_000,
            id_window_ms: Some(300_000),
            ids_until_due: false,
            rate_per_s: None,
            burst: 1,
            is_paused: false,
            messages_max: None,
            trail_ms: 3_600_000,
            delivery_window: None,
            consumer_rate_per_s: None,
            consumer_burst: 1,
            notes: Box::default(),
            owner: None,
        }
    }
}

/// A setting that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} {what}")]
pub struct BadSetting {
    /// Which.
    pub setting: &'static str,
    what: &'static str,
}

impl Settings {
    /// Whether a queue called `name` may have them.
    pub fn check(&self, name: &str) -> Result<(), BadSetting> {
        let rule = |holds: bool, setting, what| if holds { Ok(()) } else { Err(BadSetting { setting, what }) };
        rule((1..=LEASE_MS_MAX).contains(&self.lease_ms), "lease_ms", "is 1 to 43200000, twelve hours")?;
        rule(self.delay_ms <= AHEAD_MS_MAX, "delay_ms", "is at most a hundred years")?;
        rule(self.expiry_ms.is_none_or(|ms| (1..=AHEAD_MS_MAX).contains(&ms)), "expiry_ms", "is 1 to a hundred years")?;
        rule(self.attempts_max != Some(0), "attempts_max", "is 1 to 65535")?;
        rule(
            self.attempts_max.is_none() || self.dead_letter.is_some(),
            "attempts_max",
            "needs dead_letter, the queue where such messages go",
        )?;
        rule(
            self.dead_letter.as_deref().is_none_or(|target| is_queue_name(target) && target != name),
            "dead_letter",
            "is the name of another queue",
        )?;
        rule(self.retry_ms <= self.retry_max_ms, "retry_ms", "is at most retry_max_ms")?;
        rule(self.retry_max_ms <= AHEAD_MS_MAX, "retry_max_ms", "is at most a hundred years")?;
        rule(self.id_window_ms.is_none_or(|ms| ms <= AHEAD_MS_MAX), "id_window_ms", "is at most a hundred years")?;
        rule(
            !self.ids_until_due || self.id_window_ms != Some(0),
            "ids_until_due",
            "needs an id_window_ms above 0: with 0, no id is remembered",
        )?;
        rule(self.rate_per_s.is_none_or(|rate| (1..=1_000_000).contains(&rate)), "rate_per_s", "is 1 to 1000000")?;
        rule((1..=1_000_000).contains(&self.burst), "burst", "is 1 to 1000000")?;
        rule(self.messages_max.is_none_or(|count| count < NUMBER_END), "messages_max", "is below 2^40")?;
        rule(self.trail_ms <= AHEAD_MS_MAX, "trail_ms", "is at most a hundred years")?;
        rule(
            self.delivery_window.as_deref().is_none_or(|text| (1..=WINDOW_BYTES_MAX).contains(&text.len())),
            "delivery_window",
            "has 1 to 128 bytes",
        )?;
        rule(
            self.consumer_rate_per_s.is_none_or(|rate| (1..=1_000_000).contains(&rate)),
            "consumer_rate_per_s",
            "is 1 to 1000000",
        )?;
        rule((1..=1_000_000).contains(&self.consumer_burst), "consumer_burst", "is 1 to 1000000")?;
        rule(is_owner(self.owner.as_deref()), "owner", "has 1 to 256 bytes")?;
        rule(self.notes.len() <= NOTES_BYTES_MAX, "notes", "has at most 16384 bytes")
    }

    /// Until when the id is remembered of a message that is sent at a time and is due at another one; `None` for not at
    /// all.
    pub(super) fn id_until(&self, at: TimeMs, due: TimeMs) -> Option<TimeMs> {
        let from = if self.ids_until_due { at.max(due) } else { at };
        match self.id_window_ms {
            Some(0) => None,
            Some(ms) => Some(later(from, ms)),
            None => Some(NEVER),
        }
    }

    /// How long a message waits that was rejected after so many deliveries.
    pub(super) fn retry_after(&self, attempts: u16) -> u64 {
        let doublings = u32::from(attempts.saturating_sub(1)).min(40);
        self.retry_ms.saturating_mul(1 << doublings).min(self.retry_max_ms)
    }

    /// All of them but the owner, which stands where it can be left out.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.lease_ms);
        put_varint(out, self.delay_ms);
        put_option(out, self.expiry_ms);
        put_option(out, self.attempts_max.map(u64::from));
        put_text(out, self.dead_letter.as_deref().unwrap_or(""));
        put_varint(out, self.retry_ms);
        put_varint(out, self.retry_max_ms);
        put_option(out, self.id_window_ms);
        put_option(out, self.rate_per_s.map(u64::from));
        put_varint(out, u64::from(self.burst));
        out.push(u8::from(self.is_paused) | u8::from(self.ids_until_due) << 1);
        put_option(out, self.messages_max);
        put_varint(out, self.trail_ms);
        put_text(out, self.delivery_window.as_deref().unwrap_or(""));
        put_option(out, self.consumer_rate_per_s.map(u64::from));
        put_varint(out, u64::from(self.consumer_burst));
        put_bytes(out, &self.notes);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Parsed<Settings> {
        let small = |value: Option<u64>| match value {
            Some(value) => u16::try_from(value).map(Some).map_err(|_| too_large()),
            None => Ok(None),
        };
        let mut settings = Settings {
            lease_ms: reader.varint("lease_ms")?,
            delay_ms: reader.varint("delay_ms")?,
            expiry_ms: option(reader, "expiry_ms")?,
            attempts_max: small(option(reader, "attempts_max")?)?,
            dead_letter: Some(reader.text(0, QUEUE_NAME_CHARS_MAX, "dead_letter")?)
                .filter(|name| !name.is_empty())
                .map(Into::into),
            retry_ms: reader.varint("retry_ms")?,
            retry_max_ms: reader.varint("retry_max_ms")?,
            id_window_ms: option(reader, "id_window_ms")?,
            rate_per_s: rate(reader, "rate_per_s")?,
            burst: reader.u32("burst")?,
            ..Settings::default()
        };
        let flags = reader.byte("flags of a queue")?;
        require(flags <= 3, "flags of a queue")?;
        (settings.is_paused, settings.ids_until_due) = (flags & 1 != 0, flags & 2 != 0);
        Ok(Settings {
            messages_max: option(reader, "messages_max")?,
            trail_ms: reader.varint("trail_ms")?,
            delivery_window: Some(reader.text(0, WINDOW_BYTES_MAX, "delivery_window")?)
                .filter(|window| !window.is_empty())
                .map(Into::into),
            consumer_rate_per_s: rate(reader, "consumer_rate_per_s")?,
            consumer_burst: reader.u32("consumer_burst")?,
            notes: reader.bytes("notes")?.into(),
            owner: None,
            ..settings
        })
    }
}

const fn too_large() -> crate::encoding::Malformed {
    crate::encoding::Malformed { what: "a setting" }
}

/// A rate that may be absent.
fn rate(reader: &mut Reader<'_>, what: &'static str) -> Parsed<Option<u32>> {
    option(reader, what)?.map(|rate| u32::try_from(rate).map_err(|_| too_large())).transpose()
}

/// A number that may be absent: one more than it is, or zero.
pub(super) fn put_option(out: &mut Vec<u8>, value: Option<u64>) {
    put_varint(out, value.map_or(0, |value| value.checked_add(1).expect("bounds are smaller")));
}

/// Reads what [`put_option`] wrote.
pub(super) fn option(reader: &mut Reader<'_>, what: &'static str) -> Parsed<Option<u64>> {
    Ok(reader.varint(what)?.checked_sub(1))
}

/// Whether something may be owned so.
pub(super) fn is_owner(owner: Option<&str>) -> bool {
    owner.is_none_or(|owner| (1..=OWNER_BYTES_MAX).contains(&owner.len()))
}

/// Reads an owner's name; an empty one is none.
pub(super) fn read_owner(reader: &mut Reader<'_>) -> Parsed<Option<Box<str>>> {
    Ok(Some(reader.text(0, OWNER_BYTES_MAX, "an owner")?).filter(|owner| !owner.is_empty()).map(Into::into))
}

/// Reads yes or no.
pub(super) fn flag(reader: &mut Reader<'_>, what: &'static str) -> Parsed<bool> {
    let byte = reader.byte(what)?;
    require(byte <= 1, what)?;
    Ok(byte == 1)
}

/// Whether a queue may be called so: 1 to 80 letters and digits of ASCII, `-`, `_`, `.`, `:`, `{` and `}`,
/// not all of them `.`: a path of that name would lead elsewhere.
pub fn is_queue_name(name: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:{}".contains(&byte);
    (1..=QUEUE_NAME_CHARS_MAX).contains(&name.len())
        && name.bytes().all(letters)
        && name.bytes().any(|byte| byte != b'.')
}

/// The beginning of a text that is longer than the bound that it meets: as many whole characters as fit.
pub fn shortened(text: &str, bytes_max: usize) -> &str {
    let ends = text.char_indices().map(|(at, letter)| at + letter.len_utf8());
    &text[..ends.take_while(|end| *end <= bytes_max).last().unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::{QUEUE_NAME_CHARS_MAX, is_queue_name, shortened};

    #[test]
    fn a_text_is_cut_between_characters() {
        for (text, bytes_max, cut) in
            [("", 3, ""), ("abc", 3, "abc"), ("abcd", 3, "abc"), ("aäb", 2, "a"), ("ä", 1, "")]
        {
            assert_eq!(shortened(text, bytes_max), cut);
        }
    }

    #[test]
    fn a_queue_may_be_called_what_a_path_can_say() {
        let longest = "a".repeat(QUEUE_NAME_CHARS_MAX);
        for (name, may) in [("a", true), ("sms.fifo", true), (".a", true), (&*longest, true)]
            .into_iter()
            .chain(["", ".", "..", "a/b", "ä", &*format!("{longest}a")].map(|name| (name, false)))
        {
            assert_eq!(is_queue_name(name), may, "{name}");
        }
    }
}
