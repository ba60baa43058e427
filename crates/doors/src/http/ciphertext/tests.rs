//! What requests wait for while many clients begin TLS, counted in turns and not in time.

use std::net::IpAddr;
use std::sync::Mutex;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::turns::CallerName;

/// What an edge thread did, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    Request,
    /// The hello of this client was answered.
    Handshake(u8),
}

type Done = Arc<Mutex<Vec<Did>>>;

/// Notes who is shown the certificate: what follows is the signature.
#[derive(Debug)]
struct Noting {
    key: Arc<CertifiedKey>,
    done: Done,
}

impl ResolvesServerCert for Noting {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let client = hello.server_name()?.strip_prefix("client-")?.split('.').next()?.parse().ok()?;
        self.done.lock().unwrap().push(Did::Handshake(client));
        Some(self.key.clone())
    }
}

/// Both sides' configurations; the server notes whose hello it answers.
fn configs(done: &Done) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let names: Vec<String> = (0..=u8::MAX).map(name).collect();
    let signed = rcgen::generate_simple_self_signed(names).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der());
    let certificate = vec![signed.cert.der().clone()];
    let key = Arc::new(CertifiedKey::from_der(certificate, key.into(), &provider).unwrap());
    let server = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
    let noting = Noting { key, done: done.clone() };
    let server = server.with_no_client_auth().with_cert_resolver(Arc::new(noting));
    let mut roots = RootCertStore::empty();
    roots.add(signed.cert.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    (Arc::new(server), Arc::new(client.with_root_certificates(roots).with_no_client_auth()))
}

fn name(client: u8) -> String {
    format!("client-{client}.example")
}

fn mark(turns: &RequestTurns, address: u8) -> CallerMark {
    turns.mark(&CallerName::of_address(IpAddr::from([192, 0, 2, address])))
}

/// Answers one request after another of a caller who is connected.
async fn ask(turns: Arc<RequestTurns>, done: Done) {
    loop {
        turns.take(mark(&turns, 1), 1).await;
        done.lock().unwrap().push(Did::Request);
    }
}

/// The hello of this client.
fn hello(client: u8, config: &Arc<ClientConfig>) -> Vec<u8> {
    let mut connection = ClientConnection::new(config.clone(), name(client).try_into().unwrap()).unwrap();
    let mut hello = Vec::new();
    connection.write_tls(&mut hello).unwrap();
    hello
}

/// What the thread did until all of these clients, each with its address, had an answer to a hello that had come
/// before it began, while another client asks.
fn flood(clients: &[(u8, u8)]) -> Vec<Did> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (turns, done) = (Arc::new(RequestTurns::default()), Done::default());
        let (server, client) = configs(&done);
        let begun = turns.clone();
        tokio::spawn(async move { begun.begin_all().await });
        tokio::spawn(ask(turns.clone(), done.clone()));
        let mut flood: Vec<DuplexStream> = Vec::new();
        for (number, address) in clients {
            let (mut wire, stream) = tokio::io::duplex(64 << 10);
            wire.write_all(&hello(*number, &client)).await.unwrap();
            flood.push(wire);
            let stream = Ciphertext::new(stream, turns.clone(), mark(&turns, *address));
            tokio::spawn(TlsAcceptor::from(server.clone()).accept(stream));
        }
        for wire in &mut flood {
            wire.read_u8().await.unwrap();
        }
        let done = done.lock().unwrap();
        done.clone()
    })
}

fn handshakes(done: &[Did]) -> Vec<u8> {
    let client = |did: &Did| if let Did::Handshake(client) = did { Some(*client) } else { None };
    done.iter().filter_map(client).collect()
}

#[test]
fn few_of_many_hellos_are_answered_between_two_requests() {
    let clients: Vec<(u8, u8)> = (0..200).map(|client| (client, client)).collect();
    let done = flood(&clients);
    assert_eq!(handshakes(&done).len(), clients.len());
    let most = done.split(|did| *did == Did::Request).map(<[Did]>::len).max().unwrap();
    assert!(most <= 4, "{most} handshakes between two requests: those of two turns are most");
}

#[test]
fn a_client_waits_for_one_hello_of_each_other_address() {
    let mut clients: Vec<(u8, u8)> = (0..200).map(|client| (client, 7)).collect();
    clients.push((200, 8));
    let answered = handshakes(&flood(&clients));
    let before = answered.iter().position(|client| *client == 200).unwrap();
    assert!(before <= 4, "{before} hellos of the address that floods were answered before");
}

#[test]
fn a_hello_in_pieces_pays_for_each_and_what_follows_is_as_it_was_sent() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (turns, done) = (Arc::new(RequestTurns::default()), Done::default());
        let (server, client) = configs(&done);
        let begun = turns.clone();
        tokio::spawn(async move { begun.begin_all().await });
        // Room for so few bytes that each hello comes in pieces.
        let (wire, stream) = tokio::io::duplex(100);
        let served = tokio::spawn(async move {
            let stream = Ciphertext::new(stream, turns.clone(), mark(&turns, 1));
            let mut stream = TlsAcceptor::from(server).accept(stream).await.unwrap();
            stream.get_mut().0.shaken();
            let mut asked = vec![0; 1 << 20];
            stream.read_exact(&mut asked).await.unwrap();
            stream.write_all(&asked).await.unwrap();
            stream.flush().await.unwrap();
            assert!(stream.into_inner().0.into_inner().is_some());
        });
        let stream = TlsConnector::from(client).connect(name(3).try_into().unwrap(), wire).await.unwrap();
        let (mut from, mut to) = tokio::io::split(stream);
        let asked: Vec<u8> = (0..1 << 20).map(|n: u32| n as u8).collect();
        let expected = asked.clone();
        tokio::spawn(async move {
            to.write_all(&asked).await.unwrap();
            to.flush().await.unwrap();
        });
        let mut answer = vec![0; 1 << 20];
        from.read_exact(&mut answer).await.unwrap();
        assert!(answer == expected);
        served.await.unwrap();
    });
}

/// Requests of another that are answered while a client's records of `record_bytes` are read, a mebibyte in all.
fn requests_beside_records(record_bytes: usize) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (turns, done) = (Arc::new(RequestTurns::default()), Done::default());
        let begun = turns.clone();
        tokio::spawn(async move { begun.begin_all().await });
        tokio::spawn(ask(turns.clone(), done.clone()));
        let record = [&[23, 3, 3][..], &(record_bytes as u16).to_be_bytes(), &vec![0; record_bytes]].concat();
        // All of it has come, so nothing waits but for its turn.
        let sent = record.repeat((1 << 20) / record.len());
        let mut stream = Ciphertext::new(&sent[..], turns.clone(), mark(&turns, 2));
        stream.shaken();
        let mut part = [0; 4 << 10];
        while stream.read(&mut part).await.unwrap() > 0 {}
        let done = done.lock().unwrap();
        done.len()
    })
}

#[test]
fn records_are_worth_what_they_cost_to_open_whatever_is_in_them() {
    let (full, empty) = (requests_beside_records(16 << 10), requests_beside_records(17));
    assert!(full > 0 && empty >= 10 * full, "{full} beside full records, {empty} beside empty ones");
}

#[test]
fn records_are_found_in_whatever_pieces_they_come() {
    let wire = [&[22, 3, 1, 0, 3, 9, 9, 9][..], &[23, 3, 3, 0, 0], &[23, 3, 3, 1, 0], &[7; 256], &[23, 3, 3]].concat();
    for piece in [1, 2, 3, 7, 100, 1_000] {
        let mut records = Records::default();
        let begun: u64 = wire.chunks(piece).map(|piece| records.count(piece)).sum();
        assert_eq!((begun, records.left, records.header.len()), (3, 0, 3), "in pieces of {piece}");
    }
}
