//! `tidegate hash-password`
//!
//! Promise: a password that is typed is not shown, and the terminal is afterwards as it was before, also if whoever
//! types ends the command.

use std::fs::File;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{FromRawFd, RawFd};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use tidegate_doors::auth::{PASSWORD_BYTES_MAX, check_new_password};

use crate::output::{complain, say};

/// Signals that somebody at a terminal sends.
const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Reads one line and prints its hash. From standard input, so that no password stands in a shell's history; at a
/// terminal, twice, because nobody sees what is typed. The file of a configuration takes any hash, so what is unwise
/// about a password is only said.
pub fn run() -> Result<ExitCode> {
    let password = asked_for("tidegate hash-password")?;
    if password.len() > PASSWORD_BYTES_MAX {
        complain(format_args!(
            "warning: nobody can log in with this password: log-ins take {PASSWORD_BYTES_MAX} bytes at most"
        ));
    } else if let Err(what) = check_new_password(&password) {
        complain(format_args!("warning: tidegate users would refuse this password as too short: {what}"));
    }
    say(format_args!("{}", tidegate_doors::auth::hash_password(&password).as_str()));
    Ok(ExitCode::SUCCESS)
}

/// Reads a password in this way. If there is none, the error says how `command` is given one.
pub fn asked_for(command: &str) -> Result<String> {
    let password = if io::stdin().is_terminal() { typed()? } else { piped()? };
    ensure!(!password.is_empty(), "no password on standard input; try: printf '%s' PASSWORD | {command}");
    Ok(password)
}

fn piped() -> Result<String> {
    let mut password = String::new();
    io::stdin().lock().read_line(&mut password).context("cannot read a password from standard input")?;
    Ok(without_end(&password))
}

fn typed() -> Result<String> {
    let silence = Silence::begin(libc::STDIN_FILENO).context("cannot keep the terminal from showing a password")?;
    let password = asked(&silence, "Password: ")?;
    ensure!(asked(&silence, "The same again: ")? == password, "these are two different passwords; nothing was hashed");
    Ok(password)
}

/// One line of the terminal. A signal ends the command.
fn asked(silence: &Silence, prompt: &str) -> Result<String> {
    let mut error = io::stderr();
    error.write_all(prompt.as_bytes()).context("cannot ask for a password")?;
    let mut line = vec![0; 4096];
    // SAFETY: the descriptor is open as long as the process runs, and is not closed by this file, which is not dropped.
    let mut terminal = ManuallyDrop::new(unsafe { File::from_raw_fd(libc::STDIN_FILENO) });
    let read = silence.wait().and_then(|()| terminal.read(&mut line));
    // Return was not shown either.
    let _ = error.write_all(b"\n");
    line.truncate(read.context("no password was read")?);
    Ok(without_end(&String::from_utf8(line).context("the password is no text in UTF-8")?))
}

fn without_end(line: &str) -> String {
    line.trim_end_matches(['\r', '\n']).to_owned()
}

/// A terminal that does not show what is typed, until this is dropped.
struct Silence {
    terminal: RawFd,
    before: libc::termios,
    /// The signals that were held back before.
    mask: libc::sigset_t,
}

impl Silence {
    fn begin(terminal: RawFd) -> io::Result<Silence> {
        let mut before = MaybeUninit::uninit();
        // SAFETY: the call writes the settings behind a pointer that is good for them.
        succeeded(unsafe { libc::tcgetattr(terminal, before.as_mut_ptr()) })?;
        // SAFETY: the call has succeeded, so that they are written.
        let before: libc::termios = unsafe { before.assume_init() };
        let mask = hold_back()?;
        let mut silent = before;
        silent.c_lflag &= !libc::ECHO;
        // SAFETY: the call reads settings that are live.
        succeeded(unsafe { libc::tcsetattr(terminal, libc::TCSAFLUSH, &silent) })?;
        Ok(Silence { terminal, before, mask })
    }

    /// Waits for a line. A signal is an error also if it came before: it is held back until here.
    fn wait(&self) -> io::Result<()> {
        let mut line = libc::pollfd { fd: self.terminal, events: libc::POLLIN, revents: 0 };
        // SAFETY: the call takes one live entry, no time, and a live mask.
        succeeded(unsafe { libc::ppoll(&mut line, 1, std::ptr::null(), &self.mask) })
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // SAFETY: the call reads settings that are live. If it fails, there is no terminal any more.
        unsafe { libc::tcsetattr(self.terminal, libc::TCSANOW, &self.before) };
        // SAFETY: the call reads a live mask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask, std::ptr::null_mut()) };
    }
}

/// Holds signals back, but where they are waited for; gives the mask that was.
fn hold_back() -> io::Result<libc::sigset_t> {
    let (mut held, mut mask) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    ENDING.into_iter().try_for_each(interrupt)?;
    // SAFETY: the call writes an empty set behind a pointer that is good for it, and cannot fail.
    unsafe { libc::sigemptyset(held.as_mut_ptr()) };
    for signal in ENDING {
        // SAFETY: the set was made above, and the signal exists.
        unsafe { libc::sigaddset(held.as_mut_ptr(), signal) };
    }
    // SAFETY: the call reads the set that was made, and writes one behind a pointer that is good for it.
    let code = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, held.as_ptr(), mask.as_mut_ptr()) };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    // SAFETY: the call has succeeded, so that it is written.
    Ok(unsafe { mask.assume_init() })
}

/// Lets a signal end a wait instead of the process, which then has time to mend the terminal.
fn interrupt(signal: libc::c_int) -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: zeros are an action without flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
    // SAFETY: the handler does nothing, which is allowed at any point of a program.
    succeeded(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) })
}

fn succeeded(code: libc::c_int) -> io::Result<()> {
    if code >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
