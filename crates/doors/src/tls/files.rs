//! Reads the PEM files of `[tls]`, and says in words what is wrong with which of them.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{CertRevocationListError, RootCertStore};
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use super::{Authorities, Certificate, provider};

/// Which file about clients is at fault, and what is wrong with it.
#[derive(Debug)]
pub enum AuthoritiesError {
    /// That of the authorities.
    Authorities(anyhow::Error),
    /// That of their revocation lists.
    RevocationLists(anyhow::Error),
}

/// Which file of the server's own is at fault, and what is wrong with it.
#[derive(Debug)]
pub enum CertificateError {
    /// That of the certificate chain.
    Chain(anyhow::Error),
    /// That of its key.
    Key(anyhow::Error),
}

/// Reads a certificate chain and its private key.
pub fn read_certificate(cert_file: &Path, key_file: &Path) -> Result<Certificate, CertificateError> {
    let chain = read_chain(cert_file).map_err(CertificateError::Chain)?;
    let key = PrivateKeyDer::from_pem_file(key_file);
    let key = key.map_err(|error| CertificateError::Key(unreadable(key_file, error)))?;
    let unfit = || format!("{} does not fit {}", key_file.display(), cert_file.display());
    let certified = CertifiedKey::from_der(chain, key, &provider()).with_context(unfit);
    Ok(Certificate(certified.map_err(CertificateError::Key)?))
}

/// Reads the authorities that sign clients' certificates, and the lists of those that they have revoked. `required`
/// says whether a client must show one.
///
/// With lists, each certificate's own authority must have one that is not over: what is on no list because there is
/// none is not good.
pub fn read_authorities(
    ca_file: &Path,
    crl_file: Option<&Path>,
    required: bool,
) -> Result<Authorities, AuthoritiesError> {
    let roots = Arc::new(read_roots(ca_file).map_err(AuthoritiesError::Authorities)?);
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider());
    let builder = if required { builder } else { builder.allow_unauthenticated() };
    let build = |error: VerifierBuilderError| match (error, crl_file) {
        (VerifierBuilderError::InvalidCrl(error), Some(file)) => {
            AuthoritiesError::RevocationLists(anyhow!("{}: {}", file.display(), list_fault(&error)))
        }
        (error, _) => AuthoritiesError::Authorities(anyhow!("{}: {error}", ca_file.display())),
    };
    let Some(crl_file) = crl_file else {
        let verifier = builder.build().map_err(build)?;
        return Ok(Authorities { entering: verifier.clone(), staying: verifier, lists_end_at_s: None });
    };
    let lists = read_lists(crl_file).map_err(AuthoritiesError::RevocationLists)?;
    let lists_end_at_s = Some(end_of(crl_file, &lists).map_err(AuthoritiesError::RevocationLists)?);
    // Of the certificate itself: authorities seldom publish a list about each other.
    let builder = builder.with_crls(lists).only_check_end_entity_revocation();
    let staying = builder.clone().build().map_err(build)?;
    let entering = builder.enforce_revocation_expiration().build().map_err(build)?;
    Ok(Authorities { entering, staying, lists_end_at_s })
}

fn read_roots(ca_file: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in read_chain(ca_file)? {
        roots.add(certificate).with_context(|| format!("{} has no authority", ca_file.display()))?;
    }
    Ok(roots)
}

fn read_chain(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let chain: Vec<_> = read_all(file)?;
    anyhow::ensure!(!chain.is_empty(), "{} has no certificate", file.display());
    Ok(chain)
}

fn read_lists(file: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>> {
    let lists: Vec<_> = read_all(file)?;
    anyhow::ensure!(!lists.is_empty(), "{} has no revocation list", file.display());
    Ok(lists)
}

fn read_all<T: PemObject>(file: &Path) -> Result<Vec<T>> {
    T::pem_file_iter(file).and_then(Iterator::collect).map_err(|error| unreadable(file, error))
}

/// When the first of these lists ends, in seconds since 1970.
fn end_of(file: &Path, lists: &[CertificateRevocationListDer<'_>]) -> Result<i64> {
    let mut first = i64::MAX;
    for (number, list) in (1..).zip(lists) {
        let unread = || format!("revocation list {number} of {} is damaged", file.display());
        let (_, list) = CertificateRevocationList::from_der(list).map_err(|_| anyhow!(unread()))?;
        let ends = list.next_update().with_context(|| format!("{}: it has no nextUpdate", unread()))?;
        first = first.min(ends.timestamp());
    }
    Ok(first)
}

/// What is wrong with a list that is one.
fn list_fault(error: &CertRevocationListError) -> String {
    match error {
        CertRevocationListError::ParseError => "a revocation list is damaged".to_owned(),
        CertRevocationListError::UnsupportedDeltaCrl => {
            "a revocation list says only what is new since another one; only whole ones are read".to_owned()
        }
        CertRevocationListError::UnsupportedIndirectCrl => {
            "a revocation list is about certificates of another authority than its own; such lists are not read"
                .to_owned()
        }
        other => format!("a revocation list is not taken: {other:?}"),
    }
}

/// What keeps a file from being read as PEM. It has nothing of the file but the name of a section: it may be a key.
fn unreadable(file: &Path, error: pem::Error) -> anyhow::Error {
    let what = match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            let end = String::from_utf8_lossy(&end_marker).chars().take(40).collect::<String>();
            format!("the line \"-----END {end}-----\" is missing; is the file cut off?")
        }
        pem::Error::IllegalSectionStart { .. } => {
            "a line that begins with \"-----BEGIN \" does not end with \"-----\"".to_owned()
        }
        pem::Error::Base64Decode(_) => "what stands between BEGIN and END is no base64".to_owned(),
        pem::Error::NoItemsFound => "nothing in it is what is looked for".to_owned(),
        pem::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    };
    anyhow!("cannot read PEM from {}: {what}", file.display())
}
