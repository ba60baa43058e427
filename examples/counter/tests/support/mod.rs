//! The built server, and a client of its HTTP door.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

/// May do everything, and only what its grants say.
pub const SERVICE: &str = "dev-service-token";
pub const PAGE: &str = "counter-page-token";
/// The number of counters in frames.
pub const FAMILY: u32 = 1_024;
/// Long enough for any machine; nobody waits for it unless a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that serves. Killed when it is dropped.
pub struct Server {
    child: Child,
    pub http: SocketAddr,
    pub binary: SocketAddr,
}

impl Server {
    /// Starts the server over `data`, with `more` lines for `[counters]`.
    pub fn start(data: &Path, more: &str) -> Server {
        let config = include_str!("../../counter.toml");
        let config = config.replace("127.0.0.1:8080", "127.0.0.1:0").replace("127.0.0.1:7420", "127.0.0.1:0");
        // Keys that a test sets stand once.
        let own: Vec<&str> = more.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key).collect();
        let is_own = |line: &&str| !own.iter().any(|key| line.starts_with(&format!("{key} = ")));
        let config = config.lines().filter(is_own).collect::<Vec<_>>().join("\n");
        let config = config.replace("[counters]", &format!("[counters]\n{more}"));
        let file = data.with_extension("toml");
        std::fs::write(&file, config).expect("the folder is writable");
        let mut child = Command::new(env!("CARGO_BIN_EXE_counter"))
            .args(["serve", "--config"])
            .arg(&file)
            .arg("--data")
            .arg(data)
            .env("NO_COLOR", "1")
            .env("TIDEGATE_LOG", "info")
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built with the test");
        let lines = lines_of(child.stderr.take().expect("it is piped"));
        let (mut http, mut binary, mut said) = (None, None, Vec::new());
        loop {
            let line = lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it does not serve: {said:#?}"));
            let after = |mark: &str| Some(line.split_once(mark)?.1.trim().parse().expect("an address"));
            http = http.or_else(|| after("HTTP on http://"));
            binary = binary.or_else(|| after("binary on "));
            if line.contains("serving data=") {
                break;
            }
            said.push(line);
        }
        // The rest is read, so that the server never waits for us.
        std::thread::spawn(
            move || while !matches!(lines.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected)) {},
        );
        Server { child, http: http.expect("it says where"), binary: binary.expect("it says where") }
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is our child");
    }

    /// SIGTERM; whether it ended with success.
    pub fn stop(mut self) -> bool {
        let terminated = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill is there");
        assert!(terminated.success());
        self.child.wait().expect("it is our child").success()
    }

    /// Status and body of the answer to a request.
    pub fn ask(&self, token: &str, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut tcp = TcpStream::connect(self.http).expect("it serves");
        tcp.set_read_timeout(Some(PATIENCE)).expect("a time is good");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        tcp.write_all(head.as_bytes()).expect("it reads");
        let mut answer = String::new();
        tcp.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        (head[9..12].parse().expect("a status"), body.to_owned())
    }

    /// Adds, and gives the value after it.
    pub fn add(&self, name: &str, amount: u64) -> u64 {
        let (status, body) =
            self.ask(SERVICE, "POST", &format!("/v1/counters/{name}/add"), &format!("{{\"amount\":{amount}}}"));
        assert_eq!(status, 200, "{body}");
        value(&body)
    }

    /// The value of a counter; `None` if there is none.
    pub fn read(&self, name: &str) -> Option<u64> {
        match self.ask(SERVICE, "GET", &format!("/v1/counters/{name}"), "") {
            (200, body) => Some(value(&body)),
            (404, _) => None,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The exit code of `counter audit`, and what it said.
pub fn audit(data: &Path) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_counter"));
    let output = command.args(["audit", "--data"]).arg(data).output().expect("the binary was built with the test");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn value(body: &str) -> u64 {
    let body: Value = serde_json::from_str(body).expect("it is JSON");
    body["value"].as_u64().expect("a counter has a value")
}

fn lines_of(read: impl Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = channel();
    std::thread::spawn(move || {
        BufReader::new(read).lines().map_while(Result::ok).try_for_each(|line| send.send(line).ok());
    });
    lines
}
