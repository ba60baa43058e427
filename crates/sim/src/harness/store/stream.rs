//! Logs in streams with a replicated network's manners: answers come late, in bursts or never, and somebody else may
//! take over.

use tidegate_journal::disk::FakeDisk;
use tidegate_journal::stream::{FakeStream, FakeStreams, StreamWeather, message_name};
use tidegate_journal::{Cursor, Family, LogId, LogReader, Logs, Options, StreamLog, StreamLogs, StreamOptions};

use super::{End, Rot, Stepped, Store, StoreName, family_of};
use crate::chance::Chance;

/// The number of this process, and that of whoever takes over.
const WRITERS: [u64; 2] = [0x7369_6d01, 0x7369_6d02];

/// The store in streams.
#[derive(Clone)]
pub struct StreamStore {
    streams: FakeStreams,
    families: Vec<Family>,
    options: StreamOptions,
    weather: StreamWeather,
}

impl StreamStore {
    fn name(&self, log: LogId) -> String {
        StreamLogs::<FakeStreams>::stream_name(family_of(&self.families, log), log)
    }

    fn logs_of(&self, writer: u64) -> StreamLogs<FakeStreams> {
        let options = StreamOptions { writer, ..self.options };
        StreamLogs::new(self.streams.clone(), &self.families, options)
    }
}

impl Store for StreamStore {
    const NAME: StoreName = StoreName::Stream;
    type Logs = StreamLogs<FakeStreams>;
    type Log = StreamLog<FakeStream>;

    fn new(chance: &mut Chance, _disk: &FakeDisk, families: &[Family]) -> StreamStore {
        // Small messages, so that groups are several of them.
        let options = StreamOptions {
            message_bytes_max: *chance.one_of(&[300, 1 << 10, 4 << 10, 64 << 10]),
            messages_in_flight_max: chance.within(1..=32) as usize,
            ..StreamOptions::of(WRITERS[0])
        };
        let mut some = |most: u64| if chance.happens(500) { chance.within(1..=most) } else { 0 };
        let weather = StreamWeather {
            delay: 1 + some(6),
            burst: 1 + some(8),
            request_loss: some(60),
            outcome_loss: some(60),
            straggle: some(40),
        };
        let streams = FakeStreams::new(chance.number());
        StreamStore { streams, families: families.to_vec(), options, weather }
    }

    fn logs(&self) -> StreamLogs<FakeStreams> {
        self.logs_of(WRITERS[0])
    }

    fn step(&self, log: LogId) -> Stepped {
        self.streams.step(&self.name(log));
        Stepped::Did(None)
    }

    fn ended(&self, _end: End) {
        self.streams.kill_clients();
    }

    fn set_calm(&self, calm: bool) {
        self.streams.set_weather(if calm { StreamWeather::calm() } else { self.weather });
    }

    fn stall(&self, log: LogId, ticks: u64) -> bool {
        self.streams.interrupt(&self.name(log), ticks);
        false
    }

    fn take_over(&self, log: LogId) -> bool {
        let logs = self.logs_of(WRITERS[1]);
        let Ok(end) = logs.reader(log).and_then(|reader| reader.settled_end()) else { return false };
        let since = Cursor { position: end.position(), sequence: end.sequence(), ..Cursor::START };
        logs.open(log, since, Options::default()).is_ok()
    }

    fn strays(&self) -> u64 {
        self.streams.strays()
    }

    fn refuse_next_open(&self) -> bool {
        self.streams.refuse_next_open();
        true
    }

    fn is_refused_open(&self, words: &str) -> bool {
        words.contains("no server answers")
    }

    /// Whatever is stored, the stream has promised to keep.
    fn rot(&self, log: LogId, chance: &mut Chance) -> Option<Rot> {
        let path = self.name(log);
        let extent = self.streams.extent(&path);
        if extent.first > extent.last {
            return None;
        }
        let number = chance.within(extent.first..=extent.last);
        let message = self.streams.message(&path, number)?;
        let (offset, bit) = (chance.below(message.len() as u64), chance.below(8) as u8);
        let written = message[offset as usize];
        let rot = Rot { log, name: message_name(number), path, number, offset, bit, written };
        self.streams.flip_bit(&rot.path, number, offset, bit).then_some(rot)
    }

    fn is_rotten(&self, rot: &Rot) -> bool {
        let message = self.streams.message(&rot.path, rot.number);
        message.is_some_and(|message| message[rot.offset as usize] != rot.written)
    }

    fn heal(&self, rot: &Rot) {
        self.streams.flip_bit(&rot.path, rot.number, rot.offset, rot.bit);
    }
}
