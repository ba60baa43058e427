//! Bounds.

/// Bytes of a name.
pub const NAME_BYTES_MAX: usize = 64;
/// Grants of one service, and grants or wallets of one user.
pub const GRANTS_MAX: usize = 64;
/// Their bytes.
pub const GRANTS_BYTES_MAX: usize = 4_096;
/// Bytes of the hash of a password.
pub const PASSWORD_HASH_BYTES_MAX: usize = 256;
/// Services of a roster. The largest one is a snapshot of about so many times [`GRANTS_BYTES_MAX`].
pub const SERVICES_MAX: usize = 10_000;
/// Users of a roster, likewise.
pub const USERS_MAX: usize = 10_000;
/// Commands that may wait for the shard.
pub const COMMANDS_WAITING_MAX: usize = 256;
/// Their bytes.
pub const COMMAND_BYTES_WAITING_MAX: usize = 2 << 20;
/// Bytes of a segment of the log.
pub const SEGMENT_BYTES: u64 = 1 << 20;

/// Bytes of the texts of one user or service.
const MEMBER_BYTES_MAX: usize = NAME_BYTES_MAX + GRANTS_BYTES_MAX + PASSWORD_HASH_BYTES_MAX;

const _: () = assert!(COMMAND_BYTES_WAITING_MAX >= COMMANDS_WAITING_MAX * MEMBER_BYTES_MAX);
const _: () = assert!(16 * MEMBER_BYTES_MAX < SEGMENT_BYTES as usize);
