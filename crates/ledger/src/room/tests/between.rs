//! What stands between the audits and the shards of a test: it passes calls on, and can change answers or fail.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tidegate_runtime::{Envelope, Parker};

use super::*;

/// What becomes of a call.
pub enum How {
    /// The shard answers.
    Ask,
    /// The shard answers, and the answer is changed.
    Change(fn(Answer) -> Answer),
    /// It is answered as by a shard that has failed.
    Fail,
}

type Script = Box<dyn FnMut(ShardIndex, &Operation) -> How + Send>;

/// The thread between; it ends when this is dropped.
pub struct Between {
    script: Arc<Mutex<Script>>,
    heard: Receiver<(ShardIndex, Operation)>,
    ended: Arc<AtomicBool>,
    parker: Arc<Parker>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread has.
struct Served {
    endpoint: Endpoint<Parcel>,
    calls: Background<Parcel, RawClient>,
    script: Arc<Mutex<Script>>,
    heard: Sender<(ShardIndex, Operation)>,
}

impl Between {
    /// Begins to pass on to the shards what comes to `endpoint`.
    pub(super) fn start(endpoint: Endpoint<Parcel>, calls: Background<Parcel, RawClient>) -> Between {
        let script: Arc<Mutex<Script>> = Arc::new(Mutex::new(Box::new(|_, _| How::Ask)));
        let (hears, heard) = channel();
        let (ended, parker) = (Arc::new(AtomicBool::new(false)), endpoint.parker().clone());
        let served = Served { endpoint, calls, script: script.clone(), heard: hears };
        let until = ended.clone();
        let thread = Some(std::thread::spawn(move || served.run(&until)));
        Between { script, heard, ended, parker, thread }
    }

    /// From now on, this becomes of calls.
    pub fn play(&self, script: impl FnMut(ShardIndex, &Operation) -> How + Send + 'static) {
        *self.script.lock().expect("no script panicked") = Box::new(script);
    }

    /// The calls that came since this was asked last.
    pub fn heard(&self) -> Vec<(ShardIndex, Operation)> {
        self.heard.try_iter().collect()
    }

    /// The reports that shards were given to keep since anything was asked last.
    pub fn kept(&self) -> Vec<AuditReport> {
        let of = |(shard, operation): (ShardIndex, Operation)| match operation {
            Operation::KeepAudit(report) => {
                assert_eq!(report.shard, shard.0, "a shard keeps its own report");
                Some(*report)
            }
            _ => None,
        };
        self.heard().into_iter().filter_map(of).collect()
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.parker.wake();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok(), "what is between has panicked");
        }
    }
}

impl Served {
    fn run(mut self, ended: &AtomicBool) {
        let (wake, woken) = sync_channel(1);
        self.endpoint.parker().set_wake(move || {
            // One wake-up that waits is as good as many.
            let _ = wake.try_send(());
        });
        let here = Address { endpoint: self.endpoint.index(), member: MemberIndex(0) };
        while !ended.load(Ordering::Acquire) {
            let mut came = Vec::new();
            self.endpoint.receive(|envelope| came.push(envelope));
            for Envelope { from, body, .. } in came {
                let Ok(Message::Call { ticket, shard, operation, .. }) = body.unpack() else {
                    panic!("only calls come here")
                };
                let answer = self.answer(shard, operation);
                self.endpoint.send(here, from, Parcel::pack(Message::Answer { ticket, shard, answer }));
            }
            self.endpoint.wake_receivers();
            if self.endpoint.sleep_unless(|| ended.load(Ordering::Acquire)) {
                // Nobody is left who could wake it when the node is gone; then it was told to end.
                let _ = woken.recv();
                self.endpoint.awake();
            }
        }
    }

    fn answer(&mut self, shard: ShardIndex, operation: Operation) -> Result<Durable<Answer>, Unavailable> {
        // Nobody listens any more when the test has ended.
        let _ = self.heard.send((shard, operation.clone()));
        let how = (self.script.lock().expect("no script panicked"))(shard, &operation);
        let mut ask = || self.calls.ask((shard, operation.clone()), &|| false).expect("it serves");
        match how {
            How::Ask => ask(),
            How::Change(change) => ask().map(|answer| answer.map(change)),
            How::Fail => Err(Unavailable::ShardFailed),
        }
    }
}
