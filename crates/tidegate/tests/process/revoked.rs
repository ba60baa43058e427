//! A client certificate that is revoked while its client is connected.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod, KeyPair,
    RevokedCertParams, SerialNumber,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::reload::{Client, reload};
use crate::seeing::metrics;
use crate::{PATIENCE, Server, Settings, folder, wait_for};

/// Who signs clients.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// A connection of a device with this serial number, and what it was told first.
    fn connect(&self, server: &Server, trusted: &CertificateDer<'static>, serial: u64) -> Device {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, format!("device-{serial}"));
        params.serial_number = Some(SerialNumber::from(serial));
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).expect("a certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("the provider has them").with_root_certificates(roots);
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let config = builder.with_client_auth_cert(vec![certificate.der().clone()], key).expect("they fit");
        let name = ServerName::try_from("localhost").expect("a name");
        let session = ClientConnection::new(Arc::new(config), name).expect("the configuration is right");
        let tcp = TcpStream::connect(server.mqtts()).expect("the door is open");
        tcp.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Client::over(StreamOwned::new(session, tcp), None, None)
    }

    /// Writes the list on which these serial numbers are.
    fn revoke(&self, serials: &[u64], list: &Path) {
        self.revoke_until(serials, 2124, list);
    }

    /// The same; the list is over when this year begins.
    fn revoke_until(&self, serials: &[u64], year: i32, list: &Path) {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: rcgen::date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2024, 1, 1),
            next_update: rcgen::date_time_ymd(year, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let pem = params.signed_by(&self.issuer).expect("a list").pem().expect("a list");
        fs::write(list, pem).expect("the folder takes a file");
    }
}

type Device = (Client<StreamOwned<ClientConnection, TcpStream>>, String);

/// A server that lets in whom `authority` vouches for, with its files in `folder`, and the certificate that it shows.
fn serve(folder: &Path, authority: &Authority) -> (Server, CertificateDer<'static>) {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let path = |name: &str| folder.join(name);
    fs::write(path("cert.pem"), signed.cert.pem()).expect("the folder takes a file");
    fs::write(path("key.pem"), signed.signing_key.serialize_pem()).expect("the folder takes a file");
    fs::write(path("ca.pem"), &authority.pem).expect("the folder takes a file");
    authority.revoke(&[99], &path("revoked.pem"));
    let file = |name: &str| path(name).display().to_string();
    let sections = format!(
        "[tls]\ncert_file = \"{}\"\nkey_file = \"{}\"\nclient_ca_file = \"{}\"\nclient_crl_file = \"{}\"\n\
         client_certificate = \"required\"\n[mqtt]\ncertificate_users = \"any\"\n",
        file("cert.pem"),
        file("key.pem"),
        file("ca.pem"),
        file("revoked.pem"),
    );
    let mqtts = "127.0.0.1:0".to_owned();
    let server = Server::start(&Settings { mqtts, workers: 2, sections, ..Settings::new(folder) });
    (server, signed.cert.der().clone())
}

#[test]
fn an_open_connection_ends_when_its_certificate_is_revoked() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let (authority, other) = (Authority::new(), Authority::new());
    let (server, trusted) = serve(folder.path(), &authority);
    // On both workers.
    let mut devices: Vec<Device> = (1..=8).map(|serial| authority.connect(&server, &trusted, serial)).collect();
    assert!(devices.iter().all(|(_, answer)| answer == "connack 0x0"), "{:?}", devices[0].1);

    // A reload without news ends nobody.
    reload(&server, 1, "reloaded users, services, rules and certificates");
    authority.revoke(&[2, 3, 5, 7, 99], &path("revoked.pem"));
    reload(&server, 2, "reloaded users, services, rules and certificates");
    for (serial, (device, _)) in (1..).zip(&mut devices) {
        let expected = if [2, 3, 5, 7].contains(&serial) { "disconnect 0x87 None" } else { "pingresp" };
        let heard = if expected == "pingresp" { device.ping() } else { device.receive() };
        assert_eq!(heard, expected, "device {serial}");
    }
    assert_ne!(authority.connect(&server, &trusted, 2).1, "connack 0x0");
    assert_eq!(authority.connect(&server, &trusted, 4).1, "connack 0x0");

    // Another authority takes the place of theirs.
    fs::write(path("ca.pem"), &other.pem).expect("the folder takes a file");
    other.revoke(&[99], &path("revoked.pem"));
    reload(&server, 3, "reloaded users, services, rules and certificates");
    for serial in [1, 4, 6, 8] {
        assert_eq!(devices[serial - 1].0.receive(), "disconnect 0x87 None", "device {serial}");
    }
    assert_eq!(other.connect(&server, &trusted, 1).1, "connack 0x0");
    let ended = wait_for("the ends are counted", || {
        let metrics = metrics(&server);
        let count = |line: &str| line.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
        let lines = metrics.lines().filter(|line| line.starts_with("tidegate_mqtt_revoked_closed_total{"));
        Some(lines.map(count).sum::<u64>()).filter(|ended| *ended >= 8)
    });
    // The fourth device came twice.
    assert!((8..=9).contains(&ended), "{ended}");
    assert!(server.terminate().status.success());
}

#[test]
fn while_a_list_is_over_nobody_connects_and_nobody_is_sent_away() {
    let folder = folder();
    let list = folder.path().join("revoked.pem");
    let authority = Authority::new();
    let (server, trusted) = serve(folder.path(), &authority);
    let mut device = authority.connect(&server, &trusted, 1);
    assert_eq!(device.1, "connack 0x0");
    let ends = "tidegate_tls_revocation_list_expires_seconds";
    assert!(metrics(&server).contains(&format!("\n{ends} 4859740800")), "1 January 2124");

    authority.revoke_until(&[99], 2025, &list);
    reload(&server, 1, "reloaded users, services, rules and certificates");
    let told = "tls.client_crl_file: a revocation list is over since 2025-01-01T00:00:00Z";
    wait_for("the log says so", || server.log().contains(told).then_some(()));
    wait_for("metrics say so", || metrics(&server).contains(&format!("\n{ends} 1735689600")).then_some(()));
    assert_eq!(device.0.ping(), "pingresp", "who is connected stays");
    assert_ne!(authority.connect(&server, &trusted, 2).1, "connack 0x0");

    // A list that is cut off changes nothing, and is named.
    let whole = fs::read_to_string(&list).expect("the list is there");
    fs::write(&list, &whole[..whole.len() - 40]).expect("the folder takes a file");
    reload(&server, 1, "nothing was reloaded");
    let log = server.log();
    let named = format!("tls.client_crl_file: cannot read PEM from {}: the line", list.display());
    assert!(log.contains(&named), "{log}");

    authority.revoke(&[99], &list);
    reload(&server, 2, "reloaded users, services, rules and certificates");
    assert_eq!(authority.connect(&server, &trusted, 2).1, "connack 0x0");
    assert!(server.terminate().status.success());
}
