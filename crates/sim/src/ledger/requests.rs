//! What clients want: mostly sense, sometimes nonsense.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_ledger::message::ChangeRequest;
use tidegate_machines::IdSpace;
use tidegate_machines::ledger::{AccountKind, AccountStatus, MetadataPatch};

use crate::chance::Chance;
use crate::ledger::ask::{Ask, Content, Item, whole};
use crate::ledger::model::{HUGE_ASSET, Model};
use crate::ledger::population::{Account, Population};

/// The id spaces of the clients, in turn.
const SPACES: [&str; 3] = ["", "ann", "bob"];

/// Makes requests.
pub struct Requests {
    chance: Chance,
    population: Population,
    /// Accounts that nobody has asked to be opened yet.
    unopened: Vec<Account>,
    /// Ids of holds that were asked for.
    holds: Vec<String>,
    /// All ids that were made.
    used: BTreeSet<String>,
    /// Items that were asked for, to be asked again with other content.
    items: Vec<Item>,
    /// Cursors that pages of history gave, by account.
    pub cursors: Vec<(String, String)>,
    made: u64,
    /// In a thousand transfers, how many go to one collector.
    hot: u64,
}

impl Requests {
    /// A workload of its own population.
    pub fn new(mut chance: Chance) -> Requests {
        let population = Population::new(&mut chance);
        let mut unopened = population.accounts().to_vec();
        for index in (1..unopened.len()).rev() {
            unopened.swap(index, chance.below(index as u64 + 1) as usize);
        }
        let hot = *chance.one_of(&[100, 300, 900]);
        Requests {
            chance,
            population,
            unopened,
            holds: Vec::new(),
            used: BTreeSet::new(),
            items: Vec::new(),
            cursors: Vec::new(),
            made: 0,
            hot,
        }
    }

    /// All accounts that there may be.
    pub fn population(&self) -> &Population {
        &self.population
    }

    /// The next wish of client `client`.
    pub fn next(&mut self, client: usize, model: &Model) -> Ask {
        self.made += 1;
        // Most accounts are there before anything else; the rest is opened while others already name them.
        let opening = if self.made < 60 { 700 } else { 30 };
        if self.chance.happens(opening)
            && let Some(account) = self.unopened.pop()
        {
            return Ask::Open { id: account.id, asset: account.asset.into(), kind: account.kind };
        }
        let funding = if self.made < 100 { 14 } else { 6 };
        match self.chance.weighted(&[funding, 16, 8, 6, 8, 8, 4, 8, 6, 2, 1, 4, 1, 3, 3, 6]) {
            0 => self.fund(client),
            1 => self.transfers(client, 1),
            2 => {
                let count = self.chance.within(2..=12);
                self.transfers(client, count)
            }
            3 => self.linked(client),
            4 => self.place_holds(client),
            5 => self.post_holds(model),
            6 => self.void_holds(),
            7 => Ask::Read { id: self.any_account() },
            8 => self.history(),
            9 => self.list(),
            10 => Ask::Audit,
            11 => self.reuse(),
            12 => self.open_again(),
            13 => self.change(model),
            14 => self.place_linked_holds(client),
            _ => self.look_up(),
        }
    }

    /// An id of the client's space: a new one, or one that somebody has used in another space.
    fn id(&mut self, client: usize, debit: &str, of_hold: bool) -> String {
        let space = space_of(client);
        if self.chance.happens(80)
            && let Some(known) = self.some_id(of_hold)
        {
            let borrowed = whole(space, IdSpace::split(&known).1);
            if self.used.insert(borrowed.clone()) {
                return borrowed;
            }
        }
        let (kind, number) = (if of_hold { "h-" } else { "" }, self.used.len());
        // An id with its debit account's tag needs no claim on another shard.
        let written = match Population::tag(debit) {
            Some(tag) if self.chance.happens(500) => format!("{kind}{tag}c{client}-{number}"),
            _ => format!("{kind}c{client}-{number}"),
        };
        let id = whole(space, &written);
        assert!(self.used.insert(id.clone()), "{id} was made before");
        id
    }

    /// An id that was asked for, of a transfer or of a hold.
    fn some_id(&mut self, of_hold: bool) -> Option<String> {
        match of_hold {
            true => self.some_hold(),
            false if self.items.is_empty() => None,
            false => Some(self.chance.one_of(&self.items).id.clone()),
        }
    }

    fn memo(&mut self) -> String {
        match self.chance.weighted(&[6, 3, 1]) {
            0 => String::new(),
            1 => format!("memo {}", self.chance.below(100)),
            _ => "a long memo, so that groups fill up; ".repeat(self.chance.within(1..=6) as usize),
        }
    }

    fn any_account(&mut self) -> String {
        self.population.one(&mut self.chance, |_| true).id.clone()
    }

    fn fund(&mut self, client: usize) -> Ask {
        let count = self.chance.within(1..=6);
        let items = (0..count)
            .map(|_| {
                let huge = self.chance.happens(40);
                let asset = if huge { HUGE_ASSET } else { Population::asset(&mut self.chance) };
                let amount =
                    if huge { self.chance.within(1 << 60..=i64::MAX as u64) } else { self.chance.within(50..=500) };
                let debit = self.of_kind(AccountKind::Source, asset);
                let credit = self.of_kind(AccountKind::Wallet, asset);
                self.item(client, debit, credit, amount)
            })
            .collect();
        Ask::Transfers { linked: false, items }
    }

    fn of_kind(&mut self, kind: AccountKind, asset: &str) -> String {
        self.population.one(&mut self.chance, |account| account.kind == kind && account.asset == asset).id.clone()
    }

    fn item(&mut self, client: usize, debit: String, credit: String, amount: u64) -> Item {
        let id = self.id(client, &debit, false);
        let content = Content { debit, credit, amount, memo: self.memo(), expires_in_ms: None };
        let item = Item { id, content };
        self.items.push(item.clone());
        item
    }

    fn transfers(&mut self, client: usize, count: u64) -> Ask {
        let items = (0..count).map(|_| self.spend(client)).collect();
        Ask::Transfers { linked: false, items }
    }

    /// A transfer between any two accounts that mostly fit each other.
    fn spend(&mut self, client: usize) -> Item {
        let asset = Population::asset(&mut self.chance);
        let (debit, credit) = self.pair(asset);
        let amount = self.amount();
        let mut item = self.item(client, debit, credit, amount);
        if self.chance.happens(40) {
            self.spoil(&mut item.content);
        }
        item
    }

    fn amount(&mut self) -> u64 {
        match self.chance.weighted(&[8, 2, 1]) {
            0 => self.chance.within(1..=20),
            1 => self.chance.within(20..=300),
            _ => self.chance.within(300..=5_000),
        }
    }

    fn pair(&mut self, asset: &'static str) -> (String, String) {
        let nonsense = self.chance.happens(60);
        let debit = if nonsense { self.any_account() } else { self.of_kind(AccountKind::Wallet, asset) };
        let credit = if nonsense {
            self.any_account()
        } else if self.chance.happens(self.hot) {
            format!("collector:{asset}-0")
        } else {
            self.population.one(&mut self.chance, |account| account.asset == asset && account.id != debit).id.clone()
        };
        (debit, credit)
    }

    /// One mistake of form.
    fn spoil(&mut self, content: &mut Content) {
        if content.debit == content.credit {
            return;
        }
        match self.chance.below(5) {
            0 => content.amount = 0,
            1 => content.amount = u64::MAX,
            2 => content.credit = content.debit.clone(),
            3 => content.memo = "x".repeat(257),
            _ => content.credit = "no/account".into(),
        }
    }

    /// Debits, credits and amounts of a group whose debits mostly share a shard.
    fn group(&mut self) -> Vec<(String, String, u64)> {
        let asset = Population::asset(&mut self.chance);
        let first = self.of_kind(AccountKind::Wallet, asset);
        let tag = Population::tag(&first).map(str::to_owned);
        let count = self.chance.within(2..=5);
        let mut members = Vec::new();
        for _ in 0..count {
            let debit = match &tag {
                Some(tag) => {
                    self.population.one(&mut self.chance, |a| a.asset == asset && a.id.contains(tag)).id.clone()
                }
                None if self.chance.happens(100) => self.of_kind(AccountKind::Wallet, asset),
                None => first.clone(),
            };
            let credit = self
                .population
                .one(&mut self.chance, |account| account.asset == asset && account.id != debit)
                .id
                .clone();
            let amount = self.amount().min(200);
            members.push((debit, credit, amount));
        }
        members
    }

    fn linked(&mut self, client: usize) -> Ask {
        let members = self.group().into_iter();
        let mut items: Vec<Item> =
            members.map(|(debit, credit, amount)| self.item(client, debit, credit, amount)).collect();
        if self.chance.happens(80) {
            // An id that stands for something else already, if somebody of the client's space has used it.
            let known = self.chance.one_of(&self.items).id.clone();
            let known = whole(space_of(client), IdSpace::split(&known).1);
            self.used.insert(known.clone());
            if items.iter().all(|item| item.id != known) {
                items[0].id = known;
                items[0].content.memo = format!("linked {}", self.made);
            }
        }
        Ask::Transfers { linked: true, items }
    }

    fn place_holds(&mut self, client: usize) -> Ask {
        let many = self.chance.happens(150);
        let count = self.chance.within(if many { 4..=12 } else { 1..=3 });
        let items = (0..count)
            .map(|_| {
                let asset = Population::asset(&mut self.chance);
                let (debit, credit) = self.pair(asset);
                let id = self.id(client, &debit, true);
                let expires_in_ms = match self.chance.weighted(&[5, 5, 1]) {
                    0 => self.chance.within(50..=2_000),
                    1 => self.chance.within(2_000..=60_000),
                    _ => 0,
                };
                let (mut amount, memo) = (self.amount(), self.memo());
                if expires_in_ms == 0 || debit == credit {
                    amount = amount.max(1);
                }
                self.holds.push(id.clone());
                Item { id, content: Content { debit, credit, amount, memo, expires_in_ms: Some(expires_in_ms) } }
            })
            .filter(|item| item.content.debit != item.content.credit || item.content.expires_in_ms != Some(0))
            .collect::<Vec<_>>();
        if items.is_empty() { Ask::Audit } else { Ask::Holds { linked: false, items } }
    }

    fn place_linked_holds(&mut self, client: usize) -> Ask {
        let members = self.group().into_iter();
        let item = |(debit, credit, amount): (String, String, u64)| {
            let id = self.id(client, &debit, true);
            self.holds.push(id.clone());
            let expires_in_ms = Some(self.chance.within(50..=20_000));
            Item { id, content: Content { debit, credit, amount, memo: self.memo(), expires_in_ms } }
        };
        Ask::Holds { linked: true, items: members.map(item).collect() }
    }

    /// What became of a transfer or hold; now and then it is asked for as what it is not.
    fn look_up(&mut self) -> Ask {
        let is_hold = self.chance.happens(500);
        let Some(id) = self.some_id(is_hold) else { return Ask::Audit };
        match is_hold != self.chance.happens(60) {
            true => Ask::ReadHold { id },
            false => Ask::ReadTransfer { id },
        }
    }

    /// Recent ones more often: old ones have ended.
    fn some_hold(&mut self) -> Option<String> {
        let count = self.holds.len() as u64;
        if count == 0 {
            return None;
        }
        let back = self.chance.below(count).min(self.chance.below(count)).min(self.chance.below(count));
        Some(self.holds[(count - 1 - back) as usize].clone())
    }

    fn post_holds(&mut self, model: &Model) -> Ask {
        let mut posts = Vec::new();
        for _ in 0..self.chance.within(1..=3) {
            let Some(id) = self.some_hold() else { continue };
            // A request names one id space.
            let is_other =
                |(posted, _): &(String, _)| *posted == id || IdSpace::split(posted).0 != IdSpace::split(&id).0;
            if posts.iter().any(is_other) {
                continue;
            }
            let whole = model.hold_amount(&id).unwrap_or(1);
            let amount = match self.chance.weighted(&[6, 6, 1, 1]) {
                0 => None,
                1 => Some(self.chance.within(1..=whole.clamp(1, 10_000))),
                2 => Some(whole.saturating_add(1)),
                _ => Some(whole),
            };
            posts.push((id, amount));
        }
        if posts.is_empty() { Ask::Audit } else { Ask::Posts(posts) }
    }

    fn void_holds(&mut self) -> Ask {
        match self.some_hold() {
            Some(id) => Ask::Voids(vec![id]),
            None => Ask::Audit,
        }
    }

    fn history(&mut self) -> Ask {
        let limit = *self.chance.one_of(&[1, 3, 10, 1_000]);
        if !self.cursors.is_empty() && self.chance.happens(400) {
            let (id, before) = self.chance.one_of(&self.cursors).clone();
            return Ask::History { id, before: Some(before), limit };
        }
        Ask::History { id: self.any_account(), before: None, limit }
    }

    fn list(&mut self) -> Ask {
        let prefix = (*self.chance.one_of(&["", "wallet:", "collector:", "source:{t1}", "nobody"])).to_owned();
        let after = if self.chance.happens(500) { Some(self.any_account()) } else { None };
        Ask::List { prefix, after, limit: *self.chance.one_of(&[1, 4, 1_000]) }
    }

    /// A client's mistake: an id again, for something else.
    fn reuse(&mut self) -> Ask {
        if self.items.is_empty() {
            return Ask::Audit;
        }
        let mut item = self.chance.one_of(&self.items).clone();
        match self.chance.below(4) {
            // The same, perhaps of a linked group, alone: no mistake, and the answer must be the first one.
            3 => {}
            0 => item.content.amount = item.content.amount % 1_000 + 1,
            1 => item.content.memo = format!("other {}", self.made),
            _ => std::mem::swap(&mut item.content.debit, &mut item.content.credit),
        }
        Ask::Transfers { linked: false, items: vec![item] }
    }

    /// A wallet or source is frozen or closed for a while; with a note why.
    fn change(&mut self, model: &Model) -> Ask {
        let account = self.population.one(&mut self.chance, |account| account.kind != AccountKind::Collector);
        let id = account.id.clone();
        let Some((revision, status)) = model.changeable(&id) else { return Ask::Audit };
        let status = match status {
            AccountStatus::Open => {
                *self.chance.one_of(&[AccountStatus::DebitsFrozen, AccountStatus::Frozen, AccountStatus::Closed])
            }
            _ if self.chance.happens(850) => AccountStatus::Open,
            AccountStatus::Closed => AccountStatus::Closed,
            _ => AccountStatus::Frozen,
        };
        let note = BTreeMap::from([("why".into(), Some(format!("reason {}", self.made).into_boxed_str()))]);
        let mut metadata = Vec::new();
        MetadataPatch::write(&note, &mut metadata).expect("a short note");
        let metadata = metadata.into_boxed_slice();
        let change =
            ChangeRequest { if_revision: Some(revision), status: Some(status), metadata, ..ChangeRequest::default() };
        Ask::Change { id, change }
    }

    fn open_again(&mut self) -> Ask {
        let account = self.population.one(&mut self.chance, |_| true).clone();
        let asset = if self.chance.happens(500) { account.asset } else { Population::asset(&mut self.chance) };
        Ask::Open { id: account.id, asset: asset.into(), kind: account.kind }
    }
}

/// The id space of a client.
fn space_of(client: usize) -> &'static str {
    SPACES[client % SPACES.len()]
}
