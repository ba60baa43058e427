//! A password that somebody types at a terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::ptr::null_mut;

use crate::wait_for;

/// Both ends of a terminal: of the person, and of the program.
fn terminal() -> (File, OwnedFd) {
    let (mut person, mut program) = (0, 0);
    // SAFETY: the call writes two descriptors behind pointers that are good for them; it takes null for what is not
    // wanted.
    let opened = unsafe { libc::openpty(&mut person, &mut program, null_mut(), null_mut(), null_mut()) };
    assert_eq!(opened, 0, "the system has terminals");
    // SAFETY: the call has succeeded, so that both are open and nobody else's.
    unsafe { (File::from_raw_fd(person), OwnedFd::from_raw_fd(program)) }
}

fn shows(terminal: &impl AsRawFd) -> bool {
    // SAFETY: zeros are settings, which the call overwrites.
    let mut settings: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes settings behind a pointer that is good for them.
    assert_eq!(unsafe { libc::tcgetattr(terminal.as_raw_fd(), &mut settings) }, 0, "it is a terminal");
    settings.c_lflag & libc::ECHO != 0
}

fn hash_password(program: &OwnedFd) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("hash-password").stdin(program.try_clone().expect("a descriptor"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    wait_for("the terminal shows no more what is typed", || (!shows(program)).then_some(()));
    child
}

#[test]
fn a_typed_password_is_not_shown_and_the_terminal_is_mended() {
    let (mut person, program) = terminal();
    let child = hash_password(&program);
    person.write_all(b"a secret\na secret\n").expect("it takes text");
    let ended = child.wait_with_output().expect("it ends");
    let (out, error) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && out.starts_with("$argon2id$"), "{out}{error}");
    assert_eq!(error, "Password: \nThe same again: \n");
    assert!(shows(&program));
    // What the terminal would have shown comes before this.
    File::from(program.try_clone().expect("a descriptor")).write_all(b"end").expect("it takes text");
    let mut shown = [0; 64];
    let length = person.read(&mut shown).expect("something is shown");
    assert_eq!(&shown[..length], b"end");

    let child = hash_password(&program);
    person.write_all(b"a secret\nanother\n").expect("it takes text");
    let ended = child.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && ended.stdout.is_empty() && error.contains("two different"), "{error}");
}

#[test]
fn a_password_that_is_given_up_leaves_the_terminal_as_it_was() {
    let (_person, program) = terminal();
    let child = hash_password(&program);
    // SAFETY: the process is our child and was not waited for, so its id is not another's.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let ended = child.wait_with_output().expect("it ends");
    assert!(!ended.status.success() && ended.stdout.is_empty(), "{:?}", ended.status);
    assert!(shows(&program));
}
