//! What is counted of log-ins that the hook decides on. Doors count on all threads; whoever asks the hook shows it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::auth::login::LoginError;

/// Log-ins by what came of them.
#[derive(Default)]
pub struct HookFigures {
    pub(super) allowed: Figure,
    pub(super) denied: Figure,
    pub(super) unusable: Figure,
    pub(super) cached_allowed: Figure,
    pub(super) cached_denied: Figure,
    pub(super) unavailable: Figure,
    pub(super) busy: Figure,
    pub(super) delayed: Figure,
}

/// One number.
#[derive(Default)]
pub(super) struct Figure(AtomicU64);

impl Figure {
    /// One more.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl HookFigures {
    /// All of them, by the names that metrics have.
    pub fn totals(&self) -> [(&'static str, u64); 8] {
        let all = [
            ("allowed", &self.allowed),
            ("denied", &self.denied),
            ("unusable", &self.unusable),
            ("cached_allowed", &self.cached_allowed),
            ("cached_denied", &self.cached_denied),
            ("unavailable", &self.unavailable),
            ("busy", &self.busy),
            ("delayed", &self.delayed),
        ];
        all.map(|(name, figure)| (name, figure.0.load(Ordering::Relaxed)))
    }

    /// A log-in was refused before the hook was thought of.
    pub(super) fn refused(&self, error: &LoginError) {
        match error {
            LoginError::Busy => self.busy.add(),
            LoginError::Later { .. } => self.delayed.add(),
            LoginError::Wrong | LoginError::Unavailable { .. } | LoginError::Changed => {}
        }
    }
}
