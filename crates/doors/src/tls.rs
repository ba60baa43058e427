//! Reads certificates from PEM files into rustls configurations, and replaces them while they are in use.
//!
//! ```text
//!   files ─▶ read_certificate ─▶ Certificate ──replace──▶ ServerCertificate ─┐
//!   files ─▶ read_authorities ─▶ Authorities ──replace──▶ ClientAuthorities ─┴─▶ one ServerConfig per door
//! ```
//!
//! Promise: a handshake that begins after `replace` uses the new files. An open connection keeps the server's
//! certificate that it was shown; whether its own client's is still good, its door asks ([`ClientAuthorities::take`]).
//! While an authority's revocation list is over, none of its certificates opens a connection: whom it has revoked since
//! is not known. Those that are open stay.
//! Reading and replacing are two steps, so that a reload reads everything first and replaces nothing if anything is
//! wrong.

mod files;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use arc_swap::{ArcSwap, ArcSwapOption};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

pub use files::{AuthoritiesError, CertificateError, read_authorities, read_certificate};

/// A certificate chain with its key, as read from files.
#[derive(Debug)]
pub struct Certificate(CertifiedKey);

/// The server's certificate at any time.
#[derive(Debug)]
pub struct ServerCertificate(ArcSwap<CertifiedKey>);

/// The authorities for client certificates and their revocation lists, as read from files.
#[derive(Debug)]
pub struct Authorities {
    /// Who is let in.
    entering: Arc<dyn ClientCertVerifier>,
    /// Who may stay. The same, but a list that has ended still says who is revoked.
    staying: Arc<dyn ClientCertVerifier>,
    /// When the first of the lists ends, in seconds since 1970.
    lists_end_at_s: Option<i64>,
}

/// The current authorities for client certificates. As long as there are none, clients are not asked for a certificate.
pub struct ClientAuthorities {
    current: ArcSwapOption<Authorities>,
    schemes: Vec<SignatureScheme>,
}

/// The TLS configuration of a door. `protocols` are the ALPN names to offer, best first.
pub fn server_config(certificate: &Arc<ServerCertificate>, protocols: &[&str]) -> Result<Arc<ServerConfig>> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(certificate.clone());
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(Arc::new(config))
}

/// The same for a door whose clients may have certificates.
pub fn server_config_with_clients(
    certificate: &Arc<ServerCertificate>,
    clients: &Arc<ClientAuthorities>,
) -> Result<Arc<ServerConfig>> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let mut config = builder.with_client_cert_verifier(clients.clone()).with_cert_resolver(certificate.clone());
    // A resumed session is not verified again, so it would stay valid after its authority was removed.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// When a certificate expires, in seconds since 1970; `None` if that cannot be read.
fn ends_at_s(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl ServerCertificate {
    /// Begins with this one.
    pub fn new(certificate: Certificate) -> Arc<ServerCertificate> {
        Arc::new(ServerCertificate(ArcSwap::from_pointee(certificate.0)))
    }

    /// When it expires, or the first of its chain does, in seconds since 1970; `None` if that cannot be read.
    pub fn expires_at_s(&self) -> Option<i64> {
        let certified = self.0.load();
        let ends = certified.cert.iter().map(ends_at_s);
        ends.collect::<Option<Vec<_>>>()?.into_iter().min()
    }

    /// Whether it is an authority's, which clients may refuse from a server (RFC 5280, section 4.2.1.9).
    pub fn is_of_authority(&self) -> bool {
        let certified = self.0.load();
        let own = certified.cert.first().and_then(|own| X509Certificate::from_der(own).ok());
        own.is_some_and(|(_, own)| own.is_ca())
    }

    /// From now on this one.
    pub fn replace(&self, certificate: Certificate) {
        self.0.store(Arc::new(certificate.0));
    }
}

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

impl ClientAuthorities {
    /// Begins with these.
    pub fn new(authorities: Option<Authorities>) -> Arc<ClientAuthorities> {
        let schemes = provider().signature_verification_algorithms.supported_schemes();
        Arc::new(ClientAuthorities { current: ArcSwapOption::from_pointee(authorities), schemes })
    }

    /// From now on these.
    pub fn replace(&self, authorities: Option<Authorities>) {
        self.current.store(authorities.map(Arc::new));
    }

    /// When the first of the revocation lists ends, in seconds since 1970; `None` if there are none.
    pub fn lists_end_at_s(&self) -> Option<i64> {
        self.current.load().as_ref().and_then(|authorities| authorities.lists_end_at_s)
    }

    /// Whether a client's certificate, given with its chain, would be taken by the authorities of now: it is not
    /// revoked, and who signed it is trusted. That it, or a list, has run out since it was verified is not looked at.
    pub fn take(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> bool {
        let Some((end, intermediates)) = chain.split_first() else { return true };
        let ends_s = chain.iter().map(ends_at_s).min().flatten().and_then(|ends_s| u64::try_from(ends_s).ok());
        let at_s = ends_s.map_or(now.as_secs(), |ends_s| ends_s.min(now.as_secs()));
        let at = UnixTime::since_unix_epoch(Duration::from_secs(at_s));
        let current = self.current.load();
        current.as_ref().is_some_and(|now| now.staying.verify_client_cert(end, intermediates, at).is_ok())
    }

    fn ask<T>(
        &self,
        ask: impl FnOnce(&dyn ClientCertVerifier) -> Result<T, rustls::Error>,
    ) -> Result<T, rustls::Error> {
        // Taken away during a handshake that had asked for a certificate.
        let gone = || rustls::Error::General("client certificates are not looked at any more".to_owned());
        self.current.load().as_ref().map_or_else(|| Err(gone()), |authorities| ask(&*authorities.entering))
    }
}

impl ClientCertVerifier for ClientAuthorities {
    fn offer_client_auth(&self) -> bool {
        self.current.load().is_some()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.current.load().as_ref().is_some_and(|authorities| authorities.entering.client_auth_mandatory())
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // Hints are borrowed from the verifier, which may be replaced; a client without hints sends the certificate
        // that it has.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.ask(|verifier| verifier.verify_client_cert(end_entity, intermediates, now))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.ask(|verifier| verifier.verify_tls12_signature(message, certificate, signed))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.ask(|verifier| verifier.verify_tls13_signature(message, certificate, signed))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}

impl fmt::Debug for ClientAuthorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientAuthorities").field("current", &self.current).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
