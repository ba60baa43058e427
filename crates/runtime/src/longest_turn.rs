//! How long a worker let others wait of late: its longest turn by the clock of the wall, and the most processor time
//! that one took.
//!
//! Why both: on a host with more to do than cores a worker is ready to run and has none, and a turn of a millisecond
//! takes ten. The first figure is what a client waited, the second is what the server can do about it.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::metrics::LoopMetrics;

/// The longest turn of so long a time is shown, and of the time before.
const LONGEST_TURN_OF: Duration = Duration::from_secs(5);

/// The most of both figures in some time.
#[derive(Clone, Copy, Default)]
struct Most {
    took: Duration,
    cpu: Duration,
}

/// See the [module](self). Of the thread that makes it.
pub struct LongestTurn {
    since: Instant,
    now: Most,
    before: Most,
    /// Processor time of the thread at the end of its last turn.
    cpu: Duration,
}

impl LongestTurn {
    /// No turns yet.
    pub fn new() -> LongestTurn {
        LongestTurn { since: Instant::now(), now: Most::default(), before: Most::default(), cpu: thread_cpu() }
    }

    /// Notes a turn that ends now. Its processor time has that of looking for events in it, which is little.
    pub fn note(&mut self, took: Duration) {
        let cpu = thread_cpu();
        self.now.took = self.now.took.max(took);
        self.now.cpu = self.now.cpu.max(cpu.saturating_sub(self.cpu));
        self.cpu = cpu;
    }

    /// Shows both figures until they are as long ago as they were collected, so that whoever looks that often misses
    /// none.
    pub fn show(&mut self, metrics: &LoopMetrics) {
        if self.since.elapsed() >= LONGEST_TURN_OF {
            self.since = Instant::now();
            self.before = std::mem::take(&mut self.now);
        }
        metrics.longest_turn_nanoseconds.set(self.now.took.max(self.before.took).as_nanos() as i64);
        metrics.longest_turn_cpu_nanoseconds.set(self.now.cpu.max(self.before.cpu).as_nanos() as i64);
    }
}

/// Processor time of this thread since it began.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
