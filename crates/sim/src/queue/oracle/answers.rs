//! What must hold of answers to what changes something, and what they rule out from then on.

use tidegate_machines::queue::{LeaseRefusal, MessageKey, Outcome, Receipt, Refusal};
use tidegate_queue::Answer;

use super::super::ask::{Ask, Asked, Held};
use super::{Known, NEVER, Oracle, Wait};
use crate::violation::{Violation, must};

impl Oracle {
    /// Compares an answer with what is known, and notes it. Returns the leases that the client has from now on.
    pub fn answered(&mut self, ticket: u64, asked: &Asked, answer: &Answer) -> Result<Vec<Held>, Violation> {
        let held = self.compare(ticket, asked, answer);
        self.is_over(ticket);
        held
    }

    fn compare(&mut self, ticket: u64, asked: &Asked, answer: &Answer) -> Result<Vec<Held>, Violation> {
        let Asked { ask, at, .. } = asked;
        let strange = || Violation::of("an answer is one to what was asked", format!("{ask:?}: {answer:?}"));
        if let Answer::Outcome(Outcome::Refused(refusal)) = answer {
            self.refused(ticket, asked, refusal)?;
            return Ok(Vec::new());
        }
        match (ask, answer) {
            (Ask::Make { queue, paused }, Answer::Outcome(Outcome::Done)) => self.is_made(*queue, *paused),
            (Ask::Schedule { queue }, Answer::Outcome(Outcome::Done)) => self.schedule_answered(*queue, true),
            (Ask::Delete { queue }, Answer::Outcome(Outcome::Done)) => self.is_deleted(*queue, *at)?,
            (Ask::Send { contents, .. }, Answer::Outcome(Outcome::Sent(receipts))) => {
                self.taken(ticket, *at, contents, receipts)?;
            }
            (Ask::Receive { queue, max, lease_ms }, Answer::Received(received)) => {
                must(received.len() <= *max, "no more is handed out than was asked for", || format!("{asked:?}"))?;
                let held = received.iter().map(|received| self.delivered(*queue, *lease_ms, *at, received));
                return held.collect();
            }
            (Ask::Acknowledge { queue, held }, Answer::Outcome(Outcome::Leases(outcomes))) => {
                must(outcomes.len() == held.len(), "each lease is answered", || format!("{ask:?}: {answer:?}"))?;
                for (held, outcome) in held.iter().zip(outcomes) {
                    self.check_lease(held, *outcome, *at)?;
                    let now = self.now;
                    let known = self.known_mut(held.lease.key);
                    match outcome {
                        Ok(()) => known.acknowledged = Some((held.lease.attempt, now)),
                        Err(_) => drop(known.ends.remove(&(ticket, held.lease.attempt))),
                    }
                    self.queues[*queue].answered_acknowledgements += u64::from(outcome.is_ok());
                }
            }
            (Ask::Extend { held, lease_ms, .. }, Answer::Outcome(Outcome::Leases(outcomes))) => {
                must(outcomes.len() == held.len(), "each lease is answered", || format!("{ask:?}: {answer:?}"))?;
                let mut extended = Vec::new();
                for (held, outcome) in held.iter().zip(outcomes) {
                    self.check_lease(held, *outcome, *at)?;
                    if outcome.is_ok() {
                        let promised = at + lease_ms;
                        let deliveries = &mut self.known_mut(held.lease.key).deliveries;
                        deliveries.get_mut(&held.lease.attempt).expect("who has a lease got it").held_until = promised;
                        extended.push(Held { promised, ..*held });
                    }
                }
                return Ok(extended);
            }
            (Ask::Reject { queue, held, retry_ms, .. }, Answer::Outcome(Outcome::Leases(outcomes))) => {
                must(outcomes.len() == held.len(), "each lease is answered", || format!("{ask:?}: {answer:?}"))?;
                for ((held, version), outcome) in held.iter().zip(outcomes) {
                    self.check_lease(held, *outcome, *at)?;
                    let is_hastened = self.is_hastened(ticket, held.lease.key);
                    let known = self.known_mut(held.lease.key);
                    let is_as_asked = known.version == *version && !is_hastened;
                    if let (true, true, Some(ms)) = (outcome.is_ok(), is_as_asked, retry_ms) {
                        let (queue, above) = (Some(*queue), held.lease.attempt);
                        known.waits.push(Wait { queue, above, decided_from: 0, not_before: at + ms });
                    }
                }
            }
            (Ask::Purge { queue }, Answer::Outcome(Outcome::Some { .. })) => {
                let now = self.now;
                let purges = self.queues[*queue].purges.iter_mut().filter(|purge| purge.ticket == ticket);
                purges.for_each(|purge| (purge.ended, purge.is_answered) = (now, true));
            }
            (Ask::Redrive { .. }, Answer::Outcome(Outcome::Some { .. })) => {}
            (Ask::Cancel { key }, Answer::Outcome(Outcome::Done)) => {
                let now = self.now;
                self.known_mut(*key).cancelled.get_or_insert(now);
            }
            (Ask::Reschedule { key, visible_at, version }, Answer::Outcome(Outcome::Done)) => {
                let (decided_from, not_before) = (self.now, *visible_at);
                let is_hastened = self.is_hastened(ticket, *key);
                let known = self.known_mut(*key);
                if known.version == *version && !is_hastened {
                    known.waits.push(Wait { queue: None, above: 0, decided_from, not_before });
                }
            }
            (Ask::Look { .. } | Ask::LookById { .. }, Answer::Message(found)) => {
                self.seen(asked, std::slice::from_ref(found), None)?;
            }
            (Ask::Browse { .. }, Answer::Page(page)) => self.seen(asked, &page.rows, page.next)?,
            _ => return Err(strange()),
        }
        Ok(Vec::new())
    }

    fn is_made(&mut self, queue: usize, paused: bool) {
        let now = self.now;
        let queue = &mut self.queues[queue];
        (queue.is_changing, queue.may_rest) = (false, paused);
        queue.made_at.get_or_insert(now);
        queue.pauses.extend(paused.then_some((now, NEVER)));
    }

    /// Only an empty queue is deleted.
    fn is_deleted(&mut self, queue: usize, asked_at: u64) -> Result<(), Violation> {
        self.queues[queue].is_changing = false;
        for (key, known) in &self.keys {
            let is_of_it = self.contents[known.content].content.queue == queue;
            let is_there = is_of_it && key.at().0 < asked_at && self.end(*key, known) > self.now;
            must(!is_there, "a queue that is deleted has no messages", || format!("{key} of {queue}"))?;
        }
        Ok(())
    }

    fn taken(&mut self, ticket: u64, asked_at: u64, contents: &[usize], receipts: &[Receipt]) -> Result<(), Violation> {
        must(contents.len() == receipts.len(), "each message is answered", || format!("{contents:?}: {receipts:?}"))?;
        let now = self.now;
        for (content, Receipt { key, is_duplicate }) in contents.iter().zip(receipts) {
            let of = &mut self.contents[*content];
            of.sends.iter_mut().filter(|(of, ..)| *of == ticket).for_each(|(_, _, to)| *to = now);
            let (has_id, queue) = (of.content.message.id.is_some(), of.content.queue);
            self.learn(*key, *content)?;
            let taken_at = key.at().0;
            let words = || format!("message {content}, asked at {asked_at} ms: {key} of {taken_at} ms, {is_duplicate}");
            if *is_duplicate {
                must(has_id, "only an id makes a duplicate", words)?;
                must(self.id_until(*content, taken_at) > asked_at, "an id is forgotten after its window", words)?;
            } else {
                must((asked_at..=now).contains(&taken_at), "a receipt is of the message that was sent", words)?;
                must(!self.keys[key].has_receipt, "a message that was taken before is a duplicate", words)?;
                self.queues[queue].receipts += 1;
            }
            self.known_mut(*key).has_receipt = true;
        }
        Ok(())
    }

    /// Whether what is answered of a lease can be.
    fn check_lease(&self, held: &Held, outcome: Result<(), LeaseRefusal>, asked_at: u64) -> Result<(), Violation> {
        let Held { lease, promised, .. } = held;
        let known = &self.keys[&lease.key];
        let words = || format!("{lease:?}, promised until {promised} ms: {outcome:?}, asked at {asked_at} ms");
        if outcome.is_err() {
            let may_be_gone = *promised <= self.now || self.purged(lease.key, known).is_some();
            return must(may_be_gone, "a lease lasts as long as was promised", words);
        }
        let is_newest = known.deliveries.range(lease.attempt + 1..).all(|(_, later)| later.at >= asked_at);
        must(is_newest, "who has lost a lease is told so", words)
    }

    /// Whether something may be refused, and what did not happen because it was.
    fn refused(&mut self, ticket: u64, asked: &Asked, refusal: &Refusal) -> Result<(), Violation> {
        let words = || format!("{asked:?}: {refusal:?}");
        match (&asked.ask, refusal) {
            (Ask::Make { queue, .. }, Refusal::QueueNotFound(_)) => {
                let of = &mut self.queues[*queue];
                of.is_changing = false;
                let dead_is_made =
                    of.dead.is_some_and(|dead| self.queues[dead].made_at.is_some_and(|at| at < asked.at));
                return must(!dead_is_made, "a queue that was made is there", words);
            }
            (Ask::Delete { queue }, _) => {
                let queue = &mut self.queues[*queue];
                queue.is_changing = false;
                if *refusal == Refusal::QueueNotEmpty {
                    queue.made_at = Some(self.now);
                    return Ok(());
                }
            }
            (Ask::Send { contents, .. }, _) => {
                for content in contents {
                    self.contents[*content].sends.retain(|(of, ..)| *of != ticket);
                }
                let sent = contents.iter().map(|content| &self.contents[*content].content.message);
                let has_expired =
                    sent.filter_map(|message| message.expires_at).any(|when| self.time_of(when, self.now) <= self.now);
                match refusal {
                    Refusal::Full(..) => return Ok(()),
                    Refusal::MessageInvalid { .. } if has_expired => return Ok(()),
                    _ => {}
                }
            }
            (Ask::Purge { queue }, _) => self.queues[*queue].purges.retain(|purge| purge.ticket != ticket),
            (Ask::Cancel { key } | Ask::Reschedule { key, .. }, Refusal::MessageNotFound) => {
                self.known_mut(*key).ends.remove(&(ticket, 0));
                return self.check_gone(*key, words);
            }
            (Ask::Cancel { key } | Ask::Reschedule { key, .. }, Refusal::MessageLeased) => {
                self.known_mut(*key).ends.remove(&(ticket, 0));
                return Ok(());
            }
            (Ask::Look { key }, Refusal::MessageNotFound) => return self.check_gone(*key, words),
            (Ask::LookById { content }, Refusal::MessageNotFound) => {
                return self.check_no_id(*content, asked.at, words);
            }
            _ => {}
        }
        let queue = match &asked.ask {
            Ask::Delete { queue }
            | Ask::Send { queue, .. }
            | Ask::Receive { queue, .. }
            | Ask::Acknowledge { queue, .. }
            | Ask::Extend { queue, .. }
            | Ask::Reject { queue, .. }
            | Ask::Purge { queue }
            | Ask::Redrive { from: queue, .. }
            | Ask::Browse { queue, .. } => *queue,
            _ => return must(false, "what can be done is not refused", words),
        };
        let is_unmade = |queue: usize| self.queues[queue].made_at.is_none_or(|made_at| made_at >= asked.at);
        let other = if let Ask::Redrive { to, .. } = &asked.ask { *to } else { queue };
        let may_be_missing = is_unmade(queue) || is_unmade(other);
        let is_excused = matches!(refusal, Refusal::QueueNotFound(_)) && may_be_missing;
        must(is_excused, "what can be done is not refused", words)
    }

    /// A message that is said to be gone may have ended.
    fn check_gone(&self, key: MessageKey, words: impl FnOnce() -> String) -> Result<(), Violation> {
        let known = &self.keys[&key];
        must(self.end(key, known) <= self.now, "what was taken is there until it has ended", words)
    }

    /// Nobody has an id that must be remembered.
    fn check_no_id(&self, content: usize, asked_at: u64, words: impl FnOnce() -> String) -> Result<(), Violation> {
        let of = &self.contents[content];
        let lasts = |key: &MessageKey, known: &Known| {
            let is_remembered = self.id_until(content, key.at().0) > self.now && key.at().0 < asked_at;
            known.has_receipt && is_remembered && self.end(*key, known) > self.now
        };
        let is_there = of.keys.iter().any(|key| lasts(key, &self.keys[key]));
        must(!is_there, "an id is remembered for its window", words)
    }
}
