//! Users whom somebody outside signs in: the bounds and the last rights of each, by name.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::auth::acl::{Acl, ClientRights, Holder};
use crate::auth::generations::Generations;
use crate::auth::identity::{Identity, Rights};
use crate::auth::principals::{Known, bounded};
use crate::auth::quota::QuotaLimits;

/// What users may use up, by role.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub viewer: QuotaLimits,
    pub service: QuotaLimits,
}

/// See the module.
pub struct ProvidedUsers {
    acl: Arc<Acl>,
    bounds: Bounds,
    last: Mutex<Generations<Box<str>, Known>>,
}

impl ProvidedUsers {
    /// At most `users_max`; what those of `before` had used up stays used up.
    pub fn new(users_max: usize, acl: Arc<Acl>, bounds: Bounds, before: Option<&ProvidedUsers>) -> ProvidedUsers {
        let last = before.map_or_else(|| Generations::new(users_max), |before| before.lock().clone());
        ProvidedUsers { acl, bounds, last: Mutex::new(last) }
    }

    /// The user with the bounds of now, whose rights `holder` holds.
    pub fn known(&self, identity: Identity, holder: impl FnOnce(Identity) -> Holder) -> Known {
        let is_viewer = matches!(identity.rights(), Rights::Viewer { .. });
        let limits = if is_viewer { self.bounds.viewer } else { self.bounds.service };
        let before = self.lock().peek(identity.name()).cloned();
        let identity = bounded(identity, limits, before.as_ref());
        let holder = holder(identity.clone());
        Known { identity, rights: Arc::new(ClientRights::new(holder, self.acl.clone())) }
    }

    /// These are the last rights of the user.
    pub fn remember(&self, known: &Known) {
        self.lock().insert(known.identity.name().into(), known.clone());
    }

    /// The last rights of a user.
    pub fn last(&self, name: &str) -> Option<Known> {
        self.lock().get(name)
    }

    fn lock(&self) -> MutexGuard<'_, Generations<Box<str>, Known>> {
        self.last.lock().expect("no thread panics while it holds the users")
    }
}
