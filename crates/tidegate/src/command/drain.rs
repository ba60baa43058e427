//! `tidegate drain`: asks a running server to disconnect its MQTT clients, and waits until none is left.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

use crate::output::say;

/// How often to look.
const LOOK: Duration = Duration::from_millis(500);
/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Begins the drain and prints how many clients are left until there are none.
pub fn run(rate: u32, url: &str, token: &str, ca_file: Option<&Path>) -> Result<ExitCode> {
    let door = Door::new(url, token, ca_file)?;
    let mut left = clients(&door.ask("POST", Some(&json!({ "rate": rate })))?)?;
    say(format_args!("{left} clients to send away, {rate} per second"));
    while left > 0 {
        std::thread::sleep(LOOK);
        let now = clients(&door.ask("GET", None)?)?;
        if now != left {
            say(format_args!("{now} clients left"));
        }
        left = now;
    }
    say(format_args!("nobody is left"));
    Ok(ExitCode::SUCCESS)
}

fn clients(answer: &Value) -> Result<u64> {
    answer["clients"].as_u64().ok_or_else(|| anyhow!("the server's answer does not say how many clients there are"))
}

/// The server's HTTP door.
struct Door<'a> {
    authority: &'a str,
    token: &'a str,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl<'a> Door<'a> {
    fn new(url: &'a str, token: &'a str, ca_file: Option<&Path>) -> Result<Door<'a>> {
        let (scheme, authority) =
            url.split_once("://").with_context(|| format!("{url:?} is not a URL such as http://127.0.0.1:8080"))?;
        let authority = authority.trim_end_matches('/');
        let tls = match (scheme, ca_file) {
            ("http", _) => None,
            ("https", Some(ca_file)) => {
                let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
                Some((trusting(ca_file)?, ServerName::try_from(host.to_owned())?))
            }
            ("https", None) => bail!("--ca-file is missing: the authority that signs the server's certificate"),
            _ => bail!("{url:?}: expected http:// or https://"),
        };
        Ok(Door { authority, token, tls })
    }

    /// One request, and the answer's JSON if the server did as it was asked.
    fn ask(&self, method: &str, body: Option<&Value>) -> Result<Value> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} /v1/drain HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.authority,
            self.token,
            body.len()
        );
        let answer = self.exchange(&request).with_context(|| format!("the server at {}", self.authority))?;
        let (head, body) = answer.split_once("\r\n\r\n").context("the server's answer is not HTTP")?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        match status {
            "200" | "202" => Ok(body),
            _ => Err(anyhow!("the server refuses with {status}: {}", body["detail"].as_str().unwrap_or("no reason"))),
        }
    }

    fn exchange(&self, request: &str) -> Result<String> {
        let socket = TcpStream::connect(self.authority)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        match &self.tls {
            None => converse(socket, request),
            Some((config, name)) => {
                let session = ClientConnection::new(config.clone(), name.clone())?;
                converse(StreamOwned::new(session, socket), request)
            }
        }
    }
}

fn converse(mut stream: impl Read + Write, request: &str) -> Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

fn trusting(ca_file: &Path) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let unreadable = || format!("cannot read PEM from {}", ca_file.display());
    for certificate in CertificateDer::pem_file_iter(ca_file).with_context(unreadable)? {
        roots.add(certificate.with_context(unreadable)?).with_context(unreadable)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}
