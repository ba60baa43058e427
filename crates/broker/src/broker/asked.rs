//! What the broker has asked of the shell, and waits for.

use super::feeds::Feeds;
use super::request::Requests;
use crate::Action;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// What the shell has not taken yet.
    pub actions: Vec<Action>,
    /// Requests on topics that a service answers.
    pub requests: Requests,
    /// Subscriptions that a source is read for.
    pub feeds: Feeds,
}
