//! Cases for one thread and two; the `loom_` tests walk through every interleaving (`RUSTFLAGS="--cfg loom"`).

use super::*;

#[cfg(not(loom))]
mod threads {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn a_full_ring_gives_the_message_back_and_an_empty_one_gives_nothing() {
        let (mut producer, mut consumer) = ring(2);
        assert_eq!(consumer.pop(), None);
        assert_eq!(producer.push("a"), Ok(()));
        assert_eq!(producer.push("b"), Ok(()));
        assert_eq!(producer.push("c"), Err("c"));
        assert_eq!((producer.len(), consumer.len(), producer.capacity()), (2, 2, 2));
        assert_eq!(consumer.pop(), Some("a"));
        assert_eq!(producer.push("c"), Ok(()));
        assert_eq!((consumer.pop(), consumer.pop(), consumer.pop()), (Some("b"), Some("c"), None));
        assert!(producer.is_empty() && consumer.is_empty());
    }

    #[test]
    #[should_panic(expected = "power of two, not 3")]
    fn a_capacity_that_is_no_power_of_two_is_a_bug() {
        let _ = ring::<u8>(3);
    }

    #[test]
    fn what_was_not_taken_is_dropped_once() {
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let dropped = Arc::new(AtomicUsize::new(0));
        let (mut producer, mut consumer) = ring(4);
        for _ in 0..3 {
            assert!(producer.push(Counted(Arc::clone(&dropped))).is_ok());
        }
        drop(consumer.pop());
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        drop(consumer);
        assert!(producer.is_abandoned());
        assert!(producer.push(Counted(Arc::clone(&dropped))).is_ok());
        drop(producer);
        assert_eq!(dropped.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn the_indexes_may_wrap_around() {
        let (mut producer, mut consumer) = ring(4);
        let near_the_end = usize::MAX - 1;
        producer.shared.head.store(near_the_end, Ordering::Relaxed);
        producer.shared.tail.store(near_the_end, Ordering::Relaxed);
        (producer.tail, producer.head_seen) = (near_the_end, near_the_end);
        (consumer.head, consumer.tail_seen) = (near_the_end, near_the_end);
        for lap in 0..3 {
            for n in 0..4 {
                assert_eq!(producer.push(lap * 4 + n), Ok(()));
            }
            assert!(producer.push(99).is_err());
            assert_eq!(consumer.len(), 4);
            for n in 0..4 {
                assert_eq!(consumer.pop(), Some(lap * 4 + n));
            }
        }
    }

    #[test]
    fn two_threads_pass_everything_in_order() {
        let count: usize = if cfg!(miri) { 200 } else { 200_000 };
        let (mut producer, mut consumer) = ring(8);
        let sender = std::thread::spawn(move || {
            for n in 0..count {
                let mut message = Box::new(n);
                while let Err(back) = producer.push(message) {
                    message = back;
                    std::thread::yield_now();
                }
            }
        });
        for expected in 0..count {
            let received = loop {
                match consumer.pop() {
                    Some(received) => break received,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(*received, expected);
        }
        sender.join().expect("the sender does not panic");
        assert!(consumer.pop().is_none() && consumer.is_abandoned());
    }

    #[test]
    fn an_awake_consumer_is_not_woken_and_a_sleeping_one_once() {
        let flag = SleepFlag::new();
        assert!(!flag.wake(|| panic!("it is awake")));
        assert!(!flag.sleep_unless(|| true));
        assert!(!flag.wake(|| panic!("it found work")));
        assert!(flag.sleep_unless(|| false));
        let mut woken = 0;
        assert!(flag.wake(|| woken += 1));
        assert!(!flag.wake(|| panic!("someone else did it")));
        assert_eq!(woken, 1);
    }
}

#[cfg(loom)]
mod model {
    use super::*;
    use loom::sync::Notify;
    use loom::thread;

    /// Three messages through two places: full, empty and the second lap all occur. Counted references, so that loom
    /// also sees a message that leaks or is dropped twice.
    #[test]
    fn loom_everything_arrives_once_and_in_order() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let (mut producer, mut consumer) = ring(2);
            let sender = thread::spawn(move || {
                for n in 0..3 {
                    let mut message = Arc::new(n);
                    while let Err(back) = producer.push(message) {
                        message = back;
                        thread::yield_now();
                    }
                }
            });
            for expected in 0..3 {
                let received = loop {
                    match consumer.pop() {
                        Some(received) => break received,
                        None => thread::yield_now(),
                    }
                };
                assert_eq!(*received, expected);
            }
            sender.join().unwrap();
            assert!(consumer.pop().is_none());
        });
    }

    #[test]
    fn loom_what_is_left_behind_is_dropped_by_the_last_end() {
        loom::model(|| {
            let (mut producer, mut consumer) = ring(2);
            let sender = thread::spawn(move || {
                for n in 0..2 {
                    let _ = producer.push(Arc::new(n));
                }
            });
            let _ = consumer.pop();
            drop(consumer);
            sender.join().unwrap();
        });
    }

    /// A lost wake-up would leave the consumer waiting for ever, which loom reports as a deadlock.
    #[test]
    fn loom_no_wake_up_is_lost() {
        loom::model(|| {
            let (mut producer, mut consumer) = ring(2);
            let flag = Arc::new(SleepFlag::new());
            let eventfd = Arc::new(Notify::new());
            let sender = {
                let (flag, eventfd) = (Arc::clone(&flag), Arc::clone(&eventfd));
                thread::spawn(move || {
                    for n in 0..2 {
                        producer.push(n).unwrap();
                        flag.wake(|| eventfd.notify());
                    }
                })
            };
            let mut taken = 0;
            while taken < 2 {
                if consumer.pop().is_some() {
                    taken += 1;
                } else if flag.sleep_unless(|| !consumer.is_empty()) {
                    eventfd.wait();
                    flag.awake();
                }
            }
            sender.join().unwrap();
        });
    }

    /// Two producers, each with a ring of its own, and one consumer that sleeps on both.
    #[test]
    fn loom_no_wake_up_is_lost_between_two_producers() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let flag = Arc::new(SleepFlag::new());
            let eventfd = Arc::new(Notify::new());
            let mut senders = Vec::new();
            let mut consumers = Vec::new();
            for n in 0..2 {
                let (mut producer, consumer) = ring(1);
                consumers.push(consumer);
                let (flag, eventfd) = (Arc::clone(&flag), Arc::clone(&eventfd));
                senders.push(thread::spawn(move || {
                    producer.push(n).unwrap();
                    flag.wake(|| eventfd.notify());
                }));
            }
            let mut taken = 0;
            while taken < 2 {
                let before = taken;
                taken += consumers.iter_mut().filter_map(Consumer::pop).count();
                if taken == before && flag.sleep_unless(|| consumers.iter().any(|consumer| !consumer.is_empty())) {
                    eventfd.wait();
                    flag.awake();
                }
            }
            for sender in senders {
                sender.join().unwrap();
            }
        });
    }
}
