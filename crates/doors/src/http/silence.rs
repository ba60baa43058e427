//! Whether a client sends no more on its connection: it has closed its side, or has gone.
//!
//! Why: a request that waits for something to happen, and then gives it away for good, must not give it to a client
//! that closed its connection. Closing looks like having sent all requests, as long as nothing is written. Who waits
//! decides what that means to it; all other requests are answered.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio::sync::Notify;

/// Says when a client sends no more. Requests have it as an extension.
#[derive(Debug, Default)]
pub struct Silence {
    is_told: AtomicBool,
    told: Notify,
}

impl Silence {
    /// The client sends no more.
    pub(super) fn tell(&self) {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            self.told.notify_waiters();
        }
    }

    /// Whether the client sends no more.
    pub fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    /// Waits until the client sends no more.
    pub async fn wait(&self) {
        // Made before the flag is read, so that what is told in between wakes it.
        let told = self.told.notified();
        if !self.is_told.load(Ordering::Relaxed) {
            told.await;
        }
    }
}

/// The silence of the connection that a request came on, for handlers.
pub struct OfConnection(pub Arc<Silence>);

impl<S: Sync> FromRequestParts<S> for OfConnection {
    type Rejection = Infallible;

    async fn from_request_parts(head: &mut Parts, _state: &S) -> Result<OfConnection, Infallible> {
        Ok(OfConnection(head.extensions.get::<Arc<Silence>>().cloned().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::Silence;

    #[test]
    fn who_waits_is_told_and_who_comes_later_too() {
        let silence = Silence::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut waits = std::pin::pin!(silence.wait());
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
        silence.tell();
        silence.tell();
        assert_eq!(waits.poll(&mut context), Poll::Ready(()));
        assert_eq!(std::pin::pin!(silence.wait()).poll(&mut context), Poll::Ready(()));
    }
}
