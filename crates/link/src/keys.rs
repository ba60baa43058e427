//! `[[link]]`: which queues are forwarded, and where to.

use std::collections::HashSet;
use std::fmt;

use anyhow::{Result, anyhow};
use tidegate_config::{Count, Document, FilePath, Milliseconds, NoDefault, Optional, Required, Text, config};
use tidegate_queue::machine::is_queue_name;
use tidegate_queue::machine::limits::{BATCH_MESSAGES_MAX, LEASE_MS_MAX};

config! {
    /// `[[link]]`
    pub struct LinkKeys in [["link"]] {
        name: Required<Text> = NoDefault, .., restart, "name, for logs, metrics and trails; at most 56 bytes";
        from: Required<Text> = NoDefault, .., restart, "the queue here whose messages are forwarded";
        address: Required<Text> = NoDefault, .., restart, "binary port of the other server, as HOST:PORT";
        to: Required<Text> = NoDefault, .., restart, "the queue there";
        token: Optional<Text> = NoDefault, .., restart, "token for the other server; only for development";
        token_file: Optional<FilePath> = NoDefault, .., restart, "file with the token for the other server";
        batch: Count<usize> = 500, 1..=1_000, restart, "messages that are under way at once";
        lease_ms: Milliseconds = 5_000, 1_000..=43_200_000, restart,
            "how long they are leased meanwhile: after a kill of this server they wait for so long";
        pause_max_ms: Milliseconds = 30_000, 100..=3_600_000, restart,
            "longest pause after a failure; the first is 100 ms, each further one twice as long";
    }
}

const _: () = assert!(BATCH_MESSAGES_MAX == 1_000 && LEASE_MS_MAX == 43_200_000, "the ranges are those of queues");

/// Bytes of a link's name: a consumer's, with `link:` before it, fits its own bound.
const NAME_BYTES_MAX: usize = 56;

/// A link as it is used.
#[derive(Clone)]
pub struct LinkSettings {
    /// Its name.
    pub name: Box<str>,
    /// The queue here.
    pub from: Box<str>,
    /// The other server.
    pub address: Box<str>,
    /// The queue there.
    pub to: Box<str>,
    /// What is shown to the other server.
    pub token: Box<str>,
    /// Messages at once.
    pub batch: usize,
    /// The lease of those, in milliseconds.
    pub lease_ms: u64,
    /// The longest pause, in milliseconds.
    pub pause_max_ms: u64,
}

/// Without the token.
impl fmt::Debug for LinkSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {}: {} to {} of {}", self.name, self.from, self.to, self.address)
    }
}

/// Reads and checks all links, and the files with their tokens.
pub fn links(document: &Document) -> Result<Vec<LinkSettings>> {
    let keys: Vec<LinkKeys> = document.list()?;
    let mut names = HashSet::new();
    let link = |(index, keys): (usize, LinkKeys)| {
        let wrong = |key: &str, what: &str| {
            anyhow!(document.error_at(&format!("link[{index}].{key}"), format!("link.{key}: {what}")))
        };
        if keys.name.is_empty() || keys.name.len() > NAME_BYTES_MAX || keys.name.chars().any(char::is_control) {
            return Err(wrong("name", "expected 1 to 56 bytes without control characters"));
        }
        if !names.insert(keys.name.clone()) {
            return Err(wrong("name", "another link has this name"));
        }
        let not_a_queue = "expected the name of a queue: 1 to 80 letters, digits, and characters of \"-_.:{}\", \
            not all of them \".\"";
        for (key, queue) in [("from", &keys.from), ("to", &keys.to)] {
            if !is_queue_name(queue) {
                return Err(wrong(key, not_a_queue));
            }
        }
        let port = keys.address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none_or(|port| port == 0) {
            return Err(wrong("address", "expected HOST:PORT, such as \"10.0.0.2:7420\""));
        }
        let token = match (keys.token, keys.token_file) {
            (Some(token), None) => token,
            (None, Some(file)) => {
                let text = std::fs::read_to_string(&file)
                    .map_err(|error| wrong("token_file", &format!("cannot read {}: {error}", file.display())))?;
                text.trim().into()
            }
            _ => return Err(wrong("name", "expected token or token_file")),
        };
        Ok(LinkSettings {
            name: keys.name,
            from: keys.from,
            address: keys.address,
            to: keys.to,
            token,
            batch: keys.batch,
            lease_ms: keys.lease_ms,
            pause_max_ms: keys.pause_max_ms,
        })
    };
    keys.into_iter().enumerate().map(link).collect()
}
