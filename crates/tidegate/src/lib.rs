//! `tidegate`: the server, and the commands that check its data. A program with rooms of its own calls [`run`] with
//! them as [extensions](Extension); `examples/counter` is one.
//!
//! ```text
//!   serve ─▶ config ─▶ rooms ─▶ Node      audit ─▶ every family of logs
//!   doctor ─▶ this host                   drain ─▶ a running server
//! ```

mod command;
mod compose;
mod config;
mod extension;
mod huge_pages;
mod metrics;
mod output;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
        /// Address of the HTTP door.
        #[arg(long, value_name = "ADDR")]
        http: Option<SocketAddr>,
        /// Address of the binary door.
        #[arg(long, value_name = "ADDR")]
        binary: Option<SocketAddr>,
        /// Address of MQTT over TCP.
        #[arg(long, value_name = "ADDR")]
        mqtt: Option<SocketAddr>,
        /// Address of MQTT over TLS; needs certificates in the configuration.
        #[arg(long, value_name = "ADDR")]
        mqtts: Option<SocketAddr>,
    },
    /// Send the MQTT clients of a running server away, so many per second, and wait until nobody is left.
    Drain {
        /// Clients per second.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        rate: u32,
        /// Where the server's HTTP door is.
        #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
        url: String,
        /// A token with the grant "drain".
        #[arg(long, value_name = "TOKEN", env = "TIDEGATE_TOKEN", hide_env_values = true)]
        token: String,
        /// PEM file with the authority that signs the server's certificate, for https.
        #[arg(long, value_name = "FILE")]
        ca_file: Option<PathBuf>,
    },
    /// Refold a data directory that nobody serves: verify every checksum and the chain, compare snapshots, check
    /// conservation. Exit 0 only if all agree.
    Audit {
        /// Data directory.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
    },
    /// Set the time of a ledger that nobody serves, after the clock of its host had been wrong. Open holds keep the time
    /// that was left to them. The journal says that it was done, and why.
    MendTime {
        /// Data directory.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// `now`, or milliseconds since the Unix epoch.
        #[arg(long, value_name = "TIME", value_parser = command::mend_time::NewTime::parse)]
        to: command::mend_time::NewTime,
        /// Why, for the journal; at most 256 bytes.
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Say what on this host will hurt: limits, clock source, fsync time, NUMA, TCP settings.
    Doctor {
        /// Where data is or will be, to time its disk.
        #[arg(long, value_name = "DIR", default_value = ".")]
        data: PathBuf,
    },
    /// Read a password from standard input and print its argon2id hash for the configuration.
    HashPassword,
}

/// Does what the command line says, with the rooms of the server and those of `extensions`. Parcels carry the messages
/// of all of them.
pub fn run<P: Parcels>(extensions: &[&dyn Extension<P>]) -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve { config, data, http, binary, mqtt, mqtts } => {
            command::serve::run(config.as_deref(), &config::Overrides { data, http, binary, mqtt, mqtts }, extensions)
        }
        Command::Drain { rate, url, token, ca_file } => command::drain::run(rate, &url, &token, ca_file.as_deref()),
        Command::Audit { data } => command::audit::run(&data, extensions),
        Command::MendTime { data, to, reason } => command::mend_time::run(&data, to, &reason),
        Command::Doctor { data } => command::doctor::run(&data),
        Command::HashPassword => command::hash_password::run(),
    };
    outcome.unwrap_or_else(|error| {
        output::complain(format_args!("tidegate: {error:#}"));
        ExitCode::FAILURE
    })
}

/// What [`parcels!`](crate::parcels) names.
#[doc(hidden)]
pub mod messages {
    pub use tidegate_broker::BrokerMessage;
    pub use tidegate_doors::admission::Arrival;
    pub use tidegate_ledger::operation::Message;
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
                $($kind($message)),*
            }
        }
    };
}
