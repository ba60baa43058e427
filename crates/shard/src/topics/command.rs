//! What the way to the log asks of a command: how much it weighs, and whether it may be turned away.

use tidegate_machines::topic::Command;

/// Memory that a command takes while it waits, about: what bounds an inbox.
pub(super) fn bytes_of(command: &Command) -> usize {
    let body = match command {
        Command::Retain(message) => message.body_bytes(),
        _ => 0,
    };
    size_of::<Command>() + body
}

/// Whether a command brings something new, which its sender can bring again later. The others take note of what has happened or ends,
/// and there are never more of them than of what they end.
pub(super) fn brings(command: &Command) -> bool {
    matches!(command, Command::Retain(_))
}
