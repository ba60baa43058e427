//! A rustls client at the other end of a connection that delivers bytes in pieces of any size.

use std::io::Write;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;

/// A certificate, and configurations of both sides that know it.
struct TlsSetup {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    certificate: CertificateDer<'static>,
}

fn tls_setup(version: &'static rustls::SupportedProtocolVersion, client_certificates: bool) -> TlsSetup {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = signed.cert.der().clone();
    let key = || PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let roots = Arc::new(roots);
    let server = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[version]).unwrap();
    let server = match client_certificates {
        false => server.with_no_client_auth(),
        true => server.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build().unwrap(),
        ),
    };
    let server = server.with_single_cert(vec![certificate.clone()], key()).unwrap();
    let client = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
    let client = client.with_root_certificates(roots);
    let client = match client_certificates {
        false => client.with_no_client_auth(),
        true => client.with_client_auth_cert(vec![certificate.clone()], key()).unwrap(),
    };
    TlsSetup { server: Arc::new(server), client: Arc::new(client), certificate }
}

/// Both ends of a wire that delivers so many bytes at a time.
struct Wire {
    client: ClientConnection,
    server: TlsLayer,
    cut: usize,
    /// What the server has understood.
    heard: Vec<u8>,
    flow: Flow,
    /// The longest beginning that the server had to keep.
    kept_max: usize,
}

impl Wire {
    fn new(setup: &TlsSetup, server: TlsLayer, cut: usize) -> Wire {
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(setup.client.clone(), name).unwrap();
        Wire { client, server, cut, heard: Vec::new(), flow: Flow::Open, kept_max: 0 }
    }

    /// Carries bytes both ways until nobody has any. Returns what the client has understood.
    fn settle(&mut self) -> io::Result<Vec<u8>> {
        let mut said = Vec::new();
        loop {
            let mut up = Vec::new();
            while self.client.wants_write() {
                self.client.write_tls(&mut up).unwrap();
            }
            if up.is_empty() {
                return Ok(said);
            }
            for part in up.chunks(self.cut) {
                let mut wire = self.server.partial().to_vec();
                wire.extend_from_slice(part);
                let mut down = Vec::new();
                let received = self.server.receive(&mut wire, &mut self.heard, &mut down);
                self.kept_max = self.kept_max.max(self.server.partial().len());
                self.hear(&down, &mut said);
                self.flow = received?;
            }
        }
    }

    fn hear(&mut self, mut down: &[u8], said: &mut Vec<u8>) {
        while !down.is_empty() {
            self.client.read_tls(&mut down).unwrap();
            let state = match self.client.process_new_packets() {
                Ok(state) => state,
                // An alert, which the test looks for in the client.
                Err(_) => return,
            };
            let begin = said.len();
            said.resize(begin + state.plaintext_bytes_to_read(), 0);
            self.client.reader().read_exact(&mut said[begin..]).unwrap();
        }
    }

    fn say(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut down = Vec::new();
        self.server.seal(bytes, &mut down).unwrap();
        let mut said = Vec::new();
        self.hear(&down, &mut said);
        said
    }
}

fn text(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 7 % 251) as u8).collect()
}

#[test]
fn bytes_come_through_however_the_wire_cuts_them() {
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        for (cut, buffered) in [(1, false), (7, false), (1_000, false), (1 << 20, false), (7, true), (1 << 20, true)] {
            let setup = tls_setup(version, false);
            let server = match buffered {
                false => TlsLayer::accept(setup.server.clone()).unwrap(),
                true => TlsLayer::resume(ServerConnection::new(setup.server.clone()).unwrap()),
            };
            let mut wire = Wire::new(&setup, server, cut);
            wire.settle().unwrap();
            assert!(!wire.client.is_handshaking(), "cut {cut}");
            for length in [1, 100, 70_000] {
                let mut up = &text(length)[..];
                while !up.is_empty() {
                    let taken = wire.client.writer().write(up).unwrap();
                    up = &up[taken..];
                    wire.settle().unwrap();
                }
                assert_eq!(std::mem::take(&mut wire.heard), text(length), "cut {cut}");
                assert_eq!(wire.say(&text(length)), text(length), "cut {cut}");
            }
            assert!(wire.server.partial().is_empty(), "an idle client owns no buffer");
            assert_eq!(wire.server.partial.capacity(), 0, "an idle client owns no buffer");
            assert!(wire.kept_max <= (16 << 10) + 2_048, "kept {} bytes", wire.kept_max);
            assert_eq!(wire.flow, Flow::Open);
            wire.client.send_close_notify();
            wire.settle().unwrap();
            assert_eq!(wire.flow, Flow::Ended);
        }
    }
}

#[test]
fn says_what_half_a_record_waits_for() {
    let setup = tls_setup(&rustls::version::TLS13, false);
    let mut wire = Wire::new(&setup, TlsLayer::accept(setup.server.clone()).unwrap(), 1 << 20);
    wire.settle().unwrap();
    wire.client.writer().write_all(b"half and half").unwrap();
    let mut record = Vec::new();
    wire.client.write_tls(&mut record).unwrap();
    let (first, second) = record.split_at_mut(20);
    let (mut plain, mut answer) = (Vec::new(), Vec::new());
    wire.server.receive(first, &mut plain, &mut answer).unwrap();
    assert_eq!((wire.server.partial(), &plain[..]), (&*first, &b""[..]));
    // Something may be said in between.
    assert_eq!(wire.say(b"meanwhile"), b"meanwhile");
    let mut whole = [first, second].concat();
    wire.server.receive(&mut whole, &mut plain, &mut answer).unwrap();
    assert_eq!((wire.server.partial(), &plain[..]), (&b""[..], &b"half and half"[..]));
}

#[test]
fn shows_the_clients_certificate() {
    let setup = tls_setup(&rustls::version::TLS13, true);
    let mut wire = Wire::new(&setup, TlsLayer::accept(setup.server.clone()).unwrap(), 100);
    wire.settle().unwrap();
    assert_eq!(wire.server.peer_certificates(), Some(&[setup.certificate][..]));
}

#[test]
fn tells_the_client_why_it_is_turned_away() {
    let (asks, shows_none) = (tls_setup(&rustls::version::TLS13, true), tls_setup(&rustls::version::TLS13, false));
    let stranger = TlsSetup { server: asks.server.clone(), client: shows_none.client, certificate: asks.certificate };
    let mut wire = Wire::new(&stranger, TlsLayer::accept(stranger.server.clone()).unwrap(), 1 << 20);
    // The client does not know the server's certificate, and says so with an alert.
    wire.settle().unwrap_err();

    let mut server = TlsLayer::accept(asks.server).unwrap();
    let (mut plain, mut answer) = (Vec::new(), Vec::new());
    let mut rubbish = *b"GET / HTTP/1.1\r\n\r\n";
    server.receive(&mut rubbish, &mut plain, &mut answer).unwrap_err();
    // A record of type alert (21).
    assert_eq!((answer.first(), &plain[..]), (Some(&21), &b""[..]));
}

#[test]
fn ends_with_a_word() {
    let setup = tls_setup(&rustls::version::TLS13, false);
    let mut wire = Wire::new(&setup, TlsLayer::accept(setup.server.clone()).unwrap(), 1 << 20);
    wire.settle().unwrap();
    let mut down = Vec::new();
    wire.server.close(&mut down);
    let mut rest = &down[..];
    wire.client.read_tls(&mut rest).unwrap();
    assert!(wire.client.process_new_packets().unwrap().peer_has_closed());
}
