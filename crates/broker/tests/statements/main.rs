//! What the OASIS texts of MQTT 5 and 3.1.1 demand of a server, statement by statement, one file per chapter.
//!
//! Each test names the statements that it holds the broker to, in its description. `docs/mqtt-statements.md` lists all
//! statements with the places that test them; [`table`] checks that list. What concerns a single packet is tested in
//! `wire`.

#[path = "../broker/support/mod.rs"]
mod support;

mod acknowledgement;
mod authentication;
mod citations;
mod connack;
mod connect;
mod delivery;
mod disconnect;
mod errors;
mod flow;
mod ping;
mod publish;
mod reasons;
mod retained;
mod session;
mod shared;
mod subscribe;
mod table;
mod topics;
mod unsubscribe;
mod will;

use support::{World, WorldOptions};

/// Runs a transcript and compares it: commands at the margin, each followed by what clients receive. See [`support`]
/// for the commands. With MQTT 5, where a `CONNECT` does not say `v3`.
#[track_caller]
fn holds(transcript: &str) {
    holds_with(WorldOptions::default(), transcript);
}

/// The same in a world of other options.
#[track_caller]
fn holds_with(options: WorldOptions, transcript: &str) {
    let expected = margin_off(transcript);
    let script: Vec<&str> = expected.lines().filter(|line| !line.starts_with(' ')).collect();
    let heard = World::new(options).run(&script.join("\n"));
    assert!(heard == expected, "expected:\n{expected}\nheard:\n{}", marked(&expected, &heard));
}

/// Plays a transcript with MQTT 5, and then with MQTT 3.1.1.
#[track_caller]
fn holds_in_both(transcript: &str) {
    holds(transcript);
    let lines: Vec<String> = transcript.lines().filter_map(in_3_1_1).collect();
    holds(&lines.join("\n"));
}

/// A line of a transcript as MQTT 3.1.1 has it, whose servers close a connection without DISCONNECT and give fewer
/// reasons.
fn in_3_1_1(line: &str) -> Option<String> {
    if line.contains(" < DISCONNECT") {
        return None;
    }
    let line = line.replace(": CONNECT", ": CONNECT v3").replace(" 0x10 no_matching_subscribers", "");
    match line.split_once(" < UNSUBACK ") {
        Some((name, rest)) => Some(format!("{name} < UNSUBACK {}", rest.split(' ').next().unwrap_or(rest))),
        None => Some(line),
    }
}

/// Takes off the indentation that the source has and the transcript has not.
fn margin_off(transcript: &str) -> String {
    let lines = || transcript.lines().filter(|line| !line.trim().is_empty());
    let margin = lines().map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    lines().map(|line| format!("{}\n", &line[margin..])).collect()
}

/// What was received, with a mark at the first difference from the expected.
fn marked(expected: &str, heard: &str) -> String {
    let same = expected.lines().zip(heard.lines()).take_while(|(one, other)| one == other).count();
    let mark = |(nth, line): (usize, &str)| format!("{} {line}\n", if nth == same { "!" } else { " " });
    heard.lines().enumerate().map(mark).collect()
}
