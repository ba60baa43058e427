//! What keeps the logs of a simulated process, and what goes wrong with it: the local one over a fake disk, and the
//! replicated stream over a fake network.
//!
//! A store steps the halves of logs that have threads or servers on a real node, rots them, and knows what is still
//! there to be read when a process has died. Whoever brings a workload opens logs by [`Store::logs`] and needs nothing
//! else of it.

mod local;
mod stream;

use tidegate_journal::disk::FakeDisk;
use tidegate_journal::{Family, LogId, LogStore, Logs};

use crate::chance::Chance;

pub use local::LocalStore;
pub use stream::StreamStore;

/// Where the data directory is on the fake disk.
pub const DATA: &str = "/data";

/// Names the kinds of store, for command lines and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreName {
    /// [`LocalStore`].
    Local,
    /// [`StreamStore`].
    Stream,
}

/// All kinds of store: a harness runs each workload on each.
pub const STORES: [StoreName; 2] = [StoreName::Local, StoreName::Stream];

impl StoreName {
    /// As a command line says it.
    pub const fn as_str(self) -> &'static str {
        match self {
            StoreName::Local => "local",
            StoreName::Stream => "stream",
        }
    }
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With the machine: what was not synced is lost, kept or torn.
    Power,
    /// By a signal: the page cache survives it.
    Kill,
    /// As it should.
    Stop,
}

/// What a step of a log's other half did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// Nothing is left to do now.
    Idle,
    /// Something, in words, if they are worth a line.
    Did(Option<String>),
    /// The log failed. Its shard will notice.
    Failed(String),
}

/// A bit that is not what was written.
#[derive(Clone, Debug)]
pub struct Rot {
    /// Whose.
    pub log: LogId,
    /// The name by which errors call the file or message.
    pub name: String,
    /// File or stream.
    pub path: String,
    /// Number of the message; zero in a file.
    pub number: u64,
    /// Offset in the file or message.
    pub offset: u64,
    /// Bit of that byte.
    pub bit: u8,
    /// The byte as it was written.
    pub written: u8,
}

/// A kind of store, over things that break their promises wherever real ones may. Clones are handles to the same one.
pub trait Store: Clone + 'static {
    /// Its name.
    const NAME: StoreName;
    /// Opens its logs.
    type Logs: Logs<Log = Self::Log>;
    /// One of its logs.
    type Log: LogStore;

    /// An empty store. Where it keeps files, they are on `disk`.
    fn new(chance: &mut Chance, disk: &FakeDisk, families: &[Family]) -> Self;

    /// Opens its logs, each of a family that was named to [`Store::new`], as a tool does.
    fn logs(&self) -> Self::Logs;

    /// The same, as the process does that serves them: it may put wrong bytes right.
    fn served(&self) -> Self::Logs {
        self.logs()
    }

    /// How many wrong bytes it has put right so far; `None` if it puts none right.
    fn mended(&self) -> Option<u64> {
        None
    }

    /// Lets the other half of a log do one piece of work, if the log is open.
    fn step(&self, log: LogId) -> Stepped;

    /// The process that had the logs open has ended.
    fn ended(&self, end: End);

    /// From now on nothing new goes wrong (`true`), or things do as drawn in the beginning.
    fn set_calm(&self, calm: bool);

    /// A log gets nothing done for so many ticks. Whether the store must not be stepped meanwhile.
    fn stall(&self, log: LogId, ticks: u64) -> bool;

    /// Another process takes the log over. Returns whether it did: where nobody else can have the files, nobody can.
    fn take_over(&self, log: LogId) -> bool;

    /// Messages that arrived for processes that had ended by then, so far: where one stands, the process that lives
    /// cannot write, and is fenced out although nobody took over.
    fn strays(&self) -> u64;

    /// The next opening fails because nothing answers. Returns whether that can happen.
    fn refuse_next_open(&self) -> bool;

    /// Whether these words say that it did.
    fn is_refused_open(&self, words: &str) -> bool;

    /// Flips a bit of something that the log knows to be durable; about anything else no store could tell.
    fn rot(&self, log: LogId, chance: &mut Chance) -> Option<Rot>;

    /// Whether the bit is still there and wrong.
    fn is_rotten(&self, rot: &Rot) -> bool;

    /// Flips the bit back.
    fn heal(&self, rot: &Rot);
}

/// The family of a log.
fn family_of(families: &[Family], log: LogId) -> &Family {
    families.iter().find(|family| family.number == log.family).expect("the workload named its families")
}
