//! The server's log on standard error: which lines of it are written, and in which form.
//!
//! ```text
//!   --log, TIDEGATE_LOG, log.filter ─▶ LogFilter ─▶ Log ─┬─ text, with colours only on a terminal
//!                                         SIGHUP ───▲    └─ json, an object on each line
//! ```
//!
//! Promise: a filter that is not understood is an error that says what is expected. The usual parser of such filters
//! takes a misspelt level for the name of a module, and a server that says nothing any more. A module of another crate
//! may be named; one that is nearly one of ours is an error, because no line has that name.

use std::fmt;
use std::io::IsTerminal;
use std::str::FromStr;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt as lines, reload};

/// The levels, from the fewest lines to the most.
const LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// Our crates, as their lines name them.
const CRATES: [&str; 25] = [
    "tidegate",
    "tidegate_backup",
    "tidegate_broker",
    "tidegate_client",
    "tidegate_config",
    "tidegate_disk",
    "tidegate_doors",
    "tidegate_frequency",
    "tidegate_hostile",
    "tidegate_journal",
    "tidegate_ledger",
    "tidegate_link",
    "tidegate_machines",
    "tidegate_memory",
    "tidegate_pacer",
    "tidegate_planted",
    "tidegate_queue",
    "tidegate_rings",
    "tidegate_roster",
    "tidegate_runtime",
    "tidegate_shard",
    "tidegate_sim",
    "tidegate_smpp",
    "tidegate_telemetry",
    "tidegate_wire",
];
/// What some lines are named by in place of their module.
const TARGETS: [&str; 2] = ["tidegate::security", "tidegate::operator"];
/// Letters by which a name may differ from one that is meant.
const SLIPS_MAX: usize = 2;

/// What a filter must be, for the person who wrote another one.
pub const EXPECTED: &str = "expected a level (off, error, warn, info, debug or trace), or levels of single modules \
                            beside it, such as info,tidegate_runtime=debug,tidegate::security=off";

/// Which lines are written.
#[derive(Clone, Debug, PartialEq)]
pub struct LogFilter {
    written: Box<str>,
    /// Boxed, because it is large, and one of the arguments of a command line.
    targets: Box<Targets>,
}

/// `--log` or `TIDEGATE_LOG`; an empty one says nothing.
#[derive(Clone, Debug)]
pub struct LogFlag(pub Option<LogFilter>);

/// The form of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people: time, level, part, message, values.
    Text,
    /// An object on each line.
    Json,
}

/// The log of this process.
pub struct Log {
    filter: reload::Handle<Targets, Registry>,
}

impl FromStr for LogFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<LogFilter, String> {
        let level =
            |word: &str| LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, level)| *level);
        // Without a level of all, as with one: nothing is hidden by naming a module.
        let mut targets = Targets::new().with_default(LevelFilter::INFO);
        for part in text.split(',').map(str::trim) {
            let is_module = |name: &str| {
                let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
                !name.is_empty() && name.bytes().all(is_good)
            };
            targets = match part.split_once('=') {
                None => targets.with_default(level(part).ok_or(EXPECTED)?),
                Some((module, word)) if is_module(module) => {
                    if let Some(meant) = meant_by(module) {
                        return Err(format!("no line of the log is of {module:?}; did you mean {meant:?}?"));
                    }
                    targets.with_target(module, level(word).ok_or(EXPECTED)?)
                }
                Some(_) => return Err(EXPECTED.into()),
            };
        }
        Ok(LogFilter { written: text.into(), targets: Box::new(targets) })
    }
}

/// The name that `module` is a slip of.
fn meant_by(module: &str) -> Option<&'static str> {
    let of_crate = module.split("::").next().unwrap_or(module);
    nearly(module, &TARGETS).or_else(|| nearly(of_crate, &CRATES))
}

/// That of `known` which `word` nearly is; `None` if it is one, or the beginning of one, which is a filter of all that
/// begin so.
fn nearly(word: &str, known: &[&'static str]) -> Option<&'static str> {
    if known.iter().any(|known| known.starts_with(word)) {
        return None;
    }
    let slips = |known: &&str| strsim::osa_distance(known, word);
    known.iter().copied().min_by_key(slips).filter(|known| slips(known) <= SLIPS_MAX)
}

impl FromStr for LogFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<LogFlag, String> {
        if text.trim().is_empty() { Ok(LogFlag(None)) } else { text.parse().map(|filter| LogFlag(Some(filter))) }
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl Log {
    /// Begins the log of this process. To be called once.
    pub fn begin(filter: &LogFilter, format: LogFormat) -> Log {
        let (targets, handle) = reload::Layer::new(Targets::clone(&filter.targets));
        let common = lines::layer()
            .with_writer(std::io::stderr)
            // A log collector that ends, or a full disk, must not end the server. By default, the library would report
            // the error on the same stream.
            .log_internal_errors(false);
        let of_format = match format {
            LogFormat::Text => common.with_ansi(wants_colours()).boxed(),
            LogFormat::Json => common.json().flatten_event(true).boxed(),
        };
        tracing_subscriber::registry().with(targets).with(of_format).init();
        Log { filter: handle }
    }

    /// Another filter holds from now on.
    pub fn filter(&self, filter: &LogFilter) {
        // It fails only when the subscriber is gone, which lives as long as the process.
        let _ = self.filter.reload(Targets::clone(&filter.targets));
    }
}

fn wants_colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::filter::LevelFilter;

    use super::*;

    #[test]
    fn a_filter_is_levels_and_nothing_else() {
        let would = |text: &str, target: &str, level: tracing::Level| {
            text.parse::<LogFilter>().expect(text).targets.would_enable(target, &level)
        };
        assert!(would("info", "tidegate", tracing::Level::INFO) && !would("info", "tidegate", tracing::Level::DEBUG));
        assert!(would("WARN, tidegate_broker=trace", "tidegate_broker::drive", tracing::Level::TRACE));
        assert!(!would("WARN, tidegate_broker=trace", "tidegate_runtime", tracing::Level::INFO));
        assert!(would("tidegate_broker=debug", "tidegate_runtime", tracing::Level::INFO), "the others stay");
        assert!(!would("info,tidegate::security=off", "tidegate::security", tracing::Level::ERROR));
        for wrong in
            ["inof", "", "info,", "tidegate_broker", "tidegate_broker=inof", "=info", "[span]=info", "a b=info"]
        {
            assert_eq!(wrong.parse::<LogFilter>().expect_err(wrong), EXPECTED);
        }
        for (slip, meant) in [
            ("tidegat_runtime=debug", "tidegate_runtime"),
            ("info,tidegate_runtmie::pump=debug", "tidegate_runtime"),
            ("tidegate::securty=off", "tidegate::security"),
            ("tidegate::operators=off", "tidegate::operator"),
        ] {
            let said = slip.parse::<LogFilter>().expect_err(slip);
            assert!(said.ends_with(&format!("did you mean {meant:?}?")), "{said}");
        }
        for good in ["tidegate_r=debug", "tidegate::command::serve=debug", "tidegate=warn", "rustls=trace", "hyper=off"]
        {
            assert!(good.parse::<LogFilter>().is_ok(), "{good}");
        }
        assert!("".parse::<LogFlag>().is_ok_and(|flag| flag.0.is_none()), "an empty variable says nothing");
        assert!("inof".parse::<LogFlag>().is_err());
        assert_eq!(LEVELS.map(|(_, level)| level.to_string()), LEVELS.map(|(name, _)| name.to_owned()));
        assert!(LEVELS.is_sorted_by_key(|(_, level)| *level) && LEVELS[0].1 == LevelFilter::OFF);
    }

    #[test]
    fn all_our_crates_are_known() {
        let folders = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).expect("crates/ is there");
        let names = folders.map(|folder| folder.expect("it is read").file_name().into_string().expect("ASCII"));
        // A program of its own, which begins no such log.
        let mut names: Vec<String> = names.filter(|name| name != "storm").collect();
        names.iter_mut().filter(|name| *name != "tidegate").for_each(|name| *name = format!("tidegate_{name}"));
        names.sort();
        assert_eq!(names, CRATES);
    }
}
