//! A session over a real socket.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::admission::{ConnectionLimits, Connections};
use crate::handshakes::{HandshakeLimits, HandshakeMetrics, Handshakes};
use crate::proxy::TrustedProxies;
use crate::stream::DoorTls;
use crate::turns::{CallerName, Turns};

fn session_over(stream: Stream<mio::net::TcpStream>) -> Session {
    let caller = Turns::<CallerName, usize>::default().join(CallerName::Viewer("dave".into()));
    let limits = ConnectionLimits { connections_max: 1, connections_per_address_max: 0 };
    let mut connections = Connections::new(1, limits.addresses());
    let let_in = connections.enter([127, 0, 0, 1].into(), ()).expect("it is the first");
    Session::new(stream, let_in.entered, caller, 0)
}

#[test]
fn who_reads_steadily_but_never_all_costs_one_outbox() {
    const PAGE: usize = 100 << 10;
    const READ: usize = 256 << 10;
    /// Bytes that pass through an outbox that is never empty.
    const TOTAL: usize = 64 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    accepted.set_nonblocking(true).unwrap();
    let mut session = session_over(Stream::accept(mio::net::TcpStream::from_std(accepted), None).unwrap());
    let mut scratch = Scratch::new();

    let mut read = 0;
    let mut some = vec![0; READ];
    while read < TOTAL {
        // Pages come as long as the door lets the client ask; then the socket takes what it has room for.
        loop {
            while session.may_ask() {
                session.outbox().extend_from_slice(&[7; PAGE]);
            }
            if session.flush(&mut scratch, 0).unwrap() == 0 {
                break;
            }
        }
        assert!(session.has_unsent(), "the client never reads all");
        let kept = session.outbox.capacity();
        assert!(kept <= 4 * OUTBOX_BYTES_MAX, "after {read} bytes the outbox keeps {kept}");
        client.read_exact(&mut some).unwrap();
        assert!(some.iter().all(|byte| *byte == 7));
        read += READ;
    }
}

fn plain_session() -> (Session, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    accepted.set_nonblocking(true).unwrap();
    (session_over(Stream::accept(mio::net::TcpStream::from_std(accepted), None).unwrap()), client)
}

/// A server's side of a TLS connection whose client reads nothing but its handshake.
fn tls_session() -> (Session, rustls::StreamOwned<rustls::ClientConnection, TcpStream>, Scratch) {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der());
    let server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key.into())
        .unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(signed.cert.der().clone()).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    accepted.set_nonblocking(true).unwrap();
    let counts = tidegate_telemetry::Registry::of(&[HandshakeMetrics::ROWS]);
    let gate = Handshakes::new(HandshakeLimits::default(), &counts).at("binary", TrustedProxies::default());
    let tls = DoorTls { config: std::sync::Arc::new(server), gate };
    let peer = accepted.peer_addr().unwrap().ip();
    let stream = Stream::accept(mio::net::TcpStream::from_std(accepted), Some((&tls, peer))).unwrap();
    let name = "localhost".to_owned().try_into().unwrap();
    let connection = rustls::ClientConnection::new(std::sync::Arc::new(client), name).unwrap();
    let mut client = rustls::StreamOwned::new(connection, tcp);
    let (mut session, mut scratch) = (session_over(stream), Scratch::new());
    let mut cost = 0;
    std::thread::scope(|scope| {
        let shaken = scope.spawn(|| client.conn.complete_io(&mut client.sock));
        while !shaken.is_finished() {
            session.read(&mut scratch, &mut cost).unwrap();
        }
        shaken.join().unwrap().unwrap();
    });
    session.read(&mut scratch, &mut 0).unwrap();
    assert!(cost >= 1 << 20, "a handshake cost {cost}");
    (session, client, scratch)
}

#[test]
fn what_tls_holds_back_is_owed_until_the_client_has_it_and_then_it_is_told_the_end() {
    const PAGE: usize = 16 << 10;
    let (mut session, mut client, mut scratch) = tls_session();
    let mut total = 0;
    while session.takes != Takes::Later {
        session.outbox().extend_from_slice(&[7; PAGE]);
        session.flush(&mut scratch, 0).unwrap();
        total += PAGE;
    }
    assert!(session.outbox.is_empty(), "all is sealed, and not all is sent");
    session.drain(0);
    assert!(!session.is_over());
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        // Without a word of TLS at the end, rustls calls the end a truncation.
        client.read_to_end(&mut all).map(|_| all.len())
    });
    let registry = mio::Poll::new().unwrap();
    let poll = PortSockets::new(registry.registry(), 0).unwrap();
    session.register(&poll, 0).unwrap();
    while !session.is_over() {
        session.flush(&mut scratch, 0).unwrap();
    }
    session.drain(0);
    session.part(&mut scratch, 0, false);
    session.go_on_parting(&mut scratch, &mut 1);
    session.leave_poll(&poll);
    drop(session);
    assert_eq!(reader.join().unwrap().unwrap(), total);
}

#[test]
fn who_takes_nothing_under_tls_is_forgotten() {
    let (mut session, _client, mut scratch) = tls_session();
    session.drain(0);
    while session.takes != Takes::Later {
        session.outbox().extend_from_slice(&[7; 1 << 20]);
        session.flush(&mut scratch, 0).unwrap();
    }
    session.forget_outbox();
    session.flush(&mut scratch, 0).unwrap();
    assert!(session.is_over());
}

#[test]
fn records_and_handshakes_count_for_what_they_cost() {
    let (mut session, mut client, mut scratch) = tls_session();
    let writer = std::thread::spawn(move || {
        // Each byte is a record.
        for _ in 0..20_000 {
            client.write_all(b"x").unwrap();
        }
        client
    });
    let (mut total, mut reads) = (0, 0);
    while total < 20_000 {
        let mut cost = 0;
        let read = session.read(&mut scratch, &mut cost).unwrap();
        assert!(cost >= 1_000 * read, "{read} records cost {cost}");
        assert!(read <= 4_000, "{read} records are not read at once");
        (total, reads) = (total + read, reads + usize::from(read > 0));
    }
    assert!(reads >= 5);
    writer.join().unwrap();
}

#[test]
fn a_half_frame_has_a_deadline_from_its_first_byte_on() {
    let (mut session, mut client) = plain_session();
    let (mut scratch, shop) =
        (Scratch::new(), Identity::new("shop", crate::auth::Rights::Service { grants: Vec::new() }));
    (session.life, session.deadline_ms) = (Life::Serving(shop), None);
    assert_eq!(session.next_frame(5), Ok(None));
    assert!(!session.is_overdue(u64::MAX), "an idle client may be idle");
    // A frame of a hundred bytes, one each ten seconds.
    for (now_ms, byte) in (10_000..).step_by(10_000).zip([100, 1, 2, 3]) {
        client.write_all(&[byte]).unwrap();
        session.readable = true;
        while session.read(&mut scratch, &mut 0).unwrap() == 0 {
            session.readable = true;
        }
        assert_eq!(session.next_frame(now_ms), Ok(None));
        assert_eq!(session.is_overdue(now_ms + 1), now_ms + 1 > 10_000 + FRAME_TIMEOUT_MS, "at {now_ms}");
    }
}

#[test]
fn who_takes_nothing_of_what_it_is_owed_is_overdue() {
    let (mut session, mut client) = plain_session();
    let mut scratch = Scratch::new();
    session.deadline_ms = None;
    while session.takes != Takes::Later {
        session.outbox().extend_from_slice(&[7; 1 << 20]);
        session.flush(&mut scratch, 1_000).unwrap();
    }
    assert!(!session.is_overdue(1_000 + READER_TIMEOUT_MS));
    assert!(session.is_overdue(1_001 + READER_TIMEOUT_MS));
    // Something is taken: it has its time again.
    let mut some = vec![0; 4 << 20];
    client.read_exact(&mut some[..1 << 20]).unwrap();
    while session.flush(&mut scratch, 20_000).unwrap() == 0 {}
    assert!(!session.is_overdue(20_000 + READER_TIMEOUT_MS));
}

#[test]
fn replies_under_way_count_as_unsent() {
    let (mut session, _client) = plain_session();
    assert!(session.may_ask());
    session.owed = OUTBOX_BYTES_MAX;
    assert!(!session.may_ask());
}
