//! Certificates from PEM files to a rustls configuration.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Reads a certificate chain and its private key. `protocols` are the ALPN names to offer, best first.
pub fn server_config(cert_file: &Path, key_file: &Path, protocols: &[&str]) -> Result<Arc<ServerConfig>> {
    let unreadable = |path: &Path| format!("cannot read PEM from {}; see [tls] in the configuration", path.display());
    let chain = CertificateDer::pem_file_iter(cert_file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| unreadable(cert_file))?;
    anyhow::ensure!(!chain.is_empty(), "{} has no certificate", cert_file.display());
    let key = PrivateKeyDer::from_pem_file(key_file).with_context(|| unreadable(key_file))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .with_context(|| format!("{} does not fit {}", key_file.display(), cert_file.display()))?;
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(Arc::new(config))
}
