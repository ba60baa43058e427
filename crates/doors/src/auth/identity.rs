//! A caller whose token was good, and the rights that the configuration gives them.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use tidegate_ledger::message::{Caller, CallerRequest, Reply, Request};
use tidegate_machines::IdSpace;
use tidegate_machines::ledger::{AccountKind, AccountView};
use tidegate_queue::QueueRequest;

use super::grant::{Action, Grant, Pattern, QueueAction};
use super::quota::{Exceeded, InFlight, Quota, requests_of_rows};

/// A caller. Cheap to clone; the same object for all requests of one user or service.
#[derive(Clone, Debug)]
pub struct Identity {
    inner: Arc<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    name: Box<str>,
    caller: Caller,
    rights: Rights,
    id_space: IdSpace,
    quota: Option<Arc<Quota>>,
    open_holds_max: u32,
    opening: Option<Arc<Opening>>,
}

/// Wallets that are opened when their owner first asks the ledger anything.
#[derive(Debug)]
pub struct Opening {
    asset: Box<str>,
    /// Each with whether the ledger has answered for good.
    wallets: Vec<(Box<str>, AtomicBool)>,
}

impl Opening {
    /// Of `wallets`, in `asset`.
    pub fn new(asset: Box<str>, wallets: Vec<Box<str>>) -> Opening {
        Opening { asset, wallets: wallets.into_iter().map(|id| (id, AtomicBool::new(false))).collect() }
    }

    /// The requests that open those that are left, with their places. One that is open already stays as it is.
    pub fn requests(&self) -> impl Iterator<Item = (usize, Request)> {
        let left = self.wallets.iter().enumerate().filter(|(_, (_, is_done))| !is_done.load(Ordering::Relaxed));
        left.map(|(place, (id, _))| {
            let request = Request::OpenAccount { id: id.clone(), asset: self.asset.clone(), kind: AccountKind::Wallet };
            (place, request)
        })
    }

    /// The ledger's answer about the wallet at `place`. It is not asked again, unless that was that it cannot say.
    pub fn answered(&self, place: usize, reply: &Reply) {
        if !matches!(reply, Reply::Unavailable(_)) {
            self.wallets[place].1.store(true, Ordering::Relaxed);
        }
    }

    fn is_done(&self) -> bool {
        self.wallets.iter().all(|(_, is_done)| is_done.load(Ordering::Relaxed))
    }
}

impl Identity {
    /// A caller of this name with these rights and without bounds. A viewer's ids are of a space of its own; those of a
    /// service are of the empty one.
    ///
    /// # Panics
    /// If a viewer's name cannot be the name of an id space.
    pub fn new(name: impl Into<Box<str>>, rights: Rights) -> Identity {
        let name = name.into();
        let id_space = match rights {
            Rights::Viewer { .. } => IdSpace::new(&name).filter(|space| !space.is_empty()),
            Rights::Service { .. } => Some(IdSpace::default()),
        };
        let id_space = id_space.unwrap_or_else(|| panic!("the viewer's name {name:?} is no name of an id space"));
        let caller = caller_of(&name, &rights);
        let inner = Inner { name, caller, rights, id_space, quota: None, open_holds_max: u32::MAX, opening: None };
        Identity { inner: Arc::new(inner) }
    }

    /// The same, with ids of `id_space`.
    pub fn with_id_space(self, id_space: IdSpace) -> Identity {
        Identity { inner: Arc::new(Inner { id_space, ..Inner::clone(&self.inner) }) }
    }

    /// The same, with what it may use up.
    pub fn with_quota(self, quota: Option<Arc<Quota>>, open_holds_max: u32) -> Identity {
        Identity { inner: Arc::new(Inner { quota, open_holds_max, ..Inner::clone(&self.inner) }) }
    }

    /// The same, with wallets that are to be opened.
    pub fn opening(self, opening: Option<Opening>) -> Identity {
        Identity { inner: Arc::new(Inner { opening: opening.map(Arc::new), ..Inner::clone(&self.inner) }) }
    }

    /// What is to be opened before the ledger is asked anything else for them; `None` once it is.
    pub fn to_open(&self) -> Option<&Arc<Opening>> {
        self.inner.opening.as_ref().filter(|opening| !opening.is_done())
    }

    /// In which space the ids that they choose are unique.
    pub fn id_space(&self) -> &IdSpace {
        &self.inner.id_space
    }

    /// What an answer says of the space of an id: its name for a service, if it is not the service's own. A viewer
    /// learns no names of others.
    pub fn shown_space<'s>(&self, name: &'s str) -> Option<&'s str> {
        let is_service = matches!(self.rights(), Rights::Service { .. });
        (is_service && name != self.id_space().name()).then_some(name)
    }

    /// One more request of theirs has come. Every door asks this before it looks at the request.
    pub fn arrive(&self) -> Result<(), Exceeded> {
        self.quota().map_or(Ok(()), |quota| quota.arrive())
    }

    /// An answer was worth so many requests more than the one that was counted. They owe them.
    pub fn charge(&self, requests: u32) {
        if let Some(quota) = self.quota() {
            quota.charge(requests);
        }
    }

    /// So many rows were read for them: that is worth more requests, which they owe.
    pub fn charge_rows(&self, rows: usize) {
        self.charge(requests_of_rows(rows));
    }

    /// The most transfers or holds that one request of theirs may ever carry; `None` without a bound.
    pub fn items_max(&self) -> Option<u32> {
        self.quota().and_then(|quota| quota.items_max())
    }

    /// A request that has come is to be asked of the ledger: a place for it among those under way.
    pub fn admit(&self, request: &Request) -> Result<InFlight, Exceeded> {
        let bytes = |request: &Request| u32::try_from(request.journal_bytes()).unwrap_or(u32::MAX);
        self.quota().map_or(Ok(InFlight::default()), |quota| quota.admit(request.items() as u32, bytes(request)))
    }

    /// What the ledger said to it. Rows that were read for it are worth more requests, which are owed.
    pub fn answered(&self, reply: &Reply) {
        if let Some(quota) = self.quota() {
            quota.charge_refusals(reply.refusals() as u32);
            quota.charge(requests_of_rows(reply.rows_read()));
        }
    }

    /// Whether they have used up all requests, so that the next one would be refused. Who asks something long gets what
    /// was found up to there, and where to go on.
    pub fn owes(&self) -> bool {
        self.quota().is_some_and(|quota| quota.owes())
    }

    /// Until when a stream of theirs waits for its next part: half of what they may ask at once is left for others of
    /// their requests.
    pub fn pause_of_stream(&self) -> Duration {
        self.quota().map_or(Duration::ZERO, |quota| quota.pause_of_stream())
    }

    /// A request was refused before the ledger was asked.
    pub fn denied(&self) {
        if let Some(quota) = self.quota() {
            quota.charge_refusals(1);
        }
    }

    /// What they have used up; `None` for a caller without bounds.
    pub(super) fn quota(&self) -> Option<&Arc<Quota>> {
        self.inner.quota.as_ref()
    }

    /// The request as the ledger gets it: with ids of their space, and their bound of open holds.
    pub fn send(&self, request: Request) -> Request {
        self.send_in(request, self.id_space())
    }

    /// The same, with ids of another space, for a service that settles holds of others.
    pub fn send_in(&self, request: Request, id_space: &IdSpace) -> Request {
        let mut request = request.in_space(id_space);
        if let Request::PlaceHolds(holds) | Request::PlaceLinkedHolds(holds) = &mut request {
            holds.iter_mut().for_each(|hold| hold.open_holds_max = self.inner.open_holds_max);
        }
        request
    }

    /// A request of theirs, or one that is needed for one of theirs.
    pub fn asks(&self, request: Request) -> CallerRequest {
        CallerRequest { caller: self.inner.caller, request }
    }

    /// A request of theirs for the queues, its ids those of their space, or keys of other nodes if they may say such.
    pub fn asks_queues(&self, request: QueueRequest) -> tidegate_queue::CallerRequest {
        let relays = |queue: &str| self.rights().may_with_queue(QueueAction::Relay, queue);
        let request = request.in_space(self.id_space(), relays);
        tidegate_queue::CallerRequest { caller: self.inner.caller, request }
    }

    /// The user's or service's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// What they may do.
    pub fn rights(&self) -> &Rights {
        &self.inner.rights
    }

    /// Whether they may do this in `room` with what has this `name` there. Viewers may not: their rights are about
    /// accounts.
    pub fn may(&self, room: &str, action: Action, name: &str) -> bool {
        self.rights().may_in_room(room, action, name)
    }
}

/// Who takes turns before the shards: the same number in all threads, and another one in each process. A number is
/// shared by chance only, because nobody outside can find out which one a name gets.
fn caller_of(name: &str, rights: &Rights) -> Caller {
    let hasher = SeedableRandomState::with_seed(0, SharedSeed::global_random());
    Caller(hasher.hash_one((matches!(rights, Rights::Service { .. }), name)) as u32)
}

/// An answer that may depend on the kind of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Yes.
    Allowed,
    /// No.
    Forbidden,
    /// Yes if the account is a collector; the door must find out.
    IfCollector,
}

/// What a caller may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rights {
    /// A member of the audience: reads own wallets and all collectors, debits only own wallets, credits only
    /// collectors.
    Viewer {
        /// Ids of the own wallets.
        wallets: Vec<Box<str>>,
    },
    /// A program: what its grants list.
    Service {
        /// The grants.
        grants: Vec<Grant>,
    },
}

impl Rights {
    /// The wallets of a viewer; a service has none.
    pub(super) fn wallets(&self) -> &[Box<str>] {
        match self {
            Rights::Viewer { wallets } => wallets,
            Rights::Service { .. } => &[],
        }
    }

    /// Whether they may debit `account`, by a transfer or a hold.
    pub fn may_debit(&self, account: &str) -> bool {
        match self {
            Rights::Viewer { .. } => self.owns(account),
            Rights::Service { .. } => self.granted(|grant| match grant {
                Grant::Transfers(pattern) | Grant::Debit(pattern) => pattern.matches(account),
                _ => false,
            }),
        }
    }

    /// Whether they may credit `account`; `kind` if the door knows it.
    pub fn may_credit(&self, account: &str, kind: Option<AccountKind>) -> Access {
        match self {
            Rights::Viewer { .. } => collector(kind),
            Rights::Service { .. } => answer(self.granted(|grant| match grant {
                Grant::Transfers(pattern) | Grant::Credit(pattern) => pattern.matches(account),
                _ => false,
            })),
        }
    }

    /// Whether they may read balance and history of `account`; `kind` if the door knows it.
    pub fn may_read(&self, account: &str, kind: Option<AccountKind>) -> Access {
        match self {
            Rights::Viewer { .. } if self.owns(account) => Access::Allowed,
            Rights::Viewer { .. } => collector(kind),
            Rights::Service { .. } => answer(self.granted(|grant| match grant {
                Grant::Read(pattern) => pattern.matches(account),
                _ => false,
            })),
        }
    }

    /// Whether there may be accounts that they read, beside collectors.
    pub fn may_read_some(&self) -> bool {
        match self {
            Rights::Viewer { .. } => true,
            Rights::Service { .. } => self.granted(|grant| matches!(grant, Grant::Read(_))),
        }
    }

    /// Whether there may be such accounts among `pattern`.
    pub fn may_read_some_of(&self, pattern: &Pattern) -> bool {
        match self {
            Rights::Viewer { wallets } => {
                *pattern == Pattern::Any || wallets.iter().any(|wallet| pattern.matches(wallet))
            }
            Rights::Service { .. } => {
                self.granted(|grant| matches!(grant, Grant::Read(readable) if readable.overlaps(pattern)))
            }
        }
    }

    /// Whether a list may show them this account.
    pub fn may_see(&self, account: &AccountView) -> bool {
        self.may_read(&account.id, Some(account.kind)) == Access::Allowed
    }

    /// Whether they may open `account`.
    pub fn may_open_account(&self, account: &str) -> bool {
        self.granted(|grant| matches!(grant, Grant::OpenAccounts(pattern) if pattern.matches(account)))
    }

    /// Whether they may change status, limits and metadata of `account`: what whoever opens accounts may.
    pub fn may_change_account(&self, account: &str) -> bool {
        self.may_open_account(account)
    }

    /// Whether they may declare assets.
    pub fn may_declare_assets(&self) -> bool {
        self.granted(|grant| *grant == Grant::OpenAccounts(Pattern::Any))
    }

    /// Whether they may read all accounts.
    pub fn may_read_everything(&self) -> bool {
        self.granted(|grant| *grant == Grant::Read(Pattern::Any))
    }

    /// Whether they may see the transfer or hold `id` between two accounts, which are empty for one that was refused. A
    /// viewer sees those of its own wallets and those of its own id space.
    pub fn may_see_move(&self, name: &str, id: &str, debit: &str, credit: &str) -> bool {
        match self {
            Rights::Viewer { .. } => {
                let is_own_id = id.strip_prefix(name).is_some_and(|rest| rest.starts_with('\u{1f}'));
                is_own_id || self.owns(debit) || self.owns(credit)
            }
            Rights::Service { .. } if debit.is_empty() => self.may_read_everything(),
            Rights::Service { .. } => [debit, credit].iter().any(|id| self.may_read(id, None) == Access::Allowed),
        }
    }

    /// Whether they may post and void holds. A door cannot see whose hold an id is, so it is all or none.
    pub fn may_settle_holds(&self) -> bool {
        self.granted(|grant| matches!(grant, Grant::SettleHolds | Grant::Transfers(Pattern::Any)))
    }

    /// Whether they may read the auditor's reports.
    pub fn may_audit(&self) -> bool {
        self.granted(|grant| *grant == Grant::Audit)
    }

    /// Whether they may ask for a reconciliation at once.
    pub fn may_run_audit(&self) -> bool {
        self.granted(|grant| *grant == Grant::RunAudit)
    }

    /// Whether they may see clients, sessions and retained messages, or disconnect, end and clear them.
    pub fn may_operate(&self, action: Action) -> bool {
        self.granted(|grant| *grant == Grant::Operate(action))
    }

    /// Whether they may send the clients away.
    pub fn may_drain(&self) -> bool {
        self.granted(|grant| *grant == Grant::Drain)
    }

    /// Whether they may do this in `room` with what has this `name` there.
    pub fn may_in_room(&self, room: &str, action: Action, name: &str) -> bool {
        self.granted(|grant| match grant {
            Grant::Room { room: of, action: granted, names } => {
                **of == *room && *granted == action && names.matches(name)
            }
            _ => false,
        })
    }

    /// Whether they may do this with the queue of this name.
    pub fn may_with_queue(&self, action: QueueAction, name: &str) -> bool {
        let is_right = |granted: &QueueAction| granted.includes(action);
        self.granted(|grant| matches!(grant, Grant::Queue(granted, names) if is_right(granted) && names.matches(name)))
    }

    /// Whether there may be queues with which they may do this.
    pub fn may_with_some_queue(&self, action: QueueAction) -> bool {
        self.granted(|grant| matches!(grant, Grant::Queue(granted, _) if granted.includes(action)))
    }

    /// Whether they may read metrics.
    pub fn may_read_metrics(&self) -> bool {
        self.granted(|grant| *grant == Grant::Metrics)
    }

    /// Whether any debit and any credit is allowed, so that a batch needs no look at each of its transfers.
    pub fn may_transfer_anything(&self) -> bool {
        self.granted(|grant| *grant == Grant::Transfers(Pattern::Any))
    }

    fn owns(&self, account: &str) -> bool {
        matches!(self, Rights::Viewer { wallets } if wallets.iter().any(|wallet| **wallet == *account))
    }

    fn granted(&self, allows: impl Fn(&Grant) -> bool) -> bool {
        match self {
            Rights::Viewer { .. } => false,
            Rights::Service { grants } => grants.iter().any(|grant| *grant == Grant::Everything || allows(grant)),
        }
    }
}

fn collector(kind: Option<AccountKind>) -> Access {
    match kind {
        Some(AccountKind::Collector) => Access::Allowed,
        Some(AccountKind::Wallet | AccountKind::Source) => Access::Forbidden,
        None => Access::IfCollector,
    }
}

fn answer(granted: bool) -> Access {
    if granted { Access::Allowed } else { Access::Forbidden }
}
