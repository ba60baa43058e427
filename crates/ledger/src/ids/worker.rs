//! Runs the builder: on its own thread, or within the calls that poll it.
//!
//! ```text
//!   shard ──table──▶ channel ──▶ builder thread: step, step, step ... ──▶ channel ──view──▶ shard (maintain)
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate_disk::Disk;
use tidegate_journal::{Cursor, Position, Timeline};
use tidegate_memory::Pages;

use super::builder::{Builder, Step, View};
use super::filter::Forgotten;
use super::table::Table;
use super::writing::Writing;
use super::{BuilderKind, IdsError};

/// Pause after an I/O error before the builder tries again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// What the builder's thread is given to do.
enum Job {
    Build(Arc<Table>, Cursor),
    Cover(Position, Cursor),
    BelongTo(Timeline),
    Touch(Pages),
    /// Memory to be given back.
    Drop(Vec<Forgotten>),
}

/// Reports of the builder.
enum Report<D: Disk> {
    View(View<D>),
    /// An I/O error; it will try again.
    Retrying(IdsError),
    /// Damage: it merges nothing any more, and goes on writing runs.
    Damaged(IdsError),
}

/// The builder, wherever it runs.
pub(super) struct Worker<D: Disk> {
    place: Place<D>,
    /// How the builder's writing goes.
    writing: Arc<Writing>,
}

enum Place<D: Disk> {
    Here(Box<Builder<D>>),
    Thread(BuilderThread<D>),
}

impl<D: Disk> Worker<D> {
    pub(super) fn start(builder: Builder<D>, kind: BuilderKind) -> std::io::Result<Worker<D>> {
        let writing = Arc::new(Writing::of(builder.shard()));
        let place = match kind {
            BuilderKind::Stepped => Place::Here(Box::new(builder)),
            BuilderKind::Thread => Place::Thread(BuilderThread::spawn(builder, Arc::clone(&writing))?),
        };
        Ok(Worker { place, writing })
    }

    /// Hands over a full table; the journal is durable up to `durable`, which is behind it.
    pub(super) fn build(&mut self, table: Arc<Table>, durable: Cursor) {
        match &mut self.place {
            Place::Here(builder) => builder.build(table, durable),
            Place::Thread(thread) => thread.give(Job::Build(table, durable)),
        }
    }

    /// Says that all records up to `position`, which is before `durable`, are in the tables handed over.
    pub(super) fn cover(&mut self, position: Position, durable: Cursor) {
        match &mut self.place {
            Place::Here(builder) => builder.cover(position, durable),
            Place::Thread(thread) => thread.give(Job::Cover(position, durable)),
        }
    }

    /// Says which timeline of the journal all records are of.
    pub(super) fn belong_to(&mut self, timeline: Timeline) {
        match &mut self.place {
            Place::Here(builder) => builder.belong_to(timeline),
            Place::Thread(thread) => thread.give(Job::BelongTo(timeline)),
        }
    }

    /// Ends the builder: it writes nothing any more. The worker is of no use after that.
    pub(super) fn stop(&mut self) {
        if let Place::Thread(thread) = &mut self.place {
            thread.stop();
        }
    }

    /// Hands over memory that will be written to soon. Not worth anything where the caller would wait for it.
    pub(super) fn touch(&mut self, pages: Pages) {
        match &mut self.place {
            Place::Here(_) => {}
            Place::Thread(thread) => thread.give(Job::Touch(pages)),
        }
    }

    /// Hands over memory that is not needed any more. Not worth anything where the caller would wait for it.
    pub(super) fn give_back(&mut self, memory: Vec<Forgotten>) {
        match &mut self.place {
            Place::Here(_) => drop(memory),
            Place::Thread(thread) => thread.give(Job::Drop(memory)),
        }
    }

    /// A new view, if the builder has one by now. Never waits. I/O errors are no errors here: the builder tries again.
    pub(super) fn poll(&mut self) -> Result<Option<View<D>>, IdsError> {
        let report = match &mut self.place {
            Place::Here(builder) => step_and_report(builder, &self.writing),
            Place::Thread(thread) => thread.report(),
        };
        match report {
            Some(Report::View(view)) => Ok(Some(view)),
            Some(Report::Damaged(error)) => Err(error),
            Some(Report::Retrying(_)) | None => Ok(None),
        }
    }

    /// Waits for what the builder says next; an I/O error is an error here.
    pub(super) fn wait(&mut self) -> Result<Option<View<D>>, IdsError> {
        let report = match &mut self.place {
            Place::Here(builder) => step_and_report(builder, &self.writing),
            Place::Thread(thread) => Some(thread.next_report()),
        };
        match report {
            Some(Report::View(view)) => Ok(Some(view)),
            Some(Report::Damaged(error) | Report::Retrying(error)) => Err(error),
            None => Ok(None),
        }
    }

    /// How often the builder met an I/O error and tried again.
    pub(super) fn retries(&self) -> u64 {
        self.writing.retries()
    }

    /// Whether the builder cannot write now.
    pub(super) fn is_failing(&self) -> bool {
        self.writing.is_failing()
    }
}

fn step_and_report<D: Disk>(builder: &mut Builder<D>, writing: &Writing) -> Option<Report<D>> {
    match step(builder, writing) {
        Ok(Step::Published(view)) => Some(Report::View(view)),
        Ok(Step::Worked | Step::Idle) => None,
        Err(error) => Some(judge(error)),
    }
}

/// A step of the builder, and how its writing goes by it. What worked and is in no manifest yet says nothing: a merge
/// reads for long before it fails to write.
fn step<D: Disk>(builder: &mut Builder<D>, writing: &Writing) -> Result<Step<D>, IdsError> {
    let step = builder.step();
    match &step {
        Ok(Step::Published(_) | Step::Idle) => writing.works(),
        Err(error @ IdsError::Io { .. }) => writing.failed(error),
        Ok(Step::Worked) | Err(IdsError::Damaged { .. }) => {}
    }
    step
}

fn judge<D: Disk>(error: IdsError) -> Report<D> {
    match error {
        IdsError::Io { .. } => Report::Retrying(error),
        IdsError::Damaged { .. } => Report::Damaged(error),
    }
}

struct BuilderThread<D: Disk> {
    /// `None` once it was stopped.
    jobs: Option<Sender<Job>>,
    reports: Receiver<Report<D>>,
    stop: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

/// Lowers the calling thread's priority: a run may wait, a vote may not. A system that refuses leaves it as it is.
fn yield_to_the_journal() {
    // SAFETY: setpriority takes plain numbers; on Linux, `who` 0 with PRIO_PROCESS names the calling thread alone.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
}

impl<D: Disk> BuilderThread<D> {
    fn spawn(mut builder: Builder<D>, writing: Arc<Writing>) -> std::io::Result<BuilderThread<D>> {
        let (jobs, arriving) = channel();
        let (saying, reports) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("ids-builder".into());
        let handle = thread.spawn(move || {
            yield_to_the_journal();
            run(&mut builder, &arriving, &saying, &stopped, &writing);
        })?;
        Ok(BuilderThread { jobs: Some(jobs), reports, stop, handle: Some(handle) })
    }

    fn give(&mut self, job: Job) {
        // A builder that stopped has said why: the next poll returns it, so a failure to send needs no answer here.
        let _ = self.jobs.as_ref().expect("nothing is given to a builder that was stopped").send(job);
    }

    fn report(&mut self) -> Option<Report<D>> {
        match self.reports.try_recv() {
            Ok(report) => Some(report),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => panic!("the id index's builder has stopped, and was asked again"),
        }
    }

    fn next_report(&mut self) -> Report<D> {
        self.reports.recv().expect("the id index's builder has stopped, and was asked again")
    }
}

impl<D: Disk> BuilderThread<D> {
    /// Waits for the current step, so that nothing writes to the directory any more.
    fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        if let Some(handle) = self.handle.take() {
            let _ = handle.join();
        }
    }
}

impl<D: Disk> Drop for BuilderThread<D> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The thread's life: step while there is work, sleep until there is a job, end when told to or when the index is gone.
fn run<D: Disk>(
    builder: &mut Builder<D>,
    jobs: &Receiver<Job>,
    reports: &Sender<Report<D>>,
    stop: &AtomicBool,
    writing: &Writing,
) {
    while !stop.load(Ordering::Relaxed) {
        while let Ok(job) = jobs.try_recv() {
            begin(builder, job);
        }
        let report = match step(builder, writing) {
            Ok(Step::Worked) => continue,
            Ok(Step::Idle) => match jobs.recv() {
                Ok(job) => {
                    begin(builder, job);
                    continue;
                }
                Err(_) => return,
            },
            Ok(Step::Published(view)) => Report::View(view),
            Err(error) => judge(error),
        };
        let pause = matches!(report, Report::Retrying(_));
        if reports.send(report).is_err() {
            return;
        }
        if pause {
            std::thread::sleep(RETRY_PAUSE);
        }
    }
}

fn begin<D: Disk>(builder: &mut Builder<D>, job: Job) {
    match job {
        Job::Build(table, durable) => builder.build(table, durable),
        Job::Cover(position, durable) => builder.cover(position, durable),
        Job::BelongTo(timeline) => builder.belong_to(timeline),
        Job::Touch(pages) => pages.touch(),
        Job::Drop(memory) => drop(memory),
    }
}
