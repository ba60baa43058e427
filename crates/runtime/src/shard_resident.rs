//! A shard as a member of a worker: parcels become calls, answers become parcels, and other threads do the reads that
//! may wait.
//!
//! ```text
//!   parcel ─▶ Protocol::receive ─▶ Shard::call, note          Shard::released ─▶ Protocol::answer ─▶ parcel
//!                                        │ take_job      ▲ fetched
//!                                        ▼               │
//!                                     fetch threads, each with a reader of the log
//! ```

use std::marker::PhantomData;

use tidegate_journal::{LogReader, LogStore};
use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_shard::{JobId, Released, Service, Shard};

use crate::address::{Address, Carries};
use crate::fetch::{Fetchers, Runner};
use crate::member::{Context, Resident};
use crate::mesh::Parker;
use crate::metrics::ShardMetrics;

/// Translates between messages and the calls and answers of a service.
pub trait Protocol<S: Service>: Send {
    /// What others send to the shard, and the shard to them.
    type Message: Send;

    /// Decodes a message of `from` to the shard.
    fn receive(&self, from: Address, message: Self::Message) -> Received<S>;

    /// The message for what the shard has released, and its receiver; `None` if nobody waits for it.
    fn answer(&self, shard: ShardIndex, released: Released<S>) -> Option<(Address, Self::Message)>;
}

/// What a message means to a shard.
pub enum Received<S: Service> {
    /// A call, which is answered.
    Call(S::Ticket, S::Call),
    /// A note, which gets no answer.
    Note(S::Note),
}

/// Fetch threads of a shard whose service is `S`.
type ShardFetchers<S> = Fetchers<(JobId, <S as Service>::Job), (JobId, <S as Service>::Fetched)>;

/// Does the reads of a shard, with a reader of its own.
struct ReaderOfJobs<S, L: LogStore> {
    reader: L::Reader,
    service: PhantomData<fn(S)>,
}

impl<S, L> Runner<(JobId, S::Job), (JobId, S::Fetched)> for ReaderOfJobs<S, L>
where
    S: Service + 'static,
    L: LogStore<Reader: 'static> + 'static,
{
    fn run(&mut self, (id, job): (JobId, S::Job)) -> (JobId, S::Fetched) {
        (id, S::run(job, &self.reader))
    }

    /// What was forgotten meanwhile is nothing that anybody will read.
    fn rest(&mut self) {
        self.reader.let_go();
    }
}

/// What a shard does beside its calls at each tick of the worker: metrics of its family, above all.
pub type OnTick<S, L> = Box<dyn FnMut(&mut Shard<S, L>, &ShardMetrics) + Send>;

/// A shard as a member of a worker.
pub struct ShardResident<S: Service, L: LogStore, Q> {
    shard: Shard<S, L>,
    protocol: Q,
    fetchers: Option<ShardFetchers<S>>,
    metrics: ShardMetrics,
    on_tick: OnTick<S, L>,
}

impl<S, L, Q> ShardResident<S, L, Q>
where
    S: Service<Job: Send + 'static, Fetched: Send + 'static> + 'static,
    L: LogStore<Reader: 'static> + 'static,
    Q: Protocol<S>,
{
    /// A shard that is spoken to by `protocol`.
    pub fn new(shard: Shard<S, L>, protocol: Q, metrics: ShardMetrics) -> ShardResident<S, L, Q> {
        ShardResident { shard, protocol, fetchers: None, metrics, on_tick: Box::new(|_, _| {}) }
    }

    /// Has `threads` threads do its reads, each with another reader like `reader`. They wake `parker`.
    pub fn with_fetchers(
        mut self,
        threads: usize,
        reader: &L::Reader,
        parker: std::sync::Arc<Parker>,
    ) -> anyhow::Result<Self> {
        let mut runners = Vec::new();
        for _ in 0..threads {
            runners.push(ReaderOfJobs::<S, L> { reader: reader.another()?, service: PhantomData });
        }
        let name = format!("fetch-{}", self.shard.index());
        self.fetchers = Some(Fetchers::start(&name, runners, move || parker.wake())?);
        Ok(self)
    }

    /// Has `on_tick` called at each tick of the worker.
    pub fn on_tick(mut self, on_tick: impl FnMut(&mut Shard<S, L>, &ShardMetrics) + Send + 'static) -> Self {
        self.on_tick = Box::new(on_tick);
        self
    }

    /// Brings the shard what was read for it.
    fn take_found(&mut self) -> bool {
        let mut worked = false;
        while let Some((job, found)) = self.fetchers.as_mut().and_then(Fetchers::take) {
            self.shard.fetched(job, found);
            worked = true;
        }
        worked
    }

    /// Gives the shard's reads to the fetch threads. Reads that find no room are given out when another one has
    /// returned.
    fn hand_out_jobs(&mut self) {
        let Some(fetchers) = &mut self.fetchers else { return };
        while fetchers.has_room() {
            let Some(job) = self.shard.take_job() else { break };
            fetchers.submit(job);
        }
    }

    /// Sends what the shard has released. Returns whether there was anything.
    fn release<P: Carries<Q::Message>>(&mut self, context: &mut Context<'_, P>) -> bool {
        let mut worked = false;
        while let Some(released) = self.shard.released() {
            worked = true;
            if let Some((to, message)) = self.protocol.answer(self.shard.index(), released) {
                context.send(to, P::pack(message));
            }
        }
        worked
    }
}

impl<P, S, L, Q> Resident<P> for ShardResident<S, L, Q>
where
    P: Carries<Q::Message>,
    S: Service<Job: 'static, Fetched: 'static> + Send + 'static,
    L: LogStore<Reader: 'static> + Send + 'static,
    Q: Protocol<S>,
    Shard<S, L>: Send,
{
    fn deliver(&mut self, from: Address, body: P, context: &mut Context<'_, P>) {
        let Ok(message) = body.unpack() else { panic!("a shard of {} got a parcel of another room", family::<S>()) };
        match self.protocol.receive(from, message) {
            Received::Call(ticket, call) => {
                self.shard.call(ticket, call);
                // A call that is refused on arrival is answered at once.
                self.release(context);
            }
            Received::Note(note) => self.shard.note(note),
        }
    }

    fn step(&mut self, context: &mut Context<'_, P>) -> bool {
        let mut worked = self.take_found();
        self.shard.service_mut().observe_wall(context.wall());
        worked |= self.shard.step(context.now());
        self.hand_out_jobs();
        worked | self.release(context)
    }

    fn has_news(&mut self) -> bool {
        self.shard.has_news() || self.fetchers.as_ref().is_some_and(Fetchers::has_news)
    }

    fn is_idle(&self) -> bool {
        self.shard.is_idle()
    }

    fn failure(&self) -> Option<String> {
        self.shard.failure().map(|failure| format!("{} shard {}: {failure}", family::<S>(), self.shard.index()))
    }

    fn tick(&mut self, _now: TimeMs) {
        self.metrics.observe(&mut self.shard);
        (self.on_tick)(&mut self.shard, &self.metrics);
    }

    fn close(self: Box<Self>) -> anyhow::Result<()> {
        let ShardResident { shard, fetchers, .. } = *self;
        drop(fetchers);
        shard.into_log().close()?;
        Ok(())
    }
}

fn family<S: Service>() -> &'static str {
    use tidegate_shard::ShardFamily;
    S::Family::FAMILY.name
}
