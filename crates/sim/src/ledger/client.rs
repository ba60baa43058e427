//! Clients: they ask, wait, ask again with the same ids and content, and sometimes everything they sent comes twice.

use crate::ledger::ask::Ask;

/// A request that a client has under way, or had.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Whose it is.
    pub client: usize,
    /// What it is.
    pub ask: Ask,
    /// Times it was sent.
    pub sends: u64,
    /// Tick of the next attempt, unless it is settled by then.
    pub next_try: u64,
    /// Whether it got an answer.
    pub settled: bool,
}

/// All wishes of all clients, oldest first. A wish keeps its index for ever.
#[derive(Clone, Default)]
pub struct Wishes {
    all: Vec<Wish>,
    open: Vec<usize>,
}

impl Wishes {
    /// Adds a wish to be sent at once; returns its index.
    pub fn add(&mut self, client: usize, ask: Ask) -> usize {
        self.all.push(Wish { client, ask, sends: 0, next_try: 0, settled: false });
        self.open.push(self.all.len() - 1);
        self.all.len() - 1
    }

    /// The wish at `index`.
    pub fn get(&self, index: usize) -> &Wish {
        &self.all[index]
    }

    /// How many wishes there ever were.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether nobody ever wished anything.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many of `client` are not settled.
    pub fn open_of(&self, client: usize) -> usize {
        self.open.iter().filter(|index| self.all[**index].client == client).count()
    }

    /// Those that are not settled.
    pub fn open_wishes(&self) -> impl Iterator<Item = &Wish> {
        self.open.iter().map(|index| &self.all[*index])
    }

    /// How many are not settled.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Those to be sent at `tick`, in order.
    pub fn due(&self, tick: u64) -> Vec<usize> {
        self.open.iter().copied().filter(|index| self.all[*index].next_try <= tick).collect()
    }

    /// Notes that the wish is sent and will be again at `next_try`.
    pub fn sent(&mut self, index: usize, next_try: u64) {
        let wish = &mut self.all[index];
        wish.sends += 1;
        wish.next_try = next_try;
    }

    /// Asks again at `tick`, not later.
    pub fn hurry(&mut self, index: usize, tick: u64) {
        let wish = &mut self.all[index];
        wish.next_try = wish.next_try.min(tick);
    }

    /// Notes that the wish has its answer.
    pub fn settle(&mut self, index: usize) {
        self.all[index].settled = true;
        self.open.retain(|open| *open != index);
    }

    /// Goes on with the wishes of `then`. What clients wanted done later is wanted once more, and was never sent; what
    /// they wanted to read, perhaps with a cursor of the abandoned timeline, they have read. A change of an account
    /// names a revision of that timeline.
    pub fn roll_back_to(&mut self, then: &Wishes, is_client: impl Fn(usize) -> bool) {
        let later = self.all.split_off(then.all.len());
        *self = then.clone();
        for wish in
            later.into_iter().filter(|wish| is_client(wish.client) && wish.ask.decides() && !wish.ask.is_change())
        {
            self.add(wish.client, wish.ask);
        }
    }

    /// Opens a settled wish again: its client has forgotten the answer, or never trusted it.
    pub fn reopen(&mut self, index: usize) {
        let wish = &mut self.all[index];
        if std::mem::take(&mut wish.settled) {
            wish.next_try = 0;
            self.open.push(index);
        }
    }
}
