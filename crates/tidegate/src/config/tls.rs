//! `[tls]`: certificates, and which doors use them.

use std::path::PathBuf;

use tidegate_config::{ConfigError, Document, FilePath, Flag, NoDefault, Optional, config, words};

words! {
    /// Whether a client must show a certificate.
    pub struct ClientCertificateWord(bool) { "optional" => false, "required" => true }
}

config! {
    /// `[tls]`
    pub struct TlsKeys in "tls" {
        cert_file: Optional<FilePath> = NoDefault, .., live, "PEM file with the certificate chain";
        key_file: Optional<FilePath> = NoDefault, .., live, "PEM file with the private key: PKCS#8, PKCS#1 or SEC1";
        http: Flag = false, .., restart, "whether the HTTP door speaks TLS";
        binary: Flag = false, .., restart, "whether the binary door speaks TLS";
        client_ca_file: Optional<FilePath> = NoDefault, .., live,
            "PEM file with the authorities whose client certificates are good for listen.mqtts";
        client_crl_file: Optional<FilePath> = NoDefault, .., live,
            "PEM file with the revocation lists of these authorities, read again by a reload: who is on one is not let \
             in; with this key, an authority without a list here, or whose list is over (nextUpdate), vouches for \
             nobody who is not connected yet";
        client_certificate: ClientCertificateWord = "optional", .., live,
            "whether a client of listen.mqtts must show a certificate; its common name is the user, see \
             mqtt.certificate_users";
    }
}

/// Certificates and the doors that use them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// PEM file with the chain.
    pub cert_file: PathBuf,
    /// PEM file with the private key.
    pub key_file: PathBuf,
    /// Whether the HTTP door speaks TLS.
    pub http: bool,
    /// Whether the binary door speaks TLS.
    pub binary: bool,
    /// Client certificates, if they are looked at.
    pub clients: Option<ClientCertificates>,
}

/// Which client certificates are good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// PEM file with the authorities that sign them.
    pub ca_file: PathBuf,
    /// PEM file with the lists of those that they have revoked.
    pub crl_file: Option<PathBuf>,
    /// Whether a client must show one.
    pub required: bool,
}

/// Checks that the files and the doors that need them are there together. `mqtts` says whether MQTT over TLS is served.
pub fn settle(document: &Document, mqtts: bool) -> Result<Option<Tls>, ConfigError> {
    let keys: TlsKeys = document.section()?;
    let (http, binary) = (keys.http, keys.binary);
    let clients = clients(&keys, mqtts, document)?;
    let wanted = http || binary || mqtts;
    match (keys.cert_file, keys.key_file) {
        (Some(cert_file), Some(key_file)) if wanted => Ok(Some(Tls { cert_file, key_file, http, binary, clients })),
        (Some(_), Some(_)) => Err(document.error_at(
            "tls",
            "tls: no door uses the certificate; set http or binary to true or listen.mqtts, or remove [tls]",
        )),
        (None, None) if !wanted => Ok(None),
        (None, _) => Err(document.error_at("tls", "tls.cert_file is missing: PEM file with the certificate chain")),
        (_, None) => Err(document.error_at("tls", "tls.key_file is missing: PEM file with the private key")),
    }
}

fn clients(keys: &TlsKeys, mqtts: bool, document: &Document) -> Result<Option<ClientCertificates>, ConfigError> {
    match &keys.client_ca_file {
        Some(_) if !mqtts => Err(document.error_at(
            "tls.client_ca_file",
            "tls.client_ca_file: only listen.mqtts looks at client certificates; give it an address",
        )),
        Some(ca_file) => Ok(Some(ClientCertificates {
            ca_file: ca_file.clone(),
            crl_file: keys.client_crl_file.clone(),
            required: keys.client_certificate,
        })),
        None if keys.client_crl_file.is_some() => Err(document.error_at(
            "tls.client_crl_file",
            "tls.client_ca_file is missing: PEM file with the authorities that sign clients",
        )),
        None if keys.client_certificate => Err(document.error_at(
            "tls.client_certificate",
            "tls.client_ca_file is missing: PEM file with the authorities that sign clients",
        )),
        None => Ok(None),
    }
}
