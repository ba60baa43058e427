//! More connections than a door takes, from several addresses, that show no token.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;
use tidegate_client::Client;

use crate::http::Http;
use crate::proxied::{connack, hello};
use crate::votes::connect;
use crate::{PATIENCE, SERVICE, Server, Settings, folder, wait_for};

/// Connections that each door takes.
const PLACES: usize = 64;
/// Connections that come and show nothing.
const CROWD: usize = 4 * PLACES;
/// Addresses that they come from.
const ADDRESSES: usize = 2;

/// Connects from this address, which is one of this host's.
pub fn connect_from(address: [u8; 4], door: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((address, 0)).into())?;
    socket.connect(&door.into())?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket.into())
}

fn crowd(door: SocketAddr, says: &[u8]) -> Vec<TcpStream> {
    let come = |n: usize| {
        let mut stream = connect_from([127, 66, 3, (n % ADDRESSES) as u8 + 1], door).expect("the door listens");
        // The server may have ended it already.
        let _ = stream.write_all(says);
        stream
    };
    (0..CROWD).map(come).collect()
}

#[test]
fn crowds_that_show_nothing_keep_nobody_out_of_any_door() {
    let folder = folder();
    let limits = format!("http_connections_max = {PLACES}\nbinary_connections_max = {PLACES}");
    let server = Server::start(&Settings { limits, ..Settings::new(folder.path()) });
    let mut old_web = Http::connect(server.http).expect("the door is open");
    assert_eq!(old_web.get("/healthz").expect("an answer").status, 200);
    let mut old = connect(&server);
    let _crowds = [crowd(server.http, b"GET / HT"), crowd(server.binary, b"")];

    // Neither door lets go of the crowd by itself so soon: of half heads after 30 s, of silent ones after 5 s.
    for n in 1..=10 {
        let stream = connect_from([127, 9, 1, n], server.http).expect("the door listens");
        let answer = Http::over(stream, "").get("/healthz").expect("an answer");
        assert_eq!(answer.status, 200, "newcomer {n}, who shows nothing: {answer:?}");
        let stream = connect_from([127, 9, 2, n], server.http).expect("the door listens");
        assert_eq!(Http::over(stream, SERVICE).get("/v1/accounts").expect("an answer").status, 200, "service {n}");
        let stream = connect_from([127, 9, 3, n], server.binary).expect("the door listens");
        let mut client = Client::over(stream, SERVICE).unwrap_or_else(|error| panic!("service {n}: {error:?}"));
        client.ping().expect("it is served");
    }
    assert_eq!(old_web.get("/healthz").expect("who has shown a token stays").status, 200);
    old.ping().expect("who has shown a token stays");

    let metrics = wait_for("the binary port has counted", || {
        let Value::String(metrics) = old_web.get("/metrics").expect("an answer").body else { panic!("no text") };
        metrics.contains("reason=\"gave_way\"").then_some(metrics)
    });
    let gave_way = |line: &&str| line.starts_with("tidegate_http_connections_gave_way_total ");
    let line = metrics.lines().find(gave_way).expect("it is counted");
    let count: usize = line.rsplit(' ').next().expect("a value").parse().expect("a number");
    assert!(count >= CROWD - PLACES, "{line}");
    assert!(server.terminate().status.success());
}

/// Neither whole nor wrong.
const HALF_CONNECT: &[u8] = b"\x10\x20\0\x04MQ";

#[test]
fn crowds_that_send_no_connect_keep_no_client_out_of_mqtt() {
    let folder = folder();
    // The door lets go of none of them by itself.
    let sections = format!("[mqtt]\nconnections_max = {PLACES}\nhandshake_timeout_ms = 300000\n");
    let server = Server::start(&Settings { mqtt: true, sections, ..Settings::new(folder.path()) });
    let come = |address: [u8; 4], id: &str| {
        let mut client = connect_from(address, server.mqtt()).expect("the door listens");
        client.write_all(&hello(id, None)).expect("the server reads");
        assert_eq!(connack(&mut client), Some(0), "{id}");
        client
    };
    let mut old = come([127, 0, 0, 1], "old");
    let _crowds = [crowd(server.mqtt(), HALF_CONNECT), crowd(server.mqtt(), b"")];
    let _new: Vec<TcpStream> = (1..=10).map(|n| come([127, 9, 1, n], &format!("client {n}"))).collect();
    old.write_all(&[0xc0, 0]).expect("who has connected stays");
    let mut pong = [0; 2];
    old.read_exact(&mut pong).expect("it is answered");
    assert_eq!(pong, [0xd0, 0]);
    let mut http = Http::connect(server.http).expect("the door is open");
    wait_for("so many gave way", || {
        let Value::String(metrics) = http.get("/metrics").expect("an answer").body else { panic!("no text") };
        let counts = metrics.lines().filter(|line| line.starts_with("tidegate_mqtt_turned_away_total"));
        let counts = counts.filter(|line| line.contains("gave_way")).filter_map(|line| line.rsplit(' ').next());
        let gave_way = counts.map(|count| count.parse::<usize>().expect("a number")).sum::<usize>();
        (gave_way >= 2 * CROWD - PLACES).then_some(())
    });
    wait_for("the security log says so", || {
        server.log().contains("connection gave way address=127.66.3").then_some(())
    });
    assert!(server.terminate().status.success());
}
