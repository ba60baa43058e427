//! Checks passwords, on threads of their own and in fair shares. Why: argon2 takes tens of milliseconds of a core by
//! design, so whoever sends wrong passwords fast enough would keep everybody else out.
//!
//! ```text
//!   attempt ─▶ must the address wait? ─▶ was this password right lately? ─▶ is there a place? ─▶ lanes ─▶ argon2
//!                └─ later                  └─ yes                             └─ busy            right, wrong ◀─┘
//!   wrong ─▶ the address waits: 1 s, 2 s, 4 s …         right ─▶ remembered, and the user has a lane of its own there
//! ```
//!
//! Promise: what some addresses do cannot keep those of other addresses out, nor those who have logged in from the same
//! address before, nor anybody whose password was right lately: that needs no place. However many addresses send wrong
//! passwords, places and turns are left for one that has sent none lately; only as many as have sent nothing wrong yet
//! can fill those. It is the address that waits,
//! never the user: nobody can lock a user out by guessing.
//!
//! Invariant: nothing here waits but the threads that hash, and memory is bounded. What doors share are numbers.

mod checker;
mod lanes;
mod mark;
mod remembered;
mod share;
mod strikes;

use std::net::IpAddr;
use std::time::Duration;

pub(super) use checker::Waiter;
use checker::{Check, PasswordChecker};
pub(super) use mark::Mark;
use mark::Marks;
use remembered::Remembered;
use share::Standing;
pub(super) use share::{Place, Share};
use strikes::Strikes;

use super::password::PasswordHash;

/// How many log-ins are worked on, and what holds for those of one address. (IPv6: of one /64.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginLimits {
    /// Threads that check passwords; each uses the memory of one hash, 19 MiB by default.
    pub concurrent_max: usize,
    /// Log-ins that may wait for a thread; more are refused as busy.
    pub waiting_max: usize,
    /// Those of them that may be of one address.
    pub waiting_per_address_max: u32,
    /// Wrong passwords of one address before its next log-ins must wait; 0 for never.
    pub wrong_max: u32,
    /// The longest time that an address must wait.
    pub delay_max: Duration,
    /// How long a password that was right is not hashed again; zero for never.
    pub remembered: Duration,
}

impl Default for LoginLimits {
    /// What the configuration says if it says nothing.
    fn default() -> LoginLimits {
        LoginLimits {
            concurrent_max: 1,
            waiting_max: 64,
            waiting_per_address_max: 8,
            wrong_max: 10,
            delay_max: Duration::from_secs(60),
            remembered: Duration::from_secs(300),
        }
    }
}

/// What a log-in gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedToken {
    /// The token, to be sent as `Authorization: Bearer`.
    pub token: String,
    /// When it ends, in seconds since the epoch.
    pub expires_at_s: u64,
}

/// Why a log-in gives nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// There is no such user, or the password is another one. The error does not tell which.
    #[error("user or password is wrong")]
    Wrong,
    /// Too many log-ins wait already, of this address or of all.
    #[error(
        "too many log-ins of this address or of all are waiting; this one was not looked at: try again in a second"
    )]
    Busy,
    /// There were too many wrong passwords from this address.
    #[error("too many wrong passwords came from this address; try again in {retry_after_s} s")]
    Later {
        /// When trying again makes sense, seconds.
        retry_after_s: u32,
    },
    /// Who decides on this user does not answer.
    #[error("what decides on log-ins of this user does not answer; try again in {retry_after_s} s")]
    Unavailable {
        /// When trying again makes sense, seconds.
        retry_after_s: u32,
    },
    /// A reload has changed who decides, or what they may give, while they were asked.
    #[error("what decides on log-ins of this user was changed while it was asked; try again")]
    Changed,
}

/// Whole seconds, for whoever is to try again in so many milliseconds.
pub(super) fn retry_after_s(wait_ms: u64) -> u32 {
    u32::try_from(wait_ms.div_ceil(1_000)).unwrap_or(u32::MAX).max(1)
}

/// A log-in that is tried.
pub(super) struct Attempt<'a> {
    pub user: &'a str,
    pub password: &'a str,
    /// Of what decides on the password: its hash, or a hook; `None` if there is no such user, and the hash is a decoy.
    pub stamp: Option<&'a str>,
    pub address: IpAddr,
}

/// What is known of a log-in at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// The password is right: it was so lately.
    Right,
    /// The waiter will be told.
    Asked,
}

/// A log-in that may be decided on.
pub(super) enum Entered {
    /// The password was right lately.
    Remembered,
    /// It has a place until it is decided.
    Place(LaneUsed, Place),
}

/// Checks passwords for all doors.
pub(super) struct Logins {
    limits: LoginLimits,
    marks: Marks,
    strikes: Strikes,
    share: Share,
    /// Passwords that were right.
    passwords: Remembered,
    /// Users that have logged in from an address.
    known_there: Remembered,
    checker: PasswordChecker,
}

/// Passwords that were right and are remembered, over all users.
const PASSWORDS_MAX: usize = 8_192;
/// Pairs of a user and an address that are remembered.
const KNOWN_THERE_MAX: usize = 16_384;
/// How long a pair of a user and an address is remembered.
const KNOWN_THERE_MS: u64 = 7 * 86_400_000;
/// Log-ins of an address that found no place, before it is told only what is hashed for it: for a second, then twice as
/// long each time, as it is after wrong passwords.
const UNHASHED_MAX: u32 = 10;
/// Wrong passwords for a user from an address where it is known, before it is not known there any more.
const KNOWN_WRONG_MAX: u32 = 3;

impl Logins {
    /// Starts the threads.
    pub(super) fn open(limits: LoginLimits) -> Logins {
        Logins {
            marks: Marks::new(),
            strikes: Strikes::new(limits.delay_max.as_millis() as u64),
            share: Share::new(limits.waiting_max.max(1) + limits.concurrent_max.max(1), limits.waiting_per_address_max),
            passwords: Remembered::new(PASSWORDS_MAX),
            known_there: Remembered::new(KNOWN_THERE_MAX),
            checker: PasswordChecker::open(limits.concurrent_max, limits.waiting_max),
            limits,
        }
    }

    /// Begins to compare a password with `hash` at `now_ms` of any clock. `waiter` is told what came of it, by
    /// [`Logins::settle`], if the answer is not there at once.
    pub(super) fn begin(
        &self,
        attempt: &Attempt<'_>,
        hash: &PasswordHash,
        now_ms: u64,
        waiter: impl FnOnce(LaneUsed) -> Waiter,
    ) -> Result<Begun, LoginError> {
        match self.enter(attempt, &self.share, now_ms, |password| self.passwords.has(password, now_ms))? {
            Entered::Remembered => Ok(Begun::Right),
            Entered::Place(lane, place) => {
                let check = Check {
                    lane: lane.number(),
                    is_struck: lane.standing() == Standing::Struck,
                    hash: hash.clone(),
                    password: attempt.password.to_owned(),
                    waiter: waiter(lane),
                    place,
                };
                self.checker.submit(check).map(|()| Begun::Asked)
            }
        }
    }

    /// Whether the password is right because it was so lately, as `is_remembered` says; else a place in `share` for
    /// whatever decides on it.
    pub(super) fn enter(
        &self,
        attempt: &Attempt<'_>,
        share: &Share,
        now_ms: u64,
        is_remembered: impl FnOnce(Mark) -> bool,
    ) -> Result<Entered, LoginError> {
        let lane = self.lane(attempt, now_ms);
        if !lane.is_known
            && let Some(wait_ms) = self.strikes.wait_ms(lane.address, self.limits.wrong_max, now_ms)
        {
            return Err(LoginError::Later { retry_after_s: retry_after_s(wait_ms) });
        }
        let is_remembered = lane.password.is_some_and(is_remembered);
        let is_right = || {
            self.came_in(&lane, now_ms);
            Ok(Entered::Remembered)
        };
        if is_remembered && self.may_be_told(&lane, share, now_ms) {
            return is_right();
        }
        let Some(place) = share.enter(lane.number(), lane.standing()) else {
            self.strikes.add(lane.unhashed, now_ms);
            return Err(LoginError::Busy);
        };
        if is_remembered { is_right() } else { Ok(Entered::Place(lane, place)) }
    }

    /// Whether what is remembered may be told without a place: a guess that was wrong would have been hashed. So not to
    /// a lane that has all its places, nor to one that was often told that there is none: it could try passwords for
    /// nothing.
    fn may_be_told(&self, lane: &LaneUsed, share: &Share, now_ms: u64) -> bool {
        share.is_free(lane.number()) && self.strikes.wait_ms(lane.unhashed, UNHASHED_MAX, now_ms).is_none()
    }

    /// Hashes a new password, beside those that are checked. `Busy` when too many wait.
    pub(super) async fn hash(&self, password: String) -> Result<PasswordHash, LoginError> {
        self.checker.hash(password).await.map_err(|_| LoginError::Busy)
    }

    fn lane(&self, attempt: &Attempt<'_>, now_ms: u64) -> LaneUsed {
        let pair = self.marks.pair(attempt.user, attempt.address);
        LaneUsed {
            address: self.marks.address(attempt.address),
            unhashed: self.marks.unhashed(attempt.address),
            pair,
            is_struck: self.strikes.has_any(self.marks.address(attempt.address), now_ms),
            is_known: attempt.stamp.is_some() && self.known_there.has(pair, now_ms),
            password: attempt.stamp.map(|stamp| self.marks.password(attempt.user, stamp, attempt.password)),
        }
    }

    /// The user is known there from now on.
    pub(super) fn came_in(&self, lane: &LaneUsed, now_ms: u64) {
        self.known_there.keep(lane.pair, now_ms + KNOWN_THERE_MS, now_ms);
    }

    /// What came of an attempt: the address of a wrong password is nearer to having to wait, a right one is remembered.
    pub(super) fn settle(&self, lane: &LaneUsed, is_right: bool, now_ms: u64) {
        if is_right {
            let remembered_ms = self.limits.remembered.as_millis() as u64;
            if let Some(password) = lane.password.filter(|_| remembered_ms > 0) {
                self.passwords.keep(password, now_ms + remembered_ms, now_ms);
            }
            self.came_in(lane, now_ms);
            return;
        }
        self.strikes.add(lane.address, now_ms);
        if lane.is_known && self.strikes.add(lane.pair, now_ms) >= KNOWN_WRONG_MAX {
            self.known_there.forget(lane.pair);
        }
    }
}

/// By which lane a password is checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneUsed {
    address: mark::Mark,
    /// The address, by its log-ins that found no place.
    unhashed: mark::Mark,
    pair: mark::Mark,
    password: Option<mark::Mark>,
    /// The user has logged in from there before.
    is_known: bool,
    /// A wrong password came from there lately.
    is_struck: bool,
}

impl LaneUsed {
    /// The password, for whoever remembers what was decided on it; `None` if there is no such user.
    pub(super) fn password(&self) -> Option<Mark> {
        self.password
    }

    fn standing(&self) -> Standing {
        match self {
            LaneUsed { is_known: true, .. } => Standing::Known,
            LaneUsed { is_struck: true, .. } => Standing::Struck,
            _ => Standing::Unknown,
        }
    }

    fn number(&self) -> u64 {
        if self.is_known { self.pair.number() } else { self.address.number() }
    }
}

#[cfg(test)]
mod tests;
