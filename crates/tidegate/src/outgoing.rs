//! Requests of this server to others, over HTTP: the keys of identity providers, the log-in hook.
//!
//! Promise: an answer has a time-out and a bound, and may not send elsewhere: an address is the operator's word.

use std::time::Duration;

use anyhow::{Result, bail};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder};

/// A client each of whose requests takes at most `timeout`, to the end of the answer.
pub fn client(timeout: Duration) -> Result<Client> {
    // Whoever was first has set it; there is one for the process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(Client::builder().timeout(timeout).redirect(Policy::none()).build()?)
}

/// What is answered to `request`, if that is a success and at most `bytes_max` long.
pub async fn answer(request: RequestBuilder, bytes_max: usize) -> Result<Vec<u8>> {
    let mut answer = request.header("accept", "application/json").send().await?;
    if !answer.status().is_success() {
        bail!("it answered {}", answer.status());
    }
    let mut text = Vec::new();
    while let Some(part) = answer.chunk().await? {
        text.extend_from_slice(&part);
        if text.len() > bytes_max {
            bail!("the answer is longer than {bytes_max} bytes");
        }
    }
    Ok(text)
}
