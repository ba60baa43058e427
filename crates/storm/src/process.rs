//! Servers that a bench starts and always ends: each by its own process id, never by name.

use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Kernel clock ticks per second in /proc (USER_HZ is 100 on every Linux that we run on).
const TICKS_PER_SECOND: f64 = 100.0;

/// A child process; dropping it kills it and waits for its end.
pub struct Server {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts `command`, its output going to `log`.
    pub fn start(name: &'static str, command: &mut Command, log: &Path) -> Result<Server> {
        let out = File::options().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("could not start {name}: {}", command.get_program().display()))?;
        Ok(Server { name, child, log: log.to_owned() })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `ready` says so; fails when the process ends before, or after `time_max`.
    pub fn wait_until(&mut self, time_max: Duration, mut ready: impl FnMut() -> bool) -> Result<()> {
        let started = Instant::now();
        while !ready() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended while starting ({status}); its log is {}", self.name, self.log.display());
            }
            if started.elapsed() > time_max {
                bail!("{} was not ready after {time_max:?}; its log is {}", self.name, self.log.display());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Kills it as a power cut would, and waits for its end.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to stop with a signal by name and waits for its end.
    pub fn stop(mut self, signal: &str) -> Result<ExitStatus> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-s", signal, &pid]).status().context("could not run kill")?;
        Ok(self.child.wait()?)
    }

    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        resident_bytes(&self.id().to_string())
    }

    /// Bytes that it has written to disks, as the kernel counts them.
    pub fn written_bytes(&self) -> Result<u64> {
        let io = fs::read_to_string(format!("/proc/{}/io", self.id()))?;
        let line = io.lines().find_map(|line| line.strip_prefix("write_bytes:")).context("no write_bytes in /proc")?;
        Ok(line.trim().parse()?)
    }

    /// Processor time it has used.
    pub fn processor_time(&self) -> Result<Duration> {
        processor_time(&self.id().to_string())
    }

    /// For how long its threads whose name begins so were ready to run and had no core, since they began.
    pub fn time_without_a_core(&self, threads: &str) -> Result<Duration> {
        let mut sum = Duration::ZERO;
        for thread in fs::read_dir(format!("/proc/{}/task", self.id()))? {
            let thread = thread?.path();
            // A thread may end between two of these reads.
            let Ok(name) = fs::read_to_string(thread.join("comm")) else { continue };
            if name.starts_with(threads)
                && let Ok(times) = fs::read_to_string(thread.join("schedstat"))
            {
                sum += waited(&times)?;
            }
        }
        Ok(sum)
    }
}

/// Of a line of /proc/PID/task/TID/schedstat: nanoseconds on a core, nanoseconds in the queue for one, and how often.
fn waited(times: &str) -> Result<Duration> {
    let waited = times.split_whitespace().nth(1).context("schedstat has no second field")?;
    Ok(Duration::from_nanos(waited.parse()?))
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time this process has used.
pub fn own_processor_time() -> Result<Duration> {
    processor_time("self")
}

/// Resident memory of this process in bytes.
pub fn own_resident_bytes() -> Result<u64> {
    resident_bytes("self")
}

fn resident_bytes(process: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in /proc")?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes * 1024)
}

fn processor_time(process: &str) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may hold blanks; fields are counted after it. utime and stime are fields 14 and 15.
    let (_, fields) = stat.rsplit_once(')').context("/proc/stat has no name")?;
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).map(|field| field.parse().unwrap_or(0)).sum();
    Ok(Duration::from_secs_f64(ticks as f64 / TICKS_PER_SECOND))
}

/// A loopback address with a free port.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Whether somebody accepts connections there.
pub fn accepts(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}

/// Creates an empty directory, removing what was there.
pub fn fresh_directory(path: &Path) -> Result<()> {
    if path.exists() {
        fs::remove_dir_all(path)?;
    }
    fs::create_dir_all(path).with_context(|| format!("could not create {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_the_queue_is_the_second_field() {
        assert_eq!(waited("4404310 1523900 42\n").unwrap(), Duration::from_nanos(1_523_900));
        assert!(waited("").is_err());
    }
}
