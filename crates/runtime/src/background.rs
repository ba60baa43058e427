//! A client for a thread that may wait: it sends one request at a time and waits for the reply.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use crate::address::{Address, Carries, EndpointIndex, MemberIndex};
use crate::client::{Asker, Client};
use crate::mesh::{Endpoint, Parker};

/// How long one look for an answer lasts before the thread checks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(200);

/// An endpoint with one client, whose owner asks and waits.
pub struct Background<P, C: Client> {
    endpoint: Endpoint<P>,
    asker: Asker<C>,
    woken: mpsc::Receiver<()>,
    /// The token of the last request; replies under earlier ones were given up.
    token: u64,
}

impl<P: Carries<C::Message>, C: Client> Background<P, C> {
    /// Takes its end of the rings; `make` makes the client for its address.
    pub fn new(endpoint: Endpoint<P>, make: impl FnOnce(Address) -> C) -> Background<P, C> {
        let (wake, woken) = mpsc::sync_channel(1);
        endpoint.parker().set_wake(move || {
            // One wake-up that waits is as good as many.
            let _ = wake.try_send(());
        });
        let me = Address { endpoint: endpoint.index(), member: MemberIndex(0) };
        Background { endpoint, asker: Asker::new(me, make(me)), woken, token: 0 }
    }

    /// Asks, and waits. `None` once `stopped` says so.
    pub fn ask(&mut self, request: impl Into<C::Request>, stopped: &dyn Fn() -> bool) -> Option<C::Reply> {
        self.token += 1;
        self.asker.start(self.token, request);
        loop {
            self.asker.send_by(&mut self.endpoint);
            self.endpoint.wake_receivers();
            let token = self.token;
            if let Some((_, reply)) = self.asker.take_replies().into_iter().find(|(of, _)| *of == token) {
                return Some(reply);
            }
            let asker = &mut self.asker;
            let any = self.endpoint.receive(|envelope| {
                let Ok(message) = envelope.body.unpack() else { panic!("a background thread asks one room only") };
                asker.deliver(envelope.from, message);
            });
            if !any && !self.wait(stopped) {
                return None;
            }
        }
    }

    /// The same endpoint with another client. Answers to the one before must all have come.
    pub fn with_client<D: Client>(self, make: impl FnOnce(Address) -> D) -> Background<P, D> {
        assert!(self.asker.client().pending() == 0, "an answer for one client must not reach another");
        let me = Address { endpoint: self.endpoint.index(), member: MemberIndex(0) };
        Background { endpoint: self.endpoint, asker: Asker::new(me, make(me)), woken: self.woken, token: 0 }
    }

    /// Sleeps until there may be something to do, or for `PATIENCE`; `false` once `stopped` says so.
    fn wait(&mut self, stopped: &dyn Fn() -> bool) -> bool {
        if self.endpoint.sleep_unless(|| false) {
            let _ = self.woken.recv_timeout(PATIENCE);
            self.endpoint.awake();
        }
        !stopped()
    }

    /// Which endpoint it is.
    pub fn endpoint(&self) -> EndpointIndex {
        self.endpoint.index()
    }

    /// How it sleeps; who wants it to stop wakes it.
    pub fn parker(&self) -> Arc<Parker> {
        self.endpoint.parker().clone()
    }
}
