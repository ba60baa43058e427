//! Checks passwords on threads of their own. Why: argon2 takes tens of milliseconds of a core by design. The threads
//! are few and have low priority, and their queue is short and refuses when it is full.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use tokio::sync::oneshot;

use super::password::PasswordHash;

/// How many log-ins are worked on and how many may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginLimits {
    /// Threads that check passwords; each uses the memory of one hash, 19 MiB by default.
    pub concurrent_max: usize,
    /// Log-ins that may wait for a thread; more are refused as busy.
    pub waiting_max: usize,
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
    /// Too many log-ins wait already.
    #[error("too many log-ins are waiting; try again in a second")]
    Busy,
}

struct Check {
    hash: PasswordHash,
    password: String,
    answer: Answer,
}

/// Who waits for the result.
enum Answer {
    /// A task, which may have given up.
    Task(oneshot::Sender<bool>),
    /// A thread that does not wait and will be told.
    Call(Box<dyn FnOnce(bool) + Send>),
}

/// The queue to the threads; they end when it is dropped.
pub(super) struct PasswordChecker {
    checks: SyncSender<Check>,
}

impl PasswordChecker {
    /// Starts the threads.
    pub(super) fn open(limits: LoginLimits) -> PasswordChecker {
        let (checks, queue) = sync_channel(limits.waiting_max.max(1));
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..limits.concurrent_max.max(1) {
            let queue = queue.clone();
            thread::Builder::new()
                .name(format!("login-{number}"))
                .spawn(move || work(&queue))
                .expect("a thread can be started");
        }
        PasswordChecker { checks }
    }

    /// Whether `password` matches `hash`, or `Busy`.
    pub(super) async fn verify(&self, hash: PasswordHash, password: String) -> Result<bool, LoginError> {
        let (answer, correct) = oneshot::channel();
        self.submit(Check { hash, password, answer: Answer::Task(answer) })?;
        correct.await.map_err(|_| LoginError::Busy)
    }

    /// The same for a thread that must not wait: `answer` is called on another one.
    pub(super) fn verify_then(
        &self,
        hash: PasswordHash,
        password: String,
        answer: impl FnOnce(bool) + Send + 'static,
    ) -> Result<(), LoginError> {
        self.submit(Check { hash, password, answer: Answer::Call(Box::new(answer)) })
    }

    fn submit(&self, check: Check) -> Result<(), LoginError> {
        self.checks.try_send(check).map_err(|_: TrySendError<Check>| LoginError::Busy)
    }
}

fn work(queue: &Mutex<Receiver<Check>>) {
    yield_to_others();
    loop {
        let next = queue.lock().expect("no thread panics while it holds the queue").recv();
        let Ok(check) = next else { return };
        let Check { hash, password, answer } = check;
        match answer {
            // A client that went away needs no answer, and an attacker must not make us work for one.
            Answer::Task(answer) if answer.is_closed() => {}
            Answer::Task(answer) => drop(answer.send(hash.verify(&password))),
            Answer::Call(answer) => answer(hash.verify(&password)),
        }
    }
}

/// Lowers this thread's priority: votes go before log-ins.
fn yield_to_others() {
    // SAFETY: the call takes plain integers; on Linux "process 0" is the calling thread. A failure changes nothing.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, 10);
    }
}
