//! Names addresses, users at addresses, and passwords by keyed hashes, so that tables of fixed size can hold them and
//! nobody outside knows who shares a place with whom.

use std::net::IpAddr;

/// 128 bits of a keyed hash. Of a password it says no more than that two are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark(pub [u64; 2]);

impl Mark {
    /// Its place in a table.
    pub fn number(self) -> u64 {
        self.0[0]
    }
}

/// Makes marks, with a key of this process.
pub struct Marks {
    key: [u8; 32],
}

impl Marks {
    /// With a random key.
    pub fn new() -> Marks {
        let mut key = [0; 32];
        getrandom::fill(&mut key).expect("the operating system gives random bytes");
        Marks { key }
    }

    /// Of an address; of IPv6 the /64 is: who has one address of it has all.
    pub fn address(&self, address: IpAddr) -> Mark {
        self.mark("address", &[&octets(address)])
    }

    /// Of the same, by what was not hashed for it.
    pub fn unhashed(&self, address: IpAddr) -> Mark {
        self.mark("unhashed", &[&octets(address)])
    }

    /// Of a user at an address.
    pub fn pair(&self, user: &str, address: IpAddr) -> Mark {
        self.mark("pair", &[user.as_bytes(), &octets(address)])
    }

    /// Of a password of a user, as long as the user's hash has this stamp.
    pub fn password(&self, user: &str, stamp: &str, password: &str) -> Mark {
        self.mark("password", &[user.as_bytes(), stamp.as_bytes(), password.as_bytes()])
    }

    fn mark(&self, of: &str, parts: &[&[u8]]) -> Mark {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in [of.as_bytes()].iter().chain(parts) {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let hash = hasher.finalize();
        let word = |at: usize| u64::from_le_bytes(hash.as_bytes()[at..at + 8].try_into().expect("eight bytes"));
        Mark([word(0), word(8)])
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets()[..8].to_vec(),
    }
}
