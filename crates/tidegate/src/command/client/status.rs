//! `tidegate status`: whether a server serves and takes new clients, what of its files is damaged, whether its disk is
//! full, whether a witness is lost, what is wrong with its data directory and its rooms, and what the auditor last
//! found.
//!
//! Anybody may ask whether it serves; what the auditor found is told to a token that may read it.

use serde_json::{Value, json};

use super::door::Door;
use super::failure::Failure;
use super::table::{Columns, Fields, Shown};

/// Shows how the server is; fails unless it serves and nothing is known to be wrong.
pub(super) fn run(door: &Door, shown: &Shown) -> Result<(), Failure> {
    let (serves, health) = match door.get("/healthz") {
        Ok(health) => (true, health),
        Err(Failure::Refused(refusal)) if refusal.status == 503 => (false, refusal.problem),
        Err(failure) => return Err(failure),
    };
    let (audit, why_not) = match serves && door.has_token() {
        false => (None, "not asked: it needs a token, and a server that serves"),
        true => match door.get("/v1/audit") {
            Ok(audit) => (Some(audit), ""),
            // What everybody may see is shown nevertheless.
            Err(Failure::Refused(refusal)) if refusal.code() == "forbidden" => {
                (None, "not shown: the token needs the grant \"audit\"")
            }
            Err(failure) => return Err(failure),
        },
    };
    let ready = ready(door)?;
    let status = status(door.server(), &health, &ready, audit.as_ref().ok_or(why_not));
    if shown.is_json() {
        let mut status = status.clone();
        status["audit"] = audit.clone().unwrap_or_default();
        shown.one(Fields::STATUS, &status)?;
    } else {
        shown.one(Fields::STATUS, &status)?;
        if let Some(audit) = &audit {
            shown.rows(Columns::SHARD, &shards(audit), true)?;
        }
    }
    let is_damaged = counted(&health, "damage") > 0;
    let is_full = counted(&health, "disk_full") > 0;
    let is_degraded = health["status"] == "degraded";
    let is_wrong = audit.is_some_and(|audit| ["differs", "damaged"].map(Value::from).contains(&audit["state"]));
    let is_unready = ready != READY;
    if !serves || is_damaged || is_full || is_degraded || is_wrong || is_unready {
        Err(Failure::NotWell)
    } else {
        Ok(())
    }
}

/// As the server says it.
const READY: &str = "ready";

/// Whether it takes writes and new clients; else why not.
fn ready(door: &Door) -> Result<String, Failure> {
    match door.get("/readyz") {
        Ok(_) => Ok(READY.into()),
        Err(Failure::Refused(refusal)) if refusal.status == 503 => Ok(format!("no: {}", refusal.detail())),
        Err(failure) => Err(failure),
    }
}

fn status(server: &str, health: &Value, ready: &str, audit: Result<&Value, &str>) -> Value {
    let audit = audit.map_or_else(|why_not| why_not, |audit| audit["state"].as_str().unwrap_or("unknown"));
    let word = health["status"].as_str().or(health["code"].as_str()).unwrap_or("unknown");
    json!({
        "server": server, "health": word, "ready": ready, "detail": health["detail"], "progress": health["progress"],
        "damage": counted(health, "damage"), "disk_full": counted(health, "disk_full"),
        "disk_full_since": health["disk_full_since"],
        "witness_lost": counted(health, "witness_lost"), "archive": health["archive"],
        "clock": health["clock"], "directory": health["directory"], "snapshots": health["snapshots"],
        "ids": health["ids"], "rooms": rooms(health), "audit": audit,
    })
}

/// What is wrong with rooms, as `ROOM: WORD`; null if nothing is.
fn rooms(health: &Value) -> Value {
    let Some(rooms) = health["rooms"].as_object() else { return Value::Null };
    let said = rooms.iter().map(|(room, fault)| format!("{room}: {}", fault.as_str().unwrap_or("unknown")));
    said.collect::<Vec<_>>().join(", ").into()
}

/// Damaged places, or journals whose disk is full or whose witness is lost; none if it does not say.
fn counted(health: &Value, what: &str) -> u64 {
    health[what].as_u64().unwrap_or(0)
}

/// The shards, with the number of differences in place of them.
fn shards(audit: &Value) -> Vec<Value> {
    let mut shards = audit["shards"].as_array().cloned().unwrap_or_default();
    for shard in &mut shards {
        let named = shard["differences"].as_array().map_or(0, |named| named.len() as u64);
        shard["differences"] = (named + shard["differences_more"].as_u64().unwrap_or(0)).into();
    }
    shards
}
