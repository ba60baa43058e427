//! `[[queue]]`: queues that the configuration has. A start makes them, and gives them the settings of the file.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use tidegate_config::{Count, Document, Flag, Milliseconds, NoDefault, Optional, PerSecond, Required, Text, config};
use tidegate_machines::queue::limits::QUEUES_MAX;
use tidegate_machines::queue::{Settings, is_queue_name};
use tidegate_machines::shard_of;

use crate::window::DeliveryWindow;

config! {
    /// `[[queue]]`
    pub struct QueueKeys in [["queue"]] {
        name: Required<Text> = NoDefault, .., restart, "name of the queue";
        lease_ms: Milliseconds = 30_000, 1..=43_200_000, restart, "how long a lease lasts if the receiver does not say";
        delay_ms: Milliseconds = 0, 0..=3_162_240_000_000, restart,
            "how long a message waits before its first delivery if the sender does not say";
        expiry_ms: Optional<Milliseconds> = NoDefault, .., restart,
            "after how long a message is dropped that nobody acknowledged; without it, never";
        attempts_max: Optional<Count<u64>> = NoDefault, .., restart,
            "deliveries after which a message goes to the dead letter queue; without it, as many as it takes";
        dead_letter: Optional<Text> = NoDefault, .., restart,
            "another [[queue]], where messages go that were delivered too often, or rejected as dead";
        retry_ms: Milliseconds = 0, 0..=3_162_240_000_000, restart,
            "how long a message waits that was rejected; twice as long after each further delivery";
        retry_max_ms: Milliseconds = 3_600_000, 0..=3_162_240_000_000, restart, "how long it waits at most";
        id_window_ms: Milliseconds = 300_000, 0..=3_162_240_000_000, restart,
            "how long ids of messages are remembered; 0 for not at all";
        ids_for_ever: Flag = false, .., restart, "whether they are remembered for ever instead";
        ids_until_due: Flag = false, .., restart,
            "whether that begins at the time for which a message is sent: until then it is found by its id, taken back \
             by it, and taken once. Scheduled anew by its id, it begins at the new time; taken back by it, at once. \
             Each takes memory until then";
        rate_per_s: Optional<PerSecond> = NoDefault, .., restart, "messages a second that are handed out";
        burst: Count<u32> = 1, 1..=1_000_000, restart, "messages that may be handed out at once under that rate";
        paused: Flag = false, .., restart, "whether messages are taken and none is handed out";
        messages_max: Optional<Count<u64>> = NoDefault, .., restart,
            "messages that may be in the queue at once; without it, queues.messages_max counts alone";
        trail_ms: Milliseconds = 3_600_000, 0..=3_162_240_000_000, restart,
            "how long it is remembered what became of a message that is gone and was not purged; of the last 1,048,576 \
             of a shard at most";
        delivery_window: Optional<Text> = NoDefault, .., restart,
            "when messages are handed out, as \"mon-fri 08:00-20:00 Europe/Berlin\"; without it, always";
        consumer_rate_per_s: Optional<PerSecond> = NoDefault, .., restart,
            "messages a second that each consumer is handed out";
        consumer_burst: Count<u32> = 1, 1..=1_000_000, restart,
            "messages that each may be handed out at once under that rate";
    }
}

/// Queues with their settings, in the order of their names.
pub type Declared = BTreeMap<Box<str>, Settings>;

impl QueueKeys {
    fn settings(self) -> Settings {
        let rate = |rate: Option<u64>| rate.map(|rate| u32::try_from(rate).unwrap_or(u32::MAX));
        Settings {
            lease_ms: self.lease_ms,
            delay_ms: self.delay_ms,
            expiry_ms: self.expiry_ms,
            // What does not fit is above the bounds that are checked next.
            attempts_max: self.attempts_max.map(|most| u16::try_from(most).unwrap_or(0)),
            dead_letter: self.dead_letter,
            retry_ms: self.retry_ms,
            retry_max_ms: self.retry_max_ms,
            id_window_ms: (!self.ids_for_ever).then_some(self.id_window_ms),
            ids_until_due: self.ids_until_due,
            rate_per_s: rate(self.rate_per_s),
            burst: self.burst,
            is_paused: self.paused,
            messages_max: self.messages_max,
            trail_ms: self.trail_ms,
            delivery_window: self.delivery_window,
            consumer_rate_per_s: rate(self.consumer_rate_per_s),
            consumer_burst: self.consumer_burst,
            notes: Box::default(),
            owner: None,
        }
    }
}

/// Reads and checks them. `shards` is how many shards of queues a new directory gets.
pub fn declared(document: &Document, shards: u16) -> Result<Declared> {
    let keys: Vec<QueueKeys> = document.list()?;
    let (mut declared, mut of_shards) = (Declared::new(), vec![0; shards.into()]);
    for (index, keys) in keys.into_iter().enumerate() {
        let wrong = |key: &str, what: String| {
            anyhow!(document.error_at(&format!("queue[{index}].{key}"), format!("queue.{key}: {what}")))
        };
        let name = keys.name.clone();
        if !is_queue_name(&name) {
            return Err(wrong(
                "name",
                "expected 1 to 80 letters, digits, and characters of \"-_.:{}\", not all of them \".\"".into(),
            ));
        }
        if let Some(Err(error)) = keys.delivery_window.as_deref().map(DeliveryWindow::parse) {
            return Err(wrong("delivery_window", error.to_string()));
        }
        let settings = keys.settings();
        settings.check(&name).map_err(|error| {
            let at = format!("queue[{index}].{}", error.setting);
            anyhow!(document.error_at(&at, format!("queue.{error}")))
        })?;
        if settings.messages_max == Some(0) {
            let what = "with 0 the queue takes no message; expected at least 1, or leave it out";
            return Err(wrong("messages_max", what.into()));
        }
        let of_shard = &mut of_shards[usize::from(shard_of(&name, shards).0)];
        *of_shard += 1;
        if *of_shard > QUEUES_MAX {
            let what = format!("more [[queue]] than a shard may have, {QUEUES_MAX}, are on one of the {shards}");
            return Err(wrong("name", format!("{what}; a new directory may have more queues.shards")));
        }
        if declared.insert(name.clone(), settings).is_some() {
            return Err(wrong("name", format!("\"{name}\" is there twice")));
        }
    }
    for (index, keys) in document.list::<QueueKeys>()?.into_iter().enumerate() {
        let (name, Some(target)) = (&*keys.name, &keys.dead_letter) else { continue };
        let at = format!("queue[{index}].dead_letter");
        let wrong = |what: String| Err(anyhow!(document.error_at(&at, format!("queue.dead_letter: {what}"))));
        if !declared.contains_key(target) {
            return wrong(format!("there is no [[queue]] \"{target}\""));
        }
        if shard_of(name, shards) != shard_of(target, shards) {
            return wrong(format!("\"{name}\" and \"{target}\" are on different shards; write one {{tag}} into both"));
        }
    }
    Ok(declared)
}
