//! How memory is divided among bounds, and what the doctor says of a configuration.

use crate::support::server::command;
use crate::{Server, Settings, folder};

/// The number behind `name=` in a line of the log.
fn field(log: &str, name: &str) -> u64 {
    let behind = log.split(&format!("{name}=")).nth(1).unwrap_or_else(|| panic!("{name} is said: {log}"));
    behind.split(|sign: char| !sign.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).expect("a number")
}

#[test]
fn a_start_divides_the_memory_that_it_may_use_and_says_so() {
    let folder = folder();
    let settings = |limits: &str, sections: &str| Settings {
        limits: limits.to_owned(),
        sections: sections.to_owned(),
        ..Settings::new(folder.path())
    };
    let start = |limits: &str, sections: &str| Server::start(&settings(limits, sections));
    let small = start("memory_bytes_max = 268435456", "");
    let said = small.log();
    assert_eq!(field(&said, "memory_bytes_max"), 268_435_456);
    let (retained, queued) = (field(&said, "retained_bytes_max"), field(&said, "queued_bytes_max"));
    assert_eq!((retained, queued), (268_435_456 / 32 * 5, 268_435_456 / 32 * 7));
    small.kill();
    let large = start("memory_bytes_max = 17179869184", "");
    assert_eq!(field(&large.log(), "retained_bytes_max"), 17_179_869_184 / 32 * 5);
    large.kill();
    // More than any machine has: what was written stands, and it is said.
    let written = "[kept.all]\nqueued_bytes_max = 1125899906842624\n";
    let open = start("", written);
    assert_eq!(field(&open.log(), "queued_bytes_max"), 1 << 50);
    assert!(open.log().contains("three quarters of the memory here: the bounds that are written"), "{}", open.log());
    open.kill();
    let refused = Server::refused(&settings("memory_bytes_max = 268435456", written));
    assert!(refused.log.contains("limits.memory_bytes_max = 268435456: the bounds that are written"), "{refused}");
}

#[test]
fn the_doctor_adds_up_what_a_configuration_allows_and_names_what_dominates() {
    let folder = folder();
    let settings = |more: &str| Settings {
        limits: "http_connections_max = 32\nbinary_connections_max = 32\nmemory_bytes_max = 268435456".into(),
        sections: format!("[mqtt]\nconnections_max = 64\n{more}"),
        ..Settings::new(folder.path())
    };
    let look = |settings: &Settings| {
        let path = settings.write().display().to_string();
        command(&["doctor", "--config", &path, "--data", &settings.data.display().to_string()]).log
    };
    let said = look(&settings("outbox_bytes_max = 1048576\n"));
    for words in [
        "ok  division of open files",
        "kept for 3 logs, 1 indexes of ids, 160 readers of changes, snapshots, 2 threads and the operator",
        "connections: http 32, binary 32",
        "ok  division of memory     limits.memory_bytes_max is 256.0 MiB of",
        "ok  memory at worst",
        "kept.all.retained_bytes_max",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let rows: Vec<&str> = said.lines().skip_while(|line| !line.starts_with("key ")).skip(1).collect();
    assert!(rows.len() > 20 && rows.last().is_some_and(|last| last.starts_with("in all")), "{said}");
    let mut many = settings("");
    many.limits += "\ntokens_cached_max = 100000000";
    let said = look(&many);
    assert!(said.contains("!!  memory at worst"), "{said}");
    assert!(said.contains("limits.tokens_cached_max dominates: ") && said.contains("Set it to "), "{said}");
    assert!(!settings("").data.exists(), "a look makes nothing");
}
