//! Fetches the keys of identity providers, and hands them to the authenticator.
//!
//! ```text
//!   start, reload, each refresh_s, a token with an unknown key ─▶ JWKS by HTTP or of a file ─▶ Authenticator
//!                                                                  ├─ fails ─▶ the last keys, for keys_kept_s
//!                                                                  └─ lists none ─▶ none
//! ```
//!
//! Promise: a provider that does not answer, answers slowly or says too much keeps nobody waiting and no memory;
//! whoever sends tokens with unknown keys has a provider asked once in `refresh_least_s`. A server starts without the
//! keys, says so, and takes the provider's tokens once they are there.
//!
//! Why a thread of its own: it waits for networks.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tidegate_doors::auth::Authenticator;
use tidegate_doors::auth::provider::{JWKS_BYTES_MAX, Jwks, JwksError, KeySource, ProviderKeys, ProviderSettings};
use tidegate_runtime::threads::spawn;
use tidegate_telemetry::{Registry, metrics};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};

use crate::outgoing::{Answer, End, answer, client};

metrics! {
    /// Looks at the keys of one identity provider. For the one thread that looks.
    pub struct IdentityKeyMetrics(provider) {
        keys: Gauge
            "tidegate_identity_provider_keys" "Keys of an identity provider by which tokens are good now.";
        looks: Counter
            "tidegate_identity_provider_looks_total" "Looks at the keys of an identity provider.";
        failures: Counter
            "tidegate_identity_provider_failures_total"
            "Looks at the keys of an identity provider that failed: those of before are good for keys_kept_s. Or that \
             found a list without a usable key: none is good.";
    }
}

/// The thread, while it runs; it ends when this is dropped.
pub struct IdentityKeys {
    _running: oneshot::Sender<()>,
}

impl IdentityKeys {
    /// Begins to follow the providers that `authenticator` knows now and after each reload.
    pub fn start(authenticator: Arc<Authenticator>, registry: Registry) -> Result<IdentityKeys> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (running, ended) = oneshot::channel();
        spawn("identity-keys".into(), move || {
            // Tasks stay on this thread, as its metrics do.
            runtime.block_on(LocalSet::new().run_until(async {
                tokio::select! {
                    () = follow_all(&authenticator, &registry) => {}
                    _ = ended => {}
                }
            }));
        })?;
        Ok(IdentityKeys { _running: running })
    }
}

async fn follow_all(authenticator: &Arc<Authenticator>, registry: &Registry) {
    // A provider that comes back goes on with its figures.
    let mut all_metrics: HashMap<Box<str>, Rc<IdentityKeyMetrics>> = HashMap::new();
    loop {
        all_metrics.values().for_each(|metrics| metrics.keys.set(0));
        // Dropped with all its tasks when there are other providers.
        let mut following = JoinSet::new();
        for provider in authenticator.provider_keys() {
            let name = &provider.settings.name;
            let new = || Rc::new(IdentityKeyMetrics::register(registry, name));
            let metrics = all_metrics.entry(name.clone()).or_insert_with(new).clone();
            let authenticator = authenticator.clone();
            let follower = Follower { provider, authenticator, metrics, found_at: None, failure: None };
            following.spawn_local(follower.run());
        }
        authenticator.reloaded().await;
    }
}

/// Follows one provider.
struct Follower {
    provider: ProviderKeys,
    authenticator: Arc<Authenticator>,
    metrics: Rc<IdentityKeyMetrics>,
    /// When keys were last found.
    found_at: Option<Instant>,
    /// What was told last: the same failure is told once.
    failure: Option<String>,
}

impl Follower {
    async fn run(mut self) {
        let settings = self.provider.settings.clone();
        loop {
            let next = match self.look().await {
                Ok(()) => settings.refresh,
                Err(error) => {
                    self.failed(format!("{error:#}"));
                    settings.refresh_least
                }
            };
            tokio::time::sleep(settings.refresh_least.min(next)).await;
            tokio::select! {
                () = tokio::time::sleep(next.saturating_sub(settings.refresh_least)) => {}
                () = self.provider.wanted() => {}
            }
        }
    }

    async fn look(&mut self) -> Result<()> {
        let settings = &self.provider.settings;
        self.metrics.looks.add(1);
        let text = match &settings.keys {
            KeySource::Url(url) => {
                let asked = async || answer(client(settings.timeout)?.get(&**url), JWKS_BYTES_MAX).await;
                let Answer { text, end } = asked().await.with_context(|| format!("jwks_url {url}"))?;
                ensure!(end != End::TooLong, "jwks_url {url}: the answer is longer than {JWKS_BYTES_MAX} bytes");
                text
            }
            KeySource::File(path) => {
                let read = || read(path).with_context(|| format!("jwks_file {}", path.display()));
                read()?
            }
        };
        let keys = match Jwks::parse(&text, &settings.algorithms) {
            Err(none @ JwksError::NoneUsable(_)) => {
                // The only key was taken away: whoever did it means it.
                self.let_go();
                return Err(none.into());
            }
            parsed => parsed.context("the keys that were found")?,
        };
        let count = keys.len();
        self.authenticator.replace_keys(&self.provider, keys);
        self.metrics.keys.set(count as i64);
        if self.found_at.is_none() || self.failure.take().is_some() {
            tracing::info!(provider = &*settings.name, keys = count, "tokens of the identity provider are taken");
        }
        self.found_at = Some(Instant::now());
        Ok(())
    }

    /// No token of the provider is good any more, until there are keys again.
    fn let_go(&mut self) {
        self.found_at = None;
        self.authenticator.replace_keys(&self.provider, Jwks::default());
        self.metrics.keys.set(0);
    }

    fn failed(&mut self, failure: String) {
        let settings = self.provider.settings.clone();
        self.metrics.failures.add(1);
        let is_over = self.found_at.is_some_and(|found| found.elapsed() >= settings.kept);
        if is_over {
            self.let_go();
            tracing::error!(provider = &*settings.name, "its keys are too old: none of its tokens is taken any more");
        }
        if self.failure.as_ref() != Some(&failure) {
            let held = if self.found_at.is_some() { "those of before are good" } else { "none of its tokens is taken" };
            tracing::error!(
                provider = &*settings.name,
                failure,
                "cannot get the keys of the identity provider, {held}; it is tried again"
            );
            self.failure = Some(failure);
        }
    }
}

/// A file, as far as one more byte than may be.
/// What is to be said of a file of keys that gives none now. A server starts without them.
pub fn unread_files(providers: &[Arc<ProviderSettings>]) -> Vec<String> {
    let unread = providers.iter().filter_map(|provider| {
        let KeySource::File(path) = &provider.keys else { return None };
        let keys = read(path).and_then(|text| Ok(Jwks::parse(&text, &provider.algorithms)?));
        let (error, name, path) = (keys.err()?, &provider.name, path.display());
        Some(format!(
            "identity_provider.jwks_file {path}: {error:#}. A server starts without the keys of {name:?}, and refuses \
             its tokens until they are there"
        ))
    });
    unread.collect()
}

fn read(path: &std::path::Path) -> Result<Vec<u8>> {
    use std::io::Read;
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(JWKS_BYTES_MAX as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}
