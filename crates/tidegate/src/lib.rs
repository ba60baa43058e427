//! `tidegate`: the server, and the commands that check its data. A program with rooms of its own calls [`run`] with
//! them as [extensions](Extension); `examples/counter` is one.
//!
//! ```text
//!   serve ─▶ config ─▶ rooms ─▶ Node      audit ─▶ every family of logs
//!   doctor ─▶ this host                   status, account, transfer, hold, asset, changes, import, queue, message,
//!                                         clients, sessions, retained, publish, drain, services, users ─▶ a server
//!   backup ─▶ a directory of backups      restore ─▶ a new data directory
//!   pacer replay ─▶ the pacer's record of decisions
//! ```

mod archiving;
mod auth_hook;
mod command;
mod compose;
mod config;
mod extension;
mod host;
mod huge_pages;
mod identity_keys;
mod links;
mod logging;
mod metrics;
mod object_storage;
mod open_files;
mod openness;
mod outgoing;
mod output;
mod pacing;
mod private;
mod queues;
mod reference;
mod service_manager;
mod watch;
mod worst_case;

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use command::client;
use command::number::whole;
use command::serve::Work;
use tidegate_backup::{At, Reread};

pub use compose::Parcels;
pub use extension::{Extension, KnownFamily, Opened};

/// Why not the system's: it gives large buffers back to the kernel at once, and a worker then spends a twentieth of its
/// time on pages that the kernel clears for it (`clear_page` in `perf`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A server for live audiences and live machines.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve until SIGTERM or SIGINT, then finish what was accepted, sync, and exit 0.
    Serve {
        /// Configuration file; without one all defaults hold.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Data directory; created if it does not exist.
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Address of the HTTP door, or off.
        #[arg(long, value_name = "ADDR")]
        http: Option<config::Address>,
        /// Address of the binary door, or off.
        #[arg(long, value_name = "ADDR")]
        binary: Option<config::Address>,
        /// Address of MQTT over TCP, or off.
        #[arg(long, value_name = "ADDR")]
        mqtt: Option<config::Address>,
        /// Address of MQTT over TLS, or off; needs certificates in the configuration.
        #[arg(long, value_name = "ADDR")]
        mqtts: Option<config::Address>,
        /// What the log says: a level (off, error, warn, info, debug, trace), or levels of single modules beside it, as
        /// in info,tidegate_runtime=debug. Without it, log.filter of the configuration holds.
        #[arg(long, value_name = "FILTER", env = "TIDEGATE_LOG")]
        log: Option<logging::LogFlag>,
        /// Serve nothing and change nothing: read the configuration and the files that it names, say what is wrong with
        /// the file and the line, or "ok", and what is open to a network. Exit 0 if a start would take what is looked
        /// at. Not looked at: whether an address is free, whether the seeds fit the accounts that an existing data
        /// directory has, and whether directories outside, such as that of an archive, can be written.
        #[arg(long)]
        check: bool,
    },
    /// Refold a data directory that nobody serves: verify every checksum and the chain, compare snapshots, check
    /// conservation. Exit 0 only if all agree.
    Audit {
        /// Data directory.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// The folder of the witnesses, if the configuration has `data.witness`.
        #[arg(long, value_name = "DIR")]
        witness: Option<PathBuf>,
    },
    /// Copy a data directory, also while a server uses it: what backups in DIR have already is not copied again.
    Backup {
        /// Data directory.
        #[arg(long, value_name = "DIR", required_unless_present = "verify")]
        data: Option<PathBuf>,
        /// Directory of backups. One that does not exist is made if its name has a slash (./backups) and the folder
        /// around it exists.
        #[arg(long, value_name = "DIR", required_unless_present = "verify")]
        to: Option<PathBuf>,
        /// Read also all sealed segments that backups in DIR have already, and copy anew what is not what was copied;
        /// without it only their length is compared.
        #[arg(long)]
        reread: bool,
        /// Take none: read all backups in DIR again, and exit 0 only if each is what was taken, and can be restored.
        #[arg(long, value_name = "DIR", conflicts_with_all = ["data", "to", "reread"])]
        verify: Option<PathBuf>,
    },
    /// Make a new data directory of a backup. What it then decides is on a timeline of its own.
    Restore {
        /// Directory of backups.
        #[arg(long, value_name = "DIR")]
        from: PathBuf,
        /// Data directory to make; it must be empty or not exist, or be what an interrupted restore left. The folder
        /// around it exists.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// Up to where: a sequence of the ledger (48113, or 0:48113,1:900 for several shards), or a time in UTC
        /// (2026-11-22T04:50:12Z); up to the end of the backup if not given. With a sequence, the log ends behind the
        /// last group of records, which were synced together, that ends at or before it.
        #[arg(long, value_name = "SEQUENCE|TIME")]
        at: Option<At>,
        /// Name of the backup; the newest if not given.
        #[arg(long, value_name = "NAME")]
        backup: Option<String>,
    },
    /// Move sealed segments of the ledger's journal out of a data directory, also while a server uses it. They are read
    /// from there: for a history, an audit, a rebuild.
    Archive {
        /// Data directory.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// A directory, perhaps on another disk, or s3://bucket/prefix. A directory that does not exist is made if its
        /// name has a slash (./archive) and the folder around it exists. The store's address and keys are taken from
        /// the environment (AWS_ENDPOINT, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY …;
        /// AWS_ALLOW_HTTP=true for a store without TLS).
        #[arg(long, value_name = "DIR|URL")]
        to: String,
        /// So many sealed segments of each log stay.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<usize>(0..=u64::MAX, "segments"))]
        keep_segments: usize,
    },
    /// Set the time of a ledger that nobody serves, after the clock of its host had been wrong. Open holds keep the
    /// time that was left to them. Correct the clock first: the next start follows it, and would take from them what
    /// the new time is behind it. The journal says that it was done, and why. What else lasts for a time (sessions,
    /// messages) goes by the clock of this host: if some of it is over by that, this is named, and --yes is asked for.
    MendTime {
        /// Data directory.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// `now`, a time in UTC (2026-11-22T04:50:12Z), or milliseconds since the Unix epoch.
        #[arg(long, value_name = "TIME", value_parser = command::mend_time::NewTime::parse)]
        to: command::mend_time::NewTime,
        /// Why, for the journal; at most 256 bytes.
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
        /// Also to a time that is more than a minute behind this host's clock, or more than a day ahead of it.
        #[arg(long)]
        yes: bool,
    },
    /// Go on without records that are lost for ever: list what is proven lost in a data directory that nobody serves,
    /// and with --yes write that it was accepted into each log that lost something, so that the server starts again.
    AcceptLoss {
        /// Data directory.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// Why, for whoever reads the log later; at most 1,024 bytes.
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// The folder of the witnesses, if the configuration has `data.witness`.
        #[arg(long, value_name = "DIR")]
        witness: Option<PathBuf>,
        /// A log whose end was cut, as this command advises where the newest segment is damaged: such as ledger-0. It
        /// is listed also where nothing else proves that it has lost records. May be said more than once.
        #[arg(long, value_name = "LOG")]
        cut: Vec<String>,
        /// A log that cannot be read and that no backup has, such as topics-0: it begins anew behind its newest
        /// snapshot, and its files are set aside. Not the ledger, which is whole for ever. May be said more than once.
        #[arg(long, value_name = "LOG")]
        anew: Vec<String>,
        /// Accept what is listed.
        #[arg(long)]
        yes: bool,
    },
    /// Say what on this host will hurt: limits, clock source, fsync time, NUMA, TCP settings. With a configuration,
    /// also how it divides the open files, how much memory clients can make a server with it use at worst, and which
    /// key that is most of. Exit 0 only if there is nothing to warn of.
    Doctor {
        /// Where data is or will be, to time its disk; without it that of the configuration, or the current directory.
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// The configuration that is or will be served.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Show whether a server serves, what of its files is damaged, and what its auditor last found. Exit 0 only if it
    /// serves and nothing is known to be wrong.
    #[command(after_help = client::EXIT_CODES)]
    Status {
        #[command(flatten)]
        connection: client::Connection,
    },
    /// Open, show, freeze, limit and list accounts of a running server.
    #[command(after_help = client::EXIT_CODES)]
    Account {
        #[command(flatten)]
        connection: client::Connection,
        #[command(subcommand)]
        what: client::Account,
    },
    /// Move money on a running server, and show what became of it.
    #[command(after_help = client::EXIT_CODES)]
    Transfer {
        #[command(flatten)]
        connection: client::Connection,
        #[command(subcommand)]
        what: client::Transfer,
    },
    /// Reserve money on a running server, pay it or release it.
    #[command(after_help = client::EXIT_CODES)]
    Hold {
        #[command(flatten)]
        connection: client::Connection,
        #[command(subcommand)]
        what: client::Hold,
    },
    /// Show and declare the units of measure of a running server.
    #[command(after_help = client::EXIT_CODES)]
    Asset {
        #[command(flatten)]
        connection: client::Connection,
        #[command(subcommand)]
        what: client::Asset,
    },
    /// Show what happened on a running server, from any point on.
    #[command(after_help = client::EXIT_CODES)]
    Changes {
        #[command(flatten)]
        connection: client::Connection,
        #[command(flatten)]
        arguments: client::ChangesArguments,
    },
    /// Send the accounts, transfers or holds of a CSV or NDJSON file to a running server.
    #[command(after_help = client::EXIT_CODES)]
    Import {
        #[command(flatten)]
        connection: client::Connection,
        #[command(flatten)]
        arguments: client::ImportArguments,
    },
    /// See, make, change, empty and delete queues of a running server, look through them, and send to them.
    #[command(after_help = client::EXIT_CODES)]
    Queue {
        #[command(flatten)]
        connection: client::Connection,
        #[command(subcommand)]
        what: client::Queue,
    },
    /// Show where a message of a queue is and what happened to it, or take it back.
    #[command(after_help = client::EXIT_CODES)]
    Message {
        #[command(flatten)]
        connection: client::Connection,
        #[command(subcommand)]
        what: client::Message,
    },
    /// Ask the record of the pacer's decisions why a campaign did or did not bid, or let the pacer go on with another
    /// ledger.
    Pacer {
        #[command(subcommand)]
        what: command::pacer::Pacer,
    },
    /// See who is connected to a running server over MQTT, and send one away.
    #[command(after_help = client::EXIT_CODES)]
    Clients {
        #[command(flatten)]
        connection: client::Connection,
        #[command(subcommand)]
        what: client::Clients,
    },
    /// See what a running server keeps for MQTT clients, connected or not, and end it.
    #[command(after_help = client::EXIT_CODES)]
    Sessions {
        #[command(flatten)]
        connection: client::Connection,
        #[command(subcommand)]
        what: client::Sessions,
    },
    /// See and clear the retained MQTT messages of a running server.
    #[command(after_help = client::EXIT_CODES)]
    Retained {
        #[command(flatten)]
        connection: client::Connection,
        #[command(subcommand)]
        what: client::Retained,
    },
    /// Publish a message to an MQTT topic of a running server.
    #[command(after_help = client::EXIT_CODES)]
    Publish {
        #[command(flatten)]
        connection: client::Connection,
        #[command(flatten)]
        arguments: client::PublishArguments,
    },
    /// Send the MQTT clients of a running server away, so many per second, and wait until nobody is left; or show how
    /// far that is, or let them stay again. Ctrl-C ends the waiting, not the drain: `tidegate drain undo` ends it, for
    /// one address with `--address IP`. The token needs the grant "drain".
    #[command(after_help = client::EXIT_CODES)]
    Drain {
        #[command(flatten)]
        connection: client::Connection,
        #[command(flatten)]
        arguments: client::DrainArguments,
    },
    /// See, make, change and delete services of a running server, beside those of its configuration.
    #[command(after_help = client::EXIT_CODES)]
    Services {
        #[command(flatten)]
        connection: client::Connection,
        #[command(subcommand)]
        what: client::Services,
    },
    /// See, make, change and delete users of a running server, beside those of its configuration.
    #[command(after_help = client::EXIT_CODES)]
    Users {
        #[command(flatten)]
        connection: client::Connection,
        #[command(subcommand)]
        what: client::Users,
    },
    /// Print the completions of a shell: tidegate completions bash > /usr/share/bash-completion/completions/tidegate
    Completions {
        /// Whose: bash, elvish, fish, powershell or zsh.
        #[arg(value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// Write the manual: a page for each command, tidegate-serve.1 and so on.
    Man {
        /// A directory, made if it is not there; pages of the same name are replaced.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Read a password from standard input and print its argon2id hash for the configuration.
    HashPassword,
}

/// Does what the command line says, with the rooms of the server and those of `extensions`. Parcels carry the messages
/// of all of them.
pub fn run<P: Parcels>(extensions: &[&dyn Extension<P>]) -> ExitCode {
    let own: [&dyn Extension<P>; 3] = [&queues::Queues, &links::Links, &pacing::Pacing];
    let extensions = &*[&own, extensions].concat();
    tidegate_journal::archive::serve_with(Box::new(object_storage::Fetcher));
    let matches = inherited(Arguments::command()).try_get_matches();
    let arguments = match matches.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return explained(&error),
    };
    private::keep_private();
    let outcome = match arguments.command {
        Command::Serve { config, data, http, binary, mqtt, mqtts, log, check } => {
            let log = log.and_then(|flag| flag.0);
            let overrides = config::Overrides { data, http, binary, mqtt, mqtts, log };
            let work = if check { Work::Check } else { Work::Serve };
            command::serve::run(config.as_deref(), &overrides, extensions, work)
        }
        Command::Audit { data, witness } => command::audit::run(&data, witness.as_deref(), extensions),
        Command::Backup { verify: Some(from), .. } => command::backup::run_verify(&from, extensions),
        Command::Backup { data, to, reread, verify: None } => {
            let given = "clap asks for it where --verify is not given";
            let reread = if reread { Reread::All } else { Reread::Open };
            command::backup::run(&data.expect(given), &to.expect(given), reread, extensions)
        }
        Command::Restore { from, data, at, backup } => {
            command::restore::run(&from, &data, backup.as_deref(), &at.unwrap_or(At::End), extensions)
        }
        Command::Archive { data, to, keep_segments } => command::archive::run(&data, &to, keep_segments, extensions),
        Command::MendTime { data, to, reason, yes } => command::mend_time::run(&data, to, &reason, yes, extensions),
        Command::AcceptLoss { data, reason, witness, cut, anew, yes } => {
            let (witness, cut, anew) = (witness.as_deref(), &*cut, &*anew);
            let asked = command::accept_loss::Asked { data: &data, witness, cut, anew };
            command::accept_loss::run(&asked, &reason, yes, extensions)
        }
        Command::Doctor { data, config } => command::doctor::run(data, config.as_deref(), extensions),
        Command::Status { connection } => return client::status(&connection),
        Command::Account { connection, what } => return client::account(&connection, what),
        Command::Transfer { connection, what } => return client::transfer(&connection, what),
        Command::Hold { connection, what } => return client::hold(&connection, what),
        Command::Asset { connection, what } => return client::asset(&connection, what),
        Command::Changes { connection, arguments } => return client::changes(&connection, arguments),
        Command::Import { connection, arguments } => return client::import(&connection, &arguments),
        Command::Pacer { what } => command::pacer::run(what),
        Command::Queue { connection, what } => return client::queue(&connection, what),
        Command::Message { connection, what } => return client::message(&connection, what),
        Command::Clients { connection, what } => return client::clients(&connection, what),
        Command::Sessions { connection, what } => return client::sessions(&connection, what),
        Command::Retained { connection, what } => return client::retained(&connection, what),
        Command::Publish { connection, arguments } => return client::publish(&connection, arguments),
        Command::Drain { connection, arguments } => return client::drain(&connection, &arguments),
        Command::Services { connection, what } => return client::services(&connection, what),
        Command::Users { connection, what } => return client::users(&connection, what),
        Command::Completions { shell } => reference::completions(inherited(Arguments::command()), shell),
        Command::Man { dir } => reference::manual(inherited(Arguments::command()), &dir),
        Command::HashPassword => command::hash_password::run(),
    };
    if let (Ok(_), Some(why)) = (&outcome, output::lost()) {
        output::complain(format_args!("tidegate: {}", output::lost_words(why)));
        return ExitCode::FAILURE;
    }
    outcome.unwrap_or_else(|error| {
        output::complain(format_args!("tidegate: {error:#}"));
        ExitCode::FAILURE
    })
}

/// Prints the help that was asked for, or what is wrong with the command line, and gives the exit code.
fn explained(error: &clap::Error) -> ExitCode {
    match error.print().and_then(|()| std::io::stdout().flush()) {
        Err(why) if !error.use_stderr() && why.kind() != ErrorKind::BrokenPipe => {
            output::complain(format_args!("tidegate: {}", output::lost_words(&why.to_string())));
            ExitCode::FAILURE
        }
        _ => ExitCode::from(error.exit_code() as u8),
    }
}

/// The command line, where what stands below the help of a command stands below that of its subcommands as well.
fn inherited(command: clap::Command) -> clap::Command {
    let Some(below) = command.get_after_help().cloned() else { return command.mut_subcommands(inherited) };
    command.mut_subcommands(|subcommand| inherited(subcommand.after_help(below.clone())))
}

/// What [`parcels!`](crate::parcels) names.
#[doc(hidden)]
pub mod messages {
    pub use tidegate_broker::BrokerMessage;
    pub use tidegate_doors::admission::Arrival;
    pub use tidegate_doors::operator::OperatorMessage;
    pub use tidegate_doors::roster_room::RosterParcel;
    pub use tidegate_ledger::operation::Message;
    pub use tidegate_pacer::bidders::BidderMessage;
    pub use tidegate_pacer::family::CampaignMessage;
    pub use tidegate_queue::QueueMessage;
    pub use tidegate_runtime::parcels;
}

/// Composes the parcels of a server: the messages of the rooms that come with it, and those of rooms from outside.
///
/// ```
/// tidegate::parcels! {
///     /// What threads of this server send each other.
///     enum Parcel { Word(String) }
/// }
/// let word = <Parcel as tidegate_runtime::Carries<String>>::pack("tide".to_owned());
/// assert!(matches!(word, Parcel::Word(_)));
/// ```
#[macro_export]
macro_rules! parcels {
    ($(#[$meta:meta])* $vis:vis enum $parcel:ident { $($kind:ident($message:ty)),* $(,)? }) => {
        $crate::messages::parcels! {
            $(#[$meta])*
            $vis enum $parcel {
                Ledger($crate::messages::Message),
                Topics($crate::messages::BrokerMessage),
                Connection(Box<$crate::messages::Arrival>),
                Operator($crate::messages::OperatorMessage),
                Roster($crate::messages::RosterParcel),
                Queues($crate::messages::QueueMessage),
                Campaigns($crate::messages::CampaignMessage),
                Bidders($crate::messages::BidderMessage),
                $($kind($message)),*
            }
        }
    };
}
