//! The keys of one provider: read by all threads, replaced by whoever fetches them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use super::jwks::{Jwks, KeyMark};
use super::settings::ProviderSettings;

/// The keys of one provider, shared by all threads. Empty at first.
#[derive(Default)]
pub struct KeyRing {
    keys: ArcSwap<Jwks>,
    wanted: Notify,
}

/// A provider, for whoever fetches its keys.
#[derive(Clone)]
pub struct ProviderKeys {
    /// What the configuration says of it.
    pub settings: Arc<ProviderSettings>,
    pub(super) ring: Arc<KeyRing>,
}

impl KeyRing {
    pub(super) fn load(&self) -> Arc<Jwks> {
        self.keys.load_full()
    }

    /// Whether this key is one of them.
    pub(super) fn has(&self, key: &KeyMark) -> bool {
        self.keys.load().has(key)
    }

    /// A token named a key that is not here. Said any number of times, it is heard once.
    pub(super) fn want(&self) {
        self.wanted.notify_one();
    }
}

impl ProviderKeys {
    /// The provider has these keys now. Returns whether one is gone that was there.
    pub(in crate::auth) fn replace(&self, keys: Jwks) -> bool {
        let before = self.ring.keys.swap(Arc::new(keys));
        let now = self.ring.keys.load();
        before.marks().any(|key| !now.has(key))
    }

    /// Waits until a token has named a key that is not here.
    pub async fn wanted(&self) {
        self.ring.wanted.notified().await;
    }
}
