//! The ledger's topics on one worker: requests to the ledger by PUBLISH, and account figures as retained messages.
//!
//! ```text
//!   PUBLISH $ledger/transfers ─▶ JSON ─▶ rights checked ─▶ shards ─▶ JSON ─▶ response topic    as POST /v1/transfers
//!           $ledger/holds, $ledger/holds/post, $ledger/holds/void, $ledger/accounts            as POST /v1/…
//!   SUBSCRIBE $ledger/accounts/x ─▶ is x a collector? ─▶ shards ─▶ yes or no                  for viewers
//!   figures of all shards ─▶ parts of a collector summed ─▶ $ledger/accounts/{id}, retained   as GET /v1/accounts/{id}
//! ```
//!
//! Promise: the same JSON and the same outcomes as over HTTP, because the same code reads, checks and answers it.

mod wanted;

use std::collections::VecDeque;

use hashbrown::HashMap;
use tidegate_broker::subscriptions::WatchedFilter;
use tidegate_broker::{ConnectionKey, ReasonCode, RequestTicket, RequestTopic};
use tidegate_ledger::announcer::{Announcement, News, Want};
use tidegate_ledger::message::{CallerRequest, Reply, Request};
use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::{AccountKind, AccountView};

use crate::auth::Identity;
use crate::auth::gate::NotFound;
use crate::authorized::{Answered, AuthorizedRequests};
use crate::json::{OverBound, Problem, codes};
use crate::ledger_json::{HoldCall, OpenCall, TransferCall, account_json};
pub use crate::topic_names::{
    ACCOUNTS, ALL_ACCOUNTS, CHANGES, HOLDS, HOLDS_POST, HOLDS_VOID, OPENINGS, PREFIX, REQUESTS, TRANSFERS,
};
use wanted::Wanted;

/// Accounts whose kind is remembered, so that a vote need not ask for it again.
const KINDS_REMEMBERED: usize = 65_536;
/// Votes that wait for a kind.
const PARKED_MAX: usize = 4_096;
/// Wants that one turn sends.
const WANTS_PER_TURN: usize = 64;
/// What is published there is for the ledger to answer. A [`RequestTopic`] is a place in this list.
pub const REQUEST_TOPICS: [&str; REQUESTS.len()] = REQUESTS;

/// A request in JSON, as HTTP has it.
#[derive(Debug)]
enum LedgerCall {
    Transfer(TransferCall),
    Hold(HoldCall),
    Open(OpenCall),
}

impl LedgerCall {
    fn read(topic: &str, payload: &[u8]) -> Result<LedgerCall, Problem> {
        match topic {
            TRANSFERS => TransferCall::read(payload).map(LedgerCall::Transfer),
            HOLDS => HoldCall::place(payload).map(LedgerCall::Hold),
            HOLDS_POST => HoldCall::post(payload).map(LedgerCall::Hold),
            HOLDS_VOID => HoldCall::void(payload).map(LedgerCall::Hold),
            OPENINGS => OpenCall::read(payload).map(LedgerCall::Open),
            other => unreachable!("{other} is listed and has no answer"),
        }
    }

    fn request(&self) -> Request {
        match self {
            LedgerCall::Transfer(call) => call.request(),
            LedgerCall::Hold(call) => call.request(),
            LedgerCall::Open(call) => call.request(),
        }
    }

    /// The body of the answer. Its status is HTTP's; here `outcome` or `code` says the same.
    fn answer(&self, reply: Reply) -> Result<Vec<u8>, Problem> {
        let answer = match self {
            LedgerCall::Transfer(call) => call.answer(reply),
            LedgerCall::Hold(call) => call.answer(reply),
            LedgerCall::Open(call) => call.answer(reply),
        };
        answer.map(|(_, body)| body)
    }
}

/// What the broker wants to know.
#[derive(Debug)]
enum Question {
    Call { ticket: RequestTicket, call: LedgerCall },
    Collector { key: ConnectionKey, account: Box<str> },
    Announce(Want),
}

/// What to tell the broker.
#[derive(Debug, PartialEq, Eq)]
pub enum LedgerAnswer {
    /// To a transfer, or to what else is asked on [`REQUEST_TOPICS`]: the body, JSON.
    Transfer {
        /// Which question.
        ticket: RequestTicket,
        /// An outcome, or a problem.
        body: Vec<u8>,
        /// What the acknowledgement says: success if it was decided, for good, what becomes of the request.
        reason: ReasonCode,
        /// The bound over which the caller asked, if it did.
        over: Option<&'static str>,
        /// Why the door refused it, if it did.
        refused: Option<&'static str>,
    },
    /// Whether an account is a collector; one that is missing is none.
    Collector {
        /// Which connection asked.
        key: ConnectionKey,
        /// Which account.
        account: Box<str>,
        /// The answer.
        is_collector: bool,
    },
}

/// What was heard of a collector that may have parts on several shards.
#[derive(Debug, Default)]
struct Parts {
    /// The last figures of each part.
    parts: Vec<(ShardIndex, AccountView)>,
    /// A change of one was announced.
    has_changed: bool,
}

impl Parts {
    /// Takes figures of a part. What they are to who heard of the others before: one that was told last is a change of
    /// the sum that was announced without it.
    fn take(&mut self, shard: ShardIndex, Announcement { account, news }: Announcement) -> News {
        let known = self.parts.iter_mut().find(|(of, _)| *of == shard);
        let completes = known.is_none() && self.has_changed;
        match known {
            Some((_, part)) => *part = account,
            None => self.parts.push((shard, account)),
        }
        self.has_changed |= news == News::Changed;
        if completes { News::Changed } else { news }
    }

    /// The collector's figures: the sums over its parts.
    fn whole(&self) -> AccountView {
        let mut parts = self.parts.iter().map(|(_, part)| part);
        let mut sum = parts.next().expect("at least the part that was just announced").clone();
        for part in parts {
            sum.balance += part.balance;
            sum.held += part.held;
            sum.credited += part.credited;
            sum.debited += part.debited;
        }
        sum
    }
}

/// The ledger, for the broker of one worker.
pub struct LedgerTopics {
    authorized: AuthorizedRequests<Question>,
    /// Of collectors that have parts on several shards.
    parts: HashMap<Box<str>, Parts>,
    shards: u16,
    wanted: Wanted,
    /// What the shards are still to be told, in order.
    wants: VecDeque<Want>,
}

impl LedgerTopics {
    /// For a ledger of `shards` shards.
    pub fn new(shards: u16) -> LedgerTopics {
        LedgerTopics {
            authorized: AuthorizedRequests::new(KINDS_REMEMBERED, PARKED_MAX),
            parts: HashMap::new(),
            shards,
            wanted: Wanted::default(),
            wants: VecDeque::new(),
        }
    }

    /// Answers what was published on one of [`REQUEST_TOPICS`], on behalf of `identity`. `Some` when the answer is
    /// there at once.
    pub fn request(
        &mut self,
        topic: RequestTopic,
        ticket: RequestTicket,
        identity: Option<&Identity>,
        payload: &[u8],
        start: &mut impl FnMut(u64, CallerRequest),
    ) -> Option<LedgerAnswer> {
        let refused = |problem: Problem| Some(LedgerAnswer::refused(ticket, &problem));
        let Some(identity) = identity else {
            return refused(Problem::forbidden("an anonymous client may not ask the ledger for anything"));
        };
        if let Err(exceeded) = identity.arrive() {
            return refused(exceeded.into());
        }
        match LedgerCall::read(REQUEST_TOPICS[usize::from(topic.0)], payload) {
            Err(problem) => refused(problem),
            Ok(call) => {
                let request = call.request();
                let answered = self.authorized.ask(identity, request, Question::Call { ticket, call }, start);
                answered.map(|(question, answered)| worded(question, answered))
            }
        }
    }

    /// Finds out whether `account` is a collector.
    pub fn collector(&mut self, key: ConnectionKey, account: Box<str>, start: &mut impl FnMut(u64, CallerRequest)) {
        let request = Request::ReadAccount { id: account.clone() };
        self.authorized.ask_unchecked(request, Question::Collector { key, account }, start);
    }

    /// A reply of the shards.
    pub fn reply(
        &mut self,
        token: u64,
        reply: Reply,
        start: &mut impl FnMut(u64, CallerRequest),
    ) -> Option<LedgerAnswer> {
        match self.authorized.reply(token, reply, start)? {
            (Question::Announce(_), Answered::Reply(Reply::Announced)) => None,
            // Busy, or it recovers: it is told what is so now. To want twice is to hear the figures twice.
            (Question::Announce(Want { account, .. }), _) => {
                let is_wanted = self.wanted.wants(account.as_deref());
                self.wants.push_front(Want { account, is_wanted });
                None
            }
            (question, answered) => Some(worded(question, answered)),
        }
    }

    /// Somebody subscribes to a filter of the ledger's now, or nobody any more.
    pub fn watched(&mut self, change: &WatchedFilter) {
        self.wants.extend(self.wanted.change(change));
    }

    /// Tells the shards what else is wanted; some of it in each turn.
    pub fn tell_wants(&mut self, start: &mut impl FnMut(u64, CallerRequest)) {
        for _ in 0..WANTS_PER_TURN.min(self.wants.len()) {
            let want = self.wants.pop_front().expect("counted above");
            self.authorized.ask_unchecked(Request::Announce(want.clone()), Question::Announce(want), start);
        }
    }

    /// Topics whose retained messages nobody wants any more, some of them.
    pub fn take_unwanted(&mut self) -> Vec<String> {
        let unwanted = self.wanted.take_unwanted();
        unwanted.iter().for_each(|id| drop(self.parts.remove(id)));
        unwanted.iter().map(|id| format!("{ACCOUNTS}{id}")).collect()
    }

    /// Whether there is something to tell or to clear.
    pub fn has_changes(&self) -> bool {
        !self.wants.is_empty() || self.wanted.has_unwanted()
    }

    /// Figures of an account, or of a collector's part on `shard`: the topic and the payload to announce, and what they
    /// are to who hears changes alone. `None` for an id that no topic can name, and for one that nobody wants any more.
    pub fn announcement(&mut self, shard: ShardIndex, announcement: Announcement) -> Option<(String, Vec<u8>, News)> {
        let Announcement { account, news } = &announcement;
        if account.id.contains(['+', '#']) || !self.wanted.announces(&account.id) {
            return None;
        }
        let topic = format!("{ACCOUNTS}{}", account.id);
        if self.shards == 1 || account.kind != AccountKind::Collector {
            return Some((topic, account_json(account), *news));
        }
        let parts = self.parts.entry_ref(&*account.id).or_default();
        let news = parts.take(shard, announcement);
        Some((topic, account_json(&parts.whole()), news))
    }

    /// Whether nothing is under way.
    pub fn is_quiet(&self) -> bool {
        self.authorized.is_empty()
    }
}

impl LedgerAnswer {
    fn refused(ticket: RequestTicket, problem: &Problem) -> LedgerAnswer {
        let over = problem.over().filter(|_| problem.code() == codes::TOO_MANY_REQUESTS);
        LedgerAnswer::Transfer {
            ticket,
            body: problem.body(),
            reason: reason_of(problem),
            over: over.map(|OverBound(bound)| bound),
            refused: Some(problem.code().name()),
        }
    }
}

/// What asks for more than it may, and what a shard could not take, is not known to be decided as a whole: an
/// acknowledgement that says "success" would be the word that it need not be asked again. A refusal because of damage
/// is one: whoever can only be disconnected would ask again and again until the file is put right.
pub fn reason_of(problem: &Problem) -> ReasonCode {
    match problem.code() {
        codes::TOO_MANY_REQUESTS | codes::BUSY | codes::DISK_FULL => ReasonCode::QUOTA_EXCEEDED,
        codes::SHARD_FAILED | codes::STATE_DIFFERS | codes::RECOVERING | codes::STOPPING => {
            ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR
        }
        _ => ReasonCode::SUCCESS,
    }
}

fn worded(question: Question, answered: Answered) -> LedgerAnswer {
    match question {
        Question::Call { ticket, call } => {
            let answer = match answered {
                Answered::Reply(reply) => call.answer(reply),
                Answered::Denied(reason) => Err(Problem::forbidden(reason)),
                // Of one transfer, as over HTTP: its outcome. Of a batch, which item it is.
                Answered::NotFound(NotFound { refusal, item: None }) => call.answer(Reply::Refused(refusal)),
                Answered::NotFound(missing) => Err(missing.into()),
                Answered::TooMany(exceeded) => Err(exceeded.into()),
            };
            match answer {
                Ok(body) => {
                    LedgerAnswer::Transfer { ticket, body, reason: ReasonCode::SUCCESS, over: None, refused: None }
                }
                Err(problem) => LedgerAnswer::refused(ticket, &problem),
            }
        }
        Question::Announce(_) => unreachable!("it is the server's own"),
        Question::Collector { key, account } => {
            let is_collector = matches!(
                &answered,
                Answered::Reply(Reply::Account(found)) if found.kind == AccountKind::Collector
            );
            LedgerAnswer::Collector { key, account, is_collector }
        }
    }
}

#[cfg(test)]
mod tests;
