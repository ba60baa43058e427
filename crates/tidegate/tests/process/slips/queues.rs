//! Slips in sections about queues and links: a check refuses what cannot work, at its line, and names what may not.

use crate::support::server::command;
use crate::{Settings, folder};

const QUEUES: &str = "[[queue]]\nname = \"jobs\"\n\n[[queue]]\nname = \"dead\"\n\n";
const LINK: &str = "[[link]]\nname = \"next\"\nto = \"x\"\nfrom = \"jobs\"\n";
const WEBHOOK: &str = "[[webhook]]\nname = \"hook\"\nfrom = \"jobs\"\n";
const ROUTE: &str = "[[route]]\nname = \"r\"\nfrom = \"jobs\"\n[[route_rule]]\nroute = \"r\"\nto = [\"dead\"]\n";
const SMPP: &str = "[[smpp]]\nname = \"s\"\naddress = \"a:1\"\nsystem_id = \"x\"\npassword = \"y\"\nfrom = \"jobs\"\n";

/// What a check says of a file with these sections, and whether it takes it.
fn checked(sections: &str) -> (bool, String) {
    let folder = folder();
    let file = Settings { sections: sections.to_owned(), ..Settings::new(folder.path()) }.write();
    let data = folder.path().join("data");
    let paths = [&file, &data].map(|path| path.to_str().expect("a plain name"));
    let ended = command(&["serve", "--check", "--config", paths[0], "--data", paths[1]]);
    (ended.status.success(), ended.log)
}

/// The number of the line of `sections` that has these words, in the file that a test writes.
fn line_of(sections: &str, words: &str) -> usize {
    let folder = folder();
    let file = Settings { sections: sections.to_owned(), ..Settings::new(folder.path()) }.write();
    let text = std::fs::read_to_string(file).expect("it was written");
    text.lines().zip(1..).filter(|(line, _)| *line == words).last().unwrap_or_else(|| panic!("{words}")).1
}

/// The last line of `sections` is refused, with these words.
fn refused(sections: &str, words: &str) {
    let (is_taken, said) = checked(sections);
    let last = sections.lines().last().expect("a line");
    let place = format!("config.toml:{}: {words}", line_of(sections, last));
    assert!(!is_taken && said.contains(&place), "{last}: expected {place:?}, got {said}");
}

#[test]
fn keys_of_links_that_cannot_work_are_refused_at_their_line() {
    for (address, words) in [
        ("http://10.0.0.2:7420", "expected HOST:PORT and no URL"),
        ("nowhere", "expected HOST:PORT"),
        ("10.0.0.2:0", "expected HOST:PORT with a PORT of 1 to 65535"),
        (":7420", "expected HOST:PORT with a host name"),
    ] {
        let address = format!("{QUEUES}{LINK}token = \"t\"\naddress = \"{address}\"");
        refused(&address, &format!("link.address: {words}"));
    }
    let link = format!("{QUEUES}{LINK}address = \"a:1\"\n");
    refused(&format!("{link}token = \"\""), "link.token: expected one that is not empty, or token_file");
    refused(
        &format!("{link}token_file = \"/dev/null\"\ntoken = \"t\""),
        "link.token: token_file is there too; keep one of them",
    );
    refused(&format!("{link}token_file = \"/dev/null\""), "link.token_file: there is nothing in /dev/null");
    let folder = folder();
    let two_lines = folder.path().join("token");
    std::fs::write(&two_lines, "one\ntwo\n").expect("there is room");
    let two_lines = two_lines.display();
    refused(
        &format!("{link}token_file = '{two_lines}'"),
        &format!("link.token_file: {two_lines} has more than one line"),
    );
    for url in ["http://a/b c", " http://a", "ftp://a", "a.example/hook"] {
        refused(
            &format!("{QUEUES}{WEBHOOK}secret = \"s\"\nurl = \"{url}\""),
            "webhook.url: expected an address with http",
        );
    }
    refused(
        &format!("{QUEUES}{WEBHOOK}url = \"http://a\"\nsecret = \"\""),
        "webhook.secret: expected one that is not empty",
    );
    refused(&format!("{QUEUES}{ROUTE}prefix = [\"+49\"]\nattribute = \"\""), "route_rule.attribute: expected the name");
    assert_eq!(checked(&format!("{link}token = \"t\"")), (true, "ok\n".to_owned()));
}

#[test]
fn keys_of_queues_that_cannot_be_are_refused_at_their_line() {
    for (key, words) in [
        ("messages_max = 0", "messages_max: with 0 the queue takes no message"),
        ("messages_max = 1099511627776", "messages_max is below 2^40"),
        ("attempts_max = 3", "attempts_max needs dead_letter"),
        ("attempts_max = 65536", "attempts_max is 1 to 65535"),
        ("rate_per_s = 0", "rate_per_s is 1 to 1000000"),
        ("consumer_rate_per_s = 1000001", "consumer_rate_per_s is 1 to 1000000"),
        ("expiry_ms = 0", "expiry_ms is 1 to"),
        ("retry_ms = 3600001", "retry_ms is at most retry_max_ms"),
        ("dead_letter = \"jobs\"", "dead_letter is the name of another queue"),
        ("dead_letter = \"\"", "dead_letter is the name of another queue"),
    ] {
        refused(&format!("[[queue]]\nname = \"jobs\"\nlease_ms = 1\n{key}"), &format!("queue.{words}"));
    }
    let queues =
        |count: usize| (0..count).map(|number| format!("[[queue]]\nname = \"q{number}\"\n")).collect::<String>();
    assert!(checked(&queues(10_000)).0);
    refused(&queues(10_001), "queue.name: more [[queue]] than a shard may have, 10000");
}

/// Somebody may make the queue over HTTP.
#[test]
fn a_link_of_a_queue_that_the_file_does_not_declare_is_warned_of() {
    let link = LINK.replace("jobs", "jbos");
    let sections = format!("{QUEUES}{link}address = \"a:1\"\ntoken = \"t\"\n\n{SMPP}inbound = \"phones\"\n");
    let (is_taken, said) = checked(&sections);
    for (key, words) in [
        (
            "from = \"jbos\"",
            "link.from: there is no [[queue]] \"jbos\" (did you mean \"jobs\"?); until somebody makes it",
        ),
        ("inbound = \"phones\"", "smpp.inbound: there is no [[queue]] \"phones\"; until somebody makes it"),
    ] {
        let place = format!("config.toml:{}: {words}", line_of(&sections, key));
        assert!(is_taken && said.contains(&place), "expected {place:?}, got {said}");
    }
    assert_eq!(said.matches("warning: ").count(), 2, "{said}");
}
