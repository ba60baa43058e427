//! A pump with a client that needs no shard: it counts down, and makes one reply for each credit.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Mutex;

use super::*;
use crate::address::Outgoing;
use crate::client::Replies;
use crate::mesh::mesh;

/// What is under way, for the test to look at.
#[derive(Clone, Default)]
struct UnderWay(Arc<Mutex<BTreeMap<u64, u32>>>);

/// Replies `n - 1`, `n - 2` … 0 to `n`.
struct Countdown(UnderWay);

#[derive(Debug)]
enum Nothing {}

impl Client for Countdown {
    type Request = u32;
    type Reply = u32;
    type Message = Nothing;

    fn has_room(&self) -> bool {
        true
    }

    fn pending(&self) -> usize {
        self.0.0.lock().unwrap().len()
    }

    fn start(&mut self, token: u64, from: u32, out: &mut Outgoing<Nothing>, replies: &mut Replies<u32>) {
        self.0.0.lock().unwrap().insert(token, from);
        if from == 1 {
            self.more(token, out, replies);
        }
    }

    fn deliver(&mut self, _: Address, message: Nothing, _: &mut Outgoing<Nothing>, _: &mut Replies<u32>) {
        match message {}
    }

    fn is_last(reply: &u32) -> bool {
        *reply == 0
    }

    fn more(&mut self, token: u64, _: &mut Outgoing<Nothing>, replies: &mut Replies<u32>) {
        let mut all = self.0.0.lock().unwrap();
        let Some(left) = all.get_mut(&token) else { return };
        *left -= 1;
        replies.push((token, *left));
        if *left == 0 {
            all.remove(&token);
        }
    }

    fn cancel(&mut self, token: u64, _: &mut Outgoing<Self::Message>) {
        assert!(self.0.0.lock().unwrap().remove(&token).is_some(), "what is cancelled was under way");
    }
}

crate::parcels! {
    enum Parcel { None(Nothing), Never(Infallible) }
}

/// Runs `test` beside a pump, which must end by itself when the test has dropped its handle.
fn with_a_pump<F: Future<Output = ()>>(test: impl FnOnce(EdgeHandle<Countdown>, UnderWay) -> F) {
    with_a_pump_of(Arc::new(Status::new([])), test);
}

fn with_a_pump_of<F: Future<Output = ()>>(
    status: Arc<Status>,
    test: impl FnOnce(EdgeHandle<Countdown>, UnderWay) -> F,
) {
    let mut pump = Pump::<Parcel>::new(mesh(1, 1).pop().unwrap(), status.clone());
    let under_way = UnderWay::default();
    let handle = pump.client(|_| Countdown(under_way.clone()));
    assert!(!handle.tell(1), "nobody asks before the process serves");
    status.serve();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        tokio::join!(pump.run(), test(handle, under_way));
    });
}

#[test]
fn a_request_is_replied_to_and_the_pump_ends_with_its_last_handle() {
    with_a_pump(|handle, _| async move {
        assert_eq!(handle.ask(1).await, Ok(0));
        assert_eq!(handle.clone().ask(1).await, Ok(0));
    });
}

/// The shard whose log failed refuses by itself, and others serve.
#[test]
fn a_log_that_failed_stops_no_request() {
    let status = Arc::new(Status::new([]));
    with_a_pump_of(status.clone(), |handle, _| async move {
        status.fail("topics shard 0: an error of its disk".to_owned());
        assert_eq!(handle.ask(1).await, Ok(0));
    });
}

#[test]
fn a_stream_makes_no_more_replies_than_its_reader_has_room_for() {
    with_a_pump(|handle, under_way| async move {
        let mut stream = handle.open(100, 4).unwrap();
        let mut expected = 100;
        while let Some(reply) = stream.next().await {
            expected -= 1;
            assert_eq!(reply, expected);
            tokio::task::yield_now().await;
            let made = 100 - under_way.0.lock().unwrap().values().next().copied().unwrap_or(0);
            assert!(made <= 100 - expected + 4, "{made} made, {} read", 100 - expected);
        }
        assert_eq!(expected, 0);
    });
}

#[test]
fn a_stream_whose_reader_goes_is_cancelled() {
    with_a_pump(|handle, under_way| async move {
        let mut stream = handle.open(100, 4).unwrap();
        assert_eq!(stream.next().await, Some(99));
        let other = handle.open(7, 2).unwrap();
        drop(stream);
        while under_way.0.lock().unwrap().len() != 1 {
            tokio::task::yield_now().await;
        }
        drop(other);
    });
}
