//! The threads that check passwords. They are few and have low priority, and what waits for them is bounded.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use super::LoginError;
use super::lanes::Lanes;
use super::share::Place;
use crate::auth::password::PasswordHash;

/// Checks before one of an address that has sent wrong passwords lately.
const OTHERS_FIRST: u32 = 3;

/// A password that is to be checked.
pub struct Check {
    pub lane: u64,
    /// It waits behind those whose addresses have sent no wrong password lately.
    pub is_struck: bool,
    pub hash: PasswordHash,
    pub password: String,
    pub waiter: Waiter,
    pub place: Place,
}

/// Who waits for the result.
pub struct Waiter {
    /// Whether the client is gone: an attacker must not make us work for nobody.
    pub is_gone: Arc<AtomicBool>,
    /// Takes the result; on a thread that checks passwords.
    pub answer: Box<dyn FnOnce(bool) + Send>,
}

/// The queue to the threads; they end when it is dropped.
pub struct PasswordChecker {
    checks: SyncSender<Check>,
}

/// What the threads share.
struct Queue {
    checks: Receiver<Check>,
    lanes: Lanes<Check>,
    /// Of addresses that have sent wrong passwords lately.
    struck: Lanes<Check>,
    /// Checks of others since the last one of these.
    since_struck: u32,
}

impl PasswordChecker {
    /// Starts the threads.
    pub fn open(threads: usize, waiting_max: usize) -> PasswordChecker {
        let threads = threads.max(1);
        let (checks, receiver) = sync_channel(waiting_max.max(1) + threads);
        let queue = Arc::new(Mutex::new(Queue::new(receiver)));
        for number in 0..threads {
            let queue = queue.clone();
            thread::Builder::new()
                .name(format!("login-{number}"))
                .spawn(move || work(&queue))
                .expect("a thread can be started");
        }
        PasswordChecker { checks }
    }

    /// One more to check.
    pub fn submit(&self, check: Check) -> Result<(), LoginError> {
        self.checks.try_send(check).map_err(|_| LoginError::Busy)
    }
}

impl Queue {
    fn new(checks: Receiver<Check>) -> Queue {
        Queue { checks, lanes: Lanes::new(), struck: Lanes::new(), since_struck: 0 }
    }

    fn push(&mut self, check: Check) {
        let lanes = if check.is_struck { &mut self.struck } else { &mut self.lanes };
        lanes.push(check.lane, check);
    }

    /// The next one that waits. Of four, one is of those who sent wrong passwords: they wait longer, not for ever.
    fn pop(&mut self) -> Option<Check> {
        if self.since_struck < OTHERS_FIRST
            && let Some(check) = self.lanes.pop()
        {
            self.since_struck += 1;
            return Some(check);
        }
        self.since_struck = 0;
        self.struck.pop().or_else(|| self.lanes.pop())
    }

    /// Waits for the next check that somebody waits for; `None` when none comes any more.
    fn next(&mut self) -> Option<Check> {
        loop {
            while let Ok(check) = self.checks.try_recv() {
                self.push(check);
            }
            match self.pop() {
                Some(check) if check.waiter.is_gone.load(Ordering::Relaxed) => {}
                Some(check) => return Some(check),
                None => {
                    let check = self.checks.recv().ok()?;
                    self.push(check);
                }
            }
        }
    }
}

fn work(queue: &Mutex<Queue>) {
    yield_to_others();
    loop {
        let next = queue.lock().expect("no thread panics while it holds the queue").next();
        let Some(Check { hash, password, waiter, place, .. }) = next else { return };
        let is_right = hash.verify(&password);
        // Whoever is told may try again at once.
        drop(place);
        (waiter.answer)(is_right);
    }
}

/// Lowers this thread's priority: votes go before log-ins.
fn yield_to_others() {
    // SAFETY: the call takes plain integers; on Linux "process 0" is the calling thread. A failure changes nothing.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, 10);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::auth::login::share::{Share, Standing};

    fn check(share: &Share, lane: u64, is_gone: bool) -> Check {
        Check {
            lane,
            is_struck: lane >= 100,
            hash: crate::auth::hash_password("x"),
            password: "x".to_owned(),
            waiter: Waiter { is_gone: Arc::new(AtomicBool::new(is_gone)), answer: Box::new(|_| ()) },
            place: share.enter(lane, Standing::Known).expect("there is room"),
        }
    }

    #[test]
    fn lanes_take_turns_and_nobody_hashes_for_who_is_gone() {
        let share = Share::new(100, 100);
        let (sender, receiver) = mpsc::sync_channel(100);
        let mut queue = Queue::new(receiver);
        for lane in [1, 1, 1, 1, 2, 3] {
            sender.send(check(&share, lane, false)).unwrap();
        }
        sender.send(check(&share, 4, true)).unwrap();
        drop(sender);
        let lanes: Vec<u64> = std::iter::from_fn(|| queue.next()).map(|check| check.lane).collect();
        assert_eq!(lanes, [1, 2, 3, 1, 1, 1]);
    }

    #[test]
    fn who_sent_wrong_passwords_waits_longer_and_not_for_ever() {
        let share = Share::new(100, 100);
        let (sender, receiver) = mpsc::sync_channel(100);
        let mut queue = Queue::new(receiver);
        for lane in [101, 102, 103, 101, 1, 2, 3, 4, 5] {
            sender.send(check(&share, lane, false)).unwrap();
        }
        drop(sender);
        let lanes: Vec<u64> = std::iter::from_fn(|| queue.next()).map(|check| check.lane).collect();
        assert_eq!(lanes, [1, 2, 3, 101, 4, 5, 102, 103, 101]);
    }
}
