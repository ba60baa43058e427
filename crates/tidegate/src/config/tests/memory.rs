//! How memory is divided among the bounds that a file does not write.

use tidegate_broker::Thing;

use super::*;

const GIB: u64 = 1 << 30;

fn on(memory_bytes: u64, text: &str) -> Result<Config, String> {
    let host = Host { cores: 2, memory_bytes: Some(memory_bytes) };
    let document = Document::of("test.toml", text, &schema(&[]));
    document
        .and_then(|document| Config::settle(document, &Overrides::default(), host))
        .map_err(|error| error.to_string())
}

/// Bytes of memory that the bounds allow which share it.
fn shared(config: &Config) -> u64 {
    let all = |thing| config.mqtt.holdings[thing].all.bytes;
    let kept = [Thing::Session, Thing::Retained, Thing::Delayed, Thing::Queued, Thing::Unread].map(all);
    let each_worker = all(Thing::Filter) * config.limits.workers as u64;
    let each_edge = config.limits.http.bodies_bytes_max as u64 * u64::from(config.limits.edge_threads);
    let waiting = config.mqtt.limits.waiting_bytes_max * config.limits.workers as u64;
    waiting + kept.iter().sum::<u64>() + each_worker + each_edge + config.limits.ids_filter_bytes_max as u64
}

#[test]
fn what_is_not_written_shares_three_quarters_of_the_machine() {
    for memory in [GIB, 4 * GIB, 24 * GIB, 256 * GIB] {
        for text in ["", "[limits]\nedge_threads = 8\nworkers = 16\n"] {
            let config = on(memory, text).unwrap();
            let (shared, whole) = (shared(&config), memory / 4 * 3);
            assert_eq!((config.memory.bytes_max, &config.memory.excess), (Some(whole), &None));
            assert!(shared <= whole && shared > whole / 2, "{shared} of {whole}");
            assert!(config.limits.ids_filter_bytes_max <= 800 << 20, "a billion ids fit a gigabyte");
            for thing in [Thing::Session, Thing::Retained, Thing::Queued, Thing::Unread] {
                let limits = config.mqtt.holdings[thing];
                let most = limits.all.bytes / 4;
                assert!(limits.principal.bytes <= most && limits.address.bytes <= most, "{thing:?}: {limits:?}");
            }
        }
    }
    let written = on(24 * GIB, "[limits]\nmemory_bytes_max = 1073741824").unwrap();
    assert!(shared(&written) <= GIB && written.memory.bytes_max == Some(GIB));
}

#[test]
fn what_is_written_stands_and_the_others_share_the_rest() {
    let text = "[limits]\nmemory_bytes_max = 4294967296\nids_filter_bytes_max = 1000000\n[kept.all]\n\
                queued_bytes_max = 2147483648\n[kept.principal]\nretained_bytes_max = 5000000000\n";
    let config = on(24 * GIB, text).unwrap();
    let queued = config.mqtt.holdings[Thing::Queued].all.bytes;
    assert_eq!((config.limits.ids_filter_bytes_max, queued), (1_000_000, 2 * GIB));
    assert_eq!(config.mqtt.holdings[Thing::Retained].principal.bytes, 5_000_000_000);
    assert!(shared(&config) <= 4 * GIB && config.mqtt.holdings[Thing::Retained].all.bytes > GIB / 8);
}

#[test]
fn without_a_division_each_bound_has_its_own_default() {
    let undivided = settle("").unwrap();
    for text in ["[limits]\nmemory_bytes_max = 0", "[limits]\nmemory_bytes_max = 0\nworkers = 2"] {
        let config = on(GIB, text).unwrap();
        assert_eq!((&config.limits, &config.mqtt.holdings), (&undivided.limits, &undivided.mqtt.holdings));
        assert_eq!(config.memory.bytes_max, None);
    }
}

#[test]
fn more_than_the_whole_is_refused_where_both_are_written_and_told_where_the_machine_is_smaller() {
    let queued = "[kept.all]\nqueued_bytes_max = 8589934592\n";
    let refused = on(24 * GIB, &format!("[limits]\nworkers = 2\nmemory_bytes_max = 4294967296\n{queued}")).unwrap_err();
    assert!(refused.starts_with("test.toml:3: limits.memory_bytes_max = 4294967296: the bounds that"), "{refused}");
    assert!(refused.contains("lower them or leave them out"), "{refused}");
    // A file that ran before there was a division runs on.
    let small = on(8 * GIB, queued).unwrap();
    let excess = small.memory.excess.as_deref().expect("it is told");
    assert!(excess.contains("6442450944, three quarters of the memory here"), "{excess}");
    assert_eq!(small.mqtt.holdings[Thing::Queued].all.bytes, 8 * GIB);
    assert_eq!(small.mqtt.holdings[Thing::Delayed].all.bytes, 4 << 20, "what is left is little");
}

#[test]
fn the_least_that_can_be_divided_is_said() {
    let least = 37_748_736;
    assert!(on(24 * GIB, &format!("[limits]\nmemory_bytes_max = {least}")).is_ok());
    for less in [1, least - 1] {
        let error = on(24 * GIB, &format!("[limits]\nmemory_bytes_max = {less}")).unwrap_err();
        assert!(error.contains("4194304 bytes for each are 37748736 bytes together: write a"), "{error}");
        assert!(!error.contains("written"), "nothing is: {error}");
    }
    let rows = crate::config::OWNERS.iter().flat_map(|sections| sections.iter()).flat_map(|section| section.rows);
    let row = rows.into_iter().find(|row| row.name == "memory_bytes_max").expect("there is a row");
    assert!(row.meaning.contains(&least.to_string()), "{}", row.meaning);
}
