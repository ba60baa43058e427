//! Why a command is not done, what the person who asked can do about it, and the exit code.
//!
//! ```text
//!   problem of the server ─▶ Refused ─▶ its words, and a hint ─▶ 3
//!   no answer, no file ────▶ Failed ──▶ what was tried ────────▶ 1      (--json: an object on standard error)
//!   arguments that do not go together ─▶ CommandLine ──────────▶ 2
//! ```

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use serde_json::{Value, json};

use super::connection::Output;
use crate::output::{Unwritten, complain, lost_words};

/// The command line is wrong in a way that clap does not know.
const WRONG: u8 = 2;
/// The server refused.
const REFUSED: u8 = 3;

/// What is waited at least before a request is sent again.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Why a command is not done.
#[derive(Debug)]
pub enum Failure {
    /// The server says no.
    Refused(Refusal),
    /// It could not be asked, or did not answer.
    Failed(anyhow::Error),
    /// Arguments that do not go together.
    CommandLine(String),
    /// Rows of an import were refused; each was told where it was met.
    RowsRefused,
    /// The server serves and is not as it should be, which was told.
    NotWell,
    /// Whoever reads the output has gone: `| head`.
    NobodyReads,
    /// The output cannot be written, in the system's words: a disk is full.
    OutputLost(String),
}

impl From<Unwritten> for Failure {
    fn from(unwritten: Unwritten) -> Failure {
        match unwritten {
            Unwritten::NobodyReads => Failure::NobodyReads,
            Unwritten::Lost(why) => Failure::OutputLost(why),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::Failed(error)
    }
}

impl Failure {
    /// The same failure with what was going on before its words.
    pub fn while_doing(self, what: &str) -> Failure {
        match self {
            Failure::Refused(refusal) => Failure::Refused(Refusal { context: format!("{what}: "), ..refusal }),
            Failure::Failed(error) => Failure::Failed(error.context(what.to_owned())),
            other => other,
        }
    }

    /// The same failure, of a request that changes nothing.
    pub fn of_a_read(self) -> Failure {
        match self {
            Failure::Refused(refusal) => Failure::Refused(Refusal { is_read: true, ..refusal }),
            other => other,
        }
    }

    /// The same failure with what follows from it behind its words.
    pub fn and(self, what: &str) -> Failure {
        match self {
            Failure::Failed(error) => Failure::Failed(anyhow!("{error:#}; {what}")),
            other => other,
        }
    }

    /// Says what is wrong, and gives the exit code.
    pub fn told(self, output: Output) -> ExitCode {
        let is_json = output == Output::Json;
        match self {
            Failure::NobodyReads => ExitCode::SUCCESS,
            Failure::RowsRefused => ExitCode::from(REFUSED),
            Failure::NotWell => ExitCode::FAILURE,
            Failure::Refused(refusal) if is_json => {
                complain(format_args!("{}", refusal.problem()));
                ExitCode::from(REFUSED)
            }
            Failure::Refused(refusal) => {
                complain(format_args!("tidegate: {refusal}"));
                if let Some(hint) = refusal.hint() {
                    complain(format_args!("hint: {hint}"));
                }
                ExitCode::from(REFUSED)
            }
            Failure::OutputLost(_) => {
                told_as("output_lost", &self.to_string(), is_json);
                ExitCode::FAILURE
            }
            Failure::Failed(_) => {
                told_as("failed", &self.to_string(), is_json);
                ExitCode::FAILURE
            }
            Failure::CommandLine(_) => {
                told_as("command_line", &self.to_string(), is_json);
                ExitCode::from(WRONG)
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(refusal) => refusal.fmt(f),
            Failure::Failed(error) => write!(f, "{error:#}"),
            Failure::CommandLine(what) => f.write_str(what),
            Failure::RowsRefused => f.write_str("rows were refused"),
            Failure::NotWell => f.write_str("the server is not as it should be"),
            Failure::NobodyReads => f.write_str("nobody reads the output"),
            Failure::OutputLost(why) => f.write_str(&lost_words(why)),
        }
    }
}

fn told_as(code: &str, what: &str, is_json: bool) {
    match is_json {
        true => complain(format_args!("{}", json!({ "code": code, "detail": what }))),
        false => complain(format_args!("tidegate: {what}")),
    }
}

/// A problem of the server.
#[derive(Debug)]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// What the server answered; null if that is no JSON.
    pub problem: Value,
    /// After how long to ask again, if the server says it.
    pub retry_after: Option<Duration>,
    /// Whether what was asked changes nothing.
    pub is_read: bool,
    /// What was going on, for the person.
    pub context: String,
}

impl Refusal {
    /// Its stable code; empty if what answered is no Tidegate.
    pub fn code(&self) -> &str {
        self.problem["code"].as_str().unwrap_or("")
    }

    /// What is wrong, in words.
    pub fn detail(&self) -> &str {
        self.problem["detail"].as_str().unwrap_or("the answer has no reason")
    }

    /// A member of its own.
    pub fn member(&self, name: &str) -> Option<String> {
        self.problem[name].as_str().map(str::to_owned)
    }

    /// Whether the same request may go well a little later.
    pub fn is_passing(&self) -> bool {
        self.status == 503 || self.status == 429
    }

    /// After how long the same request is served, if all that is wrong with it is that it comes too soon.
    pub fn pause(&self) -> Option<Duration> {
        let is_too_soon = self.status == 429 || self.code() == "busy";
        // What is less than a second is said as none.
        self.retry_after.filter(|_| is_too_soon).map(|pause| pause.max(PAUSE_MIN))
    }

    /// Whether another row of the same file may be accepted.
    pub fn is_about_a_row(&self) -> bool {
        !matches!(self.status, 401 | 403 | 405 | 415) && !matches!(self.code(), "" | "path_unknown")
    }

    /// The server's problem as it is, or one in its place.
    fn problem(&self) -> Value {
        match self.code() {
            "" => json!({ "status": self.status, "code": "no_problem_body", "detail": self.detail() }),
            _ => self.problem.clone(),
        }
    }

    /// What to do about it, where the server's words do not say it: it does not know this command line.
    fn hint(&self) -> Option<&'static str> {
        Some(match self.code() {
            "" => "what answers there is no Tidegate; is --server (or TIDEGATE_SERVER) its HTTP door?",
            "token_missing" => "give a token: --token TOKEN, --token-file FILE, or TIDEGATE_TOKEN in the environment",
            "token_invalid" => {
                "--token (or TIDEGATE_TOKEN) must be the token of a [[service]] in the server's configuration, or one \
                 that a login gave; its token_sha256 is that of the token without a line break: printf %s TOKEN | \
                 sha256sum"
            }
            "token_expired" => "log in again, or use the token of a service",
            "forbidden" => {
                "what this token may do stands in the server's configuration: in [[service]] for the token of a \
                 service, in [[user]] for that of a login; or, of those made through the API, in `tidegate services \
                 get NAME` and `tidegate users get NAME`"
            }
            "account_not_found" | "debit_account_not_found" | "credit_account_not_found" => {
                "`tidegate account list` shows the accounts that this token may see"
            }
            "transfer_not_found" | "hold_not_found" => {
                "ids are looked for in the id space of this token; --id-space NAME looks in that of a user or service"
            }
            "client_not_found" => {
                "`tidegate clients list` shows who is connected, `tidegate sessions list` also who is not"
            }
            "session_not_found" => "`tidegate sessions list` shows the sessions that there are",
            "service_not_found" => "`tidegate services list` shows those that were made so",
            "user_not_found" => "`tidegate users list` shows those that were made so; a new one needs --password",
            "path_unknown" | "method_not_allowed" => {
                "is --server (or TIDEGATE_SERVER) its address without the path of the API? Else the server may be \
                 older than this command: `tidegate --version`"
            }
            "cursor_unknown" | "cursor_of_other_history" => {
                "begin with --after start, or with a cursor that this server gave"
            }
            "revision_stale" => "look at it with `tidegate account get`, and ask again",
            "account_not_empty" => {
                "move what is left to another account, and post or void what `tidegate account holds` shows"
            }
            "busy" | "too_many_requests" | "timed_out" if self.is_read => "ask again a little later",
            "busy" | "too_many_requests" | "timed_out" => "ask again a little later; the same id is not done twice",
            "recovering" | "stopping" | "shard_failed" | "disk_full" | "state_differs" | "damaged" => {
                "`tidegate status` shows how the server is"
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (context, detail) = (&self.context, self.detail());
        match self.code() {
            "" => write!(f, "{context}the server refuses with {}: {detail}", self.status),
            code => write!(f, "{context}the server refuses with {} {code}: {detail}", self.status),
        }
    }
}
