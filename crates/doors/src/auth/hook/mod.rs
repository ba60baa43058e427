//! A hook decides on log-ins of users who are not in the configuration: it is asked over HTTP, by whoever takes
//! [`HookQuestion`]s, and says who comes in and with which rights.
//!
//! ```text
//!   log-in ─▶ must the address wait? ─▶ remembered? ─▶ is there a place? ─▶ is the hook up? ─▶ question ─▶ HTTP
//!               └─ later                  └─ allowed     └─ busy              └─ unavailable               │
//!                    allowed: remembered, rights      denied: remembered, a wrong password of the address ◀┘
//! ```
//!
//! Promise: a log-in waits for the hook no longer than its time-out, for its turn no longer than that again, and costs
//! nothing while the hook is down. What the bounds of log-ins say of an address holds here too. A password is kept
//! nowhere: what is remembered is its keyed hash. A user of hook `devices` is called `devices:NAME`, as users of an
//! identity provider are, and is nobody else.
//!
//! Why places of its own: a slow hook must not keep out those who have a password in the configuration.
//!
//! Invariant: nothing here waits or reads a socket. Why at all, and why so: `docs/decisions/0024-auth-hook.md`.

mod answer;
mod breaker;
mod figures;
mod question;
mod settings;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_machines::IdSpace;
use tokio::sync::mpsc;

use answer::{Decided, Unusable};
pub use answer::{Granted, HOOK_ANSWER_BYTES_MAX, HookAnswer};
use breaker::Breaker;
pub use figures::HookFigures;
use question::Said;
pub use question::{Asking, HOOK_WAITING_MAX, HookQuestion};
pub use settings::{HookSecret, HookSettings, USER_CLAIM};

use super::acl::{Acl, ClientRights, Holder};
use super::authenticator::now_s;
use super::generations::Generations;
use super::identity::{Identity, Rights};
use super::login::{Attempt, Entered, LaneUsed, LoginError, Logins, Mark, Share, retry_after_s};
use super::principals::Known;
use super::provider::{Bounds, ProvidedUsers, Template, is_name_part, opening_of};

/// Users whose bounds and rights are remembered.
const USERS_MAX: usize = 1 << 16;
/// Between two lines of the log about answers that cannot be followed.
const FAULTS_APART_MS: u64 = 1_000;

/// The hook, and what is known of its users.
pub(super) struct Hook {
    settings: Arc<HookSettings>,
    stamp: Box<str>,
    users: ProvidedUsers,
    /// What was decided, and whether it answers.
    record: Arc<Record>,
    taken: Taken,
}

/// Wallets that are somebody else's.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Of users of the configuration.
    pub wallets: HashSet<Box<str>>,
    /// Of users of identity providers.
    pub templates: Vec<Template>,
}

/// What stays as long as the settings do.
struct Record {
    share: Share,
    breaker: Mutex<Breaker>,
    decided: Mutex<Remembered>,
    faults: Mutex<Faults>,
}

/// When answers that cannot be followed are told: a hook that answers nonsense to all would fill the log.
#[derive(Default)]
struct Faults {
    next_ms: u64,
    left_out: u64,
}

/// What the hook said of passwords, each up to a time. Two maps: passwords that are wrong do not push out right ones.
struct Remembered {
    allowed: Generations<Mark, (Allowed, u64)>,
    denied: Generations<Mark, u64>,
}

/// What the hook gave, and the second since the epoch up to which.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Allowed {
    granted: Arc<Granted>,
    expires_at_s: u64,
}

/// A user whom the hook let in.
#[derive(Clone)]
pub(super) struct Hooked {
    /// Who.
    pub known: Known,
    /// First second since the epoch in which that is over.
    pub expires_at_s: u64,
    /// By which words of the hook.
    pub granted: Arc<Granted>,
}

/// How a log-in is asked about.
pub(super) struct Ask<'a, N> {
    /// The bounds of log-ins.
    pub logins: &'a Arc<Logins>,
    /// Milliseconds of a clock.
    pub now_ms: N,
    /// To whoever asks the hook.
    pub questions: &'a mpsc::Sender<HookQuestion>,
    /// What is counted.
    pub figures: &'a Arc<HookFigures>,
    /// Whether nobody waits for the answer any more.
    pub is_gone: Arc<AtomicBool>,
}

impl Hook {
    /// By `settings`. Of `before`, what was decided stays if the settings have, and what its users had used up.
    pub fn new(
        settings: Arc<HookSettings>,
        acl: Arc<Acl>,
        bounds: Bounds,
        taken: Taken,
        per_address_max: u32,
        before: Option<&Hook>,
    ) -> Hook {
        let same = before.filter(|before| before.settings == settings && before.taken == taken);
        let record = same.map(|before| before.record.clone());
        let record = record.unwrap_or_else(|| Arc::new(Record::new(&settings, per_address_max)));
        let of_name = before.filter(|before| before.settings.name == settings.name);
        let users = ProvidedUsers::new(USERS_MAX, acl, bounds, of_name.map(|before| &before.users));
        Hook { stamp: settings.stamp(), settings, users, record, taken }
    }

    /// What the names of its users begin with, before a colon.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// How it is asked.
    pub fn settings(&self) -> &Arc<HookSettings> {
        &self.settings
    }

    /// What its tokens carry.
    pub fn stamp(&self) -> &str {
        &self.stamp
    }

    /// Begins to decide on a log-in: the user at once, if that is remembered; else `answer` is told, from another
    /// thread, unless the result is an error.
    pub fn begin<N: Fn() -> u64 + Send + 'static>(
        self: &Arc<Hook>,
        asking: Asking<'_>,
        ask: Ask<'_, N>,
        answer: impl FnOnce(Result<Hooked, LoginError>) + Send + 'static,
    ) -> Result<Option<Hooked>, LoginError> {
        let now_ms = (ask.now_ms)();
        let Asking { user, password, address, .. } = asking;
        if self.user_name(user).is_none() {
            return Err(LoginError::Wrong);
        }
        let mut remembered = None;
        let attempt = Attempt { user, password, stamp: Some(&self.stamp), address };
        let entered = ask.logins.enter(&attempt, &self.record.share, now_ms, |password| {
            remembered = self.record.decided().allowed(password, now_ms, now_s());
            remembered.is_some()
        });
        let (lane, place) = match entered.inspect_err(|error| ask.figures.refused(error))? {
            Entered::Remembered => {
                ask.figures.cached_allowed.add();
                let allowed = remembered.expect("it was found");
                return self.hooked(user, allowed).map(Some).map_err(|_| LoginError::Wrong);
            }
            Entered::Place(lane, place) => (lane, place),
        };
        if self.record.decided().is_denied(lane.password(), now_ms) {
            ask.figures.cached_denied.add();
            ask.logins.settle(&lane, false, now_ms);
            return Err(LoginError::Wrong);
        }
        if let Err(wait_ms) = self.record.breaker().enter(now_ms) {
            ask.figures.unavailable.add();
            return Err(LoginError::Unavailable { retry_after_s: retry_after_s(wait_ms) });
        }
        let (hook, logins, figures) = (self.clone(), ask.logins.clone(), ask.figures.clone());
        let (name, clock) = (Box::<str>::from(user), ask.now_ms);
        let told = move |said| {
            let result = hook.settle(said, &name, &lane, &logins, &figures, clock());
            // Whoever is told may try again at once.
            drop(place);
            answer(result);
        };
        let record = self.record.clone();
        let is_left_alone = move || record.breaker().is_waiting();
        let question = HookQuestion::new(self.settings.clone(), asking, ask.is_gone, is_left_alone, told);
        // If there is no room, or nobody asks any more, the question is dropped, and its waiter told.
        let _ = ask.questions.try_send(question);
        Ok(None)
    }

    /// What came of a question.
    fn settle(
        &self,
        said: Said,
        user: &str,
        lane: &LaneUsed,
        logins: &Logins,
        figures: &HookFigures,
        now_ms: u64,
    ) -> Result<Hooked, LoginError> {
        let answer = match said {
            Said::Answer(answer) => answer,
            Said::Nothing | Said::NotAsked => {
                if matches!(said, Said::Nothing) {
                    self.record.breaker().failed(now_ms);
                }
                figures.unavailable.add();
                return Err(LoginError::Unavailable { retry_after_s: 1 });
            }
        };
        self.record.breaker().answered();
        let followed = answer.decide(now_s()).and_then(|decided| match decided {
            Decided::Denied => Ok(None),
            Decided::Allowed(granted, expires_at_s) => {
                let allowed = Allowed { granted: Arc::new(granted), expires_at_s };
                Ok(Some((self.hooked(user, allowed.clone())?, allowed)))
            }
        });
        let password = lane.password().expect("a user of the hook has a stamp");
        let (allowed_ms, denied_ms) = (now_ms + self.settings.allowed_ms(), now_ms + self.settings.denied_ms());
        match followed {
            Ok(Some((hooked, allowed))) => {
                figures.allowed.add();
                self.record.decided().allow(password, allowed, allowed_ms);
                logins.came_in(lane, now_ms);
                Ok(hooked)
            }
            Ok(None) => {
                figures.denied.add();
                self.record.decided().deny(password, denied_ms);
                logins.settle(lane, false, now_ms);
                Err(LoginError::Wrong)
            }
            Err(unusable) => {
                figures.unusable.add();
                // The hook has denied nothing: the address has done nothing wrong.
                self.record.decided().deny(password, denied_ms);
                if let Some(left_out) = self.record.faults().told_after(now_ms) {
                    tracing::error!(
                        user,
                        reason = %unusable,
                        left_out,
                        "the answer of the log-in hook cannot be followed: this user is refused"
                    );
                }
                Err(LoginError::Wrong)
            }
        }
    }

    /// Who shows a token that was given for these words.
    pub fn of_token(&self, name: &str, granted: &Granted) -> Option<Known> {
        let user = self.own(name)?;
        let known = self.known(user, granted).ok()?;
        self.users.remember(&known);
        Some(known)
    }

    /// The rights of the same holder by these settings; none if others have given them.
    pub fn renewed(&self, identity: &Identity, stamp: &str) -> Option<Arc<ClientRights>> {
        (*stamp == *self.stamp).then(|| self.users.known(identity.clone(), self.holder()).rights)
    }

    /// Whether `other` gives the same rights.
    pub fn gives_as(&self, other: &Hook) -> bool {
        self.stamp == other.stamp && self.taken == other.taken
    }

    /// The rights of a user who need not be here: the last ones, or, if the user was not here lately, those that follow
    /// from the name alone.
    pub fn rights_of(&self, name: &str) -> Option<Arc<ClientRights>> {
        let user = self.own(name)?;
        if let Some(known) = self.users.last(name).filter(|known| self.has_made(known)) {
            return Some(self.users.known(known.identity, self.holder()).rights);
        }
        self.known(user, &Granted::default()).ok().map(|known| known.rights)
    }

    fn has_made(&self, known: &Known) -> bool {
        matches!(known.rights.holder(), Holder::Hooked(_, stamp) if *stamp == self.stamp)
    }

    fn hooked(&self, user: &str, allowed: Allowed) -> Result<Hooked, Unusable> {
        let known = self.known(user, &allowed.granted)?;
        self.users.remember(&known);
        Ok(Hooked { known, expires_at_s: allowed.expires_at_s, granted: allowed.granted })
    }

    fn known(&self, user: &str, granted: &Granted) -> Result<Known, Unusable> {
        let rights = granted.rights(&self.settings, user, |wallet| self.taken.has(wallet))?;
        let (name, id_space) = self.user_name(user).ok_or(Unusable::Name)?;
        let opening = match &rights {
            Rights::Viewer { wallets } => opening_of(self.settings.open_wallets_in.as_deref(), wallets),
            Rights::Service { .. } => None,
        };
        let identity = Identity::new(name, rights).with_id_space(id_space).opening(opening);
        Ok(self.users.known(identity, self.holder()))
    }

    fn holder(&self) -> impl FnOnce(Identity) -> Holder {
        let stamp = self.stamp.clone();
        move |identity| Holder::Hooked(identity, stamp)
    }

    /// What a user is called here; `None` for a name that none can have.
    fn user_name(&self, user: &str) -> Option<(Box<str>, IdSpace)> {
        let name = format!("{}:{user}", self.settings.name);
        let id_space = IdSpace::new(&name).filter(|_| is_name_part(user))?;
        Some((name.into(), id_space))
    }

    /// The user's own name, of that which it has here.
    fn own<'n>(&self, name: &'n str) -> Option<&'n str> {
        name.strip_prefix(&*self.settings.name)?.strip_prefix(':')
    }
}

impl Taken {
    fn has(&self, wallet: &str) -> bool {
        self.wallets.contains(wallet) || self.templates.iter().any(|template| template.may_make(wallet))
    }
}

impl HookSettings {
    fn allowed_ms(&self) -> u64 {
        self.allowed.as_millis() as u64
    }

    fn denied_ms(&self) -> u64 {
        self.denied.as_millis() as u64
    }
}

impl Record {
    fn new(settings: &HookSettings, per_address_max: u32) -> Record {
        let remembered = || settings.remembered_max;
        Record {
            share: Share::new(settings.asked_max + settings.waiting_max, per_address_max),
            breaker: Mutex::new(Breaker::new(settings.retry_max, settings.timeout)),
            faults: Mutex::default(),
            decided: Mutex::new(Remembered {
                allowed: Generations::new(remembered()),
                denied: Generations::new(remembered()),
            }),
        }
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().expect("no thread panics while it holds the breaker")
    }

    fn decided(&self) -> MutexGuard<'_, Remembered> {
        self.decided.lock().expect("no thread panics while it holds what was decided")
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().expect("no thread panics while it holds when faults are told")
    }
}

impl Faults {
    /// Whether one of now is told, and after how many that were not: one in each second is.
    fn told_after(&mut self, now_ms: u64) -> Option<u64> {
        if now_ms < self.next_ms {
            self.left_out += 1;
            return None;
        }
        self.next_ms = now_ms + FAULTS_APART_MS;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Remembered {
    fn allowed(&mut self, password: Mark, now_ms: u64, now_s: u64) -> Option<Allowed> {
        let (allowed, until_ms) = self.allowed.get(&password)?;
        (now_ms < until_ms && now_s < allowed.expires_at_s).then_some(allowed)
    }

    fn is_denied(&mut self, password: Option<Mark>, now_ms: u64) -> bool {
        password.and_then(|password| self.denied.get(&password)).is_some_and(|until_ms| now_ms < until_ms)
    }

    fn allow(&mut self, password: Mark, allowed: Allowed, until_ms: u64) {
        self.denied.remove(&password);
        self.allowed.insert(password, (allowed, until_ms));
    }

    fn deny(&mut self, password: Mark, until_ms: u64) {
        self.allowed.remove(&password);
        self.denied.insert(password, until_ms);
    }
}
