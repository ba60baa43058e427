//! What the way to the log asks of a command: how much it weighs, and whether it may be turned away.

use tidegate_machines::topic::Command;

/// Memory that a command takes while it waits, about: what bounds an inbox.
pub(super) fn bytes_of(command: &Command) -> usize {
    let beside = match command {
        Command::Publish { message, receivers, .. } => message.body_bytes() + size_of_val(&**receivers),
        Command::Retain(message) | Command::Delay { message, .. } => message.body_bytes(),
        Command::OpenSession { will, .. } | Command::AttachSession { will, .. } => {
            will.as_ref().map_or(0, |will| will.message.body_bytes())
        }
        _ => 0,
    };
    size_of::<Command>() + beside
}

/// Whether a command brings something new, which its sender can bring again later. The others take note of what has happened or ends,
/// and there are never more of them than of what they end.
pub(super) fn brings(command: &Command) -> bool {
    match command {
        Command::OpenSession { .. }
        | Command::AttachSession { .. }
        | Command::Subscribe { .. }
        | Command::Publish { .. }
        | Command::Retain(_)
        | Command::Delay { .. } => true,
        Command::DetachSession { .. }
        | Command::EndSession { .. }
        | Command::ClearWill { .. }
        | Command::Unsubscribe { .. }
        | Command::Acknowledge { .. }
        | Command::MarkReceived { .. }
        | Command::Drop { .. }
        | Command::ForgetOrigin(_)
        | Command::ForgetOrigins { .. }
        | Command::DelayedSent { .. } => false,
    }
}
