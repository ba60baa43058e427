//! The server's HTTP door, as the commands ask it.

use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use rustls::CertificateError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use serde_json::Value;
use tidegate_doors::http::time::rfc3339;
use ureq::http::Response;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::typestate::WithBody;
use ureq::{Agent, Body, RequestBuilder};

use super::connection::Connection;
use super::failure::{Failure, Refusal};
use crate::output::complain;

/// How long the server may take to accept a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// How long it may take for the next bytes of an answer. A quiet stream says every five seconds that it is there.
const READ_PATIENCE: Duration = Duration::from_secs(30);
/// How long one read goes on with asking a server that is busy, or says that this caller asks too much. With one
/// request per second, a page of 1,000 rows is worth a minute.
const READ_RETRY_MAX: Duration = Duration::from_secs(300);
/// Who waits for longer is told what for, once for each read.
const QUIET_WAIT_MAX: Duration = Duration::from_secs(5);
/// Longest answer that is read at once.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// The door, and the connection to it, which is kept.
pub struct Door {
    agent: Agent,
    server: String,
    token: String,
}

impl Door {
    /// The door of this connection; nothing is sent yet.
    pub fn new(connection: &Connection) -> Result<Door, Failure> {
        let server = connection.server.clone();
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_PATIENCE))
            .timeout_per_read(Some(READ_PATIENCE))
            .timeout_per_write(Some(READ_PATIENCE));
        if server.starts_with("https:") {
            let roots = match &connection.ca_file {
                Some(ca_file) => roots(ca_file)?,
                None => roots_of_the_system()?,
            };
            let tls = TlsConfig::builder()
                .root_certs(RootCerts::Specific(Arc::new(roots)))
                .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
            config = config.tls_config(tls.build());
        }
        Ok(Door { agent: config.build().new_agent(), server, token: connection.token()? })
    }

    /// Where it is, as the command line says it.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Whether a token was given.
    pub fn has_token(&self) -> bool {
        !self.token.is_empty()
    }

    /// `GET path`, its answer as JSON. A server that has no time for this caller now is asked again when it says.
    pub fn get(&self, path: &str) -> Result<Value, Failure> {
        patiently(|| self.get_once(path))
    }

    /// The same, for those who ask again by themselves.
    pub fn get_once(&self, path: &str) -> Result<Value, Failure> {
        self.answer(self.open(path, "application/json")?).map_err(Failure::of_a_read)
    }

    /// `GET path`, line by line, as long as the server sends lines. It is asked again as by [`Door::get`].
    pub fn lines(&self, path: &str) -> Result<impl Iterator<Item = std::io::Result<String>>, Failure> {
        let body = patiently(|| self.stream(path))?;
        Ok(BufReader::new(body.into_with_config().limit(u64::MAX).reader()).lines())
    }

    fn stream(&self, path: &str) -> Result<Body, Failure> {
        let response = self.open(path, "application/x-ndjson")?;
        if response.status().as_u16() == 200 {
            return Ok(response.into_body());
        }
        let refused = self.answer(response).map_err(Failure::of_a_read).err();
        Err(refused.unwrap_or_else(|| anyhow!("the answer is no stream").into()))
    }

    /// `POST path` with a JSON body, its answer as JSON.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.send(self.agent.post(format!("{}{path}", self.server)), body)
    }

    /// `PATCH path` with a JSON body, its answer as JSON.
    pub fn patch(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.send(self.agent.patch(format!("{}{path}", self.server)), body)
    }

    /// `PUT path` with a JSON body, its answer as JSON.
    pub fn put(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.send(self.agent.put(format!("{}{path}", self.server)), body)
    }

    /// `DELETE path`, its answer as JSON.
    pub fn delete(&self, path: &str) -> Result<Value, Failure> {
        let request = self.signed(self.agent.delete(format!("{}{path}", self.server)));
        let response = request.call().map_err(|error| match was_sent(&error) {
            true => self.unreachable(error).and(UNKNOWN),
            false => self.unreachable(error),
        })?;
        self.answer(response)
    }

    fn send(&self, request: RequestBuilder<WithBody>, body: &Value) -> Result<Value, Failure> {
        let request = self.signed(request).header("content-type", "application/json");
        let response = request.send(body.to_string().as_bytes()).map_err(|error| match was_sent(&error) {
            true => self.unreachable(error).and(UNKNOWN),
            false => self.unreachable(error),
        })?;
        self.answer(response)
    }

    fn open(&self, path: &str, accept: &str) -> Result<Response<Body>, Failure> {
        let request = self.signed(self.agent.get(format!("{}{path}", self.server))).header("accept", accept);
        request.call().map_err(|error| self.unreachable(error))
    }

    /// Without a token the server is told none, and says that it is missing.
    fn signed<Any>(&self, request: RequestBuilder<Any>) -> RequestBuilder<Any> {
        match self.has_token() {
            true => request.header("authorization", format!("Bearer {}", self.token)),
            false => request,
        }
    }

    fn answer(&self, mut response: Response<Body>) -> Result<Value, Failure> {
        let status = response.status().as_u16();
        let seconds = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| self.unreachable(error))?;
        match (status, serde_json::from_slice::<Value>(&body)) {
            (200..=299, Ok(answer)) => Ok(answer),
            (200..=299, Err(_)) => {
                Err(anyhow!("what answers at {} is no Tidegate: its answer is not JSON; {HINT}", self.server).into())
            }
            (status, problem) => Err(Failure::Refused(Refusal {
                status,
                problem: problem.unwrap_or_default(),
                retry_after: seconds.map(Duration::from_secs),
                is_read: false,
                context: String::new(),
            })),
        }
    }

    fn unreachable(&self, error: ureq::Error) -> Failure {
        let server = &self.server;
        if let Some(tls) = distrust(&error) {
            let (why, mend) = why_and_mend(tls);
            return anyhow!("no trust in the server at {server}: {why}; {mend}").into();
        }
        match &error {
            ureq::Error::Io(io) if io.kind() == ErrorKind::ConnectionRefused => {
                anyhow!("nobody listens at {server}: the connection was refused; {HINT}")
            }
            error if is_host_unknown(error) => anyhow!("there is no host of the name in {server}; {HINT}"),
            ureq::Error::Timeout(ureq::Timeout::Connect) => {
                let patience_s = CONNECT_PATIENCE.as_secs();
                anyhow!("the server at {server} cannot be reached: no connection within {patience_s} s; {HINT}")
            }
            ureq::Error::Timeout(_) => {
                let patience_s = READ_PATIENCE.as_secs();
                anyhow!("the server at {server} has said nothing for {patience_s} s; {HINT}")
            }
            // What TLS meets where plain HTTP is spoken.
            other if server.starts_with("https:") && other.to_string().contains("InvalidContentType") => {
                anyhow!("the server at {server} does not speak TLS there: try http:// in place of https://")
            }
            // The other way round: an alert of TLS is no answer in HTTP.
            other @ ureq::Error::Http(_) | other @ ureq::Error::Protocol(_) if server.starts_with("http:") => {
                anyhow!("what answers at {server} is no HTTP ({other}): if it speaks TLS there, try https://")
            }
            other => anyhow!("the server at {server} does not answer: {other}; {HINT}"),
        }
        .into()
    }
}

/// Reads, and reads again as long as the server has no time for this caller and says when it will.
fn patiently<Answer>(read: impl Fn() -> Result<Answer, Failure>) -> Result<Answer, Failure> {
    let (mut waited, mut is_told) = (Duration::ZERO, false);
    loop {
        let refusal = match read() {
            Err(Failure::Refused(refusal)) => refusal,
            done => return done,
        };
        let Some(pause) = refusal.pause() else { return Err(Failure::Refused(refusal)) };
        if waited + pause > READ_RETRY_MAX {
            let (wait_s, most_s) = (pause.as_secs(), READ_RETRY_MAX.as_secs());
            let what = format!("the server asks for {wait_s} s more, and a read waits for {most_s} s at most");
            return Err(Failure::Refused(refusal).while_doing(&what));
        }
        waited += pause;
        if waited > QUIET_WAIT_MAX && !std::mem::replace(&mut is_told, true) {
            complain(format_args!("tidegate: {refusal}; asked again in {} s", pause.as_secs()));
        }
        std::thread::sleep(pause);
    }
}

/// Whether nobody knows the name of the host. The system's word for that has no kind of its own.
fn is_host_unknown(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Io(io) => io.to_string().contains("lookup address"),
        other => matches!(other, ureq::Error::HostNotFound),
    }
}

/// Why the server is not trusted, if it is not. What reads and writes through TLS wraps that as its own error.
fn distrust(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Rustls(tls) => Some(tls),
        ureq::Error::Io(io) => {
            let tls = io.get_ref()?.downcast_ref::<rustls::Error>()?;
            matches!(tls, rustls::Error::InvalidCertificate(_)).then_some(tls)
        }
        _ => None,
    }
}

/// Whether the server may have got the request.
fn was_sent(error: &ureq::Error) -> bool {
    match error {
        unsent if is_host_unknown(unsent) || distrust(unsent).is_some() => false,
        ureq::Error::Io(io) => io.kind() != ErrorKind::ConnectionRefused,
        ureq::Error::Timeout(timeout) => *timeout != ureq::Timeout::Connect,
        other => !matches!(other, ureq::Error::ConnectionFailed),
    }
}

/// What to do when nobody knows whether it was done.
const UNKNOWN: &str = "whether it was done is not known: ask again, with the same id nothing is done twice";

/// What to look at when there is no answer.
const HINT: &str = "is it serving, and is --server (or TIDEGATE_SERVER) its HTTP door?";

/// Why TLS does not trust a server, and what can be done about it.
fn why_and_mend(tls: &rustls::Error) -> (String, &'static str) {
    let at = |time: &UnixTime| rfc3339(time.as_secs());
    let clock = "give the server one that is good now, or look at the clock of this machine";
    let is_of_authority = tls.to_string().contains("CaUsedAsEndEntity");
    match tls {
        rustls::Error::InvalidCertificate(wrong) => match wrong {
            CertificateError::ExpiredContext { not_after, .. } => {
                (format!("its certificate is over since {}", at(not_after)), clock)
            }
            CertificateError::NotValidYetContext { not_before, .. } => {
                (format!("its certificate is good from {} on", at(not_before)), clock)
            }
            CertificateError::NotValidForNameContext { expected, presented } => (
                format!("its certificate is not for {}, but for {}", expected.to_str(), presented.join(", ")),
                "give --server a name of the certificate, or the server a certificate for this name",
            ),
            CertificateError::UnknownIssuer | CertificateError::BadSignature => (
                "who signed its certificate is not known".to_owned(),
                "if that is an authority of your own, name its certificate with --ca-file",
            ),
            // As `openssl req -x509` makes it without further words. rustls has no name of its own for it.
            _ if is_of_authority => (
                "its certificate is that of an authority, which no server may show".to_owned(),
                "have the authority sign one for the server, or make one that signs itself with `-addext \
                 basicConstraints=critical,CA:FALSE`",
            ),
            _ => (tls.to_string(), "did the authority in --ca-file sign its certificate?"),
        },
        _ => (tls.to_string(), "did the authority in --ca-file sign its certificate?"),
    }
}

/// The authorities in a PEM file.
fn roots(ca_file: &Path) -> anyhow::Result<Vec<Certificate<'static>>> {
    let unreadable = || format!("cannot read PEM from {}", ca_file.display());
    let mut roots = Vec::new();
    for certificate in CertificateDer::pem_file_iter(ca_file).with_context(unreadable)? {
        roots.push(Certificate::from_der(&certificate.with_context(unreadable)?).to_owned());
    }
    ensure!(!roots.is_empty(), "{}: there is no certificate in PEM in it", ca_file.display());
    Ok(roots)
}

/// The authorities that this machine trusts.
fn roots_of_the_system() -> Result<Vec<Certificate<'static>>, Failure> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
        let missing = format!(
            "this machine has no authorities for https{why}: name the one that signs the server's certificate with \
             --ca-file, or install the package ca-certificates"
        );
        return Err(Failure::CommandLine(missing));
    }
    Ok(found.certs.iter().map(|root| Certificate::from_der(root).to_owned()).collect())
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
    use clap::Parser;

    use super::*;

    #[test]
    fn addresses_carry_any_text() {
        assert_eq!(encoded("wallet:dave"), "wallet:dave");
        assert_eq!(encoded("a/b c?d&e=f%+ü"), "a%2Fb%20c%3Fd%26e%3Df%25%2B%C3%BC");
        let parameters = [("prefix", Some("a b")), ("after", None), ("limit", Some("7"))];
        assert_eq!(query("/v1/accounts", &parameters), "/v1/accounts?prefix=a%20b&limit=7");
    }

    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        connection: Connection,
    }

    #[test]
    fn a_server_that_says_nothing_is_called_so() {
        let CommandLine { connection } = CommandLine::parse_from(["tidegate", "--server", "http://127.0.0.1:1"]);
        let door = Door::new(&connection).expect("nothing is asked yet");
        for (timeout, words) in [
            (ureq::Timeout::PerRead, "the server at http://127.0.0.1:1 has said nothing for 30 s; is it serving"),
            (ureq::Timeout::Connect, "cannot be reached: no connection within 5 s; is it serving"),
        ] {
            let said = door.unreachable(ureq::Error::Timeout(timeout)).to_string();
            assert!(said.contains(words), "{said}");
        }
    }
}
