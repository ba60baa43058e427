//! A certificate for one run, and TLS clients that trust only this certificate.

use super::handshake;
use super::packet::ConnectOptions;
use anyhow::{Context, Result};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A self-signed certificate for 127.0.0.1, in files for the brokers.
pub struct Certificate {
    /// PEM.
    pub cert_file: PathBuf,
    /// PEM, PKCS#8.
    pub key_file: PathBuf,
    der: CertificateDer<'static>,
}

impl Certificate {
    /// Written to `directory`.
    pub fn generate(directory: &Path) -> Result<Certificate> {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let (cert_file, key_file) = (directory.join("cert.pem"), directory.join("key.pem"));
        std::fs::write(&cert_file, made.cert.pem())?;
        std::fs::write(&key_file, made.signing_key.serialize_pem())?;
        Ok(Certificate { cert_file, key_file, der: made.cert.der().clone() })
    }

    /// TLS 1.3 clients that trust it alone.
    pub fn clients(&self) -> Result<Clients> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13])?;
        Ok(Clients(Arc::new(versions.with_root_certificates(roots).with_no_client_auth())))
    }
}

/// What all clients share.
pub struct Clients(Arc<ClientConfig>);

impl Clients {
    /// Connects and subscribes. The client's own half of TLS is forgotten afterwards: it goes on to be connected,
    /// silently.
    pub fn connect(&self, address: SocketAddr, index: usize, options: &ConnectOptions) -> Result<TcpStream> {
        let socket = handshake::dial_blocking(address, index)?;
        let name = ServerName::IpAddress(Ipv4Addr::LOCALHOST.into());
        let mut stream = StreamOwned::new(ClientConnection::new(self.0.clone(), name)?, socket);
        handshake::connect_and_subscribe(&mut stream, options).with_context(|| format!("client {index}, over TLS"))?;
        Ok(stream.sock)
    }
}
