//! Bounds.

/// Bytes of a name.
pub const NAME_BYTES_MAX: usize = 64;
/// Grants of one service.
pub const GRANTS_MAX: usize = 64;
/// Bytes of the grants of one service.
pub const GRANTS_BYTES_MAX: usize = 4_096;
/// Services of a roster. The largest one is a snapshot of about so many times [`GRANTS_BYTES_MAX`].
pub const SERVICES_MAX: usize = 10_000;
/// Commands that may wait for the shard.
pub const COMMANDS_WAITING_MAX: usize = 256;
/// Their bytes.
pub const COMMAND_BYTES_WAITING_MAX: usize = 2 << 20;
/// Bytes of a segment of the log.
pub const SEGMENT_BYTES: u64 = 1 << 20;

const _: () = assert!(COMMAND_BYTES_WAITING_MAX >= COMMANDS_WAITING_MAX * (NAME_BYTES_MAX + GRANTS_BYTES_MAX));
const _: () = assert!(16 * (NAME_BYTES_MAX + GRANTS_BYTES_MAX) < SEGMENT_BYTES as usize);
