//! Bodies that a job could not read: moved meanwhile, gone meanwhile, or damaged.
//!
//! Promise: a damaged body costs its receiver nothing but a message, however often it asks, and keeps no other message
//! back.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_journal::{LogId, LogStore, Position, RecordClass};
use tidegate_machines::queue::{BodyPlace, Command, Delivery, Lease, Rejection};
use tidegate_runtime::damage::Damages;
use tidegate_shard::Jobs;

use super::{QueueService, QueueTurn};
use crate::family::QUEUES;
use crate::limits::UNREADABLE_AGAIN_MS;
use crate::protocol::RequestTicket;

impl<T: RequestTicket> QueueService<T> {
    /// Tells `damages` of bodies that cannot be read from this log: then health says so.
    pub fn tell_damage_to(&mut self, damages: Arc<Damages>, log: LogId) {
        self.damages = Some((damages, log));
    }

    /// Goes on with handovers of which something could not be read: what was moved meanwhile is read again, where it is
    /// now. What cannot be read is not handed over, and is not tried again for a while.
    pub(super) fn read_again<L: LogStore>(&mut self, turn: &mut QueueTurn<'_, T, L>, jobs: &mut Jobs<Self>) {
        for (mut handover, errors) in std::mem::take(&mut self.unread) {
            let now = |place: &BodyPlace| turn.state().body_place(place.number);
            let was_moved = |place: &BodyPlace| now(place).is_some_and(|now| now.record != place.record);
            let is_unreadable = |place: &BodyPlace| !was_moved(place) && now(place).is_some();
            let places = handover.places.iter().zip(errors).filter(|(place, _)| is_unreadable(place));
            let unreadable: BTreeMap<u64, (Position, String)> =
                places.map(|(place, error)| (place.number, (Position(place.record.0), error))).collect();
            handover.places = handover.places.iter().filter(|place| was_moved(place)).filter_map(now).collect();
            let of_these = |delivery: &&Delivery| unreadable.contains_key(&delivery.lease.key.number());
            let leases: Vec<Lease> =
                handover.deliveries.iter().filter(of_these).map(|delivery| delivery.lease).collect();
            self.put_aside(turn, &handover.receiver.receive.queue, &leases, unreadable);
            self.hand_over(turn, handover, jobs);
        }
    }

    /// Puts messages aside whose bodies cannot be read, uncounted: whoever has leases of a millisecond would have them
    /// read all the time.
    fn put_aside<L: LogStore>(
        &mut self,
        turn: &mut QueueTurn<'_, T, L>,
        queue: &str,
        leases: &[Lease],
        unreadable: BTreeMap<u64, (Position, String)>,
    ) {
        let Some((number, (at, error))) = unreadable.first_key_value() else { return };
        if let Some((damages, log)) = &self.damages {
            damages.note_needed(QUEUES.name, *log, *at, error);
        }
        self.unreadable += unreadable.len() as u64;
        let key = turn.state().key(*number).map(|key| key.to_string());
        self.unreadable_told.note(unreadable.len() as u64, turn.now(), |count| {
            tracing::error!(
                key,
                error,
                count,
                "bodies of messages cannot be read; they are tried again in {UNREADABLE_AGAIN_MS} ms"
            );
        });
        let (then, reason) = (Rejection::Back(UNREADABLE_AGAIN_MS), "its body cannot be read from the log");
        // Without room for a record, their leases end as they would.
        self.execute(turn, RecordClass::Note, &Command::Reject { leases, queue, then, reason });
    }
}
