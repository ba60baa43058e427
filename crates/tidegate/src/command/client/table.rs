//! Answers as tables for people, or as they are for programs.

use serde_json::Value;

use super::connection::Output;
use super::failure::Failure;

/// The columns of a kind of answer, by the names of its fields, with the width that each has at least: where rows come
/// one by one, that keeps most of them in line.
#[derive(Clone, Copy)]
pub struct Columns(&'static [(&'static str, usize)]);

impl Columns {
    /// An account among others.
    pub const ACCOUNT: Columns =
        Columns(&[("id", 0), ("asset", 0), ("kind", 0), ("status", 6), ("balance", 0), ("held", 0), ("available", 0)]);
    /// An open hold.
    pub const HOLD: Columns = Columns(&[
        ("id", 0),
        ("id_space", 0),
        ("debit", 0),
        ("credit", 0),
        ("remaining", 0),
        ("time_ms", 0),
        ("expires_at_ms", 0),
        ("code", 0),
        ("user_data", 0),
        ("memo", 0),
    ]);
    /// An asset.
    pub const ASSET: Columns = Columns(&[("name", 0), ("decimals", 0), ("declared", 0), ("issued", 0), ("held", 0)]);
    /// An asset that was declared.
    pub const DECLARED: Columns = Columns(&[("name", 0), ("decimals", 0)]);
    /// A row of a history.
    pub const HISTORY: Columns = Columns(&[
        ("time_ms", 0),
        ("kind", 8),
        ("id", 0),
        ("id_space", 0),
        ("debit", 0),
        ("credit", 0),
        ("amount", 0),
        ("balance_after", 0),
        ("code", 0),
        ("user_data", 0),
        ("memo", 0),
    ]);
    /// An outcome.
    pub const OUTCOME: Columns = Columns(&[("id", 0), ("outcome", 0)]);
    /// What the auditor last said of a shard.
    pub const SHARD: Columns = Columns(&[
        ("shard", 0),
        ("state", 0),
        ("sequence", 0),
        ("accounts_compared", 0),
        ("holds_compared", 0),
        ("differences", 0),
        ("finished_at_ms", 0),
    ]);
    /// A session of MQTT, or its client.
    pub const SESSION: Columns = Columns(&[
        ("client_id", 12),
        ("owner", 12),
        ("connected", 0),
        ("address", 15),
        ("connected_at_ms", 24),
        ("subscriptions", 0),
        ("in_flight", 0),
        ("inbox_messages", 0),
        ("inbox_bytes", 0),
        ("expires_at_ms", 0),
    ]);
    /// A subscription.
    pub const FILTER: Columns = Columns(&[("filter", 0), ("qos", 0)]);
    /// What was done to a client.
    pub const OPERATED: Columns = Columns(&[("client_id", 0), ("outcome", 0)]);
    /// A retained message.
    pub const RETAINED: Columns = Columns(&[("topic", 12), ("qos", 0), ("payload_bytes", 0), ("expires_at_ms", 0)]);
    /// Retained messages that were cleared.
    pub const CLEARED: Columns = Columns(&[("filter", 0), ("cleared", 0)]);
    /// A message that was published.
    pub const PUBLISHED: Columns = Columns(&[("topic", 0), ("outcome", 0)]);
    /// An address whose clients are sent away.
    pub const ADDRESS_DRAIN: Columns = Columns(&[("address", 0), ("rate", 0)]);
    /// A service that was made through the API.
    pub const SERVICE: Columns = Columns(&[("name", 12), ("grants", 0), ("withheld", 0), ("hidden", 0)]);
    /// A user that was made through the API.
    pub const USER: Columns =
        Columns(&[("name", 12), ("role", 0), ("wallets", 0), ("grants", 0), ("withheld", 0), ("hidden", 0)]);
    /// A service or user that is gone.
    pub const DELETED: Columns = Columns(&[("name", 0), ("outcome", 0)]);
    /// A queue among others.
    pub const QUEUE: Columns = Columns(&[
        ("name", 12),
        ("waiting", 0),
        ("scheduled", 0),
        ("leased", 0),
        ("dead", 0),
        ("oldest_sent_at_ms", 0),
        ("drained_in_s", 0),
    ]);
    /// A message among others.
    pub const MESSAGE: Columns = Columns(&[
        ("key", 26),
        ("state", 9),
        ("sent_at_ms", 24),
        ("until_ms", 24),
        ("expires_at_ms", 0),
        ("attempts", 0),
        ("bytes", 0),
    ]);
    /// A schedule among others.
    pub const SCHEDULE: Columns =
        Columns(&[("name", 16), ("cron", 20), ("zone", 16), ("next_at_ms", 24), ("last_at_ms", 24)]);
    /// A message that was sent.
    pub const SENT: Columns = Columns(&[("key", 26), ("duplicate", 0)]);
    /// What happened to a message.
    pub const STEP: Columns = Columns(&[
        ("time_ms", 24),
        ("step", 12),
        ("to", 0),
        ("reference", 0),
        ("text", 0),
        ("schedule", 0),
        ("consumer", 0),
        ("until_ms", 0),
        ("reason", 0),
    ]);
    /// A change.
    pub const CHANGE: Columns = Columns(&[
        ("sequence", 10),
        ("time_ms", 24),
        ("kind", 15),
        ("id", 20),
        ("account", 0),
        ("debit", 16),
        ("credit", 16),
        ("amount", 10),
        ("refusal", 0),
    ]);
}

/// The fields of an answer that is shown alone, a line each, and what stands for one that is absent; without that, the
/// line is left out.
#[derive(Clone, Copy)]
pub struct Fields(&'static [(&'static str, Option<&'static str>)]);

impl Fields {
    /// An account with what was set on it.
    pub const ACCOUNT: Fields = Fields(&[
        ("id", None),
        ("asset", None),
        ("kind", None),
        ("status", Some("open")),
        ("balance", None),
        ("held", None),
        ("available", None),
        ("credited", None),
        ("debited", None),
        ("balance_min", Some("none")),
        ("balance_max", Some("none")),
        ("revision", Some("0")),
        ("metadata", None),
    ]);
    /// A balance at a time.
    pub const BALANCE_AT: Fields = Fields(&[
        ("id", None),
        ("asset", None),
        ("kind", None),
        ("at_ms", None),
        ("balance", None),
        ("held", None),
        ("available", None),
        ("last_id", Some("none")),
        ("last_time_ms", None),
        ("before_first_row", None),
        ("to_come", None),
    ]);
    /// A transfer as it was decided.
    pub const TRANSFER: Fields = Fields(&[
        ("id", None),
        ("id_space", None),
        ("outcome", None),
        ("refusal", None),
        ("available", None),
        ("debit", None),
        ("credit", None),
        ("amount", None),
        ("code", None),
        ("user_data", None),
        ("memo", None),
        ("time_ms", None),
        ("shard", None),
        ("position", None),
    ]);
    /// A hold as it is.
    pub const HOLD: Fields = Fields(&[
        ("id", None),
        ("id_space", None),
        ("state", None),
        ("debit", None),
        ("credit", None),
        ("amount", None),
        ("remaining", None),
        ("posted", None),
        ("code", None),
        ("user_data", None),
        ("memo", None),
        ("time_ms", None),
        ("expires_at_ms", None),
    ]);
    /// A session of MQTT, and its client.
    pub const SESSION: Fields = Fields(&[
        ("client_id", None),
        ("owner", None),
        ("connected", None),
        ("address", None),
        ("port", None),
        ("listener", None),
        ("protocol", None),
        ("keep_alive_s", None),
        ("connected_at_ms", None),
        ("last_packet_at_ms", None),
        ("durable", None),
        ("expiry_s", Some("none")),
        ("disconnected_at_ms", None),
        ("expires_at_ms", None),
        ("subscriptions", None),
        ("in_flight", None),
        ("inbox_messages", None),
        ("inbox_bytes", None),
    ]);
    /// How far clients are sent away.
    pub const DRAIN: Fields =
        Fields(&[("address", None), ("draining", None), ("rate", None), ("clients", None), ("connections", None)]);
    /// A service, and its token if it is new.
    pub const SERVICE: Fields =
        Fields(&[("name", None), ("grants", Some("none")), ("withheld", None), ("hidden", None), ("token", None)]);
    /// A user.
    pub const USER: Fields = Fields(&[
        ("name", None),
        ("role", None),
        ("wallets", None),
        ("grants", None),
        ("withheld", None),
        ("hidden", None),
    ]);
    /// A queue.
    pub const QUEUE: Fields = Fields(&[
        ("name", None),
        ("waiting", None),
        ("scheduled", None),
        ("leased", None),
        ("dead", None),
        ("oldest_sent_at_ms", None),
        ("drained_in_s", Some("not at these rates")),
        ("window", Some("always open")),
        ("rates", None),
        ("totals", None),
        ("settings", None),
    ]);
    /// A schedule.
    pub const SCHEDULE: Fields = Fields(&[
        ("name", None),
        ("cron", None),
        ("zone", None),
        ("next_at_ms", Some("never: it cannot be read any more")),
        ("last_at_ms", Some("not yet")),
        ("last_key", None),
        ("expires_in_ms", None),
        ("message", None),
    ]);
    /// So many messages.
    pub const MESSAGES: Fields = Fields(&[("messages", None)]);
    /// A message.
    pub const MESSAGE: Fields = Fields(&[
        ("key", None),
        ("node", None),
        ("restart", None),
        ("number", None),
        ("queue", None),
        ("state", None),
        ("sent_at_ms", None),
        ("until_ms", None),
        ("expires_at_ms", None),
        ("attempts", None),
        ("bytes", None),
        ("message", None),
        ("trail_is_cut", None),
    ]);
    /// How a server is.
    pub const STATUS: Fields = Fields(&[
        ("server", None),
        ("health", None),
        ("ready", Some("ready")),
        ("detail", None),
        ("damage", Some("0")),
        ("disk_full", Some("0")),
        ("disk_full_since", None),
        ("witness_lost", Some("0")),
        ("archive", None),
        ("clock", None),
        ("directory", None),
        ("snapshots", None),
        ("ids", None),
        ("rooms", None),
        ("audit", None),
    ]);
}

/// Where answers go.
#[derive(Clone, Copy)]
pub struct Shown {
    output: Output,
}

impl Shown {
    /// Shows in this way.
    pub fn new(output: Output) -> Shown {
        Shown { output }
    }

    /// Whether programs read it.
    pub fn is_json(&self) -> bool {
        self.output == Output::Json
    }

    /// One answer.
    pub fn one(&self, fields: Fields, answer: &Value) -> Result<(), Failure> {
        match self.output {
            Output::Json => print(&format!("{answer}\n")),
            Output::Table => print(&lines(fields, answer)),
        }
    }

    /// Rows; a head above them if they are the first.
    pub fn rows(&self, columns: Columns, rows: &[Value], with_head: bool) -> Result<(), Failure> {
        let text = match self.output {
            Output::Json => rows.iter().map(|row| format!("{row}\n")).collect(),
            Output::Table => table(columns, rows, with_head),
        };
        print(&text)
    }
}

/// The fields of one answer, a line each.
fn lines(Fields(fields): Fields, answer: &Value) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    for (name, absent) in fields {
        match (&answer[*name], absent) {
            (Value::Null, None) => {}
            (Value::Null, Some(absent)) => lines.push((head(name).to_owned(), (*absent).to_owned())),
            (Value::Object(members), _) => {
                let shown = members.iter().map(|(key, value)| (visible(&format!("{name}.{key}")), cell(key, value)));
                lines.extend(shown);
            }
            (value, _) => lines.push((head(name).to_owned(), cell(name, value))),
        }
    }
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    lines.iter().map(|(name, value)| format!("{name:<width$}  {value}\n")).collect()
}

/// Prints, and says when whoever reads has gone, or a disk is full.
fn print(text: &str) -> Result<(), Failure> {
    Ok(crate::output::write(text)?)
}

fn table(Columns(names): Columns, rows: &[Value], with_head: bool) -> String {
    let head: Vec<String> = names.iter().map(|(name, _)| head(name).to_owned()).collect();
    let cells = rows.iter().map(|row| names.iter().map(|(name, _)| cell(name, &row[*name])).collect());
    let cells: Vec<Vec<String>> = cells.collect();
    let is_number = |column: usize| {
        let name = names[column].0;
        !is_time(name) && rows.iter().any(|row| row[name].is_number())
    };
    let width = |column: usize| {
        let texts = std::iter::once(&head).chain(&cells).map(|row| row[column].chars().count());
        texts.max().unwrap_or(0).max(names[column].1)
    };
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let mut text = String::new();
    let heads = if with_head { Some(&head) } else { None };
    for row in heads.into_iter().chain(&cells) {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let separator = if column == 0 { "" } else { "  " };
            let padded = if is_number(column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
            line.push_str(separator);
            line.push_str(&padded);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// What stands above a field: times are shown as people read them, so their unit is gone.
fn head(name: &str) -> &str {
    if is_time(name) { name.trim_end_matches("_ms") } else { name }
}

/// A value in a table.
fn cell(name: &str, value: &Value) -> String {
    match value {
        // An account on which nothing was ever set says nothing of its status.
        Value::Null if name == "status" => "open".to_owned(),
        Value::Null => "-".to_owned(),
        Value::Number(number) if is_time(name) => match number.as_u64() {
            None | Some(0) => "-".to_owned(),
            Some(epoch_ms) => time(epoch_ms),
        },
        Value::String(text) => visible(text),
        Value::Array(texts) if texts.is_empty() => "none".to_owned(),
        Value::Array(texts) => texts.iter().map(|text| cell(name, text)).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// What an id or memo may hold besides, no terminal shall obey.
fn visible(text: &str) -> String {
    text.chars().map(|sign| if sign.is_control() { '\u{fffd}' } else { sign }).collect()
}

fn is_time(name: &str) -> bool {
    name.ends_with("time_ms") || name.ends_with("_at_ms") || matches!(name, "at_ms" | "until_ms")
}

/// A time as people read it.
pub fn time(epoch_ms: u64) -> String {
    let seconds = tidegate_doors::http::time::rfc3339(epoch_ms / 1_000);
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), epoch_ms % 1_000)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_stand_under_their_heads() {
        let rows = [
            json!({"id": "wallet:dave", "asset": "credit", "kind": "wallet", "balance": 7, "held": 0, "available": 7}),
            json!({"id": "x\u{1b}[2J", "asset": "credit", "kind": "source", "status": "frozen", "balance": -123,
                   "held": 10}),
        ];
        let expected = "\
id           asset   kind    status  balance  held  available
wallet:dave  credit  wallet  open          7     0          7
x\u{fffd}[2J        credit  source  frozen     -123    10          -
";
        assert_eq!(table(Columns::ACCOUNT, &rows, true), expected);
        let row = json!({"time_ms": 1_795_252_489_007u64, "kind": "transfer", "id": "t", "debit": "a", "credit": "b",
                         "amount": 1, "balance_after": 2, "code": 7, "memo": "m"});
        let expected = "\
time                      kind      id  id_space  debit  credit  amount  balance_after  code  user_data  memo
2026-11-21T09:14:49.007Z  transfer  t   -         a      b            1              2     7  -          m
";
        assert_eq!(table(Columns::HISTORY, &[row], true), expected);
    }

    #[test]
    fn one_answer_has_a_line_for_each_field_that_is_there() {
        let account = json!({"id": "wallet:dave", "asset": "credit", "kind": "wallet", "balance": 7, "held": 0,
                             "available": 7, "credited": 7, "debited": 0, "balance_max": 9, "revision": 2,
                             "metadata": {"plan": "gold", "x\u{1b}": "y"}});
        let expected = "\
id             wallet:dave
asset          credit
kind           wallet
status         open
balance        7
held           0
available      7
credited       7
debited        0
balance_min    none
balance_max    9
revision       2
metadata.plan  gold
metadata.x\u{fffd}    y
";
        assert_eq!(lines(Fields::ACCOUNT, &account), expected);
        let never = json!({"at_ms": 1_795_252_489_007u64, "id": "a", "balance": 0});
        assert_eq!(
            lines(Fields::BALANCE_AT, &never),
            "id       a\nat       2026-11-21T09:14:49.007Z\nbalance  0\nlast_id  none\n"
        );
    }
}
