//! Passwords are kept only as argon2id hashes, which are slow to verify by design: whoever steals a configuration
//! cannot try many passwords.

use argon2::password_hash::{PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};

/// Shortest password that a user is given while the server runs, in bytes.
const NEW_PASSWORD_BYTES_MIN: usize = 8;
/// Longest password that is checked, in bytes. Nobody types more, and a client could use megabytes to keep a core busy.
pub const PASSWORD_BYTES_MAX: usize = 1_024;
/// Most memory that one hash of the configuration may ask for, in KiB: many log-ins together must not exhaust the host.
const HASH_MEMORY_KIB_MAX: u32 = 256 * 1_024;
/// Most passes that one hash of the configuration may ask for.
const HASH_PASSES_MAX: u32 = 64;

/// What [`PasswordHash::cost`] of a hash is that was made here.
const USUAL_COST: u64 = Params::DEFAULT_M_COST as u64 * Params::DEFAULT_T_COST as u64;

/// Whether a user may be given this password while the server runs, or the words of the refusal. A log-in with a longer
/// one is refused without a look at its hash.
pub fn check_new_password(password: &str) -> Result<(), String> {
    match (NEW_PASSWORD_BYTES_MIN..=PASSWORD_BYTES_MAX).contains(&password.len()) {
        true => Ok(()),
        false => Err(format!("password: expected {NEW_PASSWORD_BYTES_MIN} to {PASSWORD_BYTES_MAX} bytes")),
    }
}

/// An argon2id hash in PHC form, `$argon2id$v=19$m=19456,t=2,p=1$salt$hash`, checked when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordHash {
    phc: String,
    memory_kib: u32,
    cost: u64,
}

/// Why a text is not a password hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordHashError {
    /// Not in PHC form, or not by argon2id.
    #[error(
        "expected an argon2id hash such as $argon2id$v=19$m=19456,t=2,p=1$...; make one with `tidegate hash-password`"
    )]
    NotArgon2id,
    /// Verifying it would take too much.
    #[error("asks for {memory_kib} KiB and {passes} passes; at most 262144 KiB and 64 passes are accepted")]
    TooCostly {
        /// Memory asked for.
        memory_kib: u32,
        /// Passes asked for.
        passes: u32,
    },
}

/// Zeros for salt and hash.
const OF_NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

impl PasswordHash {
    /// Takes a hash in PHC form.
    pub fn parse(phc: &str) -> Result<PasswordHash, PasswordHashError> {
        let parsed = argon2::PasswordHash::new(phc).map_err(|_| PasswordHashError::NotArgon2id)?;
        if parsed.algorithm != argon2::ARGON2ID_IDENT || parsed.hash.is_none() || parsed.salt.is_none() {
            return Err(PasswordHashError::NotArgon2id);
        }
        let params = Params::try_from(&parsed).map_err(|_| PasswordHashError::NotArgon2id)?;
        let (memory_kib, passes) = (params.m_cost(), params.t_cost());
        if memory_kib > HASH_MEMORY_KIB_MAX || passes > HASH_PASSES_MAX {
            return Err(PasswordHashError::TooCostly { memory_kib, passes });
        }
        Ok(PasswordHash { phc: phc.to_owned(), memory_kib, cost: u64::from(memory_kib) * u64::from(passes) })
    }

    /// One of no password that anybody knows, which costs as much as one that [`hash_password`] makes. Each start needs
    /// it, and has no time to make one.
    pub fn of_nobody() -> PasswordHash {
        PasswordHash::parse(OF_NOBODY).expect("it is of the form that is taken")
    }

    /// Whether verifying it takes no more than one that [`hash_password`] makes.
    pub fn is_of_usual_cost(&self) -> bool {
        self.memory_kib <= Params::DEFAULT_M_COST && self.cost <= USUAL_COST
    }

    /// Whether `password` is the one. Takes tens of milliseconds and megabytes: never call it on a thread that serves.
    pub fn verify(&self, password: &str) -> bool {
        let Ok(parsed) = argon2::PasswordHash::new(&self.phc) else { return false };
        password.len() <= PASSWORD_BYTES_MAX && Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok()
    }

    /// The PHC text.
    pub fn as_str(&self) -> &str {
        &self.phc
    }

    /// The memory that verifying it takes.
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.memory_kib) << 10
    }

    /// How costly it is to verify, to compare hashes by.
    pub fn cost(&self) -> u64 {
        self.cost
    }
}

/// Hashes a password for the configuration, with a new random salt and the parameters that OWASP recommends (19 MiB, 2
/// passes).
pub fn hash_password(password: &str) -> PasswordHash {
    let mut salt = [0u8; 16];
    getrandom::fill(&mut salt).expect("the operating system gives random bytes");
    let salt = SaltString::encode_b64(&salt).expect("16 bytes are a valid salt");
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::default());
    let phc = argon2.hash_password(password.as_bytes(), &salt).expect("default parameters are valid").to_string();
    PasswordHash::parse(&phc).expect("what argon2 writes, it reads")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_nobody_costs_as_much_as_another_one() {
        let (nobody, usual) = (PasswordHash::of_nobody(), hash_password("a password"));
        assert_eq!((nobody.memory_kib, nobody.cost), (usual.memory_kib, usual.cost));
        assert!(!nobody.verify(""), "and is of no password");
    }
}
