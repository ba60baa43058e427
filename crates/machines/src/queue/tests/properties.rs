use proptest::prelude::*;

use super::*;

/// What may be done, with numbers that are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Set { queue: u8, attempts: u8, delay: u8, window: u8, rate: u8, expiry: u8 },
    Send { queue: u8, count: u8, id: u8, key: u8, priority: u8, delay: u8, expiry: u8 },
    Receive { queue: u8, max: u8 },
    Acknowledge { queue: u8, which: u8 },
    Reject { queue: u8, which: u8, dead: bool, delay: u8 },
    Extend { queue: u8, which: u8 },
    Hand { queue: u8, which: u8 },
    Note { queue: u8, which: u8 },
    Cancel { which: u8 },
    Reschedule { which: u8, delay: u8 },
    Purge { queue: u8, up_to: u8 },
    Redrive { from: u8, to: u8 },
    Route { from: u8, to: u8, which: u8 },
    Delete { queue: u8 },
    Schedule { queue: u8, which: u8, content: u8, expiry: u8 },
    Unschedule { queue: u8, which: u8 },
    Move,
    Pack,
    Start(u16),
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let byte = any::<u8>;
    prop_oneof![
        1 => (byte(), byte(), byte(), byte(), byte(), byte()).prop_map(
            |(queue, attempts, delay, window, rate, expiry)| Step::Set { queue, attempts, delay, window, rate, expiry }
        ),
        6 => (byte(), byte(), byte(), byte(), byte(), byte(), byte()).prop_map(
            |(queue, count, id, key, priority, delay, expiry)| {
                Step::Send { queue, count, id, key, priority, delay, expiry }
            }
        ),
        6 => (byte(), byte()).prop_map(|(queue, max)| Step::Receive { queue, max }),
        4 => (byte(), byte()).prop_map(|(queue, which)| Step::Acknowledge { queue, which }),
        2 => (byte(), byte(), any::<bool>(), byte()).prop_map(
            |(queue, which, dead, delay)| Step::Reject { queue, which, dead, delay }
        ),
        1 => (byte(), byte()).prop_map(|(queue, which)| Step::Extend { queue, which }),
        2 => (byte(), byte()).prop_map(|(queue, which)| Step::Hand { queue, which }),
        1 => (byte(), byte()).prop_map(|(queue, which)| Step::Note { queue, which }),
        1 => byte().prop_map(|which| Step::Cancel { which }),
        1 => (byte(), byte()).prop_map(|(which, delay)| Step::Reschedule { which, delay }),
        1 => (byte(), byte()).prop_map(|(queue, up_to)| Step::Purge { queue, up_to }),
        1 => (byte(), byte()).prop_map(|(from, to)| Step::Redrive { from, to }),
        3 => (byte(), byte(), byte()).prop_map(|(from, to, which)| Step::Route { from, to, which }),
        1 => byte().prop_map(|queue| Step::Delete { queue }),
        2 => (byte(), byte(), byte(), byte()).prop_map(
            |(queue, which, content, expiry)| Step::Schedule { queue, which, content, expiry }
        ),
        1 => (byte(), byte()).prop_map(|(queue, which)| Step::Unschedule { queue, which }),
        1 => Just(Step::Move),
        2 => Just(Step::Pack),
        1 => (0..3u16).prop_map(Step::Start),
        4 => any::<u16>().prop_map(Step::Wait),
    ]
}

fn name(queue: u8) -> &'static str {
    ["jobs", "mail", "dead"][usize::from(queue) % 3]
}

/// A message by its key, or found by an id of it.
fn named(driven: &Driven, keys: &[MessageKey], which: u8) -> Option<(MessageKey, Vec<Box<str>>)> {
    let id: Box<str> = id_of(u64::from(which % 20), which.is_multiple_of(2)).into();
    let found = driven.queues.key_of_id(name(which), &id, driven.now).map(|key| (key, vec![id]));
    found.or_else(|| Some((*keys.get(usize::from(which) % keys.len().max(1))?, Vec::new())))
}

/// An id: any text, or the key of a message of another node.
fn id_of(id: u64, is_key: bool) -> String {
    match is_key {
        true => MessageKey::new(TimeMs(id % 3), 7, ShardIndex(0), 1, 60 + id / 2).to_string(),
        false => id.to_string(),
    }
}

/// The name of a schedule.
fn schedule(which: u8) -> String {
    format!("s{}", which % 4)
}

/// Who owns something; some is owned by nobody.
fn owner_of(which: u8) -> Option<Box<str>> {
    [None, Some("ann"), Some("bob")][usize::from(which % 3)].map(Into::into)
}

/// What another system calls a message; of some, nothing.
fn reference(which: u8) -> String {
    "abc".repeat(usize::from(which % 4))
}

/// Does a step; `leases` are all that were ever handed out, `keys` all messages that were taken.
fn act(driven: &mut Driven, step: Step, leases: &mut Vec<(u8, Lease)>, keys: &mut Vec<MessageKey>) {
    let some = |value: u8| (!value.is_multiple_of(3)).then_some(u64::from(value));
    let now = driven.now.0;
    let lease_of = |which: u8| leases.get(usize::from(which) % leases.len().max(1)).map(|(_, lease)| *lease);
    match step {
        Step::Set { queue, attempts, delay, window, rate, expiry } => {
            let dead_letter = (name(queue) != "dead" && attempts % 2 == 1).then(|| "dead".into());
            let settings = Settings {
                attempts_max: dead_letter.as_ref().map(|_| u16::from(attempts % 4 + 1)),
                dead_letter,
                lease_ms: 1 + u64::from(delay),
                delay_ms: u64::from(delay % 4) * 10,
                expiry_ms: some(expiry).map(|ms| ms * 20 + 1),
                id_window_ms: some(window).map(|ms| ms % 5 * 100),
                rate_per_s: some(rate).map(|rate| rate as u32 + 1),
                burst: u32::from(rate) + 1,
                ids_until_due: window % 2 == 1,
                is_paused: rate == 7,
                trail_ms: u64::from(window) * 7,
                notes: vec![rate; usize::from(rate % 4)].into(),
                owner: owner_of(window),
                ..Settings::default()
            };
            driven.ask(Command::SetQueue { name: name(queue), settings: &settings });
        }
        Step::Send { queue, count, id, key, priority, delay, expiry } => {
            let one = |place: u8| {
                Arc::new(Message {
                    id: some(id).map(|id| id_of(id % 20 + u64::from(place), id.is_multiple_of(2)).into()),
                    ordering_key: some(key).map(|key| format!("key {}", key % 4).into()),
                    priority: priority % 10,
                    visible_at: some(delay).map(|delay| When::At(TimeMs(now + delay * 5))),
                    expires_at: some(expiry).filter(|_| expiry.is_multiple_of(2)).map(|ms| When::After(ms * 30)),
                    via: some(expiry).filter(|of| of % 3 == 0).map(|of| format!("{of}/{}", name(queue)).into()),
                    origin_id: some(id)
                        .filter(|id| id.is_multiple_of(2) && key.is_multiple_of(2))
                        .map(|id| (id % 7).to_string().into()),
                    attributes: vec![key; usize::from(count)].into(),
                    body: vec![priority; usize::from(delay)].into(),
                })
            };
            let messages: Vec<_> = (0..count % 5 + 1).map(one).collect();
            if let Outcome::Sent(receipts) = driven.ask(Command::Send { queue: name(queue), messages: &messages }) {
                keys.extend(receipts.iter().filter(|receipt| !receipt.is_duplicate).map(|receipt| receipt.key));
            }
        }
        Step::Receive { queue, max } => {
            let receive = Command::Receive {
                queue: name(queue),
                max: usize::from(max % 8) + 1,
                bytes_max: u64::from(max),
                lease_ms: some(max),
                consumer: "me",
            };
            if let Outcome::Leased(deliveries) = driven.ask(receive) {
                leases.extend(deliveries.iter().map(|delivery| (queue, delivery.lease)));
            }
        }
        Step::Acknowledge { queue, which } => {
            let leases: Vec<Lease> = [which, which.wrapping_add(1)].into_iter().filter_map(lease_of).collect();
            driven.ask(Command::Acknowledge { queue: name(queue), leases: &leases });
        }
        Step::Reject { queue, which, dead, delay } => {
            let leases: Vec<Lease> = [which, which].into_iter().filter_map(lease_of).collect();
            let then = match some(delay) {
                _ if dead => Rejection::Dead,
                Some(delay_ms) if delay.is_multiple_of(5) => Rejection::Back(delay_ms),
                delay_ms => Rejection::Retry(delay_ms),
            };
            driven.ask(Command::Reject { queue: name(queue), leases: &leases, then, reason: "because" });
        }
        Step::Extend { queue, which } => {
            let leases: Vec<Lease> = lease_of(which).into_iter().collect();
            driven.ask(Command::Extend { queue: name(queue), leases: &leases, lease_ms: 1 + u64::from(which) });
        }
        Step::Hand { queue, which } => {
            let messages: Vec<_> = lease_of(which).map(|lease| (lease, reference(which).into())).into_iter().collect();
            driven.ask(Command::Hand { queue: name(queue), messages: &messages, to: "elsewhere" });
        }
        Step::Note { queue, which } => {
            driven.ask(Command::Note { queue: name(queue), reference: &reference(which), text: "arrived" });
        }
        Step::Cancel { which } => {
            if let Some((key, ids)) = named(driven, keys, which) {
                driven.ask(Command::Cancel { key, ids: &ids });
            }
        }
        Step::Reschedule { which, delay } => {
            if let Some((key, ids)) = named(driven, keys, which) {
                let visible_at = When::After(u64::from(delay) * 9);
                driven.ask(Command::Reschedule { key, visible_at, ids: &ids });
            }
        }
        Step::Purge { queue, up_to } => {
            driven.ask(Command::Purge { queue: name(queue), up_to: u64::from(up_to) });
        }
        Step::Redrive { from, to } => {
            driven.ask(Command::Redrive { from: name(from), to: name(to), max: 3 });
        }
        Step::Route { from, to, which } => {
            let routed = |which| Some((lease_of(which)?, Arc::new(message("x"))));
            let messages: Vec<_> = [which, which.wrapping_add(1)].into_iter().filter_map(routed).collect();
            driven.ask(Command::Route { from: name(from), to: name(to), messages: &messages, by: "route:x" });
        }
        Step::Delete { queue } => {
            driven.ask(Command::DeleteQueue { name: name(queue) });
        }
        Step::Schedule { queue, which, content, expiry } => {
            let message =
                Message { ordering_key: some(expiry).map(|key| format!("key {}", key % 4).into()), ..message("x") };
            let settings = StandingSettings {
                cron: "* * * * *".into(),
                zone: "UTC".into(),
                expiry_ms: some(expiry).map(|ms| ms * 9),
                message: Message { attributes: vec![content; usize::from(content % 5)].into(), ..message },
                owner: owner_of(content),
            };
            let next = TimeMs(now + 500 + u64::from(content));
            let name = &*schedule(which);
            driven.ask(Command::SetStanding { queue: super::properties::name(queue), name, settings: &settings, next });
        }
        Step::Unschedule { queue, which } => {
            driven.ask(Command::RemoveStanding { queue: name(queue), name: &schedule(which) });
        }
        Step::Move => {
            let old = driven.queues.in_oldest_place();
            let read = |place: &BodyPlace| {
                let index = (place.record.0 / 100_000 - 1) as usize;
                let event = Queues::decode(&driven.records[index].0).expect("it was written");
                (place.number, Arc::new(event.part(place.part).expect("it has the body").to_message()))
            };
            let messages: Vec<_> = old.iter().take(5).map(read).collect();
            driven.ask(Command::Move { messages: &messages });
        }
        Step::Pack => driven.queues.messages.pack_all(),
        Step::Start(node) => {
            driven.ask(Command::Start { node });
        }
        Step::Wait(ms) => driven.wait(u64::from(ms % 2_000)),
    }
}

fn replay(records: &[(Vec<u8>, Place)], mut queues: Queues) -> Queues {
    for (bytes, at) in records {
        queues.apply_checked(&Queues::decode(bytes).expect("it was written"), *at).expect("it was decided");
    }
    queues
}

proptest! {
    #[test]
    fn a_replay_and_a_snapshot_give_the_same_state(
        steps in proptest::collection::vec(step(), 1..150),
        cut in any::<proptest::sample::Index>(),
    ) {
        let (mut driven, mut leases, mut keys) = (Driven::new(), Vec::new(), Vec::new());
        ["dead", "jobs", "mail"].iter().for_each(|name| driven.queue(name, Settings::default()));
        for step in steps {
            act(&mut driven, step, &mut leases, &mut keys);
            driven.queues.assert_sound();
        }
        let bytes = snapshot(&driven.queues);
        let cut = cut.index(driven.records.len() + 1);
        let half = replay(&driven.records[..cut], Queues::new(ShardIndex(0), 1));
        let again = Queues::read_snapshot(&snapshot(&half)).expect("it was written");
        again.assert_sound();
        prop_assert_eq!(&snapshot(&again), &snapshot(&half));
        let whole = replay(&driven.records[cut..], again);
        whole.assert_sound();
        prop_assert!(snapshot(&whole) == bytes, "a replay from a snapshot gives the state");
        // What was folded in does not follow a second time.
        if let Some((bytes, at)) = driven.records.last() {
            let before = snapshot(&whole);
            let mut whole = whole;
            prop_assert!(whole.apply_checked(&Queues::decode(bytes).unwrap(), *at).is_err());
            prop_assert!(snapshot(&whole) == before, "what is refused changes nothing");
        }
    }

    #[test]
    fn a_range_of_keys_has_its_messages_in_the_order_of_their_keys(
        steps in proptest::collection::vec(step(), 1..150),
        ends in any::<[proptest::sample::Index; 2]>(),
    ) {
        let (mut driven, mut leases, mut keys) = (Driven::new(), Vec::new(), Vec::new());
        ["dead", "jobs", "mail"].iter().for_each(|name| driven.queue(name, Settings::default()));
        steps.into_iter().for_each(|step| act(&mut driven, step, &mut leases, &mut keys));
        let mut all: Vec<MessageView> =
            driven.queues.messages.iter().map(|(number, _)| driven.queues.message_view(number)).collect();
        all.sort_by_key(|view| view.key);
        prop_assert!(driven.queues.browse_all(ALL_KEYS).eq(all.iter().cloned()));
        if !all.is_empty() {
            let [from, to] = ends.map(|end| all[end.index(all.len())].key);
            let is_there = |view: &&MessageView| (from..=to).contains(&view.key);
            prop_assert!(driven.queues.browse_all(from..=to).eq(all.iter().filter(is_there).cloned()));
            let is_job = |view: &&MessageView| &*view.queue == "jobs" && !view.state.is_finished();
            if let Some(found) = driven.queues.browse("jobs", from..=to) {
                prop_assert!(found.eq(all.iter().filter(is_there).filter(is_job).cloned()));
            }
        }
    }

    /// Every message that was taken is handed out, unless something ended it, and nobody has what another one has.
    #[test]
    fn nothing_is_lost_and_nothing_is_handed_out_twice(steps in proptest::collection::vec(step(), 1..150)) {
        let (mut driven, mut leases, mut keys) = (Driven::new(), Vec::new(), Vec::new());
        ["dead", "jobs", "mail"].iter().for_each(|name| driven.queue(name, Settings::default()));
        // What was deleted is not counted any more.
        for step in steps.into_iter().filter(|step| !matches!(step, Step::Delete { .. })) {
            let had = leases.len();
            let now = driven.now;
            act(&mut driven, step, &mut leases, &mut keys);
            for (_, lease) in &leases[had..] {
                let view = driven.queues.message(lease.key).expect("it was handed out");
                prop_assert!(view.until.is_none_or(|until| until > now) && view.attempts == lease.attempt);
            }
        }
        let mut seen = std::collections::HashSet::new();
        prop_assert!(leases.iter().all(|(_, lease)| seen.insert((lease.key, lease.attempt))), "a lease is one's own");
        let totals: Vec<_> = driven.queues.views("").map(|view| view.totals).collect();
        let sum = |field: fn(&Totals) -> u64| totals.iter().map(field).sum::<u64>();
        let gone = sum(|t| t.acknowledged) + sum(|t| t.expired) + sum(|t| t.removed);
        prop_assert!(sum(|t| t.sent) == gone + driven.queues.totals().1, "every message is somewhere");
    }

    #[test]
    fn any_bytes_are_an_event_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(event) = Queues::decode(&bytes) {
            let mut again = Vec::new();
            Queues::encode(&event, &mut again);
            prop_assert_eq!(&again, &bytes);
            let mut queues = Queues::new(ShardIndex(0), 1);
            let place = Place { position: RecordPosition(1), sequence: RecordSequence(1) };
            let _ = queues.apply_checked(&event, place);
            queues.assert_sound();
        }
    }

    #[test]
    fn a_harmed_snapshot_is_refused_or_sound(
        steps in proptest::collection::vec(step(), 1..60),
        at in any::<proptest::sample::Index>(),
        with in any::<u8>(),
    ) {
        let (mut driven, mut leases, mut keys) = (Driven::new(), Vec::new(), Vec::new());
        ["dead", "jobs", "mail"].iter().for_each(|name| driven.queue(name, Settings::default()));
        steps.into_iter().for_each(|step| act(&mut driven, step, &mut leases, &mut keys));
        let mut bytes = snapshot(&driven.queues);
        let at = at.index(bytes.len());
        bytes[at] = with;
        if let Ok(state) = Queues::read_snapshot(&bytes) {
            state.assert_sound();
            prop_assert_eq!(snapshot(&state), bytes);
        }
    }
}
