//! The server's HTTP door, as the commands ask it.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use ureq::http::Response;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::typestate::WithBody;
use ureq::{Agent, Body, RequestBuilder};

use super::Connection;

/// How long the server may take to accept a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// How long it may take for the next bytes of an answer. A quiet stream says every five seconds that it is there.
const READ_PATIENCE: Duration = Duration::from_secs(30);
/// Longest answer that is read at once.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Why a command is not done.
#[derive(Debug)]
pub enum Failure {
    /// The server says no.
    Refused(Refusal),
    /// It could not be asked, or did not answer.
    Failed(anyhow::Error),
    /// Whoever reads the output has gone: `| head`.
    NobodyReads,
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::Failed(error)
    }
}

/// A problem of the server.
#[derive(Debug)]
pub struct Refusal {
    status: u16,
    problem: Value,
}

impl Refusal {
    /// Its stable code.
    pub fn code(&self) -> &str {
        self.problem["code"].as_str().unwrap_or("")
    }

    /// A member of its own.
    pub fn member(&self, name: &str) -> Option<String> {
        self.problem[name].as_str().map(str::to_owned)
    }

    /// Whether the same request may go well a little later.
    pub fn is_passing(&self) -> bool {
        self.status == 503 || self.status == 429
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = self.problem["detail"].as_str().unwrap_or("the answer has no reason");
        match self.code() {
            "" => write!(f, "the server refuses with {}: {detail}", self.status),
            code => write!(f, "the server refuses with {} {code}: {detail}", self.status),
        }
    }
}

/// The door, and the connection to it, which is kept.
pub struct Door {
    agent: Agent,
    server: String,
    token: String,
}

impl Door {
    /// The door of this connection; nothing is sent yet.
    pub fn new(connection: &Connection) -> anyhow::Result<Door> {
        let server = connection.server.trim_end_matches('/').to_owned();
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_PATIENCE))
            .timeout_per_read(Some(READ_PATIENCE))
            .timeout_per_write(Some(READ_PATIENCE));
        match (server.split_once("://").map(|(scheme, _)| scheme), &connection.ca_file) {
            (Some("http"), _) => {}
            (Some("https"), Some(ca_file)) => {
                let unreadable = || format!("cannot read PEM from {}", ca_file.display());
                let mut roots = Vec::new();
                for certificate in CertificateDer::pem_file_iter(ca_file).with_context(unreadable)? {
                    roots.push(Certificate::from_der(&certificate.with_context(unreadable)?).to_owned());
                }
                let tls = TlsConfig::builder()
                    .root_certs(RootCerts::Specific(Arc::new(roots)))
                    .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
                config = config.tls_config(tls.build());
            }
            (Some("https"), None) => bail!("--ca-file is missing: the authority that signs the server's certificate"),
            _ => bail!("--server {server:?}: expected a URL such as http://127.0.0.1:8080"),
        }
        Ok(Door { agent: config.build().new_agent(), server, token: connection.token.clone() })
    }

    /// `GET path`, its answer as JSON.
    pub fn get(&self, path: &str) -> Result<Value, Failure> {
        self.answer(self.open(path, "application/json")?)
    }

    /// `GET path`, line by line, as long as the server sends lines.
    pub fn lines(&self, path: &str) -> Result<impl Iterator<Item = std::io::Result<String>>, Failure> {
        let response = self.open(path, "application/x-ndjson")?;
        if response.status().as_u16() != 200 {
            return Err(self.answer(response).err().unwrap_or_else(|| anyhow!("the answer is no stream").into()));
        }
        Ok(BufReader::new(response.into_body().into_with_config().limit(u64::MAX).reader()).lines())
    }

    /// `POST path` with a JSON body, its answer as JSON.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.send(self.agent.post(format!("{}{path}", self.server)), body)
    }

    /// `PATCH path` with a JSON body, its answer as JSON.
    pub fn patch(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.send(self.agent.patch(format!("{}{path}", self.server)), body)
    }

    fn send(&self, request: RequestBuilder<WithBody>, body: &Value) -> Result<Value, Failure> {
        let request = request
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json");
        let response = request.send(body.to_string().as_bytes()).map_err(|error| self.unreachable(error))?;
        self.answer(response)
    }

    fn open(&self, path: &str, accept: &str) -> Result<Response<Body>, Failure> {
        let request = self
            .agent
            .get(format!("{}{path}", self.server))
            .header("authorization", format!("Bearer {}", self.token))
            .header("accept", accept);
        request.call().map_err(|error| self.unreachable(error))
    }

    fn answer(&self, mut response: Response<Body>) -> Result<Value, Failure> {
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| self.unreachable(error))?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        match status {
            200..=299 => Ok(body),
            status => Err(Failure::Refused(Refusal { status, problem: body })),
        }
    }

    fn unreachable(&self, error: ureq::Error) -> Failure {
        let hint = "is it serving, and is --server (or TIDEGATE_SERVER) its HTTP door?";
        anyhow!("the server at {} does not answer: {error}; {hint}", self.server).into()
    }
}

/// `path` with those parameters that are there.
pub fn query(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let mut text = path.to_owned();
    for (name, value) in parameters {
        if let Some(value) = value {
            text.push(if text.contains('?') { '&' } else { '?' });
            text.push_str(name);
            text.push('=');
            text.push_str(&encoded(value));
        }
    }
    text
}

/// A text as one part of a path, or a value of a query.
pub fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => encoded.push(byte as char),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_carry_any_text() {
        assert_eq!(encoded("wallet:dave"), "wallet:dave");
        assert_eq!(encoded("a/b c?d&e=f%+ü"), "a%2Fb%20c%3Fd%26e%3Df%25%2B%C3%BC");
        let parameters = [("prefix", Some("a b")), ("after", None), ("limit", Some("7"))];
        assert_eq!(query("/v1/accounts", &parameters), "/v1/accounts?prefix=a%20b&limit=7");
    }
}
