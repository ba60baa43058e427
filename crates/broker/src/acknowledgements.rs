//! Who must still say that a message is durable, before its publisher is told.
//!
//! ```text
//!   route, retain, delay ─▶ Awaited: how many words, from which workers ─▶ answer of the publisher's session (flow)
//!                                                                      └─▶ Acknowledgements: wills, delayed messages
//!   a shard, a worker ─▶ word with a Ticket ─▶ Outstanding ─ all are there ─▶ PUBACK, PUBREC, or Completion
//! ```
//!
//! A word comes from each record of this worker's shards, and one from each other worker that has receivers whose
//! shards keep the message: that worker collects the words of its own shards first.
//!
//! Why counted after the message has set out: the first word may arrive before it is known how many there will be.

use tidegate_machines::topic::Origin;
use tidegate_wire::mqtt::ReasonCode;

use crate::OperatorTicket;
use crate::flow::{OUTCOME_UNKNOWN, worse};
use crate::index::ShardPlace;
use crate::peer::Source;
use crate::session::SessionRef;

/// Where an acknowledgement is sent: a worker, and its ticket for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AckTo {
    pub worker: u16,
    pub ticket: Ticket,
}

/// A worker's name for an acknowledgement that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ticket {
    /// The answer with this serial number to a session's client.
    Answer { session: SessionRef, serial: u32 },
    /// That of the message with this number, which waited for a session and is given to another.
    PassedOn { session: SessionRef, number: u64 },
    /// One that the broker collects for itself: for a will, a delayed message, or another worker's publication.
    Collected(CollectedIndex),
}

/// What is said of a message by who was to keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// It is on the disk, or need not be.
    Durable,
    /// It is not kept, and that was decided.
    Refused(ReasonCode),
    /// It could not be kept for now, for want of room on the disk. What was asked for may be asked for again.
    Unavailable(ReasonCode),
    /// A shard failed: its record may or may not be on the disk.
    Unknown,
}

impl Word {
    /// What was decided, in the protocol's words.
    pub fn decided(reason: ReasonCode) -> Word {
        if reason.is_error() { Word::Refused(reason) } else { Word::Durable }
    }

    /// The protocol's word for it.
    pub fn reason(self) -> ReasonCode {
        match self {
            Word::Durable => ReasonCode::SUCCESS,
            Word::Refused(reason) | Word::Unavailable(reason) => reason,
            Word::Unknown => OUTCOME_UNKNOWN,
        }
    }
}

/// Some workers, by number modulo 64: who may know a publication of QoS 2 by its origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerSet(u64);

impl WorkerSet {
    pub const NONE: WorkerSet = WorkerSet(0);
    /// Whoever it may be.
    pub const ALL: WorkerSet = WorkerSet(u64::MAX);

    pub fn add(&mut self, worker: u16) {
        self.0 |= 1 << (worker % 64);
    }

    /// These as well.
    pub fn add_all(&mut self, others: WorkerSet) {
        self.0 |= others.0;
    }

    /// Whether it may be one of them.
    pub fn has(self, worker: u16) -> bool {
        self.0 & 1 << (worker % 64) != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The words that are to come about one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Awaited {
    words: u16,
    origins: WorkerSet,
}

impl Awaited {
    /// Nothing of it is kept.
    pub const NOTHING: Awaited = Awaited { words: 0, origins: WorkerSet::NONE };

    /// The word of the service that answers a request.
    pub fn of_service(is_asked: bool) -> Awaited {
        Awaited { words: u16::from(is_asked), ..Awaited::NOTHING }
    }

    /// A word of each worker: it says when the records of its own receivers of a retained message are durable.
    pub fn of_each_worker(workers: u16, is_asked: bool) -> Awaited {
        match is_asked {
            true => Awaited { words: workers, origins: WorkerSet::ALL },
            false => Awaited::NOTHING,
        }
    }

    /// The word of the shard on a worker that keeps a delayed message, and may know its origin.
    pub fn of_topic(worker: u16, source: &Source) -> Awaited {
        let mut origins = WorkerSet::NONE;
        if source.origin.is_some() {
            origins.add(worker);
        }
        Awaited { words: u16::from(source.ack_to.is_some()), origins }
    }

    /// Another worker will say one word, for all of its shards.
    pub fn add_worker(&mut self, worker: u16) {
        self.words += 1;
        self.origins.add(worker);
    }

    /// So many records of the own worker's shards will each say one.
    pub fn add_records(&mut self, own: u16, records: u16) {
        if records > 0 {
            self.words += records;
            self.origins.add(own);
        }
    }

    /// How many words are to come.
    pub fn words(self) -> u16 {
        self.words
    }

    /// Whose shards may know its origin now.
    pub fn origins(self) -> WorkerSet {
        self.origins
    }
}

/// Words that have not come yet, and the worst of those that have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outstanding {
    /// Negative as long as some arrived before it was known how many there would be.
    remaining: i32,
    reason: ReasonCode,
    /// Somebody could not say yes or no.
    is_open: bool,
}

impl Outstanding {
    /// So many are to come, of an outcome that is this one so far.
    pub fn new(words: u16, reason: ReasonCode) -> Outstanding {
        Outstanding { remaining: words.into(), reason, is_open: false }
    }

    /// So many more are to come, or have come.
    fn expect(&mut self, words: u16) {
        self.remaining += i32::from(words);
    }

    /// One has come.
    pub fn take(&mut self, word: Word) {
        self.remaining -= 1;
        self.reason = worse(self.reason, word.reason());
        self.is_open |= matches!(word, Word::Unavailable(_) | Word::Unknown);
    }

    /// Whether all are there.
    pub fn is_complete(&self) -> bool {
        self.remaining <= 0
    }

    /// The worst of what was said, in the protocol's words.
    pub fn reason(&self) -> ReasonCode {
        self.reason
    }

    /// The same as one word, for who waits for one.
    pub fn word(&self) -> Word {
        match (self.is_open, self.reason) {
            (_, OUTCOME_UNKNOWN) => Word::Unknown,
            (true, reason) => Word::Unavailable(reason),
            (false, reason) => Word::decided(reason),
        }
    }
}

/// What is done when all words have arrived that the broker collects.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Completion {
    /// One word is sent, for all that were collected.
    Ack(AckTo),
    /// A will was sent: its record is cleared, and it is forgotten.
    ForgetWill { name: Origin },
    /// A delayed message was sent: its record is cleared.
    ForgetDelayed { shard: ShardPlace, id: u64 },
    /// What a member of a share group has left was offered to another.
    Left { number: u64 },
    /// An operator is told what became of its message.
    Operator { ticket: OperatorTicket },
}

/// Names a collection. Used again when that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectedIndex(u32);

/// The words about one message.
#[derive(Clone, Copy, Debug)]
struct Collected {
    completion: Completion,
    outstanding: Outstanding,
    /// Whether it is known how many there will be.
    is_counted: bool,
}

/// A source whose words may be collected here, so that its requester gets one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathered {
    /// The source with which the message is delivered here.
    pub source: Source,
    collected: Option<CollectedIndex>,
}

/// What follows when it is known how many words about a gathered source will come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Followed {
    /// Nothing, until they have come.
    Nothing,
    /// Nobody had to say anything: its requester is told so.
    Tell(AckTo),
    /// All had come before.
    Complete(Completion, Word),
}

/// All that one broker collects for itself.
#[derive(Debug)]
pub(crate) struct Acknowledgements {
    worker: u16,
    all: Vec<Option<Collected>>,
    free: Vec<CollectedIndex>,
}

impl Acknowledgements {
    /// Nothing is collected yet, by the broker of this worker.
    pub fn new(worker: u16) -> Acknowledgements {
        Acknowledgements { worker, all: Vec::new(), free: Vec::new() }
    }

    /// Begins to collect for `completion`. [`Acknowledgements::expect`] gives the number of words later.
    pub fn begin(&mut self, completion: Completion) -> (CollectedIndex, AckTo) {
        let outstanding = Outstanding::new(0, ReasonCode::SUCCESS);
        let collected = Some(Collected { completion, outstanding, is_counted: false });
        let index = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            CollectedIndex((self.all.len() - 1) as u32)
        });
        assert!(self.all[index.0 as usize].is_none(), "a free number is not in use");
        self.all[index.0 as usize] = collected;
        (index, AckTo { worker: self.worker, ticket: Ticket::Collected(index) })
    }

    /// Collects what several shards here may say about a message of this source, whose requester waits for one word.
    /// With one receiver, its word goes to the requester directly.
    pub fn gather(&mut self, source: &Source, may_split: bool) -> Gathered {
        let Some(ack_to) = source.ack_to.filter(|_| may_split) else {
            return Gathered { source: *source, collected: None };
        };
        let (collected, own) = self.begin(Completion::Ack(ack_to));
        Gathered { source: Source { ack_to: Some(own), ..*source }, collected: Some(collected) }
    }

    /// So many words will come about a gathered source, or have come.
    pub fn expect_gathered(&mut self, gathered: &Gathered, words: u16) -> Followed {
        match (gathered.collected, gathered.source.ack_to) {
            (Some(collected), _) => match self.expect(collected, words) {
                Some((completion, word)) => Followed::Complete(completion, word),
                None => Followed::Nothing,
            },
            (None, Some(ack_to)) if words == 0 => Followed::Tell(ack_to),
            (None, _) => Followed::Nothing,
        }
    }

    /// So many words will arrive, or have arrived. Gives what is to be done if all are there.
    pub fn expect(&mut self, index: CollectedIndex, words: u16) -> Option<(Completion, Word)> {
        let collected = self.all[index.0 as usize].as_mut().expect("it is kept until its words are counted");
        assert!(!collected.is_counted, "words are counted once");
        collected.is_counted = true;
        collected.outstanding.expect(words);
        assert!(collected.outstanding.remaining >= 0, "no more words arrive than were expected");
        self.take_if_complete(index)
    }

    /// One has arrived. Gives what is to be done if all are there.
    pub fn take(&mut self, index: CollectedIndex, word: Word) -> Option<(Completion, Word)> {
        let collected = self.all[index.0 as usize].as_mut().expect("it is kept until all words are there");
        let is_expected = !collected.is_counted || !collected.outstanding.is_complete();
        assert!(is_expected, "no more words arrive than were expected");
        collected.outstanding.take(word);
        self.take_if_complete(index)
    }

    fn take_if_complete(&mut self, index: CollectedIndex) -> Option<(Completion, Word)> {
        let place = &mut self.all[index.0 as usize];
        let collected = place.take_if(|collected| collected.is_counted && collected.outstanding.is_complete())?;
        assert!(self.free.len() < self.all.len(), "a number is freed once");
        self.free.push(index);
        Some((collected.completion, collected.outstanding.word()))
    }

    /// Panics if used and free numbers disagree. Walks over all of them: for tests and simulation.
    pub fn assert_sound(&self) {
        assert_eq!(self.free.len(), self.all.iter().filter(|collected| collected.is_none()).count(), "free numbers");
        for collected in self.all.iter().flatten() {
            assert!(collected.is_counted && !collected.outstanding.is_complete(), "{collected:?} is complete");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETION: Completion = Completion::ForgetDelayed { shard: ShardPlace(0), id: 7 };

    #[test]
    fn words_may_come_before_they_are_counted_and_the_worst_is_told() {
        let mut all = Acknowledgements::new(3);
        let (index, ack_to) = all.begin(COMPLETION);
        assert_eq!(ack_to, AckTo { worker: 3, ticket: Ticket::Collected(index) });
        assert!(
            all.take(index, Word::Refused(ReasonCode::QUOTA_EXCEEDED)).is_none(),
            "nobody knows that it was the only one"
        );
        assert!(all.expect(index, 2).is_none());
        all.assert_sound();
        let (_, word) = all.take(index, Word::Durable).expect("both are there");
        assert_eq!(word, Word::Refused(ReasonCode::QUOTA_EXCEEDED));
        assert_eq!(all.begin(COMPLETION).0, index, "the number is free again");
    }

    #[test]
    fn what_could_not_be_decided_is_open_whatever_others_say() {
        let said = |words: &[Word]| {
            let mut outstanding = Outstanding::new(words.len() as u16, ReasonCode::SUCCESS);
            words.iter().for_each(|word| outstanding.take(*word));
            outstanding.word()
        };
        let refused = Word::Refused(ReasonCode::QUOTA_EXCEEDED);
        let full = Word::Unavailable(ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
        assert_eq!(said(&[Word::Durable, Word::Durable]), Word::Durable);
        assert_eq!(said(&[refused, Word::Durable]), refused);
        assert!(matches!(said(&[full, refused]), Word::Unavailable(_)));
        assert!(matches!(said(&[refused, full]), Word::Unavailable(_)));
        assert_eq!(said(&[Word::Unknown, full, refused]), Word::Unknown);
    }

    #[test]
    fn only_what_several_shards_may_say_is_collected() {
        let mut all = Acknowledgements::new(0);
        let asked = AckTo { worker: 1, ticket: all.begin(COMPLETION).1.ticket };
        let source = Source { ack_to: Some(asked), ..Source::default() };
        let alone = all.gather(&source, false);
        assert_eq!(alone.source, source);
        assert!(matches!(all.expect_gathered(&alone, 1), Followed::Nothing));
        assert!(matches!(all.expect_gathered(&alone, 0), Followed::Tell(told) if told == asked));
        let several = all.gather(&source, true);
        assert_eq!(several.source.ack_to.map(|own| own.worker), Some(0));
        let followed = all.expect_gathered(&several, 0);
        assert!(matches!(followed, Followed::Complete(Completion::Ack(told), _) if told == asked));
        let nobody_asks = all.gather(&Source::default(), true);
        assert!(matches!(all.expect_gathered(&nobody_asks, 2), Followed::Nothing));
    }

    #[test]
    fn a_worker_says_one_word_and_each_record_here_one() {
        let mut awaited = Awaited::NOTHING;
        awaited.add_records(0, 0);
        assert_eq!(awaited, Awaited::NOTHING);
        awaited.add_worker(65);
        awaited.add_records(0, 2);
        assert_eq!(awaited.words(), 3);
        assert!(awaited.origins().has(1) && awaited.origins().has(0) && !awaited.origins().has(2), "modulo 64");
        assert_eq!(Awaited::of_each_worker(4, true).words(), 4);
    }
}
