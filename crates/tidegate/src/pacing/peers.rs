//! `[[pacing.peer]]`: other servers whose bidders may have made the bid of a notice that comes here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use tidegate_config::{Document, FilePath, Flag, NoDefault, Optional, Required, Text, config};
use tidegate_doors::pacer_room::{AskPeers, OF_PEER, PeerAnswer, PeerAnswers, PeerAsk};
use tidegate_link::required_secret;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::config::is_safe;
use crate::outgoing;

config! {
    /// `[[pacing.peer]]`
    pub struct PacingPeerKeys in [["pacing.peer"]] {
        url: Required<Text> = NoDefault, .., restart,
            "HTTP door of another server that bids for the same exchanges, such as \"https://10.0.0.2:8080\": a notice \
             of a win or a loss over HTTP whose bid was not made here is passed on to it. https, or http on this \
             machine; authorities are those of the system";
        plain_http: Flag = false, .., restart,
            "whether url may be http to another machine: the token goes there in the clear";
        token: Optional<Text> = NoDefault, .., restart,
            "token of a service there with the grant \"room:pacer:write:bids\"; only for development";
        token_file: Optional<FilePath> = NoDefault, .., restart, "file with the token";
    }
}

/// How long a peer has for an answer: whoever sent the notice waits for it.
const TIMEOUT: Duration = Duration::from_secs(2);
/// A peer that has not answered is asked again then; until that, it counts as away.
const AGAIN: Duration = Duration::from_millis(500);
/// Notices that a thread of the HTTP door passes on to one peer at once: each takes a connection.
const UNDER_WAY_MAX: usize = 32;
/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// A peer as the configuration has it.
#[derive(Clone)]
pub struct PeerSettings {
    /// Without a slash at its end.
    url: Box<str>,
    authorization: HeaderValue,
}

/// Reads and checks all of them, and the files with their tokens.
pub fn peers(document: &Document) -> Result<Vec<PeerSettings>> {
    let keys: Vec<PacingPeerKeys> = document.list()?;
    let mut known = Vec::new();
    let peer = |(index, keys): (usize, PacingPeerKeys)| {
        let wrong = |key: &str, what: String| {
            let at = format!("pacing.peer[{index}].{key}");
            anyhow::Error::from(document.error_at(&at, format!("pacing.peer.{key}: {what}")))
        };
        let is_plain = |url: &Url| {
            url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none()
        };
        let Some(url) = Url::parse(&keys.url).ok().filter(is_plain) else {
            let what = format!("{:?}: expected scheme, host and port, such as \"https://10.0.0.2:8080\"", keys.url);
            return Err(wrong("url", what));
        };
        if !is_safe(&keys.url, keys.plain_http) {
            let what = format!(
                "{:?}: expected an address with https, or with http on this machine: who is on the way reads the \
                 token. plain_http = true allows it",
                keys.url
            );
            return Err(wrong("url", what));
        }
        let origin = url.origin();
        if known.contains(&origin) {
            return Err(wrong("url", format!("{:?}: a server is listed once, and this one is twice", keys.url)));
        }
        known.push(origin);
        let token = required_secret((document, "pacing.peer", index), "token", keys.token, keys.token_file)?;
        let authorization = HeaderValue::try_from(format!("Bearer {token}"));
        let mut authorization = authorization.map_err(|_| wrong("token", "no token has such characters".to_owned()))?;
        authorization.set_sensitive(true);
        Ok(PeerSettings { url: keys.url.trim_end_matches('/').into(), authorization })
    };
    keys.into_iter().enumerate().map(peer).collect()
}

/// Asks peers, for one edge thread.
pub struct Peers(Vec<Arc<Peer>>);

struct Peer {
    client: Client,
    settings: PeerSettings,
    began: Instant,
    /// Until when it counts as away, in milliseconds since `began`.
    away_until_ms: AtomicU64,
    /// It was said that it does not answer.
    is_told: AtomicBool,
    under_way: Semaphore,
}

impl Peers {
    /// These.
    pub fn open(settings: &[PeerSettings]) -> Result<Peers> {
        let client = outgoing::direct_client(TIMEOUT).context("a client for [[pacing.peer]]")?;
        let peer = |settings: &PeerSettings| {
            Arc::new(Peer {
                client: client.clone(),
                settings: settings.clone(),
                began: Instant::now(),
                away_until_ms: AtomicU64::new(0),
                is_told: AtomicBool::new(false),
                under_way: Semaphore::new(UNDER_WAY_MAX),
            })
        };
        Ok(Peers(settings.iter().map(peer).collect()))
    }
}

impl Peer {
    async fn ask(&self, asked: &PeerAsk) -> PeerAnswer {
        if self.away_until_ms.load(Ordering::Relaxed) > self.began.elapsed().as_millis() as u64 {
            return PeerAnswer::Away("it has not answered the last time".to_owned());
        }
        let Ok(_place) = self.under_way.try_acquire() else {
            return PeerAnswer::Away("as many notices as may are on their way to it".to_owned());
        };
        let url = |path: &str| format!("{}{path}", self.settings.url);
        let request = match asked {
            PeerAsk::Get(path_and_query) => self.client.get(url(path_and_query)),
            PeerAsk::Post(path, body) => {
                self.client.post(url(path)).header(CONTENT_TYPE, "application/json").body(body.clone())
            }
        };
        let request = request.header(OF_PEER.0, OF_PEER.1).header(AUTHORIZATION, &self.settings.authorization);
        let (why, is_of_peer) = match answer_of(request).await {
            Ok((StatusCode::OK, body)) => return self.answered(PeerAnswer::Done(body)),
            Ok((StatusCode::UNPROCESSABLE_ENTITY, body)) => return self.answered(PeerAnswer::Refused(body)),
            Ok((status, _)) => (format!("it answers {status}"), status.is_server_error()),
            Err(error) => (format!("{error:#}"), true),
        };
        // What one notice is answered says nothing of the next one.
        if is_of_peer {
            let until = self.began.elapsed() + AGAIN;
            self.away_until_ms.store(until.as_millis() as u64, Ordering::Relaxed);
        }
        if !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                url = &*self.settings.url,
                why,
                "a pacing.peer does not answer as it should: notices of its bids that come here are answered with 503, \
                 and are lost if they are not sent again"
            );
        }
        PeerAnswer::Away("it does not answer as it should".to_owned())
    }

    fn answered(&self, answer: PeerAnswer) -> PeerAnswer {
        if self.is_told.swap(false, Ordering::Relaxed) {
            tracing::info!(url = &*self.settings.url, "a pacing.peer answers again");
        }
        answer
    }
}

/// Status and body of an answer.
async fn answer_of(request: RequestBuilder) -> Result<(StatusCode, Vec<u8>)> {
    let mut answer = outgoing::send(request).await?;
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await? {
        body.extend_from_slice(&part);
        anyhow::ensure!(body.len() <= ANSWER_BYTES_MAX, "its answer is too long");
    }
    Ok((answer.status(), body))
}

impl AskPeers for Peers {
    fn ask(&self, asked: PeerAsk) -> PeerAnswers {
        let (asked, mut asks) = (Arc::new(asked), JoinSet::new());
        for peer in &self.0 {
            let (peer, asked) = (peer.clone(), asked.clone());
            asks.spawn(async move { peer.ask(&asked).await });
        }
        asks
    }
}
