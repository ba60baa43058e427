//! Queues over MQTT with rumqttc, on several workers and shards: what was acknowledged survives `kill -9`, receivers
//! share a backlog, and who goes away gives back.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{Publish, PublishProperties};
use rumqttc::v5::{Client, Event, Incoming, MqttOptions};

use super::*;
use crate::PATIENCE;

/// The token of the test's service, which may do everything.
const TOKEN: &str = "test-service-token";

/// What a connection tells.
enum Told {
    Connected,
    Subscribed,
    Acknowledged,
    Message(Box<Publish>),
    Ended,
}

/// A client that acknowledges what it is told to.
struct Mqtt {
    client: Client,
    told: Receiver<Told>,
}

impl Mqtt {
    fn join(server: &Server, name: &str, receive_maximum: u16) -> Mqtt {
        Mqtt::join_as(server, name, receive_maximum, Some(TOKEN))
    }

    /// With this token, or without a name.
    fn join_as(server: &Server, name: &str, receive_maximum: u16, token: Option<&str>) -> Mqtt {
        let mut options = MqttOptions::new(name, "127.0.0.1", server.mqtt().port());
        token.inspect(|token| _ = options.set_credentials("test", *token));
        options.set_manual_acks(true);
        options.set_receive_maximum(Some(receive_maximum));
        options.set_keep_alive(Duration::from_secs(60));
        let (client, mut connection) = Client::new(options, 1_000);
        let (tell, told) = channel();
        std::thread::spawn(move || {
            for event in connection.iter() {
                let news = match event {
                    Ok(Event::Incoming(Incoming::ConnAck(_))) => Told::Connected,
                    Ok(Event::Incoming(Incoming::SubAck(_))) => Told::Subscribed,
                    Ok(Event::Incoming(Incoming::PubAck(_) | Incoming::PubComp(_))) => Told::Acknowledged,
                    Ok(Event::Incoming(Incoming::Publish(publish))) => Told::Message(Box::new(publish)),
                    Ok(_) => continue,
                    Err(_) => {
                        let _nobody_listens = tell.send(Told::Ended);
                        return;
                    }
                };
                if tell.send(news).is_err() {
                    return;
                }
            }
        });
        let joined = Mqtt { client, told };
        assert!(matches!(joined.next(), Told::Connected), "{name} is let in");
        joined
    }

    fn next(&self) -> Told {
        self.told.recv_timeout(PATIENCE).expect("the connection tells something")
    }

    fn subscribe(&self, queue: &str) {
        self.client.subscribe(format!("$queue-out/{queue}"), QoS::AtLeastOnce).expect("the client lives");
        assert!(matches!(self.next(), Told::Subscribed), "nothing comes before SUBACK");
    }

    /// Messages that come, so many.
    fn messages(&self, count: usize) -> Vec<Publish> {
        let message = || match self.next() {
            Told::Message(publish) => *publish,
            _ => panic!("a message is to come"),
        };
        std::iter::repeat_with(message).take(count).collect()
    }
}

fn body(publish: &Publish) -> String {
    String::from_utf8(publish.payload.to_vec()).expect("a text")
}

#[test]
fn acknowledged_sends_survive_a_kill_and_receivers_share_them() {
    let folder = folder();
    let settings = Settings { mqtt: true, workers: 2, ..settings(folder.path(), "shards = 2\n") };
    let server = Server::start(&settings);
    let mut http = connect(&server);
    // Of both shards, so that a worker asks one of its own and one of another.
    let queues = ["jobs-a", "jobs-b", "jobs-c", "jobs-d"];
    queues.iter().for_each(|queue| drop(put(&mut http, queue, &json!({"lease_ms": 1_000}))));
    let sender = Mqtt::join(&server, "sender", 100);
    let sends = queues.iter().flat_map(|queue| (0..100).map(move |number| (*queue, number)));
    for (queue, number) in sends {
        let qos = if number % 2 == 0 { QoS::AtLeastOnce } else { QoS::ExactlyOnce };
        sender.client.publish(format!("$queue-in/{queue}"), qos, false, format!("{number}")).expect("the client lives");
    }
    let mut acknowledged = 0;
    while acknowledged < 400 {
        assert!(matches!(sender.next(), Told::Acknowledged), "each is acknowledged");
        acknowledged += 1;
    }
    server.kill();

    let server = Server::start(&settings);
    let mut http = connect(&server);
    for queue in queues {
        assert_eq!(counts(&mut http, queue), [100, 0, 0], "{queue}");
    }
    let receivers: Vec<Mqtt> = (0..3).map(|number| Mqtt::join(&server, &format!("receiver-{number}"), 10)).collect();
    let mut got: BTreeMap<String, usize> = BTreeMap::new();
    for receiver in &receivers {
        receiver.subscribe("jobs-a");
    }
    let began = Instant::now();
    let mut shares = [0; 3];
    while shares.iter().sum::<usize>() < 100 {
        assert!(began.elapsed() < PATIENCE, "all come: {got:?}");
        for (receiver, share) in receivers.iter().zip(&mut shares) {
            while let Ok(told) = receiver.told.try_recv() {
                let Told::Message(publish) = told else { panic!("only messages come") };
                *got.entry(body(&publish)).or_default() += 1;
                *share += 1;
                receiver.client.ack(&publish).expect("the client lives");
            }
        }
        std::thread::yield_now();
    }
    wait_for("all are acknowledged", || (counts(&mut http, "jobs-a") == [0, 0, 0]).then_some(()));
    assert!(got.len() == 100 && got.values().all(|times| *times == 1), "each once: {got:?}");
    server.kill();

    let server = Server::start(&settings);
    let mut http = connect(&server);
    assert_eq!(counts(&mut http, "jobs-a"), [0, 0, 0], "what was acknowledged does not come again");
    assert_eq!(counts(&mut http, "jobs-b"), [100, 0, 0]);
    end(server, &settings);
}

#[test]
fn who_goes_away_gives_back_at_once_and_who_stays_keeps() {
    let folder = folder();
    let settings = Settings { mqtt: true, workers: 2, ..settings(folder.path(), "") };
    let server = Server::start(&settings);
    let mut http = connect(&server);
    // So long that no test waits for it.
    put(&mut http, "jobs", &json!({"lease_ms": LONG_MS}));
    send(&mut http, "jobs", &json!([{"body": "a"}, {"body": "b"}, {"body": "c"}]));
    let mortal = Mqtt::join(&server, "mortal", 2);
    mortal.subscribe("jobs");
    let got = mortal.messages(2);
    assert_eq!(got.iter().map(body).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(counts(&mut http, "jobs"), [1, 0, 2], "its Receive Maximum is 2");
    mortal.client.ack(&got[1]).expect("the client lives");
    assert_eq!(body(&mortal.messages(1)[0]), "c");
    mortal.client.disconnect().expect("the client lives");
    let back = wait_for("both are back", || Some(counts(&mut http, "jobs")).filter(|counts| *counts == [2, 0, 0]));
    assert_eq!(back, [2, 0, 0]);
    let other = Mqtt::join(&server, "other", 10);
    other.subscribe("jobs");
    let got = other.messages(2);
    assert_eq!(got.iter().map(body).collect::<Vec<_>>(), ["a", "c"], "in their old places");
    got.iter().for_each(|publish| other.client.ack(publish).expect("the client lives"));
    wait_for("all are done", || (counts(&mut http, "jobs") == [0, 0, 0]).then_some(()));
    // A server that stops gives back what its clients have.
    send(&mut http, "jobs", &json!([{"body": "d"}]));
    assert_eq!(body(&other.messages(1)[0]), "d");
    end(server, &settings);
    drop(other);
    let server = Server::start(&settings);
    assert_eq!(counts(&mut connect(&server), "jobs"), [1, 0, 0]);
    end(server, &settings);
}

#[test]
fn a_queue_that_is_deleted_and_made_again_is_received_from() {
    let folder = folder();
    let settings = Settings { mqtt: true, ..settings(folder.path(), "") };
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "jobs", &json!({}));
    let receiver = Mqtt::join(&server, "receiver", 10);
    receiver.subscribe("jobs");
    let deleted = http.delete("/v1/queues/jobs").expect("it is answered");
    assert!(deleted.status < 300, "{deleted:?}");
    put(&mut http, "jobs", &json!({}));
    send(&mut http, "jobs", &json!([{"body": "a"}]));
    let got = receiver.messages(1);
    assert_eq!(body(&got[0]), "a");
    receiver.client.ack(&got[0]).expect("the client lives");
    wait_for("it is done", || (counts(&mut http, "jobs") == [0, 0, 0]).then_some(()));
    end(server, &settings);
}

/// Where a rule lets them send at all.
#[test]
fn nobody_without_a_name_takes_an_id_of_a_service() {
    let folder = folder();
    let sections = "[[queue]]\nname = \"jobs\"\n\n[[acl]]\neffect = \"permit\"\n\
                    role = \"anonymous\"\naction = \"publish\"\ntopics = [\"$queue-in/jobs\"]\n";
    let settings = Settings { mqtt: true, sections: sections.into(), ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    let mut http = connect(&server);
    wait_for("it is made", || http.get("/v1/queues/jobs").ok().filter(|answer| answer.status == 200));
    let nobody = Mqtt::join_as(&server, "nobody", 10, None);
    for _ in 0..2 {
        let user_properties = vec![("id".to_owned(), "order-17".to_owned())];
        let properties = PublishProperties { user_properties, ..PublishProperties::default() };
        let (topic, qos) = ("$queue-in/jobs", QoS::AtLeastOnce);
        nobody.client.publish_with_properties(topic, qos, false, "theirs", properties).expect("the client lives");
        assert!(matches!(nobody.next(), Told::Acknowledged), "it is taken, or was before");
    }
    let sent = send(&mut http, "jobs", &json!([{"id": "order-17", "body": "ours"}]));
    assert_ne!(sent[0]["duplicate"], true, "{sent:?}");
    assert_eq!(bodies(&receive(&mut http, "jobs", 10, 0)), ["theirs", "ours"]);
    end(server, &settings);
}
