//! One process of the server, from its start to its exit.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::settings::Settings;
use super::wait_for;

/// The user and the group that own nothing.
const NOBODY: u32 = 65_534;
/// The program.
pub const BINARY: &str = env!("CARGO_BIN_EXE_tidegate");

/// A process that was started; it may not serve yet, or may have ended already.
pub struct Process {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

/// A process that serves.
pub struct Server {
    process: Process,
    /// Where HTTP is served.
    pub http: SocketAddr,
    /// Where the binary port is served.
    pub binary: SocketAddr,
    mqtt: Option<SocketAddr>,
    mqtts: Option<SocketAddr>,
}

/// How a process ended, and all that it said.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code, or the signal that ended it.
    pub status: ExitStatus,
    /// Its standard error.
    pub log: String,
}

impl Process {
    /// Starts `tidegate serve` and does not wait for it.
    pub fn spawn(settings: &Settings) -> Process {
        let mut command = Command::new(BINARY);
        command.arg("serve").arg("--config").arg(settings.write()).arg("--data").arg(&settings.data);
        command.envs(settings.environment.iter().cloned());
        Process::of(command, settings.open_files_max)
    }

    /// The same with a configuration that is there.
    pub fn serve(config: &Path, arguments: &[&str]) -> Process {
        let mut command = Command::new(BINARY);
        command.arg("serve").arg("--config").arg(config).args(arguments);
        Process::of(command, None)
    }

    fn of(mut command: Command, open_files_max: Option<u64>) -> Process {
        // Plain lines at the level that tests read.
        command.env("NO_COLOR", "1").env("TIDEGATE_LOG", "info");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        if let Some(most) = open_files_max {
            let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
            // SAFETY: the call takes a pointer to a live struct.
            let set = move || match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            };
            // SAFETY: between fork and exec, only one system call is made, with numbers.
            unsafe { command.pre_exec(set) };
        }
        let mut child = command.spawn().expect("the binary was built with the test");
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = log.clone();
        let reader = std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).for_each(|line| lines.lock().unwrap().push(line));
        });
        Process { child, log, reader: Some(reader) }
    }

    /// Waits until it serves, or has ended.
    pub fn ready(mut self) -> Result<Server, Ended> {
        let served = wait_for("the server says that it serves, or ends", || {
            if self.log.lock().unwrap().iter().any(|line| line.contains(": serving data=")) {
                return Some(true);
            }
            self.child.try_wait().expect("it is our child").map(|_| false)
        });
        if !served {
            return Err(self.wait());
        }
        let address = |mark: &str| -> Option<SocketAddr> {
            let log = self.log.lock().unwrap();
            let line = log.iter().find_map(|line| line.split_once(mark))?;
            let text = line.1.trim_start_matches("https://").trim_start_matches("http://");
            Some(text.trim().parse().unwrap_or_else(|_| panic!("an address after {mark:?}: {text:?}")))
        };
        let always = |mark: &str| address(mark).unwrap_or_else(|| panic!("the server says {mark:?} and its address"));
        let (http, binary, mqtt) = (always("HTTP on "), always("binary on "), address("MQTT on "));
        let mqtts = address("MQTT over TLS on ");
        Ok(Server { process: self, http, binary, mqtt, mqtts })
    }

    /// Ends it as a power cut would end the process: no handler runs.
    pub fn kill(mut self) -> Ended {
        // It may have ended by itself.
        let _ = self.child.kill();
        self.wait()
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the process is our child and was not waited for, so its id is not another's.
        let sent = unsafe { libc::kill(self.child.id() as i32, signal) };
        assert_eq!(sent, 0, "the process takes a signal");
    }

    fn wait(&mut self) -> Ended {
        let status = wait_for("the process ends", || self.child.try_wait().expect("it is our child"));
        // The log ends with the process.
        self.reader.take().map(JoinHandle::join).transpose().expect("the log's reader does not fail");
        Ended { status, log: self.log.lock().unwrap().join("\n") }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.reader.is_some() {
            // A test failed: leave nothing running, and show what the server said last.
            let _ = self.child.kill();
            let _ = self.child.wait();
            if std::thread::panicking() {
                let log = self.log.lock().unwrap();
                let last = log.len().saturating_sub(20);
                eprintln!("the server's last words:\n{}", log[last..].join("\n"));
            }
        }
    }
}

impl Server {
    /// Starts and waits until it serves; panics with its log if it does not.
    pub fn start(settings: &Settings) -> Server {
        Process::spawn(settings).ready().unwrap_or_else(|ended| panic!("the server does not start: {ended}"))
    }

    /// Starts a server that must refuse to start, and returns its log.
    pub fn refused(settings: &Settings) -> Ended {
        match Process::spawn(settings).ready() {
            Ok(server) => panic!("the server serves what it must refuse; its log:\n{}", server.kill()),
            Err(ended) => ended,
        }
    }

    /// Where MQTT is served; the settings must have asked for it.
    pub fn mqtt(&self) -> SocketAddr {
        self.mqtt.expect("the settings ask for MQTT")
    }

    /// Where MQTT is served over TLS.
    pub fn mqtts(&self) -> SocketAddr {
        self.mqtts.expect("the settings ask for MQTT over TLS")
    }

    /// `kill -9`.
    pub fn kill(self) -> Ended {
        self.process.kill()
    }

    /// Sends SIGTERM and does not wait.
    pub fn send_sigterm(&self) {
        self.process.signal(libc::SIGTERM);
    }

    /// Sends SIGTERM and waits for the end.
    pub fn terminate(self) -> Ended {
        self.send_sigterm();
        self.ended()
    }

    /// Waits for the end.
    pub fn ended(mut self) -> Ended {
        self.process.wait()
    }

    /// What it has said so far.
    pub fn log(&self) -> String {
        self.process.log.lock().unwrap().join("\n")
    }

    /// Waits until it has said these words: the log is written by a thread of its own.
    pub fn says(&self, words: &str) {
        wait_for(words, || self.log().contains(words).then_some(()));
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// Memory that it has in RAM, from `/proc`.
    pub fn rss_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux says it");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; it said:\n{}", self.status, self.log)
    }
}

/// Runs `tidegate audit` over a directory that nobody serves.
pub fn audit(data: &Path) -> Ended {
    tool(data, &["audit"])
}

/// Runs a subcommand over a directory that nobody serves.
pub fn tool(data: &Path, arguments: &[&str]) -> Ended {
    run(Command::new(BINARY).args(arguments).arg("--data").arg(data))
}

/// Runs a subcommand to its end.
pub fn command(arguments: &[&str]) -> Ended {
    run(Command::new(BINARY).args(arguments))
}

/// Runs a subcommand as a user who may write nothing that is not everybody's: root may write anywhere.
pub fn as_nobody(arguments: &[&str]) -> Ended {
    let mut command = Command::new(BINARY);
    // SAFETY: the call takes nothing and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    run(command.args(arguments))
}

fn run(command: &mut Command) -> Ended {
    let Output { status, stdout, stderr } =
        command.env("NO_COLOR", "1").output().expect("the binary was built with the test");
    let log = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    Ended { status, log }
}
