//! An address that begins too many TLS handshakes: at every door that speaks TLS, and behind a load balancer.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use crate::crowds::connect_from;
use crate::http::Http;
use crate::tls::{client_config, self_signed};
use crate::{SERVICE, Server, Settings, folder, wait_for};

const BURST: usize = 8;
/// More than a burst, and what a slow machine is given while it shakes hands.
const ATTEMPTS: usize = 400;

/// A server with TLS at all doors, and what its clients trust.
fn server(folder: &std::path::Path, more: &str) -> (Server, Arc<rustls::ClientConfig>) {
    let (tls, certificate) = self_signed(folder);
    let sections = format!("{tls}http = true\nbinary = true\n\n[listener.mqtts]\nanonymous = true\n{more}");
    let limits = format!("tls_handshakes_per_address_per_s = 1\ntls_handshakes_per_address_burst = {BURST}");
    let settings = Settings { sections, limits, mqtt: true, mqtts: "127.0.0.1:0".to_owned(), ..Settings::new(folder) };
    (Server::start(&settings), client_config([certificate]))
}

/// A handshake over a socket on which `first` stands before it. Whether the server took part.
fn shakes(mut socket: TcpStream, first: &[u8], config: &Arc<rustls::ClientConfig>) -> bool {
    let name = ServerName::try_from("localhost").expect("a name");
    let mut session = ClientConnection::new(config.clone(), name).expect("the configuration is right");
    let begun = socket.write_all(first).and_then(|()| session.complete_io(&mut socket));
    assert!(begun.is_err() || !session.is_handshaking());
    begun.is_ok()
}

/// How many handshakes the doors take in turn until one is refused, and what they may take at most.
fn taken(mut shake: impl FnMut(usize) -> bool) -> (usize, usize) {
    let began = Instant::now();
    let taken = (0..ATTEMPTS).take_while(|n| shake(*n)).count();
    (taken, BURST + 1 + began.elapsed().as_secs() as usize)
}

fn refused(server: &Server, config: &Arc<rustls::ClientConfig>, door: &str) -> u64 {
    let socket = connect_from([127, 0, 0, 9], server.http).expect("the door listens");
    let name = ServerName::try_from("localhost").expect("a name");
    let session = ClientConnection::new(config.clone(), name).expect("the configuration is right");
    let mut http = Http::over(rustls::StreamOwned::new(session, socket), SERVICE);
    let text = http.get("/metrics").expect("the door answers").body.as_str().expect("a text").to_owned();
    let start = format!("tidegate_tls_handshakes_refused_total{{door=\"{door}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&start)).and_then(|count| count.parse().ok()).expect("it is counted")
}

#[test]
fn an_address_that_begins_too_many_handshakes_is_refused_at_every_door_and_others_are_not() {
    let folder = folder();
    let (server, config) = server(folder.path(), "");
    let doors: [(&str, SocketAddr); 3] = [("http", server.http), ("binary", server.binary), ("mqtts", server.mqtts())];
    let shake = |address, door| shakes(connect_from(address, door).expect("the door listens"), b"", &config);
    // The doors count together.
    let (begun, most) = taken(|n| shake([127, 0, 0, 1], doors[n % doors.len()].1));
    assert!((BURST..=most).contains(&begun), "{begun} of {most}");
    for (name, door) in doors {
        let (begun, most) = taken(|_| shake([127, 0, 0, 1], door));
        assert!(begun < BURST && begun < most, "{name} took {begun}");
        assert!(shake([127, 0, 0, 2], door), "{name} takes those of another address");
        assert!(refused(&server, &config, name) >= 1, "{name}");
    }
    // One that speaks no TLS is told so by an alert, and the operator by a line.
    for (name, door) in &doors[1..] {
        let mut other = connect_from([127, 0, 0, 4], *door).expect("the door listens");
        other.write_all(b"this is no TLS at all").expect("the server reads");
        let line = format!("TLS handshake failed address=127.0.0.4 door=\"{name}\"");
        wait_for("the security log says so", || server.log().contains(&line).then_some(()));
    }
    // Whoever says nothing has begun none.
    let silent: Vec<_> =
        (0..2 * BURST).map(|_| connect_from([127, 0, 0, 3], server.mqtts()).expect("it listens")).collect();
    assert!(shake([127, 0, 0, 3], server.mqtts()), "{} silent connections cost nothing", silent.len());
    wait_for("the security log says so", || {
        let log = server.log();
        let said = |door: &str| log.contains(&format!("TLS handshake refused address=127.0.0.1 door=\"{door}\""));
        doors.iter().all(|(name, _)| said(name)).then_some(())
    });
    server.kill();
}

#[test]
fn behind_a_load_balancer_each_client_has_its_own() {
    let folder = folder();
    let balancer = "[proxy]\ntrusted = [\"127.0.0.1\"]\nhttp = \"v1\"\nbinary = \"v1\"\nmqtts = \"v1\"\n";
    let (server, config) = server(folder.path(), balancer);
    for (n, door) in [server.http, server.binary, server.mqtts()].into_iter().enumerate() {
        let shake = |client: &str| {
            let header = format!("PROXY TCP4 {client} 198.51.100.1 40000 443\r\n");
            shakes(TcpStream::connect(door).expect("the door listens"), header.as_bytes(), &config)
        };
        let (begun, most) = taken(|_| shake(&format!("192.0.2.{n}")));
        assert!((BURST..=most).contains(&begun), "door {n}: {begun} of {most}");
        // As many clients as one may begin handshakes, and more.
        assert!((0..2 * BURST).all(|client| shake(&format!("203.0.113.{}", 20 * n + client))), "door {n}");
    }
    server.kill();
}
