//! What falls due while the server is down: delayed messages, and the wills of clients that were connected when it was
//! killed. Sessions of all workers get it, although a worker that starts knows its own subscriptions first.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::client::{Connection, Packet};
use crate::subscriber::Subscriber;
use crate::support::server::Server;
use crate::support::settings::Settings;
use crate::{number, support};

/// Sessions, so that each worker has some.
const SESSIONS: usize = 8;
/// Delayed messages of a life, of each QoS.
const DELAYED: u64 = 30;
/// Clients with a will in a life.
const WILLS: u64 = 6;
const SECOND: Duration = Duration::from_millis(1_100);

#[test]
fn what_falls_due_while_the_server_is_down_reaches_the_sessions_of_all_workers() {
    let kills = number("TIDEGATE_KILLS").map_or(4, |kills| kills.min(20));
    let folder = support::folder();
    let settings = Settings { workers: 4, mqtt: true, ..Settings::new(folder.path()) };
    let mut server = Server::start(&settings);
    let mut sessions: Vec<Subscriber> =
        (0..SESSIONS).map(|nth| Subscriber::new(&format!("session-{nth}"), "due/#", 2)).collect();
    sessions.iter_mut().for_each(|session| session.subscribe(server.mqtt()));
    let mut next = 0;
    let mut promised: BTreeSet<(String, u64)> = BTreeSet::new();
    for kill in 0..kills {
        let (mut publisher, _) = Connection::open(server.mqtt(), "publisher").expect("the server serves");
        for nth in 0..2 * DELAYED {
            let (qos, id) = (1 + (nth % 2) as u8, nth as u16 + 1);
            let (topic, payload) = (format!("due/{}/{qos}", nth % 5), next.to_string());
            let delayed = format!("$delayed/1/{topic}");
            publisher.publish(&delayed, payload.as_bytes(), qos, id, false).expect("the server serves");
            match publisher.receive().expect("the server serves") {
                Packet::PubAck(_) => {}
                Packet::PubRec(_) => {
                    publisher.acknowledge(0x62, id).expect("the server serves");
                    assert_eq!(publisher.receive().expect("the server serves"), Packet::PubComp(id));
                }
                other => panic!("{other:?}"),
            }
            promised.insert((topic, next));
            next += 1;
        }
        let wills: Vec<Connection> = (0..WILLS)
            .map(|nth| {
                let (topic, number) = (format!("due/will/{nth}"), next);
                promised.insert((topic.clone(), number));
                next += 1;
                let (client_id, payload) = (format!("will-{kill}-{nth}"), number.to_string());
                let opened = Connection::open_with(server.mqtt(), &client_id, Some((&topic, payload.as_bytes())));
                opened.expect("the server serves").0
            })
            .collect();
        server.kill();
        drop(wills);
        std::thread::sleep(SECOND);
        server = Server::start(&settings);
    }
    for session in &mut sessions {
        session.drain(server.mqtt(), |session| promised.iter().all(|promise| has_heard(session, promise)));
        for ((topic, heard), qos_2) in session.heard.iter().map(|heard| (heard, heard.0.ends_with("/2"))) {
            let once: BTreeSet<u64> = heard.iter().copied().collect();
            let is_will = topic.starts_with("due/will");
            assert!(is_will || !qos_2 || once.len() == heard.len(), "{}: {topic} came twice", session.name());
        }
    }
    assert!(server.terminate().status.success());
}

fn has_heard(session: &Subscriber, (topic, number): &(String, u64)) -> bool {
    session.heard.get(topic).is_some_and(|heard| heard.contains(number))
}
