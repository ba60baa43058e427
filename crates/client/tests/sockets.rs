//! Over real sockets, plain and TLS: a server that answers in its own order, stays silent, or goes away.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tidegate_client::{Client, ClientError, Outcome, Reply, Timeouts, Transfer};
use tidegate_wire::proto::{Pong, Welcome, reply_frame::Body};
use tidegate_wire::{BodyRef, OutcomesEncoder, Split, decode_request, encode_reply, limits, split};

/// Serves one connection: each request's transfers are applied, but replies are held back until a ping comes, and then
/// sent in the opposite order. Returns how many transfers came.
fn serve(mut stream: impl Read + Write) -> u64 {
    let (mut buffer, mut replies, mut transfers) = (Vec::new(), Vec::<Vec<u8>>::new(), 0);
    loop {
        while let Split::Frame(range) = split(&buffer, limits::FRAME_BYTES_MAX).unwrap() {
            let end = range.end;
            let request = decode_request(&buffer[range]).unwrap();
            let mut reply = Vec::new();
            match request.body {
                BodyRef::Hello { token } => {
                    assert_eq!(token, "secret");
                    let (frame_bytes_max, transfers_max) = (limits::FRAME_BYTES_MAX as u32, 8_190);
                    let server = String::new();
                    let welcome = Welcome { frame_bytes_max, transfers_max, in_flight_max: 100, server };
                    encode_reply(&mut reply, request.correlation, Body::Welcome(welcome));
                    stream.write_all(&reply).unwrap();
                }
                BodyRef::Transfers(batch) => {
                    let mut count = 0;
                    batch.read(|_| count += 1).unwrap();
                    transfers += count as u64;
                    let mut frame = OutcomesEncoder::begin(&mut reply, request.correlation, count);
                    (0..count).for_each(|_| frame.applied());
                    frame.finish();
                    replies.push(reply);
                }
                BodyRef::Ping => {
                    encode_reply(&mut reply, request.correlation, Body::Pong(Pong {}));
                    replies.push(reply);
                    replies.drain(..).rev().for_each(|reply| stream.write_all(&reply).unwrap());
                }
                other => panic!("{other:?}"),
            }
            stream.flush().unwrap();
            buffer.drain(..end);
        }
        let mut piece = [0; 4_096];
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return transfers,
            Ok(count) => buffer.extend_from_slice(&piece[..count]),
        }
    }
}

/// A listener whose first connection `serve` gets.
fn listen<T: Send + 'static>(serve: impl FnOnce(TcpStream) -> T + Send + 'static) -> (SocketAddr, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (address, thread::spawn(move || serve(listener.accept().unwrap().0)))
}

/// Ten requests in flight, then a ping that lets the replies come, last first.
fn pipeline(client: &mut Client<impl Read + Write>) {
    let ids: Vec<String> = (0..2_000).map(|n| format!("transfer-{n}")).collect();
    let transfers: Vec<_> = ids
        .iter()
        .map(|id| Transfer {
            id,
            debit: "wallet:a",
            credit: "candidate:1",
            amount: 1,
            memo: "",
            code: 0,
            user_data: "",
        })
        .collect();
    let sent: Vec<u64> = (1..=10).map(|n| client.send_transfers(&transfers[..n * 200], false).unwrap()).collect();
    client.ping().unwrap();
    assert_eq!(client.in_flight(), 10);
    let mut received = vec![];
    while client.in_flight() > 0 {
        let (correlation, reply) = client.receive().unwrap();
        let index = sent.iter().position(|of| *of == correlation).unwrap();
        assert_eq!(reply, Reply::Outcomes(vec![Outcome::Applied; (index + 1) * 200]));
        received.push(correlation);
    }
    assert!(received.iter().rev().eq(&sent), "{received:?}");
}

#[test]
fn replies_in_another_order_find_their_requests() {
    let (address, server) = listen(serve);
    let mut client = Client::connect(address, "secret").unwrap();
    pipeline(&mut client);
    drop(client);
    assert_eq!(server.join().unwrap(), 200 * 55);
}

#[test]
fn silence_ends_in_a_time_out_and_not_in_a_hang() {
    let (address, server) = listen(serve);
    let timeouts = Timeouts { read: Duration::from_millis(50), ..Timeouts::default() };
    let mut client = Client::connect_within(address, "secret", timeouts).unwrap();
    let vote = Transfer { id: "v", debit: "a", credit: "b", amount: 1, memo: "", code: 0, user_data: "" };
    assert!(matches!(client.transfer(&vote), Err(ClientError::TimedOut)));
    // Not lost: the reply comes with the next ping's.
    client.ping().unwrap();
    assert!(matches!(client.receive(), Ok((_, Reply::Outcomes(outcomes))) if outcomes == [Outcome::Applied]));
    drop(client);
    assert_eq!(server.join().unwrap(), 1);
}

#[test]
fn a_server_that_goes_away_leaves_outcomes_unknown() {
    // Reads the Hello, says nothing and closes.
    let (address, server) = listen(|mut stream| drop(stream.read(&mut [0; 100])));
    let error = Client::connect(address, "secret").err().unwrap();
    assert!(matches!(error, ClientError::Closed { in_flight: 1 }), "{error}");
    server.join().unwrap();
}

#[cfg(feature = "tls")]
#[test]
fn the_same_over_tls_and_only_with_a_trusted_certificate() {
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use std::sync::Arc;

    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["tidegate.test".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let server_config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .map(Arc::new)
        .unwrap();
    let over_tls = move |config: Arc<rustls::ServerConfig>| {
        move |stream: TcpStream| {
            let session = rustls::ServerConnection::new(config).unwrap();
            serve(rustls::StreamOwned::new(session, stream))
        }
    };
    let client_config = |trusted: bool| {
        let mut roots = rustls::RootCertStore::empty();
        if trusted {
            roots.add(cert.der().clone()).unwrap();
        }
        Arc::new(rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
    };
    let name = || ServerName::try_from("tidegate.test").unwrap();

    let (address, server) = listen(over_tls(Arc::clone(&server_config)));
    let mut client = Client::connect_tls(address, name(), client_config(true), "secret", Timeouts::default()).unwrap();
    pipeline(&mut client);
    drop(client);
    assert_eq!(server.join().unwrap(), 200 * 55);

    let (address, server) = listen(over_tls(server_config));
    let refused = Client::connect_tls(address, name(), client_config(false), "secret", Timeouts::default());
    assert!(matches!(refused, Err(ClientError::Io(error)) if error.to_string().contains("certificate")));
    assert_eq!(server.join().unwrap(), 0);
}
