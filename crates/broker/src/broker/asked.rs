//! What the broker has asked of the shell, and waits for.

use super::feeds::Feeds;
use super::notices::Notices;
use super::queues::Receivers;
use super::request::Requests;
use crate::Action;

/// How long publications wait for their answers, by a clock of the shell.
#[derive(Debug, Default)]
pub(super) struct AnswerTiming {
    /// Zero as long as the shell has no clock: then nothing is measured.
    pub arrived_ns: u64,
    pub answered: Vec<Answered>,
}

/// A publication of QoS 1 or 2 that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Whether it was of QoS 2.
    pub is_exactly_once: bool,
    /// When it arrived, as [`Broker::arrived`](super::Broker::arrived) said.
    pub arrived_ns: u64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// What the shell has not taken yet.
    pub actions: Vec<Action>,
    /// Requests on topics that a service answers.
    pub requests: Requests,
    /// Subscriptions that a source is read for.
    pub feeds: Feeds,
    /// Subscriptions that receive from queues.
    pub receivers: Receivers,
    /// What an operator wants to read.
    pub notices: Notices,
    /// When what is served now arrived, and what was answered since the shell asked.
    pub timing: AnswerTiming,
}
