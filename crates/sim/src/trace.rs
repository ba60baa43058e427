//! What happened, line by line. The last lines are kept for a person, and all are hashed: the same seed must give the
//! same hash.
//!
//! The trace is a black box, too: it is reachable from the thread's panic hook, so that a panic in the code under test
//! leaves its last events behind like any other failure.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

/// Lines that are kept.
const LINES_KEPT: usize = 60;

thread_local! {
    static RUNNING: RefCell<Option<Trace>> = const { RefCell::new(None) };
}

/// A handle to the trace of one simulation.
#[derive(Clone)]
pub struct Trace(Rc<RefCell<Lines>>);

struct Lines {
    seed: u64,
    replay: String,
    time_ms: u64,
    last: VecDeque<String>,
    hash: u64,
    count: u64,
    aloud: bool,
}

impl Trace {
    /// An empty trace, now this thread's black box. `aloud` prints each line as it comes.
    /// `replay` is the command that gives it again.
    pub fn begin(seed: u64, replay: &str, aloud: bool) -> Trace {
        let replay = replay.to_owned();
        let lines =
            Lines { seed, replay, time_ms: 0, last: VecDeque::new(), hash: 0xcbf2_9ce4_8422_2325, count: 0, aloud };
        let trace = Trace(Rc::new(RefCell::new(lines)));
        RUNNING.with(|running| *running.borrow_mut() = Some(trace.clone()));
        trace
    }

    /// The trace of the simulation that runs on this thread, or ran last.
    pub fn of_this_thread() -> Option<Trace> {
        RUNNING.with(|running| running.borrow().clone())
    }

    /// Tells the time to put before the next lines: simulated milliseconds.
    pub fn at(&self, time_ms: u64) {
        self.0.borrow_mut().time_ms = time_ms;
    }

    /// Writes a line.
    pub fn note(&self, what: fmt::Arguments<'_>) {
        let mut lines = self.0.borrow_mut();
        let line = format!("{:>10} {what}", lines.time_ms);
        if lines.aloud {
            println!("{line}");
        }
        // FNV-1a: short, and equal lines are all it has to tell from unequal ones.
        for byte in line.bytes() {
            lines.hash = (lines.hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        lines.count += 1;
        if lines.last.len() == LINES_KEPT {
            lines.last.pop_front();
        }
        lines.last.push_back(line);
    }

    /// The hash over all lines so far.
    pub fn hash(&self) -> u64 {
        self.0.borrow().hash
    }

    /// How many lines there were.
    pub fn count(&self) -> u64 {
        self.0.borrow().count
    }

    /// The seed that gives this trace.
    pub fn seed(&self) -> u64 {
        self.0.borrow().seed
    }

    /// The command that gives this trace again.
    pub fn replay(&self) -> String {
        self.0.borrow().replay.clone()
    }

    /// The last lines, oldest first.
    pub fn last_lines(&self) -> Vec<String> {
        self.0.borrow().last.iter().cloned().collect()
    }
}

/// Writes a line into a [`Trace`], as `format!` makes it.
#[macro_export]
macro_rules! note {
    ($trace:expr, $($what:tt)*) => { $trace.note(format_args!($($what)*)) };
}
