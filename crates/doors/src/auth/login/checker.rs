//! The threads that check passwords, and hash those that an operator gives. They are few and have low priority, and
//! what waits for them is bounded.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use tokio::sync::oneshot;

use super::LoginError;
use super::lanes::Lanes;
use super::share::Place;
use crate::auth::password::{PasswordHash, hash_password};

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

/// A password of a user that is made or changed.
struct NewPassword {
    password: String,
    /// Closed if nobody waits any more.
    reply: oneshot::Sender<PasswordHash>,
}

/// What takes a thread tens of milliseconds.
enum Job {
    Check(Check),
    Hash(NewPassword),
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
    jobs: SyncSender<Job>,
}

/// What the threads share.
struct Queue {
    jobs: Receiver<Job>,
    /// New passwords take turns with checks, whoever sends either.
    new: VecDeque<NewPassword>,
    was_new: bool,
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
        let (jobs, receiver) = sync_channel(waiting_max.max(1) + threads);
        let queue = Arc::new(Mutex::new(Queue::new(receiver)));
        for number in 0..threads {
            let queue = queue.clone();
            thread::Builder::new()
                .name(format!("login-{number}"))
                .spawn(move || work(&queue))
                .expect("a thread can be started");
        }
        PasswordChecker { jobs }
    }

    /// One more to check.
    pub fn submit(&self, check: Check) -> Result<(), LoginError> {
        self.jobs.try_send(Job::Check(check)).map_err(|_| LoginError::Busy)
    }

    /// One more to hash. The receiver is told of no hash if too many wait.
    pub fn hash(&self, password: String) -> oneshot::Receiver<PasswordHash> {
        let (reply, hash) = oneshot::channel();
        let _ = self.jobs.try_send(Job::Hash(NewPassword { password, reply }));
        hash
    }
}

impl Queue {
    fn new(jobs: Receiver<Job>) -> Queue {
        let (lanes, struck) = (Lanes::new(), Lanes::new());
        Queue { jobs, new: VecDeque::new(), was_new: false, lanes, struck, since_struck: 0 }
    }

    fn push(&mut self, job: Job) {
        let check = match job {
            Job::Check(check) => check,
            Job::Hash(new) => return self.new.push_back(new),
        };
        let lanes = if check.is_struck { &mut self.struck } else { &mut self.lanes };
        lanes.push(check.lane, check);
    }

    /// The next one that waits: a new password or a check, in turns.
    fn pop(&mut self) -> Option<Job> {
        self.was_new = !self.was_new;
        if self.was_new
            && let Some(new) = self.new.pop_front()
        {
            return Some(Job::Hash(new));
        }
        let check = self.pop_check().map(Job::Check);
        check.or_else(|| self.new.pop_front().map(Job::Hash))
    }

    /// The next check that waits. Of four, one is of those who sent wrong passwords: they wait longer, not for ever.
    fn pop_check(&mut self) -> Option<Check> {
        if self.since_struck < OTHERS_FIRST
            && let Some(check) = self.lanes.pop()
        {
            self.since_struck += 1;
            return Some(check);
        }
        self.since_struck = 0;
        self.struck.pop().or_else(|| self.lanes.pop())
    }

    /// Waits for the next job that somebody waits for; `None` when none comes any more.
    fn next(&mut self) -> Option<Job> {
        loop {
            while let Ok(job) = self.jobs.try_recv() {
                self.push(job);
            }
            match self.pop() {
                Some(Job::Check(check)) if check.waiter.is_gone.load(Ordering::Relaxed) => {}
                Some(Job::Hash(new)) if new.reply.is_closed() => {}
                Some(job) => return Some(job),
                None => {
                    let job = self.jobs.recv().ok()?;
                    self.push(job);
                }
            }
        }
    }
}

fn work(queue: &Mutex<Queue>) {
    yield_to_others();
    loop {
        let next = queue.lock().expect("no thread panics while it holds the queue").next();
        let Check { hash, password, waiter, place, .. } = match next {
            Some(Job::Check(check)) => check,
            Some(Job::Hash(NewPassword { password, reply })) => {
                // Who gave up needs no answer.
                let _ = reply.send(hash_password(&password));
                continue;
            }
            None => return,
        };
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
            sender.send(Job::Check(check(&share, lane, false))).unwrap();
        }
        sender.send(Job::Check(check(&share, 4, true))).unwrap();
        drop(sender);
        assert_eq!(lanes(&mut queue), [1, 2, 3, 1, 1, 1]);
    }

    /// The lanes in turn; 0 for a new password.
    fn lanes(queue: &mut Queue) -> Vec<u64> {
        let lane = |job| match job {
            Job::Check(check) => check.lane,
            Job::Hash(_) => 0,
        };
        std::iter::from_fn(|| queue.next()).map(lane).collect()
    }

    #[test]
    fn new_passwords_and_checks_take_turns() {
        let share = Share::new(100, 100);
        let (sender, receiver) = mpsc::sync_channel(100);
        let mut queue = Queue::new(receiver);
        let mut waiting = Vec::new();
        for number in 0..4 {
            let (reply, hash) = oneshot::channel();
            sender.send(Job::Hash(NewPassword { password: "x".to_owned(), reply })).unwrap();
            // Nobody waits for the first one any more.
            waiting.extend((number > 0).then_some(hash));
        }
        (1..=2).for_each(|lane| sender.send(Job::Check(check(&share, lane, false))).unwrap());
        drop(sender);
        assert_eq!(lanes(&mut queue), [1, 0, 2, 0, 0]);
    }

    #[test]
    fn who_sent_wrong_passwords_waits_longer_and_not_for_ever() {
        let share = Share::new(100, 100);
        let (sender, receiver) = mpsc::sync_channel(100);
        let mut queue = Queue::new(receiver);
        for lane in [101, 102, 103, 101, 1, 2, 3, 4, 5] {
            sender.send(Job::Check(check(&share, lane, false))).unwrap();
        }
        drop(sender);
        assert_eq!(lanes(&mut queue), [1, 2, 3, 101, 4, 5, 102, 103, 101]);
    }
}
