//! One worker of a world, as its broker sees it.

use tidegate_broker::drive::Shell;
use tidegate_broker::{Action, BrokerMessage, ConnectionKey};
use tidegate_journal::step::Step;
use tidegate_machines::TimeMs;

use super::{Heard, Log, TestBroker, World};

/// See the module's description.
pub(super) struct Worker<'w> {
    pub world: &'w mut World,
    pub worker: usize,
    pub heard: &'w mut Heard,
}

impl Shell<Log> for Worker<'_> {
    fn driven(&mut self) -> &mut TestBroker {
        &mut self.world.brokers[self.worker]
    }

    fn take_messages(&mut self, now: TimeMs) {
        while let Some((from, message)) = self.world.rings.take(self.worker as u16) {
            self.driven().deliver(from, message, now);
        }
    }

    fn has_room(&mut self, _worker: u16) -> bool {
        self.world.muted != Some(self.worker)
    }

    fn send(&mut self, worker: u16, message: BrokerMessage) {
        self.world.rings.send(self.worker as u16, worker, message);
    }

    fn act(&mut self, action: Action, _now: TimeMs) {
        self.world.act(self.worker, action);
    }

    fn take_answers(&mut self, _now: TimeMs) -> bool {
        self.world.feed(self.worker)
    }

    fn write_logs(&mut self) -> bool {
        let (is_slow, is_faulty) = (self.world.is_disk_slow, self.world.is_disk_faulty);
        let mut worked = false;
        for shard in self.driven().shards_mut().iter_mut().filter(|_| !is_slow) {
            // A log whose sync failed does nothing more, and its shard says so to all that wait.
            let step = shard.log_mut().step();
            assert!(step.is_ok() || is_faulty, "the disk is well: {step:?}");
            worked |= step.is_ok_and(|step| step != Step::Idle);
        }
        worked
    }

    fn write(&mut self, key: ConnectionKey, _now: TimeMs) -> usize {
        let bytes = self.driven().unsent(key).to_vec();
        let Some((name, client)) = self.world.named(self.worker, key).filter(|(_, client)| !client.stalled) else {
            return 0;
        };
        let (lines, answers) = client.hear(&bytes);
        self.heard.add(&name, lines);
        // No socket gives no bytes, and a call without any could wake what nothing else would.
        if !answers.is_empty() {
            self.world.answers.push_back((self.worker, key, answers));
        }
        bytes.len()
    }

    fn close(&mut self, key: ConnectionKey, _now: TimeMs) {
        if let Some((name, client)) = self.world.named(self.worker, key) {
            client.key = None;
            self.heard.add(&name, vec!["closed".to_owned()]);
        }
    }
}
