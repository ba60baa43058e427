//! Asks the log-in hook, and tells the authenticator what it said.
//!
//! ```text
//!   Authenticator ── questions, bounded ─▶ thread `auth-hook` ── POST, asked_max at once ─▶ the operator's program
//!                ◀─ allowed, denied, nothing ──┘ ◀── timeout_ms, 4 KiB, no redirects ──────────┘
//! ```
//!
//! Promise: a hook that does not answer, answers slowly or says too much keeps nobody waiting longer than its time-out,
//! and no memory. A failure is told once, not at each log-in. An answer that came whole is none, whatever it says: it
//! is an answer to one user, and refuses that one.
//!
//! Why a thread of its own: it waits for networks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use reqwest::Client;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde::de::IgnoredAny;
use tidegate_doors::auth::Authenticator;
use tidegate_doors::auth::hook::{HOOK_ANSWER_BYTES_MAX, HookAnswer, HookQuestion, HookSettings};
use tidegate_runtime::threads::spawn;
use tidegate_telemetry::{Registry, metrics};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::outgoing::{self, Answer, End};

/// Between two looks at what doors have counted.
const FOLLOW: Duration = Duration::from_secs(1);

metrics! {
    /// Log-ins that the hook decides on. For the one thread that asks it.
    pub struct AuthHookMetrics() {
        up: Gauge
            "tidegate_auth_hook_up" "1 while the log-in hook has answered the last question, or was not asked yet.";
        logins: CounterFamily(outcome: "allowed" "denied" "unusable" "cached_allowed" "cached_denied" "unavailable"
                "busy" "delayed")
            "tidegate_auth_hook_logins_total"
            "Log-ins that the hook decides on: asked or remembered; unusable is an answer that cannot be followed.";
        failures: Counter
            "tidegate_auth_hook_failures_total" "Questions that the log-in hook did not answer, or not as it should.";
        took: Histogram "tidegate_auth_hook_seconds" "From a question to the log-in hook to its answer or failure.";
    }
}

/// The thread, while it runs; it ends when this is dropped.
pub struct AuthHook {
    _running: oneshot::Sender<()>,
}

impl AuthHook {
    /// Begins to ask whatever hook `authenticator` has, now and after each reload.
    pub fn start(authenticator: &Arc<Authenticator>, registry: &Registry) -> Result<AuthHook> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let questions = authenticator.hook_questions().context("the hook's questions are taken")?;
        let (authenticator, registry) = (authenticator.clone(), registry.clone());
        let (running, ended) = oneshot::channel();
        spawn("auth-hook".into(), move || {
            let metrics = AuthHookMetrics::register(&registry);
            metrics.up.set(1);
            let hook = authenticator.hook_settings();
            let asker = Asker { metrics, authenticator, hook, client: None, failure: None };
            runtime.block_on(async {
                tokio::select! {
                    () = asker.run(questions) => {}
                    _ = ended => {}
                }
            });
        })?;
        Ok(AuthHook { _running: running })
    }
}

struct Asker {
    metrics: AuthHookMetrics,
    authenticator: Arc<Authenticator>,
    /// As it was when this last looked.
    hook: Option<Arc<HookSettings>>,
    /// With the settings that it was made for. Its connections stay open between questions.
    client: Option<(Arc<HookSettings>, Client)>,
    /// What was told last: the same failure is told once.
    failure: Option<String>,
}

/// What came of one question.
struct Outcome {
    question: HookQuestion,
    answer: Result<HookAnswer>,
    took: Duration,
}

impl Asker {
    async fn run(mut self, mut questions: mpsc::Receiver<HookQuestion>) {
        let mut asked: JoinSet<Outcome> = JoinSet::new();
        let mut asked_max = 1;
        let mut follow = tokio::time::interval(FOLLOW);
        follow.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = follow.tick() => {
                    self.follow_reload();
                    self.metrics.logins.follow(self.authenticator.hook_figures().totals());
                }
                Some(outcome) = asked.join_next() => if let Ok(outcome) = outcome { self.settle(outcome) },
                Some(question) = questions.recv(), if asked.len() < asked_max => {
                    asked_max = question.settings.asked_max;
                    // Whoever waited for it is told when it is dropped.
                    if question.is_moot() {
                        continue;
                    }
                    match self.client(&question.settings) {
                        Ok(client) => _ = asked.spawn(ask(client, question)),
                        Err(error) => self.settle(Outcome { question, answer: Err(error), took: Duration::ZERO }),
                    }
                }
            }
        }
    }

    fn client(&mut self, settings: &Arc<HookSettings>) -> Result<Client> {
        if let Some((made_for, client)) = &self.client
            && Arc::ptr_eq(made_for, settings)
        {
            return Ok(client.clone());
        }
        let client = outgoing::client(settings.timeout)?;
        self.client = Some((settings.clone(), client.clone()));
        Ok(client)
    }

    /// A hook that a reload has changed or taken away was not asked yet.
    fn follow_reload(&mut self) {
        let hook = self.authenticator.hook_settings();
        if hook != self.hook {
            (self.hook, self.failure) = (hook, None);
            self.metrics.up.set(1);
        }
    }

    fn settle(&mut self, outcome: Outcome) {
        let Outcome { question, answer, took } = outcome;
        self.metrics.took.record(took.as_nanos() as u64);
        self.follow_reload();
        // What a hook of before a reload says late says nothing of the one of now.
        if self.hook.as_ref() == Some(&question.settings) {
            self.metrics.up.set(answer.is_ok().into());
        }
        match answer {
            Ok(answer) => {
                question.give(Some(answer));
                if self.failure.take().is_some() {
                    tracing::info!("the log-in hook answers again");
                }
            }
            Err(error) => {
                self.metrics.failures.increment();
                let (url, failure) = (question.settings.url.clone(), format!("{error:#}"));
                question.give(None);
                if self.failure.as_ref() != Some(&failure) {
                    tracing::error!(
                        url = &*url,
                        failure,
                        "the log-in hook does not answer as it should: its users are refused, but for those whose \
                         passwords are remembered"
                    );
                    self.failure = Some(failure);
                }
            }
        }
        self.metrics.logins.follow(self.authenticator.hook_figures().totals());
    }
}

async fn ask(client: Client, mut question: HookQuestion) -> Outcome {
    let (began, settings) = (Instant::now(), question.settings.clone());
    let (header, secret) = &settings.secret;
    let body = question.take_body();
    let asked = async {
        let mut secret = HeaderValue::from_str(secret.value())?;
        secret.set_sensitive(true);
        let request = client.post(&*settings.url).header(&**header, secret);
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        let Answer { text, end } = outgoing::answer(request, HOOK_ANSWER_BYTES_MAX).await?;
        ensure!(end != End::Closed || is_whole(&text), "its connection ended within the answer");
        Ok(if end == End::TooLong { HookAnswer::too_long() } else { HookAnswer::read(&text) })
    };
    let answer = asked.await;
    Outcome { question, answer, took: began.elapsed() }
}

/// Whether a text is not the beginning of something else in JSON.
fn is_whole(text: &[u8]) -> bool {
    !serde_json::from_slice::<IgnoredAny>(text).is_err_and(|error| error.is_eof())
}

#[cfg(test)]
mod tests;
