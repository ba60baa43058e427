//! A session over a real socket.

use std::io::Read;
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::admission::{ConnectionLimits, Connections};
use crate::turns::{CallerName, Turns};

fn session_over(stream: Stream<mio::net::TcpStream>) -> Session {
    let caller = Turns::<CallerName, usize>::default().join(CallerName::Viewer("dave".into()));
    let limits = ConnectionLimits { connections_max: 1, connections_per_address_max: 0 };
    let entered = Connections::new(limits).enter([127, 0, 0, 1].into());
    Session::new(stream, entered.unwrap_or_else(|_| panic!("it is the first")), caller, 0)
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
            if session.flush(&mut scratch).unwrap() == 0 {
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
    let config = std::sync::Arc::new(server);
    let stream = Stream::accept(mio::net::TcpStream::from_std(accepted), Some(&config)).unwrap();
    let name = "localhost".to_owned().try_into().unwrap();
    let connection = rustls::ClientConnection::new(std::sync::Arc::new(client), name).unwrap();
    let mut client = rustls::StreamOwned::new(connection, tcp);
    let (mut session, mut scratch) = (session_over(stream), Scratch::new());
    std::thread::scope(|scope| {
        let shaken = scope.spawn(|| client.conn.complete_io(&mut client.sock));
        while !shaken.is_finished() {
            session.read(&mut scratch, 0).unwrap();
        }
        shaken.join().unwrap().unwrap();
    });
    session.read(&mut scratch, 0).unwrap();
    (session, client, scratch)
}

#[test]
fn what_tls_holds_back_is_owed_until_the_client_has_it_and_then_it_is_told_the_end() {
    const PAGE: usize = 16 << 10;
    let (mut session, mut client, mut scratch) = tls_session();
    let mut total = 0;
    while session.takes != Takes::Later {
        session.outbox().extend_from_slice(&[7; PAGE]);
        session.flush(&mut scratch).unwrap();
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
        session.flush(&mut scratch).unwrap();
    }
    session.close(&poll, &mut scratch);
    drop(session);
    assert_eq!(reader.join().unwrap().unwrap(), total);
}

#[test]
fn who_takes_nothing_under_tls_is_forgotten() {
    let (mut session, _client, mut scratch) = tls_session();
    session.drain(0);
    while session.takes != Takes::Later {
        session.outbox().extend_from_slice(&[7; 1 << 20]);
        session.flush(&mut scratch).unwrap();
    }
    session.forget_outbox();
    session.flush(&mut scratch).unwrap();
    assert!(session.is_over());
}
