use super::*;

const NAME: &str = "a";

fn message(text: &str) -> Message {
    text.as_bytes().into()
}

fn next(stream: &mut FakeStream) -> Outcome {
    stream.wait().unwrap();
    stream.poll().unwrap()
}

#[test]
fn messages_are_numbered_from_one_and_the_fence_refuses_a_wrong_number() {
    let streams = FakeStreams::new(1);
    let mut stream = streams.open(NAME).unwrap();
    assert_eq!(stream.extent().unwrap(), Extent { first: 1, last: 0, bytes: 0 });
    stream.publish(0, message("one"));
    assert_eq!(next(&mut stream), Outcome::Stored { number: 1 });
    stream.publish(0, message("another one"));
    assert_eq!(next(&mut stream), Outcome::Refused { number: 1 });
    stream.publish(1, message("two"));
    assert_eq!(next(&mut stream), Outcome::Stored { number: 2 });
    assert_eq!(stream.get(1).unwrap().as_deref(), Some(&b"one"[..]));
    stream.purge_below(2).unwrap();
    assert_eq!((stream.get(1).unwrap(), stream.extent().unwrap()), (None, Extent { first: 2, last: 2, bytes: 3 }));
    stream.look_up(2);
    assert_eq!(next(&mut stream), Outcome::Found { number: 2, message: Some(message("two")) });
    assert!(stream.wait().is_err(), "nothing is under way");
}

#[test]
fn what_is_lost_either_way_is_unknown_and_was_stored_or_not() {
    for (weather, stored) in [
        (StreamWeather { request_loss: 1_000, ..StreamWeather::calm() }, false),
        (StreamWeather { outcome_loss: 1_000, ..StreamWeather::calm() }, true),
        (StreamWeather { straggle: 1_000, ..StreamWeather::calm() }, false),
    ] {
        let streams = FakeStreams::new(1);
        streams.set_weather(weather);
        let mut stream = streams.open(NAME).unwrap();
        stream.publish(0, message("one"));
        assert_eq!(next(&mut stream), Outcome::Unknown { number: 1 });
        assert_eq!(streams.message(NAME, 1).is_some(), stored, "{weather:?}");
        (0..300).for_each(|_| streams.step(NAME));
        let arrives = stored || weather.straggle > 0;
        assert_eq!(streams.message(NAME, 1).is_some(), arrives, "a straggler is stored long after");
        assert_eq!(stream.poll(), None, "each request has one outcome");
    }
}

#[test]
fn whatever_the_weather_each_request_has_one_outcome_and_what_was_acknowledged_stays() {
    for seed in 0..200 {
        let streams = FakeStreams::new(seed);
        let bad = StreamWeather {
            delay: 1 + seed % 9,
            burst: 1 + seed % 7,
            request_loss: 100,
            outcome_loss: 100,
            straggle: 50,
        };
        streams.set_weather(bad);
        let mut stream = streams.open(NAME).unwrap();
        let (mut acknowledged, mut outcomes) = (Vec::new(), 0);
        for round in 0..60 {
            let last = streams.extent(NAME).last;
            let text = format!("round {round}");
            stream.publish(last, message(&text));
            if round % 20 == 7 {
                streams.interrupt(NAME, 10);
            }
            let outcome = next(&mut stream);
            outcomes += 1;
            if outcome == (Outcome::Stored { number: last + 1 }) {
                acknowledged.push((last + 1, text));
            }
        }
        assert_eq!((outcomes, stream.has_outcome()), (60, false), "seed {seed}");
        assert!(!acknowledged.is_empty(), "seed {seed}");
        for (number, text) in acknowledged {
            assert_eq!(streams.message(NAME, number), Some(message(&text)), "seed {seed}");
        }
    }
}

#[test]
fn who_died_is_told_nothing_and_what_it_sent_may_still_arrive() {
    let mut arrived = 0;
    for seed in 0..50 {
        let streams = FakeStreams::new(seed);
        let mut stream = streams.open(NAME).unwrap();
        stream.publish(0, message("last words"));
        streams.kill_clients();
        (0..10).for_each(|_| streams.step(NAME));
        assert!(stream.poll().is_none() && stream.get(1).is_err() && stream.wait().is_err());
        stream.publish(streams.extent(NAME).last, message("from the grave"));
        (0..10).for_each(|_| streams.step(NAME));
        assert!(streams.extent(NAME).last <= 1, "a dead process sends nothing");
        arrived += streams.extent(NAME).last;
    }
    assert!((5..45).contains(&arrived), "{arrived} of 50 arrived");
}

#[test]
fn an_outcome_wakes() {
    let streams = FakeStreams::new(1);
    let mut stream = streams.open(NAME).unwrap();
    let woken = Arc::new(Mutex::new(0));
    let counter = woken.clone();
    stream.set_wake(Arc::new(move || *counter.lock().unwrap() += 1));
    stream.publish(0, message("one"));
    (0..10).for_each(|_| streams.step(NAME));
    assert_eq!(*woken.lock().unwrap(), 1);
}
