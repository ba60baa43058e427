//! What other threads say to a worker's port.
//!
//! ```text
//!   any thread ─ Sender::send ─▶ channel + wake ─▶ worker: take
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use tidegate_runtime::Parker;

/// A worker's end. Who sends must be bounded: the channel is not.
pub struct Mail<T> {
    sender: MailSender<T>,
    receiver: mpsc::Receiver<T>,
}

/// The other end, for any thread.
pub struct MailSender<T> {
    sender: mpsc::Sender<T>,
    /// How many are in the channel; a worker checks this before it sleeps.
    waiting: Arc<AtomicUsize>,
    parker: Arc<Parker>,
}

impl<T> Clone for MailSender<T> {
    fn clone(&self) -> Self {
        let MailSender { sender, waiting, parker } = self;
        MailSender { sender: sender.clone(), waiting: waiting.clone(), parker: parker.clone() }
    }
}

impl<T> MailSender<T> {
    /// Sends, and wakes the worker.
    pub fn send(&self, news: T) {
        self.waiting.fetch_add(1, Ordering::Release);
        // A worker that is gone needs no news.
        if self.sender.send(news).is_ok() {
            self.parker.wake();
        }
    }
}

impl<T> Mail<T> {
    /// For the worker that is woken by `parker`.
    pub fn new(parker: Arc<Parker>) -> Mail<T> {
        let (sender, receiver) = mpsc::channel();
        Mail { sender: MailSender { sender, waiting: Arc::default(), parker }, receiver }
    }

    /// For another thread.
    pub fn sender(&self) -> MailSender<T> {
        self.sender.clone()
    }

    /// The next that has come.
    pub fn take(&mut self) -> Option<T> {
        let taken = self.receiver.try_recv().ok()?;
        self.sender.waiting.fetch_sub(1, Ordering::AcqRel);
        Some(taken)
    }

    /// Whether there is one.
    pub fn has_news(&self) -> bool {
        self.sender.waiting.load(Ordering::Acquire) > 0
    }
}
