//! Some shards and the messages between them: claims of ids, facts of accounts, credits. It replaces the router, and
//! the test chooses the order of messages.

use super::node::Node;
use crate::ledger::{
    AccountChange, AccountKind, AccountStatus, Command, Content, Event, Guess, Hold, Ledger, Outcome, Refusal, Ruling,
    Transfer, check_hold, check_transfer, content_digest, shard_of,
};
use crate::machine::tests::nth;
use crate::{Machine, OutboundNumber, ShardIndex};

#[derive(Clone)]
pub struct Cluster {
    pub nodes: Vec<Node>,
}

impl Cluster {
    pub fn new(shard_count: u16) -> Cluster {
        Cluster { nodes: (0..shard_count).map(|shard| Node::new(shard, shard_count)).collect() }
    }

    pub fn shard_count(&self) -> u16 {
        self.nodes.len() as u16
    }

    pub fn home(&self, key: &str) -> usize {
        shard_of(key, self.shard_count()).0 as usize
    }

    pub fn open(&mut self, id: &str, asset: &str, kind: AccountKind) -> Outcome {
        let home = self.home(id);
        self.nodes[home].outcome(Command::OpenAccount { id, asset, kind })
    }

    pub fn transfer(&mut self, transfer: Transfer<'_>) -> Outcome {
        if let Err(refusal) = check_transfer(&transfer) {
            return Outcome::Refused(refusal);
        }
        let shard = self.home(transfer.debit);
        if let Err(refusal) = self.claim(transfer.id, shard, content_digest(&transfer)) {
            return Outcome::Refused(refusal);
        }
        // A guess is right, or of another account: the outcome is the same.
        let touched = self.nodes[shard].ledger.touch(self.nodes[shard].ledger.seek(&transfer));
        let swapped = Guess { debit: touched.credit, credit: touched.debit };
        let guess = if transfer.amount.is_multiple_of(2) { touched } else { swapped };
        match self.nodes[shard].ask(Command::Transfer { transfer, credit_missing: false, guess }) {
            Ruling::Outcome(outcome) => outcome.as_if_new(),
            Ruling::NeedAccount => {
                let credit_missing = !self.adopt(transfer.credit, shard);
                self.nodes[shard].outcome(Command::Transfer { transfer, credit_missing, guess: Guess::NONE })
            }
            other => panic!("{transfer:?} came to {other:?}"),
        }
    }

    pub fn place(&mut self, hold: Hold<'_>) -> Outcome {
        if let Err(refusal) = check_hold(&hold) {
            return Outcome::Refused(refusal);
        }
        let shard = self.home(hold.debit);
        if let Err(refusal) = self.claim(hold.id, shard, content_digest(&hold)) {
            return Outcome::Refused(refusal);
        }
        match self.nodes[shard].ask(Command::PlaceHold { hold, credit_missing: false, open_holds_max: u32::MAX }) {
            Ruling::Outcome(outcome) => outcome.as_if_new(),
            Ruling::NeedAccount => {
                let credit_missing = !self.adopt(hold.credit, shard);
                self.nodes[shard].outcome(Command::PlaceHold { hold, credit_missing, open_holds_max: u32::MAX })
            }
            other => panic!("{hold:?} came to {other:?}"),
        }
    }

    pub fn post(&mut self, id: &str, amount: Option<u64>) -> Outcome {
        let owner = self.owner(id);
        self.nodes[owner].outcome(Command::PostHold { id, amount })
    }

    pub fn void(&mut self, id: &str) -> Outcome {
        let owner = self.owner(id);
        self.nodes[owner].outcome(Command::VoidHold { id })
    }

    /// The debit accounts share a shard; ids are new and distinct.
    pub fn linked(&mut self, items: &[Content<'_>]) -> Vec<Outcome> {
        let debit = match items[0] {
            Content::Transfer(Transfer { debit, .. }) | Content::Hold(Hold { debit, .. }) => debit,
        };
        let shard = self.home(debit);
        for item in items.iter().filter(|item| item.check().is_ok()) {
            self.claim(item.id(), shard, content_digest(*item)).expect("a new id");
            if self.home(item.credit()) != shard {
                self.adopt(item.credit(), shard);
            }
        }
        self.nodes[shard].linked(items)
    }

    /// Changes an account at its home, closes it if nothing is on its way to it, and tells all other shards.
    pub fn change(&mut self, id: &str, change: AccountChange<'_>) -> Outcome {
        let home = self.home(id);
        let command = |is_settled| Command::ChangeAccount { id, change, is_settled };
        let mut outcome = self.nodes[home].outcome(command(false));
        if matches!(outcome, Outcome::Refused(_)) {
            return outcome;
        }
        self.tell(id, home);
        let status = self.nodes[home].ledger.account(id).expect("it was changed").status();
        if change.status == Some(AccountStatus::Closed) && status != AccountStatus::Closed {
            for shard in (0..self.nodes.len()).filter(|shard| *shard != home) {
                self.confirm(shard, home);
            }
            let others = self.nodes.iter().enumerate().filter(|(shard, _)| *shard != home);
            if others.map(|(_, node)| node.ledger.under_way_to(id).0).sum::<usize>() > 0 {
                return Outcome::Refused(Refusal::AccountInTransit);
            }
            outcome = self.nodes[home].outcome(command(true));
            self.tell(id, home);
        }
        outcome
    }

    /// Tells all other shards what was set on an account.
    fn tell(&mut self, id: &str, home: usize) {
        let Some(settings) = self.nodes[home].ledger.account(id).expect("it was changed").settings else { return };
        for shard in (0..self.nodes.len()).filter(|shard| *shard != home) {
            self.adopt(id, shard);
            let (revision, rules) = (settings.revision, settings.rules);
            self.nodes[shard].ask(Command::AdoptChange { id, revision, rules });
        }
    }

    /// Reserves the id at its home, if that is another shard.
    fn claim(&mut self, id: &str, owner: usize, digest: [u8; 16]) -> Result<(), Refusal> {
        let home = self.home(id);
        if home == owner {
            return Ok(());
        }
        match self.nodes[home].outcome(Command::ClaimId { id, owner: ShardIndex(owner as u16), digest }) {
            Outcome::Applied | Outcome::Duplicate => Ok(()),
            refused => Err(refused.refusal().expect("all other outcomes are refusals")),
        }
    }

    /// The shard that decided on an id.
    fn owner(&self, id: &str) -> usize {
        let home = self.home(id);
        match self.nodes[home].prior(id) {
            Some(Event::IdClaimed { owner, .. }) => owner.0 as usize,
            _ => home,
        }
    }

    /// Tells `shard` what the home of the account knows. False if there is no such account.
    fn adopt(&mut self, id: &str, shard: usize) -> bool {
        let home = self.home(id);
        let Some(account) = self.nodes[home].ledger.account(id) else { return false };
        let (asset, kind, home) = (&*account.asset, account.kind, ShardIndex(home as u16));
        let outcome = self.nodes[shard].outcome(Command::AdoptAccount { id, asset, kind, home });
        assert!(matches!(outcome, Outcome::Applied | Outcome::Duplicate));
        true
    }

    /// Carries at most `max` credits of `from` to `to`, starting `back` before the first one that `to` lacks (repeats
    /// do nothing). Returns how many were taken in.
    pub fn deliver(&mut self, from: usize, to: usize, back: u64, max: usize) -> usize {
        let watermark = self.nodes[to].ledger.watermark(ShardIndex(from as u16));
        let (sender, receiver) = pair(&mut self.nodes, from, to);
        let after = OutboundNumber(watermark.0.saturating_sub(back));
        let mut taken = 0;
        for outbound in sender.ledger.outbound(ShardIndex(to as u16), after, max) {
            let event = Ledger::decode(&sender.records[nth(outbound.position)]).expect("was encoded");
            let credit = sender.ledger.credit_of(&outbound, &event).expect("the record that sent it");
            match receiver.ask(Command::ReceiveCredit(credit)) {
                Ruling::Outcome(Outcome::Applied) => taken += 1,
                Ruling::AppliedBefore => assert!(outbound.number <= watermark),
                other => panic!("{credit:?} came to {other:?}"),
            }
        }
        taken
    }

    /// Offers the credit after the next one, which must not be taken.
    pub fn deliver_too_early(&mut self, from: usize, to: usize) {
        let watermark = self.nodes[to].ledger.watermark(ShardIndex(from as u16));
        let (sender, receiver) = pair(&mut self.nodes, from, to);
        let after = OutboundNumber(watermark.0 + 1);
        let Some(outbound) = sender.ledger.outbound(ShardIndex(to as u16), after, 1).next() else { return };
        let event = Ledger::decode(&sender.records[nth(outbound.position)]).expect("was encoded");
        let credit = sender.ledger.credit_of(&outbound, &event).expect("the record that sent it");
        assert_eq!(receiver.ask(Command::ReceiveCredit(credit)), Ruling::Gap { expected: after });
    }

    /// Tells `from` that `to` holds what it took in.
    pub fn confirm(&mut self, from: usize, to: usize) {
        let number = self.nodes[to].ledger.watermark(ShardIndex(from as u16));
        let answered = self.nodes[from].ask(Command::ConfirmCredits { to: ShardIndex(to as u16), number });
        assert!(matches!(answered, Ruling::Outcome(Outcome::Applied) | Ruling::AppliedBefore));
    }

    /// Expires all holds whose time is over.
    pub fn tick(&mut self) {
        for node in &mut self.nodes {
            while let Some(id) = node.expired_hold() {
                assert_eq!(node.outcome(Command::ExpireHold { id: &id }), Outcome::Applied);
            }
        }
    }

    /// Balance and held of an account, all parts together.
    pub fn figures(&self, id: &str) -> (i128, u128) {
        let parts = self.nodes.iter().filter_map(|node| node.ledger.account(id));
        parts.fold((0, 0), |(balance, held), part| (balance + i128::from(part.balance), held + u128::from(part.held)))
    }
}

fn pair(nodes: &mut [Node], a: usize, b: usize) -> (&Node, &mut Node) {
    let [a, b] = nodes.get_disjoint_mut([a, b]).expect("two shards");
    (a, b)
}
