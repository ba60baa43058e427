//! A wallet in PostgreSQL: a function over arrays, called in batches by several connections, each call one transaction
//! that is on disk before it returns (`synchronous_commit=on`, `fsync=on`, all other settings as shipped but for memory
//! and WAL size).
//!
//! In its favour: connections pay among accounts of their own, so that no call waits for another's row locks and none
//! can deadlock; batches have the size that was fastest here.

use crate::load::Outcomes;
use crate::process::{self, Server};
use crate::workload::{FUNDS_PER_WALLET, Names, Pattern, Workload};
use anyhow::{Context, Result, ensure};
use postgres::{Client, NoTls};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const SCHEMA: &str = include_str!("wallet.sql");
/// Connections, and transfers a call. Tried: 2 to 8 connections and 100 to 8,190 transfers, 49,000 to 86,000
/// transfers/s on two cores; these are among the best.
const CONNECTIONS: u32 = 4;
const BATCH: usize = 1_000;

/// A PostgreSQL server of our own.
pub struct Postgres {
    server: Option<Server>,
    address: SocketAddr,
}

impl Postgres {
    /// Creates a cluster in `directory` and starts it on a free port.
    pub fn start(directory: &Path) -> Result<Postgres> {
        process::fresh_directory(directory)?;
        let user = User::new();
        if let User::Debian = user {
            let owned = Command::new("chown").arg("postgres:").arg(directory).status()?.success();
            ensure!(owned, "could not give {} to the user postgres", directory.display());
        }
        let made = user
            .command(&program("initdb")?)
            .args(["--auth=trust", "--username=storm", "--no-sync", "-D"])
            .arg(directory)
            .output()
            .context("could not run initdb")?;
        let complaint = String::from_utf8_lossy(&made.stderr);
        ensure!(made.status.success(), "initdb failed (every folder above it must be readable by all): {complaint}");

        let address = process::free_address()?;
        let mut command = user.command(&program("postgres")?);
        command.args(["-h", "127.0.0.1", "-p", &address.port().to_string(), "-D"]).arg(directory);
        for setting in [
            "unix_socket_directories=",
            "fsync=on",
            "synchronous_commit=on",
            "shared_buffers=1GB",
            "max_wal_size=8GB",
            "wal_buffers=64MB",
        ] {
            command.args(["-c", setting]);
        }
        let mut server = Server::start("postgres", &mut command, &directory.with_extension("log"))?;
        server.wait_until(Duration::from_secs(30), || connect(address).is_ok())?;
        connect(address)?.batch_execute(SCHEMA)?;
        Ok(Postgres { server: Some(server), address })
    }

    /// What it is.
    pub fn version() -> Result<String> {
        let output = Command::new(program("postgres")?).arg("--version").output()?;
        let text = String::from_utf8(output.stdout)?;
        Ok(format!("PostgreSQL {}", text.split_whitespace().nth(2).unwrap_or("?")))
    }

    /// Opens all accounts and gives every wallet its funds.
    pub fn fund(&self, names: &Names) -> Result<()> {
        let mut client = connect(self.address)?;
        let mut transaction = client.transaction()?;
        let insert = transaction.prepare("INSERT INTO account VALUES ($1, $2, $3)")?;
        for account in names.all() {
            let name = names.of(account).to_string();
            let funds = if account.0 < names.wallets() { FUNDS_PER_WALLET as i64 } else { 0 };
            transaction.execute(&insert, &[&name, &funds, &name.starts_with("source:")])?;
        }
        transaction.commit()?;
        // What autovacuum would do in a minute: without it the planner knows nothing of the table.
        client.batch_execute("VACUUM ANALYZE account")?;
        Ok(())
    }

    /// Makes `transfers` payments; outcomes and the time from the first call to the last answer.
    pub fn pay(&self, names: &Names, transfers: u64) -> Result<(Outcomes, Duration)> {
        let clients = (0..CONNECTIONS).map(|_| connect(self.address)).collect::<Result<Vec<_>>>()?;
        let started = Instant::now();
        let outcomes = std::thread::scope(|scope| {
            let parts = clients.into_iter().enumerate().map(|(part, client)| {
                let pattern = Pattern::Part { part: part as u32, parts: CONNECTIONS };
                let work = Workload::new(pattern, names.wallets(), transfers / u64::from(CONNECTIONS), part as u32);
                scope.spawn(move || pay_part(client, names, work))
            });
            let threads: Vec<_> = parts.collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("a paying thread panicked"))
                .collect::<Result<Vec<_>>>()
        })?;
        let sum = |count: fn(&Outcomes) -> u64| outcomes.iter().map(count).sum();
        let all =
            Outcomes { applied: sum(|o| o.applied), duplicate: sum(|o| o.duplicate), refused: sum(|o| o.refused) };
        Ok((all, started.elapsed()))
    }

    /// Checks that money neither came nor went and that `applied` transfers left as many rows.
    pub fn verify(&self, names: &Names, applied: u64) -> Result<()> {
        let mut client = connect(self.address)?;
        let held: i64 = client.query_one("SELECT sum(balance)::bigint FROM account", &[])?.get(0);
        let rows: i64 = client.query_one("SELECT count(*) FROM transfer WHERE debit_balance_after >= 0", &[])?.get(0);
        let funded = u64::from(names.wallets()) * FUNDS_PER_WALLET;
        ensure!(held as u64 == funded, "PostgreSQL: accounts hold {held} in sum, funded were {funded}");
        ensure!(rows as u64 == applied, "PostgreSQL: {applied} applied but {rows} rows");
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGQUIT ends the postmaster and its children at once; SIGKILL would leave the children behind.
        if let Some(server) = self.server.take() {
            let _ = server.stop("QUIT");
        }
    }
}

fn pay_part(mut client: Client, names: &Names, mut work: Workload) -> Result<Outcomes> {
    let pay = client.prepare("SELECT pay($1, $2, $3, $4)")?;
    let mut outcomes = Outcomes::default();
    while work.left() > 0 {
        let (mut ids, mut debits, mut credits, mut amounts) = (vec![], vec![], vec![], vec![]);
        while ids.len() < BATCH
            && let Some(payment) = work.next()
        {
            ids.push(payment.id.as_str().to_owned());
            debits.push(names.of(payment.debit).to_string());
            credits.push(names.of(payment.credit).to_string());
            amounts.push(payment.amount as i64);
        }
        let answer: String = client.query_one(&pay, &[&ids, &debits, &credits, &amounts])?.get(0);
        ensure!(answer.len() == ids.len(), "PostgreSQL answered {} outcomes for {}", answer.len(), ids.len());
        for outcome in answer.bytes() {
            match outcome {
                b'a' => outcomes.applied += 1,
                b'd' => outcomes.duplicate += 1,
                _ => outcomes.refused += 1,
            }
        }
    }
    Ok(outcomes)
}

fn connect(address: SocketAddr) -> Result<Client> {
    let settings = format!("host=127.0.0.1 port={} user=storm dbname=postgres connect_timeout=5", address.port());
    Client::connect(&settings, NoTls).context("could not connect to PostgreSQL")
}

/// PostgreSQL refuses to run as root: then it runs as the user that Debian's package made for it.
enum User {
    Ourselves,
    Debian,
}

impl User {
    fn new() -> User {
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        if is_root { User::Debian } else { User::Ourselves }
    }

    fn command(&self, program: &Path) -> Command {
        match self {
            User::Ourselves => Command::new(program),
            User::Debian => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
                command.current_dir("/");
                command
            }
        }
    }
}

/// Debian keeps PostgreSQL's programs outside the path, one folder per version: the newest is taken.
fn program(name: &str) -> Result<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|version| {
            Some((version.file_name().to_str()?.parse().ok()?, version.path().join("bin").join(name)))
        })
        .filter(|(_, path)| path.exists())
        .collect();
    found.sort();
    Ok(found.pop().map_or_else(|| PathBuf::from(name), |(_, path)| path))
}
