//! What a configuration allows on this host: how its open files are divided, and the memory that clients can make it
//! use at worst.

use std::fs;

use tidegate_broker::TOPICS;
use tidegate_ledger::LEDGER;

use super::Finding;
use crate::config::Config;
use crate::open_files::{self, DoorConnections, Needs, OpenFiles, ROSTER_LOGS};
use crate::output::say;
use crate::worst_case::{WorstCase, in_words};

/// Prints both. Whether all is well.
pub fn tell_all(config: &Config) -> bool {
    let (needs, asked) = (needs(config), DoorConnections::asked(config));
    let divided = OpenFiles::divide(open_files::raise_limit(), needs, asked);
    let connections = divided.as_ref().map_or(asked, |files| files.connections);
    let worst_case = WorstCase::of(config, connections, needs);
    let well = super::tell(&[files(divided, needs, asked), division(config), memory(config, &worst_case)]);
    table(&worst_case);
    well
}

/// The logs that the directory has; of one that is not there yet, those that it will have.
fn needs(config: &Config) -> Needs {
    let names = fs::read_dir(config.data.dir.join("journal")).into_iter().flatten().filter_map(Result::ok);
    let names: Vec<String> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let of = |family: &str| {
        let is_log = |name: &&String| name.strip_prefix(family).is_some_and(|shard| shard.starts_with('-'));
        names.iter().filter(is_log).count()
    };
    let is_there = config.data.dir.join("DIRECTORY").exists();
    let (ledgers, topics) = match is_there {
        true => (of(LEDGER.name), of(TOPICS.name)),
        false => (config.data.shards.into(), config.mqtt.topic_shards.into()),
    };
    Needs::of(config, names.len().max(ledgers + topics + usize::from(ROSTER_LOGS)), ledgers)
}

fn files(divided: Result<OpenFiles, String>, needs: Needs, asked: DoorConnections) -> Finding {
    let what = "division of open files";
    let OpenFiles { limit, kept, connections, is_short } = match divided {
        Ok(files) => files,
        Err(advice) => return Finding { what, found: "none".into(), advice: Some(advice) },
    };
    let DoorConnections { http, binary, mqtt } = connections;
    let found = format!(
        "{limit}: {kept} kept for {} logs, {} indexes of ids, {} readers of changes, snapshots, {} threads and the \
         operator; connections: http {http}, binary {binary}, mqtt {mqtt}",
        needs.logs, needs.indexes, needs.readers, needs.threads
    );
    let wished = needs.kept() + asked.http + asked.binary + asked.mqtt;
    let advice = match (is_short, connections == asked) {
        (true, _) => Some(format!("too few for so many shards: {} should be kept; raise the limit", needs.kept())),
        (false, false) => Some(format!(
            "fewer connections than configured: http {}, binary {}, mqtt {}. Raise the limit to {wished} (ulimit -Hn, \
             LimitNOFILE of systemd), or configure no more than there can be",
            asked.http, asked.binary, asked.mqtt
        )),
        (false, true) => None,
    };
    Finding { what, found, advice }
}

fn division(config: &Config) -> Finding {
    let memory = &config.memory;
    let of_host = memory.host_bytes.map_or("unknown".into(), in_words);
    let found = match memory.bytes_max {
        Some(bytes) => format!("limits.memory_bytes_max is {} of {of_host}", in_words(bytes)),
        None => format!("none, of {of_host}: each bound has its own default"),
    };
    Finding { what: "division of memory", found, advice: memory.excess.clone() }
}

fn memory(config: &Config, worst_case: &WorstCase) -> Finding {
    let at_worst = worst_case.bytes().map_or("without a bound".into(), in_words);
    let most = config.memory.host_bytes;
    let of = most.map_or(String::new(), |most| format!(", of {}", in_words(most)));
    let advice = most.and_then(|most| worst_case.advice(most));
    Finding { what: "memory at worst", found: format!("{at_worst}{of}; by key below"), advice }
}

/// A line for each key, the largest first.
fn table(worst_case: &WorstCase) {
    let sum = worst_case.bytes();
    say(format_args!("\n{:<34} {:>14} {:>14} {:>7}  of", "key", "value", "at worst", "share"));
    for cost in &worst_case.0 {
        let at_worst = cost.bytes.map_or("no bound".into(), in_words);
        let share = cost.bytes.zip(sum.filter(|sum| *sum > 0));
        let share = share.map_or(String::new(), |(bytes, sum)| format!("{:.1} %", 100.0 * bytes as f64 / sum as f64));
        say(format_args!("{:<34} {:>14} {at_worst:>14} {share:>7}  {}", cost.key, cost.value, cost.of));
    }
    say(format_args!("{:<34} {:>14} {:>14}", "in all", "", sum.map_or("no bound".into(), in_words)));
}
