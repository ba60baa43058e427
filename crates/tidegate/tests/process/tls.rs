//! TLS on both doors, with a certificate made for the test.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tidegate_client::{Client, Timeouts};

use crate::commands::{Operator, command};
use crate::http::Http;
use crate::votes::{ids, votes};
use crate::{PATIENCE, SERVICE, Server, Settings, folder};

#[test]
fn both_doors_speak_tls_and_nothing_else() {
    let folder = folder();
    let (tls, certificate) = self_signed(folder.path());
    let sections = format!("{tls}http = true\nbinary = true\n");
    let server = Server::start(&Settings { sections, ..Settings::new(folder.path()) });

    let trusting = client_config([certificate]);
    let name = ServerName::try_from("localhost").expect("a name");
    let timeouts = Timeouts { connect: PATIENCE, read: PATIENCE, write: PATIENCE };
    let connect = |config| Client::connect_tls(server.binary, name.clone(), config, SERVICE, timeouts);
    let mut client = connect(trusting.clone()).expect("the certificate is trusted");
    client.open_account("source:shop", "credit", tidegate_client::AccountKind::Source).expect("it serves");
    client.open_account("wallet:dave", "credit", tidegate_client::AccountKind::Wallet).expect("it serves");
    // More than one TLS record each way.
    let outcomes = client.transfers(&votes(&ids("vote", 2_000))).expect("it serves");
    assert_eq!(outcomes.len(), 2_000);

    let tcp = TcpStream::connect(server.http).expect("the door is open");
    let session = ClientConnection::new(trusting, name.clone()).expect("the configuration is right");
    let mut http = Http::over(StreamOwned::new(session, tcp), SERVICE);
    let answer = http.get("/v1/accounts/source:shop").expect("the door answers");
    assert_eq!((answer.status, answer.body["kind"].as_str()), (200, Some("source")), "{answer:?}");

    let stranger = connect(client_config([])).expect_err("the certificate is not trusted");
    assert!(stranger.to_string().contains("certificate"), "{stranger}");
    let short = Timeouts { read: Duration::from_secs(10), ..timeouts };
    let plain = Client::connect_within(server.binary, SERVICE, short);
    assert!(plain.is_err(), "the binary door let somebody in without TLS");
    let plain = Http::connect(server.http).expect("TCP connects").get("/healthz");
    assert!(plain.is_err(), "the HTTP door answered without TLS: {plain:?}");
}

#[test]
fn an_operator_is_told_why_a_server_is_not_trusted_and_what_to_do() {
    let told = |params: fn(&mut CertificateParams), at: &str, words: &[&str]| {
        let folder = folder();
        let (tls, _) = signed_by_itself(folder.path(), params);
        let sections = format!("{tls}http = true\n");
        let server = Server::start(&Settings { sections, ..Settings::new(folder.path()) });
        let operator = Operator { server: format!("{at}:{}", server.http.port()) };
        let authority = folder.path().join("cert.pem").display().to_string();
        let (code, _, error) = operator.run(&["account", "list", "--ca-file", &authority]);
        assert!(code == 1 && words.iter().all(|words| error.contains(words)), "{words:?}: {error}");
    };
    let of_authority = |params: &mut CertificateParams| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let mend = "`-addext basicConstraints=critical,CA:FALSE`";
    told(of_authority, "https://localhost", &["which no server may show", mend]);
    let over = |params: &mut CertificateParams| params.not_after = rcgen::date_time_ymd(2025, 1, 1);
    told(over, "https://localhost", &["its certificate is over since 2025-01-01T00:00:00Z", "look at the clock"]);
    let later = |params: &mut CertificateParams| params.not_before = rcgen::date_time_ymd(2124, 1, 1);
    told(later, "https://localhost", &["its certificate is good from 2124-01-01T00:00:00Z on"]);
    told(|_| {}, "https://127.0.0.1", &["is not for 127.0.0.1, but for ", "localhost", "give --server a name of"]);
    told(|_| {}, "http://localhost", &["is no HTTP (", "try https://"]);

    // Without --ca-file, it is the authorities of this machine that are asked, here one that has signed something else.
    let folder = folder();
    let (tls, _) = self_signed(folder.path());
    let server = Server::start(&Settings { sections: format!("{tls}http = true\n"), ..Settings::new(folder.path()) });
    let strangers = folder.path().join("strangers");
    fs::create_dir(&strangers).expect("the folder takes one");
    self_signed(&strangers);
    let address = format!("https://localhost:{}", server.http.port());
    let trusting = |file: &Path| command(&address, &["status"]).env("SSL_CERT_FILE", file).output().expect("it runs");
    let unknown = String::from_utf8(trusting(&strangers.join("cert.pem")).stderr).expect("text");
    assert!(unknown.contains("who signed its certificate is not known") && unknown.contains("--ca-file"), "{unknown}");
    let trusted = trusting(&folder.path().join("cert.pem"));
    assert!(trusted.status.success(), "{trusted:?}");
}

/// Makes a certificate for localhost in `folder`: the beginning of `[tls]`, and what clients are to trust.
pub fn self_signed(folder: &Path) -> (String, CertificateDer<'static>) {
    signed_by_itself(folder, |params| params.is_ca = IsCa::NoCa)
}

fn signed_by_itself(folder: &Path, set: fn(&mut CertificateParams)) -> (String, CertificateDer<'static>) {
    let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    set(&mut params);
    let signing_key = KeyPair::generate().expect("a key");
    let signed = params.self_signed(&signing_key).expect("a certificate");
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    fs::write(&cert, signed.pem()).expect("the folder takes a file");
    fs::write(&key, signing_key.serialize_pem()).expect("the folder takes a file");
    let tls = format!("[tls]\ncert_file = \"{}\"\nkey_file = \"{}\"\n", cert.display(), key.display());
    (tls, signed.der().clone())
}

/// A client that trusts these.
pub fn client_config(trusted: impl IntoIterator<Item = CertificateDer<'static>>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    trusted.into_iter().for_each(|cert| roots.add(cert).expect("a certificate"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Arc::new(builder.expect("the provider has them").with_root_certificates(roots).with_no_client_auth())
}
