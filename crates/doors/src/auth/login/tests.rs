//! Log-ins without sockets: who waits, who is refused, and what is remembered.

use std::sync::mpsc;

use super::*;
use crate::auth::hash_password;

const LIMITS: LoginLimits = LoginLimits {
    concurrent_max: 1,
    waiting_max: 63,
    waiting_per_address_max: 8,
    wrong_max: 5,
    delay_max: Duration::from_secs(60),
    remembered: Duration::from_secs(300),
};

fn address(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

struct Server {
    logins: Logins,
    hash: PasswordHash,
    /// Places of log-ins that are never answered.
    held: Vec<share::Place>,
}

impl Server {
    fn new(limits: LoginLimits) -> Server {
        Server { logins: Logins::open(limits), hash: hash_password("right"), held: Vec::new() }
    }

    fn attempt<'a>(&'a self, user: &'a str, password: &'a str, from: u8) -> Attempt<'a> {
        Attempt { user, password, stamp: Some("stamp"), address: address(from) }
    }

    /// Tries to log in, and waits for the result. `Ok` with whether it was hashed.
    fn log_in(&self, user: &str, password: &str, from: u8, now_ms: u64) -> Result<bool, LoginError> {
        let (told, result) = mpsc::channel();
        let waiter = |lane: LaneUsed| Waiter {
            is_gone: Default::default(),
            answer: Box::new(move |is_right| told.send((lane, is_right)).expect("the test waits")),
        };
        match self.logins.begin(&self.attempt(user, password, from), &self.hash, now_ms, waiter)? {
            Begun::Right => Ok(false),
            Begun::Asked => {
                let (lane, is_right) = result.recv().unwrap();
                self.logins.settle(&lane, is_right, now_ms);
                if is_right { Ok(true) } else { Err(LoginError::Wrong) }
            }
        }
    }

    /// Holds places of `user` from an address as long as it gets any; how many.
    fn fill(&mut self, user: &str, from: u8) -> usize {
        let lane = self.logins.lane(&self.attempt(user, "wrong", from), 0);
        let places: Vec<_> =
            std::iter::from_fn(|| self.logins.share.enter(lane.number(), lane.standing())).take(1_000).collect();
        self.held.extend(places);
        self.held.len()
    }
}

#[test]
fn eighty_connections_of_one_address_leave_room_for_all_others() {
    let mut server = Server::new(LIMITS);
    assert_eq!(server.fill("anybody", 1), 8);
    assert_eq!(server.log_in("dave", "wrong", 1, 0), Err(LoginError::Busy));
    assert_eq!(server.log_in("dave", "right", 2, 0), Ok(true));
}

#[test]
fn some_addresses_that_fill_what_they_may_leave_room_for_one_that_comes() {
    for attackers in [6, 8, 12, 20, 40] {
        let mut server = Server::new(LIMITS);
        for _ in 0..200 {
            for from in 1..=attackers {
                server.fill("anybody", from);
            }
            // The oldest is answered, and the attackers come again.
            server.held.remove(0);
        }
        (1..=attackers).for_each(|from| _ = server.fill("anybody", from));
        assert_eq!(server.log_in("erin", "wrong", 1, 0), Err(LoginError::Busy), "{attackers} addresses have all");
        assert_eq!(server.log_in("dave", "right", 100, 0), Ok(true), "beside {attackers} addresses");
    }
}

#[test]
fn addresses_that_sent_wrong_passwords_leave_room_for_one_that_sent_none_however_many_they_are() {
    let mut server = Server::new(LIMITS);
    for from in 1..=64 {
        let lane = server.logins.lane(&server.attempt("anybody", "wrong", from), 0);
        server.logins.settle(&lane, false, 0);
    }
    for from in 1..=64 {
        server.fill("anybody", from);
    }
    assert_eq!(server.held.len(), 32, "half of all");
    assert_eq!(server.log_in("erin", "right", 64, 0), Err(LoginError::Busy), "it is one of them");
    assert_eq!(server.log_in("dave", "right", 100, 0), Ok(true));
    assert_eq!(server.log_in("erin", "right", 64, 60_000), Ok(true), "after a minute it is forgiven");
}

#[test]
fn a_password_that_is_remembered_needs_no_place() {
    let mut server = Server::new(LIMITS);
    assert_eq!(server.log_in("dave", "right", 100, 0), Ok(true));
    for from in 1..100 {
        server.fill("anybody", from);
    }
    assert_eq!(server.log_in("erin", "right", 101, 0), Err(LoginError::Busy), "every place is taken");
    assert_eq!(server.log_in("dave", "right", 102, 0), Ok(false), "from a new address");
    // But that is no way to guess: who asks for what would have to be hashed is told nothing for a while.
    for _ in 0..=UNHASHED_MAX {
        assert_eq!(server.log_in("dave", "wrong", 103, 0), Err(LoginError::Busy));
    }
    assert_eq!(server.log_in("dave", "right", 103, 0), Err(LoginError::Busy));
    assert_eq!(server.log_in("dave", "right", 103, 2_000), Ok(false), "and then again");
    assert_eq!(server.log_in("dave", "right", 104, 0), Ok(false), "others are told");
}

#[test]
fn many_addresses_leave_room_for_users_who_are_known_where_they_are() {
    let mut server = Server::new(LIMITS);
    assert_eq!(server.log_in("dave", "right", 100, 0), Ok(true));
    for from in 1..50 {
        server.fill("anybody", from);
    }
    assert_eq!(server.held.len(), 48);
    assert_eq!(server.log_in("erin", "right", 101, 0), Err(LoginError::Busy));
    let later_ms = LIMITS.remembered.as_millis() as u64;
    assert_eq!(server.log_in("dave", "right", 100, later_ms), Ok(true), "hashed again, in a lane of its own");
}

#[test]
fn wrong_passwords_make_their_address_wait_longer_each_time_and_not_their_user() {
    let server = Server::new(LIMITS);
    let mut now_ms = 1_000_000;
    for _ in 0..=LIMITS.wrong_max {
        assert_eq!(server.log_in("dave", "wrong", 1, now_ms), Err(LoginError::Wrong));
    }
    let mut waits = Vec::new();
    for _ in 0..8 {
        let Err(LoginError::Later { retry_after_s }) = server.log_in("dave", "right", 1, now_ms) else { panic!() };
        waits.push(retry_after_s);
        now_ms += u64::from(retry_after_s) * 1_000;
        assert_eq!(server.log_in("dave", "wrong", 1, now_ms), Err(LoginError::Wrong));
    }
    assert_eq!(waits[..6], [1, 2, 4, 8, 16, 32]);
    assert!(waits[6..].iter().all(|wait| *wait == 60), "{waits:?}");
    assert_eq!(server.log_in("dave", "right", 2, now_ms), Ok(true), "from elsewhere");
    assert_eq!(server.log_in("dave", "right", 1, now_ms + 86_400_000), Ok(true), "all is forgiven in time");
}

#[test]
fn a_user_who_is_known_there_does_not_wait_for_what_others_of_the_address_do() {
    let server = Server::new(LIMITS);
    assert_eq!(server.log_in("dave", "right", 1, 0), Ok(true));
    for _ in 0..=LIMITS.wrong_max {
        assert_eq!(server.log_in("erin", "wrong", 1, 0), Err(LoginError::Wrong));
    }
    assert!(matches!(server.log_in("erin", "right", 1, 0), Err(LoginError::Later { .. })));
    assert_eq!(server.log_in("dave", "right", 1, 0), Ok(false));
    // But that is no way to guess.
    for _ in 0..KNOWN_WRONG_MAX {
        assert_eq!(server.log_in("dave", "wrong", 1, 0), Err(LoginError::Wrong));
    }
    assert!(matches!(server.log_in("dave", "right", 1, 0), Err(LoginError::Later { .. })));
}

#[test]
fn who_came_in_by_what_is_remembered_is_known_there_too() {
    let server = Server::new(LIMITS);
    assert_eq!(server.log_in("dave", "right", 1, 0), Ok(true));
    assert_eq!(server.log_in("dave", "right", 2, 0), Ok(false));
    for _ in 0..=LIMITS.wrong_max {
        assert_eq!(server.log_in("erin", "wrong", 2, 0), Err(LoginError::Wrong));
    }
    assert!(matches!(server.log_in("erin", "right", 2, 0), Err(LoginError::Later { .. })));
    assert_eq!(server.log_in("dave", "right", 2, 0), Ok(false));
}

#[test]
fn a_password_that_was_right_is_not_hashed_again_for_a_while() {
    let server = Server::new(LIMITS);
    assert_eq!(server.log_in("dave", "right", 1, 0), Ok(true));
    assert_eq!(server.log_in("dave", "right", 2, 299_999), Ok(false), "from anywhere");
    assert_eq!(server.log_in("dave", "right", 3, 300_000), Ok(true), "its time was over");
    assert_eq!(server.log_in("erin", "right", 1, 300_000), Ok(true), "another user's");
    let never = Server::new(LoginLimits { remembered: Duration::ZERO, ..LIMITS });
    assert_eq!((never.log_in("dave", "right", 1, 0), never.log_in("dave", "right", 1, 0)), (Ok(true), Ok(true)));
}

#[test]
fn who_has_its_share_under_way_cannot_ask_what_is_remembered() {
    let mut server = Server::new(LIMITS);
    assert_eq!(server.log_in("dave", "right", 1, 0), Ok(true));
    server.fill("anybody", 2);
    assert_eq!(server.log_in("dave", "right", 2, 0), Err(LoginError::Busy));
}

#[test]
fn no_bound_no_wait() {
    let server = Server::new(LoginLimits { wrong_max: 0, ..LIMITS });
    for _ in 0..20 {
        assert_eq!(server.log_in("dave", "wrong", 1, 0), Err(LoginError::Wrong));
    }
    assert_eq!(server.log_in("dave", "right", 1, 0), Ok(true));
}
