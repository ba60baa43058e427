//! TLS of links: whom to trust, what to show, and in words why the other side is not trusted.
//!
//! The files are read once, at the start.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};

use crate::checks::Row;

/// What an operator says of it.
pub struct TlsKeys {
    /// Whether it is spoken.
    pub tls: bool,
    /// Whom to trust.
    pub ca_file: Option<PathBuf>,
    /// What to show.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
    /// For whom the other side's certificate is, if not for the host of its address.
    pub server_name: Option<Box<str>>,
}

/// How a link speaks it.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Whom it trusts, and what it shows.
    pub config: Arc<ClientConfig>,
    /// Who the other side must be.
    pub name: ServerName<'static>,
}

impl TlsKeys {
    /// Reads the files; `None` without TLS.
    pub fn settled(self, row: &Row<'_>, address: &str) -> Result<Option<Tls>> {
        let written = [
            ("ca_file", self.ca_file.is_some()),
            ("cert_file", self.cert_file.is_some()),
            ("key_file", self.key_file.is_some()),
            ("server_name", self.server_name.is_some()),
        ];
        if !self.tls {
            return match written.into_iter().find(|(_, is_there)| *is_there) {
                Some((key, _)) => Err(row.wrong(key, "it is of use only with tls = true")),
                None => Ok(None),
            };
        }
        let roots = roots(self.ca_file.as_deref()).map_err(|error| row.wrong("ca_file", format!("{error:#}")))?;
        let name = self.server_name.as_deref().unwrap_or_else(|| host_of(address));
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| row.wrong("server_name", format!("{name:?} is no host name and no address")))?;
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .context("TLS 1.2 and 1.3")?
            .with_root_certificates(roots);
        let config = match (self.cert_file, self.key_file) {
            (None, None) => builder.with_no_client_auth(),
            (Some(_), None) => return Err(row.wrong("key_file", "expected the key of cert_file")),
            (None, Some(_)) => return Err(row.wrong("cert_file", "expected the certificate of key_file")),
            (Some(cert_file), Some(key_file)) => {
                let chain = certificates(&cert_file).map_err(|error| row.wrong("cert_file", format!("{error:#}")))?;
                let unread = || format!("cannot read PEM from {}", key_file.display());
                let key = PrivateKeyDer::from_pem_file(&key_file)
                    .with_context(unread)
                    .map_err(|error| row.wrong("key_file", format!("{error:#}")))?;
                let (cert, unfit) = (cert_file.display(), key_file.display());
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| row.wrong("key_file", format!("{unfit} does not fit {cert}: {error}")))?
            }
        };
        Ok(Some(Tls { config: Arc::new(config), name }))
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let unread = || format!("cannot read PEM from {}", file.display());
    let found = CertificateDer::pem_file_iter(file).with_context(unread)?;
    let found: Vec<_> = found.collect::<Result<_, _>>().with_context(unread)?;
    if found.is_empty() { bail!("{} has no certificate", file.display()) } else { Ok(found) }
}

/// The authorities of a file, or those that this machine trusts.
fn roots(ca_file: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(file) => {
            for certificate in certificates(file)? {
                roots.add(certificate).with_context(|| format!("{} has no authority", file.display()))?;
            }
        }
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    if roots.is_empty() {
        bail!(
            "this machine has no authorities: name the file of the one that signs the other side's certificate, or \
             install the package ca-certificates"
        );
    }
    Ok(roots)
}

/// `HOST` of `HOST:PORT`, without the brackets of IPv6.
fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Warns if a secret crosses a network that others may read.
pub fn warn_if_open(link: &str, address: &str, tls: Option<&Tls>) {
    let host = host_of(address);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if tls.is_none() && !is_here {
        tracing::warn!(
            link,
            address,
            "its secret is shown over a connection that is not encrypted; set tls = true, if the other side has TLS, \
             or keep others off the network between"
        );
    }
}

/// Whether the other side has ended a connection: it may have been spoken to in the wrong way.
pub fn is_ended(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// Why a connection was ended before anything was said on it, with what to do if only one of the two sides speaks TLS.
pub fn with_hint(why: String, has_tls: bool) -> String {
    match has_tls {
        true => format!("{why}; if the other side does not speak TLS on that port, leave tls = true out"),
        false => format!("{why}; if the other side speaks TLS on that port, set tls = true"),
    }
}

/// Whether these bytes are the beginning of an alert of TLS: so a side answers that expects TLS and hears none. No
/// frame of SMPP begins so, because it would be longer than any may be.
pub fn is_alert(bytes: &[u8]) -> bool {
    // [RFC 8446, 5.1] The type of the record, and the first byte of the version.
    bytes.starts_with(&[21, 3])
}

/// Why a connection failed, with what to do if it is about TLS.
pub fn why(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(tls) => why_of(tls),
        None => error.to_string(),
    }
}

/// Why TLS failed, and what to do.
pub fn why_of(error: &rustls::Error) -> String {
    let is_of_authority = error.to_string().contains("CaUsedAsEndEntity");
    let (what, mend) = match error {
        rustls::Error::InvalidCertificate(wrong) => match wrong {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                ("it has expired".to_owned(), "give the other side a new one, or look at the clock here")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                ("it is not valid yet".to_owned(), "look at the clock here")
            }
            CertificateError::NotValidForNameContext { expected, presented } => (
                format!("it is not for {}, but for {}", expected.to_str(), presented.join(", ")),
                "set server_name to a name of the certificate",
            ),
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                ("who signed it is not known".to_owned(), "name the authority that did in ca_file")
            }
            _ if is_of_authority => {
                ("it is that of an authority".to_owned(), "have that authority sign one for the other side")
            }
            _ => (error.to_string(), "did an authority in ca_file sign it?"),
        },
        rustls::Error::InvalidMessage(_) => {
            return "the other side does not speak TLS on that port; is it another port? If it is without TLS, leave \
                    tls = true out"
                .to_owned();
        }
        rustls::Error::AlertReceived(alert) => {
            return format!("the other side ends TLS with {alert:?}; does it want another certificate in cert_file?");
        }
        other => return format!("TLS failed: {other}"),
    };
    format!("the certificate of the other side is not trusted: {what}; {mend}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_addresses() {
        assert_eq!(
            [host_of("a.example:1"), host_of("[::1]:7"), host_of("10.0.0.1:2")],
            ["a.example", "::1", "10.0.0.1"]
        );
    }
}
