//! A test world: some workers' brokers in one thread, their logs on a disk that can lose power, clients that follow a
//! script.
//!
//! ```text
//!   "a: CONNECT; a: SUBSCRIBE t/#; b@1: CONNECT v3; b: PUBLISH t/1 hello"  ─▶  "a < PUBLISH t/1 hello"
//! ```
//!
//! [`check`] runs a script and compares what the clients received, command by command. Between two commands everything
//! is read, decided, synced, sent to peers and written. A script is a list of commands, separated by `;` or line ends:
//!
//! * `a: CONNECT [v3] [keep] [expiry=S] [recv=N] [alias=N] [max=BYTES] [keepalive=S] [user=NAME] [method=M] [noproblem]
//!   [why] [will=TOPIC,PAYLOAD[,qos=N][,retain][,delay=S][,expiry=S]]` opens a connection to worker 0, MQTT 5, clean
//!   start (`keep`: not), with client id `a`. `a@1:` opens it to worker 1. `why`: reason strings are shown. `id=X` sets
//!   another client id, `id=` none; `a` is then only the connection's name.
//! * `a: open` opens a connection as CONNECT does, but sends nothing.
//! * `a: SUBSCRIBE f [g ...] [qos=N] [nl] [rap] [rh=N] [sid=N] [id=N] [after=X]`, `a: UNSUBSCRIBE f ...`: packet ids
//!   count from 1 for each connection, if none is given.
//! * `a: PUBLISH topic [payload] [qos=N] [retain] [dup] [id=N] [alias=N] [expiry=S] [response=T] [correlation=X]
//!   [up=NAME=VALUE]`: topic `-` is the empty one.
//! * `a: PUBACK id [0xCODE]`, `PUBREC`, `PUBREL`, `PUBCOMP`.
//! * `a: PING`, `a: DISCONNECT [0xCODE] [expiry=S]`, `a: AUTH method`.
//! * `a: HEX 30 00` sends these bytes.
//! * `a: drop` closes the socket without DISCONNECT.
//! * `a: stall`, `a: flow`: the client stops reading, and continues.
//! * `a: HURRY N`: the client connects N times more, `keep expiry=100`, without waiting; its earlier connections are
//!   `a-1`, `a-2` ...
//! * `a: auto`: the client acknowledges by itself from now on; its acknowledgements are not shown.
//! * `wait MS`: time passes, in steps of a hundred milliseconds.
//! * `crash [MS]`, `kill [MS]`: the power fails, or the process ends; the brokers start again from the disk, so much
//!   later.
//! * `fail-sync`: the next sync fails, and with it the shard whose log it is.
//! * `disk-slow`, `disk-fast`: nothing is written to the disk for now; it is again.
//! * `disk-full`, `disk-room`: no file can grow any more; they can again.
//! * `log x y ...`: the source behind `feed/` has more messages. `feed/all` gets all of them, `feed/x` those whose name
//!   begins with `x`. The first letter is also the partition; a place is how many there were before, of each. `source
//!   away`, `over`, `there`: what it says when read.
//! * `queues slow`, `queues fast`: sends are not answered for now; they are again. What becomes of the messages of
//!   queues is shown as what `queues` hears.
//! * `drain N [REFERENCE]`, `reload`, `reload-back` (to the rights of before), `announce TOPIC PAYLOAD`.
//! * `operate kick ID`, `end ID`, `list LIMIT [AFTER]`, `retained FILTER`, `publish TOPIC PAYLOAD [qos=N] [retain]`: an
//!   operator asks worker 0; payload `-` is the empty one. A session is shown with `+` if its client is connected, and
//!   how many messages wait.
//!
//! Users: `part` may read all of `#` and `part/#` but `part/hidden`, after `reload` but `part/late`; `nobody` is
//! refused; what `brief` shows is good for ten seconds;
//! `gone` has no rights after `reload`; topics that begin with `secret/` are for nobody,
//! `$SYS` may be read, after `reload` `closed/` is for nobody either. `$ledger/accounts/X` may be subscribed to if X is
//! a collector, which those are whose name begins with `candidate`. A request on `$ledger/transfers` is answered with
//! `ok:` and what was asked, one on `other/service` with `other:` and that. `$to/jobs` and `$to/more` lead to queues,
//! `$from/jobs` and `$from/more` from them; `toomuch` is more than they take, and `$to/secret` is for nobody.

// Several test programs share it, and none of them needs all of it.
#![allow(dead_code)]

mod client;
mod rights;
mod script;
mod show;
mod world;

pub use world::{World, WorldOptions};

use expect_test::Expect;

/// Runs a script on two workers and compares what was received.
#[track_caller]
pub fn check(script: &str, heard: Expect) {
    check_with(WorldOptions::default(), script, heard);
}

/// The same with other options.
#[track_caller]
pub fn check_with(options: WorldOptions, script: &str, heard: Expect) {
    let mut world = World::new(options);
    heard.assert_eq(&world.run(script));
}
