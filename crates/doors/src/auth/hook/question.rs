//! What the hook is asked, on its way to whoever asks it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use super::answer::HookAnswer;
use super::settings::HookSettings;

/// Questions that wait in all, whatever settings say.
pub const HOOK_WAITING_MAX: usize = 10_000;

/// A log-in as a door sees it.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    /// The name as it was shown.
    pub user: &'a str,
    /// The password.
    pub password: &'a str,
    /// Of MQTT; empty elsewhere.
    pub client_id: &'a str,
    /// Where the client comes from.
    pub address: IpAddr,
    /// Name of the listener of MQTT, or `http`.
    pub door: &'a str,
}

/// A question, and who waits for its answer. If it is dropped, the hook was not asked.
pub struct HookQuestion {
    /// By which settings it is asked.
    pub settings: Arc<HookSettings>,
    body: Vec<u8>,
    is_gone: Arc<AtomicBool>,
    is_left_alone: Box<dyn Fn() -> bool + Send>,
    answer: Option<Answer>,
}

/// What came of a question.
pub(super) enum Said {
    /// The hook answered.
    Answer(HookAnswer),
    /// It did not.
    Nothing,
    /// It was not asked.
    NotAsked,
}

type Answer = Box<dyn FnOnce(Said) + Send>;

/// The body of a question.
#[derive(Serialize)]
struct Body<'a> {
    user: &'a str,
    password: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    client_id: &'a str,
    address: IpAddr,
    door: &'a str,
}

impl HookQuestion {
    pub(super) fn new(
        settings: Arc<HookSettings>,
        asking: Asking<'_>,
        is_gone: Arc<AtomicBool>,
        is_left_alone: impl Fn() -> bool + Send + 'static,
        answer: impl FnOnce(Said) + Send + 'static,
    ) -> HookQuestion {
        let Asking { user, password, client_id, address, door } = asking;
        let body = Body { user, password, client_id, address: address.to_canonical(), door };
        let body = serde_json::to_vec(&body).expect("texts are JSON");
        let (is_left_alone, answer) = (Box::new(is_left_alone), Some(Box::new(answer) as Answer));
        HookQuestion { settings, body, is_gone, is_left_alone, answer }
    }

    /// The body to send, as JSON.
    pub fn take_body(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.body)
    }

    /// Whether it need not be sent: nobody waits for it, or the hook has failed too often since.
    pub fn is_moot(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed) || (self.is_left_alone)()
    }

    /// Gives what the hook said; `None` if it did not answer.
    pub fn give(mut self, answer: Option<HookAnswer>) {
        self.tell(answer.map_or(Said::Nothing, Said::Answer));
    }

    fn tell(&mut self, said: Said) {
        if let Some(take) = self.answer.take() {
            take(said);
        }
    }
}

impl Drop for HookQuestion {
    fn drop(&mut self) {
        self.tell(Said::NotAsked);
    }
}
