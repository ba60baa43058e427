//! Handshakes in memory, with certificates that are replaced in between.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod, KeyPair,
    RevokedCertParams, SerialNumber,
};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};

use super::*;

/// A folder of PEM files that goes away with its test.
struct Folder(PathBuf);

/// An authority, or who it vouches for.
struct SignedClient {
    cert: PathBuf,
    key: PathBuf,
    certificate: CertificateDer<'static>,
    private: PrivateKeyDer<'static>,
}

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tidegate-tls-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn client(&self, name: &str, certificate: &rcgen::Certificate, key: &KeyPair) -> SignedClient {
        let path = |kind: &str| self.0.join(format!("{name}.{kind}.pem"));
        std::fs::write(path("cert"), certificate.pem()).unwrap();
        std::fs::write(path("key"), key.serialize_pem()).unwrap();
        let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        SignedClient { cert: path("cert"), key: path("key"), certificate: certificate.der().clone(), private }
    }

    /// An authority, and what it signs with.
    fn issuer(&self, name: &str) -> (SignedClient, Issuer<'static, KeyPair>) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = self.client(name, &params.self_signed(&key).unwrap(), &key);
        (authority, Issuer::new(params, key))
    }

    /// An authority, and a client that it has signed.
    fn authority(&self, name: &str) -> (SignedClient, SignedClient) {
        let (authority, issuer) = self.issuer(name);
        (authority, self.signed(&issuer, name, 1))
    }

    /// A client with this serial number.
    fn signed(&self, issuer: &Issuer<'_, KeyPair>, name: &str, serial: u64) -> SignedClient {
        let client_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["dave".to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from(serial));
        let client = params.signed_by(&client_key, issuer).unwrap();
        self.client(&format!("{name}-client-{serial}"), &client, &client_key)
    }

    /// A file with one list of this issuer, on which these serial numbers are.
    fn revoked(&self, issuer: &Issuer<'_, KeyPair>, serials: &[u64]) -> PathBuf {
        self.revoked_until(issuer, serials, 2124)
    }

    /// The same; the list is over when this year begins.
    fn revoked_until(&self, issuer: &Issuer<'_, KeyPair>, serials: &[u64], year: i32) -> PathBuf {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: rcgen::date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2024, 1, 1),
            next_update: rcgen::date_time_ymd(year, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let path = self.0.join("revoked.pem");
        std::fs::write(&path, list.signed_by(issuer).unwrap().pem().unwrap()).unwrap();
        path
    }

    fn server(&self, name: &str) -> SignedClient {
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        self.client(name, &signed.cert, &signed.signing_key)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Both sides' handshake; the client trusts `server` and shows `client`. Returns what the server knows of the client.
fn shake(
    config: &Arc<ServerConfig>,
    server: &SignedClient,
    client: Option<&SignedClient>,
) -> Result<Option<CertificateDer<'static>>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(server.certificate.clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let trusting = match client {
        None => builder.with_no_client_auth(),
        Some(client) => {
            builder.with_client_auth_cert(vec![client.certificate.clone()], client.private.clone_key()).unwrap()
        }
    };
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(Arc::new(trusting), name).unwrap();
    let mut server = ServerConnection::new(config.clone()).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut &wire[..]).unwrap();
        server.process_new_packets()?;
        wire.clear();
        server.write_tls(&mut wire).unwrap();
        client.read_tls(&mut &wire[..]).unwrap();
        client.process_new_packets()?;
    }
    Ok(server.peer_certificates().and_then(|chain| chain.first()).map(|end| end.clone().into_owned()))
}

#[test]
fn a_new_certificate_is_shown_from_the_next_handshake_on() {
    let folder = Folder::new("server");
    let (old, new) = (folder.server("old"), folder.server("new"));
    let certificate = ServerCertificate::new(read_certificate(&old.cert, &old.key).unwrap());
    let config = server_config(&certificate, &[]).unwrap();
    assert!(shake(&config, &old, None).is_ok() && shake(&config, &new, None).is_err());
    certificate.replace(read_certificate(&new.cert, &new.key).unwrap());
    assert!(shake(&config, &new, None).is_ok() && shake(&config, &old, None).is_err());
}

#[test]
fn clients_are_good_by_the_authorities_of_now() {
    let folder = Folder::new("clients");
    let server = folder.server("server");
    let ((one, client), (other, stranger)) = (folder.authority("one"), folder.authority("other"));
    let certificate = ServerCertificate::new(read_certificate(&server.cert, &server.key).unwrap());
    let authorities = ClientAuthorities::new(None);
    let config = server_config_with_clients(&certificate, &authorities).unwrap();
    assert_eq!(shake(&config, &server, Some(&client)).unwrap(), None, "nobody is asked");

    authorities.replace(Some(read_authorities(&one.cert, None, false).unwrap()));
    assert_eq!(shake(&config, &server, Some(&client)).unwrap().as_ref(), Some(&client.certificate));
    assert_eq!(shake(&config, &server, None).unwrap(), None, "optional");
    assert!(shake(&config, &server, Some(&stranger)).is_err());

    authorities.replace(Some(read_authorities(&other.cert, None, true).unwrap()));
    assert!(shake(&config, &server, None).is_err(), "required");
    assert!(shake(&config, &server, Some(&client)).is_err());
    assert_eq!(shake(&config, &server, Some(&stranger)).unwrap().as_ref(), Some(&stranger.certificate));
}

#[test]
fn who_is_on_a_revocation_list_is_not_let_in() {
    let folder = Folder::new("revoked");
    let server = folder.server("server");
    let (authority, issuer) = folder.issuer("authority");
    let (good, revoked) = (folder.signed(&issuer, "of", 7), folder.signed(&issuer, "of", 8));
    let certificate = ServerCertificate::new(read_certificate(&server.cert, &server.key).unwrap());
    let authorities = ClientAuthorities::new(Some(read_authorities(&authority.cert, None, true).unwrap()));
    let config = server_config_with_clients(&certificate, &authorities).unwrap();
    assert!(shake(&config, &server, Some(&revoked)).is_ok(), "before the list");
    let list = folder.revoked(&issuer, &[8, 9]);
    authorities.replace(Some(read_authorities(&authority.cert, Some(&list), true).unwrap()));
    assert!(shake(&config, &server, Some(&revoked)).is_err());
    assert!(shake(&config, &server, Some(&good)).is_ok());
    let now = UnixTime::now();
    let is_taken = |client: &SignedClient, at| authorities.take(std::slice::from_ref(&client.certificate), at);
    assert!(is_taken(&good, now) && !is_taken(&revoked, now), "whoever is connected is judged alike");
    let late = UnixTime::since_unix_epoch(Duration::from_secs(9_000_000_000));
    assert!(is_taken(&good, late) && !is_taken(&revoked, late), "its age is not looked at");
    assert!(authorities.take(&[], now), "who has shown nothing has nothing that is revoked");
    let (_, stranger) = folder.authority("another");
    assert!(!is_taken(&stranger, now), "whoever signed it is trusted no more");
    authorities.replace(None);
    assert!(!is_taken(&good, now), "nobody's certificate is looked at any more");
}

#[test]
fn a_list_that_is_over_lets_nobody_in_and_sends_nobody_away() {
    let folder = Folder::new("over");
    let server = folder.server("server");
    let (authority, issuer) = folder.issuer("authority");
    let (good, revoked) = (folder.signed(&issuer, "of", 7), folder.signed(&issuer, "of", 8));
    let certificate = ServerCertificate::new(read_certificate(&server.cert, &server.key).unwrap());
    let list = folder.revoked_until(&issuer, &[8], 2025);
    let read = || read_authorities(&authority.cert, Some(&list), false).unwrap();
    let authorities = ClientAuthorities::new(Some(read()));
    let config = server_config_with_clients(&certificate, &authorities).unwrap();
    assert_eq!(authorities.lists_end_at_s(), Some(1_735_689_600));
    let error = shake(&config, &server, Some(&good)).unwrap_err();
    assert!(format!("{error:?}").contains("ExpiredRevocationList"), "{error:?}");
    assert!(shake(&config, &server, None).is_ok(), "who shows none needs no list");
    let now = UnixTime::now();
    let is_taken = |client: &SignedClient| authorities.take(std::slice::from_ref(&client.certificate), now);
    assert!(is_taken(&good) && !is_taken(&revoked), "whoever is connected is judged by the last list");
    folder.revoked(&issuer, &[8]);
    authorities.replace(Some(read()));
    assert!(shake(&config, &server, Some(&good)).is_ok());
    // Two lists: the first that ends is told.
    let newer = std::fs::read_to_string(&list).unwrap();
    folder.revoked_until(&issuer, &[8], 2100);
    std::fs::write(&list, newer + &std::fs::read_to_string(&list).unwrap()).unwrap();
    authorities.replace(Some(read()));
    assert_eq!(authorities.lists_end_at_s(), Some(4_102_444_800));
}

#[test]
fn what_is_wrong_with_a_list_is_said_of_its_file() {
    let folder = Folder::new("lists");
    let (authority, issuer) = folder.issuer("authority");
    let list = folder.revoked(&issuer, &[8]);
    let good = std::fs::read_to_string(&list).unwrap();
    let said = |text: &str| {
        std::fs::write(&list, text).unwrap();
        match read_authorities(&authority.cert, Some(&list), true).unwrap_err() {
            AuthoritiesError::RevocationLists(error) => format!("{error:#}"),
            AuthoritiesError::Authorities(error) => panic!("the authority is whole: {error:#}"),
        }
    };
    let name = list.display().to_string();
    let certificate = std::fs::read_to_string(&authority.cert).unwrap();
    assert_eq!(said(&certificate), format!("{name} has no revocation list"));
    let (body, _) = good.split_once("-----END").unwrap();
    let missing = "the line \"-----END X509 CRL-----\" is missing; is the file cut off?";
    assert_eq!(said(body), format!("cannot read PEM from {name}: {missing}"));
    let no_base64 = "what stands between BEGIN and END is no base64";
    assert_eq!(said(&good.replace("\nMI", "\n!!")), format!("cannot read PEM from {name}: {no_base64}"));
    let damaged = good.replace("\nMI", "\nAA");
    assert_eq!(said(&format!("{good}{damaged}")), format!("revocation list 2 of {name} is damaged"));
}

#[test]
fn files_that_do_not_fit_are_named() {
    let folder = Folder::new("files");
    let (one, other) = (folder.server("one"), folder.server("other"));
    let said = |error: anyhow::Error| format!("{error:#}");
    let wrong = |cert: &Path, key: &Path| match read_certificate(cert, key).map(drop).unwrap_err() {
        CertificateError::Chain(error) => ("chain", said(error)),
        CertificateError::Key(error) => ("key", said(error)),
    };
    let (which, error) = wrong(&one.cert, &other.key);
    assert!(error.contains("other.key.pem does not fit") && error.contains("one.cert.pem"), "{error}");
    assert_eq!(which, "key");
    let (which, error) = wrong(&one.key, &one.key);
    assert!(error.contains("one.key.pem has no certificate"), "{error}");
    assert_eq!(which, "chain");
    let (which, error) = wrong(&one.cert, &folder.0.join("none.pem"));
    assert!(which == "key" && error.contains("none.pem"), "{error}");
    let error = match read_authorities(&folder.0.join("none.pem"), None, false).unwrap_err() {
        AuthoritiesError::Authorities(error) => said(error),
        AuthoritiesError::RevocationLists(error) => panic!("there are no lists: {error:#}"),
    };
    assert!(error.contains("cannot read PEM from") && error.contains("none.pem"), "{error}");
}
