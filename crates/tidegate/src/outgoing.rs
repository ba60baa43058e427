//! Requests of this server to others, over HTTP: the keys of identity providers, the log-in hook.
//!
//! Promise: an answer has a time-out and a bound, and may not send elsewhere: an address is the operator's word.

use std::time::Duration;

use anyhow::{Result, bail};
use reqwest::header::TRANSFER_ENCODING;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, RequestBuilder, Response};

/// A client each of whose requests takes at most `timeout`, to the end of the answer.
pub fn client(timeout: Duration) -> Result<Client> {
    Ok(builder(timeout).build()?)
}

/// The same, through no proxy of the environment: what it asks is near, and what it shows is for that server alone.
pub fn direct_client(timeout: Duration) -> Result<Client> {
    Ok(builder(timeout).no_proxy().build()?)
}

fn builder(timeout: Duration) -> ClientBuilder {
    // Whoever was first has set it; there is one for the process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().timeout(timeout).redirect(Policy::none())
}

/// A successful answer.
pub struct Answer {
    /// What it says; of one that is too long, a part.
    pub text: Vec<u8>,
    /// How it ended.
    pub end: End,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where it said that it would.
    Told,
    /// With its connection, without having said where: perhaps there was more.
    Closed,
    /// Not yet: it is longer than is read.
    TooLong,
}

/// Sends it; once more if its connection was closed before an answer began. That was kept open from the request before,
/// and its other end may close it at any time.
pub async fn send(request: RequestBuilder) -> reqwest::Result<Response> {
    let again = request.try_clone();
    match (request.send().await, again) {
        (Err(error), Some(again)) if error.is_request() && !error.is_connect() && !error.is_timeout() => {
            again.send().await
        }
        (sent, _) => sent,
    }
}

/// What is answered to `request`, if that is a success. Of the answer at most `bytes_max` are read, and one part more.
pub async fn answer(request: RequestBuilder, bytes_max: usize) -> Result<Answer> {
    let mut answer = send(request.header("accept", "application/json")).await?;
    if !answer.status().is_success() {
        bail!("it answered {}", answer.status());
    }
    let is_told = answer.content_length().is_some() || answer.headers().contains_key(TRANSFER_ENCODING);
    let end = if is_told { End::Told } else { End::Closed };
    let mut text = Vec::new();
    while let Some(part) = answer.chunk().await? {
        text.extend_from_slice(&part);
        if text.len() > bytes_max {
            return Ok(Answer { text, end: End::TooLong });
        }
    }
    Ok(Answer { text, end })
}
