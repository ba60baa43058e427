//! What the seeds of the ledger must meet, and what would not be tested if they did not.

use crate::harness::{Floor, StoreName};

/// On both stores, in a hundred seeds.
const ON_BOTH: &[Floor] = &[
    Floor::of("a kill", 90, "what was acknowledged survives the process"),
    Floor::of("a power failure", 100, "what was acknowledged survives the machine"),
    Floor::of("a graceful stop", 55, "a log that was closed whole is opened"),
    Floor::of("a sync that failed", 20, "nothing is acknowledged on a sync that failed"),
    Floor::of("a write that failed", 15, "nothing is acknowledged on a write that failed"),
    Floor::of("a bad sector", 35, "what cannot be read is refused and not guessed"),
    Floor::of("a read that failed", 60, "bad sectors are where somebody reads"),
    Floor::of("a refusal for a bad sector", 5, "who needs it is told, everybody else is served"),
    Floor::of("a start refused because of a bad sector", 10, "a start names the file and changes nothing"),
    Floor::of("rot", 22, "a changed bit is refused and not guessed"),
    Floor::of("a refusal for damage", 15, "who needs it is told, everybody else is served"),
    Floor::of("a start refused because of damage", 6, "a start names the file and changes nothing"),
    Floor::of("an offline audit that found damage", 8, "an audit names what rots"),
    Floor::of("a harmed snapshot", 35, "another one is used, or the whole log"),
    Floor::of("a harmed id index", 25, "it is built again"),
    Floor::of("a shard that stopped itself", 35, "and the next process goes on"),
    Floor::of("a full disk", 50, "and there is room again later"),
    Floor::of("a log that gets nothing done", 90, "an answer waits for its sync"),
    Floor::of("a slow page of ids", 50, "only who needs the page waits"),
    Floor::of("an answer while a page of ids is slow", 500, "only who needs the page waits"),
    Floor::of("a read by another thread", 20_000, "a decision waits for the record of its id"),
    Floor::of("a clock jump", 60, "holds live as long as was asked"),
    Floor::of("a clock jump of years", 20, "holds live as long as was asked"),
    Floor::of("a start refused because of the clock", 6, "no process takes a time that is far ahead"),
    Floor::of("a credit between shards", 1_000, "money on its way arrives once"),
    Floor::of("a reconciliation", 800, "live state and journal are compared"),
    Floor::of("a snapshot", 100, "starts begin behind the first record"),
    Floor::of("a whole log read again", 1_000, "the auditor's fold reaches back to the first record"),
    Floor::of("ids of journal and index compared", 100, "the index has each id under its hash"),
    Floor::of("a census", 140, "everything is compared with what was promised"),
    Floor::of("a probe of a wallet", 500, "what is available can be spent, and no more"),
    Floor::of("a refusal whose funds were recomputed", 500, "no refusal for want of funds is wrong"),
    Floor::of("a probe of settings", 400, "what was set on an account holds, and no longer than it is set"),
    Floor::of("an account that was changed", 120, "nothing moves that a status forbids"),
    Floor::of("a batch of holds", 250, "each hold of a batch is decided by itself"),
    Floor::of("a linked group of holds that was placed", 80, "all of a group"),
    Floor::of("a linked group of holds that was not placed", 500, "or nothing"),
    Floor::of("an id that several principals used, each for something", 120, "an id is unique within its space"),
    Floor::of("a transfer read by its id", 90, "it is what was asked, and stays so"),
    Floor::of("a refusal read by its id", 120, "it is what was answered, and when"),
    Floor::of("an open hold read by its id", 45, "it is what was asked, and has not ended"),
    Floor::of("an ended hold read by its id", 25, "it is what was asked, and ended as was answered"),
    Floor::of("a change that was read", 30_000, "each record once, in the order of its journal"),
    Floor::of("a reader of changes that goes on at a cursor", 1_500, "nothing is lost, nothing doubled"),
    Floor::of("changes compared with all histories", 210, "nothing is lost"),
    Floor::of("a clock that was wrong until it was mended", 10, "and all goes on by the right one"),
    Floor::of("a balance at a time", 350, "it is that of then, whatever clocks did meanwhile"),
    Floor::of("a balance at a time that nobody can tell", 10, "it is said from when to when"),
];

const ON_FILES: &[Floor] = &[
    Floor::of("changes that could not be read", 12, "damage is said, and what is behind it is read later"),
    Floor::of("a byte that was put right", 3, "a flipped bit costs nothing where it follows what it was"),
    Floor::of("a refusal for a full disk", 40, "a full disk is called so"),
    Floor::of("a lost tail that was refused", 12, "a log that lost its end is not served"),
    Floor::of("a log put back alone that was refused", 5, "older and newer logs are not served together"),
    Floor::of("a log in another's place that was refused", 10, "no shard has what is another's"),
    Floor::of("a DIRECTORY of another directory that was refused", 15, "no logs are taken for another directory's"),
    Floor::of("derived files of two shards exchanged", 5, "they are made again, and nobody is told what they say"),
    Floor::of("a backup", 5, "it is taken while the process serves"),
    Floor::of("a restore at a place", 4, "what is of the longer timeline is set aside"),
    Floor::of("a restore at a time", 1, "it is what had been decided by then"),
    Floor::of("a rollback to an older timeline", 5, "what is of the abandoned timeline is set aside"),
    Floor::of("a loss of one shard that was accepted", 3, "what others know is written again, the rest is booked"),
    Floor::of("a credit that was written again", 20, "who asks again is told that it is done"),
    Floor::of("a loss between shards that was booked", 2, "what no record tells of any more is booked, all of it"),
    Floor::of("a cursor of another timeline that was refused", 6, "no reader goes on where it has not been"),
    Floor::of("a loss that was accepted", 8, "and all goes on without what was lost"),
];

const ON_STREAMS: &[Floor] = &[
    Floor::of("a takeover", 45, "a process that was fenced out stops"),
    Floor::of("a start that reached nobody", 15, "it is tried again, and nothing is lost"),
];

/// The floors on a kind of store.
pub(super) fn of(store: StoreName) -> Vec<Floor> {
    let more = match store {
        StoreName::Local => ON_FILES,
        StoreName::Stream => ON_STREAMS,
    };
    ON_BOTH.iter().chain(more).copied().collect()
}
