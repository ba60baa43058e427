//! The payments of a load: an endless, reproducible series between accounts that have enough funds.
//!
//! Every id is unique and looks random (a bijection of a counter), as UUIDs do, so that an index over ids gets no help
//! from their order. Why not real randomness: 10 M collision-free ids for a few nanoseconds each, and a run can be
//! repeated.

/// What each wallet holds before the first payment, in minor units: more than any run can spend.
pub const FUNDS_PER_WALLET: u64 = 1_000_000_000;
/// Candidates that votes go to.
pub const CANDIDATES: u32 = 7;

/// An account, as an index into [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account(pub u32);

/// The accounts of a run by name: wallets, then candidates, then the source that funds the wallets.
///
/// Why names are made each time and not kept: a table of a million is in no cache, and two look-ups in it took 0.3
/// microseconds of a transfer, of the core that is shared with the server that is measured.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    wallets: u32,
}

impl Names {
    /// Names for so many wallets.
    pub fn new(wallets: u32) -> Names {
        assert!(wallets < 10_000_000, "a wallet's number has 7 digits");
        Names { wallets }
    }

    /// How many wallets there are.
    pub fn wallets(&self) -> u32 {
        self.wallets
    }

    /// Every account.
    pub fn all(&self) -> impl Iterator<Item = Account> + use<> {
        (0..self.wallets + CANDIDATES + 1).map(Account)
    }

    /// The names of both accounts of a payment.
    #[inline]
    pub fn parties(&self, payment: &Payment) -> Parties {
        Parties { debit: self.of(payment.debit), credit: self.of(payment.credit) }
    }

    /// The name of an account.
    #[inline]
    pub fn of(&self, Account(index): Account) -> Name {
        match index.checked_sub(self.wallets) {
            None => Name::numbered(b"wallet:0000000", index),
            Some(CANDIDATES) => Name::numbered(b"source:shop", 0),
            Some(candidate) => Name::numbered(b"candidate:0", candidate + 1),
        }
    }
}

/// The name of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    text: [u8; 16],
    length: u8,
}

impl Name {
    /// `pattern`, with the digits of `number` in place of its last characters.
    #[inline]
    fn numbered<const LENGTH: usize>(pattern: &[u8; LENGTH], mut number: u32) -> Name {
        let mut text = [0; 16];
        text[..LENGTH].copy_from_slice(pattern);
        for digit in text[..LENGTH].iter_mut().rev() {
            if number == 0 {
                break;
            }
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        Name { text, length: LENGTH as u8 }
    }

    /// The name as bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..usize::from(self.length)]
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("names are ASCII")
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who pays and who is paid, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parties {
    /// Who pays.
    pub debit: Name,
    /// Who is paid.
    pub credit: Name,
}

/// The payer and the payee of each payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Any wallet pays any other, uniformly.
    Uniform,
    /// Any wallet pays one and the same candidate.
    Hot,
    /// Any wallet pays one of the candidates.
    Votes,
    /// The source pays each wallet its funds, one after the other.
    Funding,
    /// As [`Pattern::Uniform`] among the wallets of one part of `parts`, so that parts never meet.
    Part {
        /// Which part.
        part: u32,
        /// Of how many.
        parts: u32,
    },
}

/// A transfer id: 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id([u8; 16]);

impl Id {
    fn of(number: u64) -> Id {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 16];
        for (index, byte) in number.to_be_bytes().into_iter().enumerate() {
            text[2 * index] = DIGITS[usize::from(byte >> 4)];
            text[2 * index + 1] = DIGITS[usize::from(byte & 15)];
        }
        Id(text)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits are ASCII")
    }
}

/// One transfer to be made.
#[derive(Clone, Copy, Debug)]
pub struct Payment {
    /// Unique id.
    pub id: Id,
    /// Who pays.
    pub debit: Account,
    /// Who is paid.
    pub credit: Account,
    /// Minor units.
    pub amount: u64,
}

/// A finite row of payments.
pub struct Workload {
    pattern: Pattern,
    wallets: u32,
    seed: u64,
    made: u64,
    total: u64,
    paid: u128,
}

impl Workload {
    /// `total` payments between so many wallets. Two workloads with different `series` share no id.
    pub fn new(pattern: Pattern, wallets: u32, total: u64, series: u32) -> Workload {
        assert!(total < 1 << 40, "a series has room for 2^40 payments");
        Workload { pattern, wallets, seed: u64::from(series) << 40, made: 0, total, paid: 0 }
    }

    /// The next payment, `None` after the last.
    #[inline]
    pub fn next(&mut self) -> Option<Payment> {
        if self.made == self.total {
            return None;
        }
        let number = self.seed + self.made;
        let id = Id::of(scramble(number));
        let chance = scramble(!number);
        let (debit, credit, amount) = match self.pattern {
            Pattern::Uniform => {
                let (debit, credit) = two_of(self.wallets, chance);
                (debit, credit, 1 + (chance & 63))
            }
            Pattern::Part { part, parts } => {
                let (debit, credit) = two_of(self.wallets / parts, chance);
                (debit * parts + part, credit * parts + part, 1 + (chance & 63))
            }
            Pattern::Hot => (below(self.wallets, chance as u32), self.wallets, 1),
            Pattern::Votes => {
                (below(self.wallets, chance as u32), self.wallets + below(CANDIDATES, (chance >> 32) as u32), 1)
            }
            Pattern::Funding => (self.wallets + CANDIDATES, self.made as u32, FUNDS_PER_WALLET),
        };
        self.made += 1;
        self.paid += u128::from(amount);
        Some(Payment { id, debit: Account(debit), credit: Account(credit), amount })
    }

    /// Payments not handed out yet.
    pub fn left(&self) -> u64 {
        self.total - self.made
    }

    /// Sum of all amounts handed out so far.
    pub fn paid(&self) -> u128 {
        self.paid
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits, so different numbers stay different.
#[inline]
pub fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Maps 32 random bits to `0..bound` without division.
#[inline]
fn below(bound: u32, bits: u32) -> u32 {
    ((u64::from(bound) * u64::from(bits)) >> 32) as u32
}

/// Two different numbers below `bound`.
#[inline]
fn two_of(bound: u32, chance: u64) -> (u32, u32) {
    let first = below(bound, chance as u32);
    let step = 1 + below(bound - 1, (chance >> 32) as u32);
    let second = first + step;
    (first, if second >= bound { second - bound } else { second })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_differ_within_and_between_series() {
        let mut seen = HashSet::new();
        for series in 0..4 {
            let mut work = Workload::new(Pattern::Uniform, 10, 5_000, series);
            while let Some(payment) = work.next() {
                assert!(seen.insert(payment.id.as_str().to_owned()), "{:?}", payment.id);
            }
        }
        assert_eq!(seen.len(), 20_000);
    }

    #[test]
    fn every_account_has_a_name_of_its_own() {
        let names = Names::new(1_234);
        let of = |index| names.of(Account(index)).to_string();
        assert_eq!([of(0), of(9), of(1_233)], ["wallet:0000000", "wallet:0000009", "wallet:0001233"]);
        assert_eq!([of(1_234), of(1_240), of(1_241)], ["candidate:1", "candidate:7", "source:shop"]);
        let all: HashSet<String> = names.all().map(|account| names.of(account).to_string()).collect();
        assert_eq!(all.len(), 1_234 + 7 + 1);
    }

    #[test]
    fn payments_stay_among_their_accounts() {
        let names = Names::new(12);
        for pattern in
            [Pattern::Uniform, Pattern::Hot, Pattern::Votes, Pattern::Funding, Pattern::Part { part: 2, parts: 3 }]
        {
            let mut work = Workload::new(pattern, 12, 12, 0);
            let mut paid = 0;
            while let Some(payment) = work.next() {
                let parties = names.parties(&payment);
                let (debit, credit) = (parties.debit.as_str(), parties.credit.as_str());
                assert_ne!(debit, credit);
                paid += u128::from(payment.amount);
                match pattern {
                    Pattern::Uniform => assert!(debit.starts_with("wallet:") && credit.starts_with("wallet:")),
                    Pattern::Hot => assert_eq!(credit, "candidate:1"),
                    Pattern::Votes => assert!(credit.starts_with("candidate:")),
                    Pattern::Funding => assert_eq!(debit, "source:shop"),
                    Pattern::Part { part, parts } => {
                        assert_eq!((payment.debit.0 % parts, payment.credit.0 % parts), (part, part));
                    }
                }
            }
            assert_eq!((work.left(), work.paid()), (0, paid));
        }
    }
}
