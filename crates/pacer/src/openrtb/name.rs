//! Names as hashes.

use crate::bidder::mixed;

/// The hash of a name whose letters' case counts: an id. 0 stands for none, which is what an empty name means.
pub fn exact(name: &str) -> u64 {
    hash(name.as_bytes(), u64::from_le_bytes)
}

/// The hash of a name whose letters' case does not count: a domain, a country, a category.
pub fn folded(name: &str) -> u64 {
    hash(name.as_bytes(), |mut word| {
        word.make_ascii_lowercase();
        u64::from_le_bytes(word)
    })
}

/// The hash of a domain, which stands for all that is below it. Exchanges send it with and without "www.", and with the
/// dot of the root behind it.
pub fn site(domain: &str) -> u64 {
    folded(bare(domain))
}

/// Bytes of a domain: what DNS allows.
const DOMAIN_BYTES_MAX: usize = 253;
/// Bytes of a category that has others above it.
const CATEGORY_BYTES_MAX: usize = 64;

/// The hashes of a domain and of all that it is below, up to the top one; none of what is too long for a domain.
///
/// Why the top one, too: whoever blocks "com" wants nothing below it. A bid that is not made costs less than one that
/// was blocked.
pub fn domains(domain: &str) -> Vec<u64> {
    let mut rest = bare(domain);
    // Of a name of n labels, hashing all that it is below takes n times as long as the name.
    if rest.len() > DOMAIN_BYTES_MAX {
        return Vec::new();
    }
    let mut all = vec![folded(rest)];
    while let Some((_, parent)) = rest.split_once('.') {
        all.push(folded(parent));
        rest = parent;
    }
    all
}

/// The hashes of a category and of all that it is below: `IAB7-39` is below `IAB7`.
pub(super) fn categories(category: &str) -> Vec<u64> {
    let mut all = vec![folded(category)];
    if category.len() > CATEGORY_BYTES_MAX {
        return all;
    }
    let mut rest = category;
    while let Some((parent, _)) = rest.rsplit_once('-') {
        all.push(folded(parent));
        rest = parent;
    }
    all
}

/// A domain without "www." and without the dot of the root.
fn bare(domain: &str) -> &str {
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    let has = domain.get(..4).is_some_and(|begin| begin.eq_ignore_ascii_case("www."));
    if has { &domain[4..] } else { domain }
}

fn hash(bytes: &[u8], word_of: impl Fn([u8; 8]) -> u64) -> u64 {
    if bytes.is_empty() {
        return 0;
    }
    let mut hash = bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = mixed(hash ^ word_of(word));
    }
    hash.max(1)
}

/// A currency of ISO 4217.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrencyCode(pub [u8; 3]);

impl CurrencyCode {
    /// What is meant where a request names none.
    pub const USD: CurrencyCode = CurrencyCode(*b"USD");

    /// The currency with this code; `None` if it is not one of three letters.
    pub fn of(code: &str) -> Option<CurrencyCode> {
        let code: [u8; 3] = code.as_bytes().try_into().ok()?;
        code.iter().all(u8::is_ascii_alphabetic).then(|| CurrencyCode(code.map(|letter| letter.to_ascii_uppercase())))
    }

    /// Its code.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("letters of ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_below_others() {
        let above = ["news.example.com", "example.com", "com"].map(folded);
        for same in ["www.News.Example.com", "news.example.com.", "WWW.news.example.com."] {
            assert_eq!(domains(same), above, "{same}");
            assert_eq!(site(same), above[0], "{same}");
        }
        assert_eq!((domains("com"), domains(".")), (vec![folded("com")], vec![0]));
        let longest = "a.".repeat(126) + "x";
        assert_eq!((longest.len(), domains(&longest).len()), (253, 127));
        assert!(domains(&format!("a.{longest}")).is_empty(), "it is none, and its labels are not gone through");
        let long = "a-".repeat(100);
        assert_eq!(categories(&long), [folded(&long)]);
        assert_eq!(categories("IAB7-39"), [folded("IAB7-39"), folded("IAB7")]);
    }
}
