//! What a shard of queues counts beside what every shard counts.

use tidegate_journal::LogStore;
use tidegate_machines::queue::limits::{QUEUES_MAX, STANDING_MAX};
use tidegate_shard::Shard;
use tidegate_telemetry::metrics;

use crate::protocol::Ticket;
use crate::service::QueueService;

metrics! {
    /// One shard's own metrics. For the thread that runs it.
    pub struct QueueMetrics(shard) {
        queues: Gauge "tidegate_queues" "Queues that there are.";
        queues_max: Gauge "tidegate_queues_max" "How many there may be, those of [[queue]] among them.";
        schedules: Gauge "tidegate_queue_schedules" "Schedules that there are.";
        schedules_max: Gauge
            "tidegate_queue_schedules_max" "How many there may be, those of queues of [[queue]] among them.";
        waiting: Gauge "tidegate_queue_messages_waiting" "Messages that wait for a receiver.";
        scheduled: Gauge "tidegate_queue_messages_scheduled" "Messages that wait for their time.";
        leased: Gauge "tidegate_queue_messages_leased" "Messages that a receiver has.";
        sent: Counter "tidegate_queue_sent_total" "Messages taken, since their queues were made.";
        acknowledged: Counter
            "tidegate_queue_acknowledged_total" "Messages acknowledged, since their queues were made.";
        lapsed: Counter "tidegate_queue_lapsed_total" "Leases that ended without an answer.";
        dead: Counter "tidegate_queue_dead_total" "Messages that went to a dead letter queue.";
        behind: Gauge
            "tidegate_queues_behind" "Queues that would take more than a minute to empty, for a minute or more.";
        ids: Gauge "tidegate_queue_ids" "Ids of messages that are remembered.";
        refused: CounterFamily(bound: "queue_settings" "messages_of_queue" "messages_of_owner" "messages" "ids_of_queue"
                "ids_of_owner" "ids" "numbers" "queues" "queues_of_owner" "schedules" "schedules_of_owner" "receivers"
                "receivers_of_caller")
            "tidegate_queue_refused_total" "Requests refused because a bound was met, by the bound.";
        receivers: Gauge "tidegate_queue_receivers_waiting" "Requests that wait for messages.";
        body_bytes: Gauge "tidegate_queue_body_bytes" "Memory of bodies.";
        bodies_read: Counter "tidegate_queue_bodies_read_total" "Bodies read from the log.";
        bodies_unreadable: Counter "tidegate_queue_bodies_unreadable_total" "Attempts to read a body that failed.";
        bodies_moved: Counter
            "tidegate_queue_bodies_moved_total" "Bodies written again so that old segments can be forgotten.";
    }
}

impl QueueMetrics {
    /// Brings the registry up to date with a shard.
    pub fn observe<L: LogStore>(&self, shard: &Shard<QueueService<Ticket>, L>) {
        let (state, service) = (shard.state_ahead(), shard.service());
        let (counts, totals) = state.all();
        self.queues.set(state.totals().0 as i64);
        self.queues_max.set(QUEUES_MAX as i64);
        self.schedules.set(state.standing_count() as i64);
        self.schedules_max.set(STANDING_MAX as i64);
        self.waiting.set(counts.waiting as i64);
        self.scheduled.set(counts.scheduled as i64);
        self.leased.set(counts.leased as i64);
        self.sent.follow(totals.sent);
        self.acknowledged.follow(totals.acknowledged);
        self.lapsed.follow(totals.lapsed);
        self.dead.follow(totals.dead);
        self.behind.set(service.behind() as i64);
        self.ids.set(state.ids() as i64);
        self.refused.follow(service.refused());
        let [body_bytes, receivers, read, unreadable, moved] = service.facts();
        self.body_bytes.set(body_bytes as i64);
        self.receivers.set(receivers as i64);
        self.bodies_read.follow(read);
        self.bodies_unreadable.follow(unreadable);
        self.bodies_moved.follow(moved);
    }
}
