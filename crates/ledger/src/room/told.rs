//! What code under test tells its operator.

use std::fmt::{Debug, Write};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// Two that are there as long as the process, so that there is never just one.
///
/// Why: as long as tracing knows of one subscriber only, a thread that comes first to a line of code decides for all
/// threads whether that line is told. Most threads of tests have none: the line would be told to nobody.
static NEVER_JUST_ONE: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| std::array::from_fn(|_| Dispatch::new(Teller::default())));

/// The lines that `act` tells on this thread, each with its level and all its fields.
pub fn told(act: impl FnOnce()) -> Vec<String> {
    LazyLock::force(&NEVER_JUST_ONE);
    let teller = Arc::new(Teller::default());
    tracing::subscriber::with_default(teller.clone(), act);
    let lines = teller.lines.lock().expect("nobody panicked while telling");
    lines.clone()
}

#[derive(Default)]
struct Teller {
    lines: Mutex<Vec<String>>,
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").expect("a String grows as needed");
    }
}

impl Subscriber for Teller {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.lines.lock().expect("nobody panicked while telling").push(line.0);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}
