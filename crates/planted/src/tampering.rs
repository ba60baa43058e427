//! A live balance that a test changes in a running process, as a flipped bit would, for the online auditor to find.

/// The environment variable with the path of the file that says what to change.
pub const VARIABLE: &str = "TIDEGATE_TAMPER";

#[cfg(feature = "tampering")]
mod order {
    use std::path::PathBuf;

    use super::VARIABLE;

    /// What to add to the balance of an account, in minor units, without an event.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BalanceChange {
        account: Box<str>,
        change: i64,
    }

    impl BalanceChange {
        /// A change of `change` minor units.
        pub fn new(account: &str, change: i64) -> BalanceChange {
            BalanceChange { account: account.into(), change }
        }

        /// Whose balance.
        pub fn account(&self) -> &str {
            &self.account
        }

        /// By how many minor units.
        pub fn change(&self) -> i64 {
            self.change
        }

        /// Reads `ACCOUNT CHANGE`, such as `wallet:dave +5`.
        fn parse(text: &str) -> Option<BalanceChange> {
            let (account, change) = text.trim().split_once(' ')?;
            Some(BalanceChange::new(account, change.parse().ok()?))
        }
    }

    /// Looks for a file with a [`BalanceChange`]; has it done, once, and removes the file.
    #[derive(Debug)]
    pub struct Tampering {
        file: Option<PathBuf>,
    }

    impl Tampering {
        /// Looks where the variable [`VARIABLE`] says; nowhere without it.
        pub fn from_env() -> Tampering {
            Tampering { file: std::env::var_os(VARIABLE).map(PathBuf::from) }
        }

        /// Calls `apply` if there is a file. It says whether the account was there; otherwise the file stays for
        /// another thread.
        pub fn look(&self, apply: impl FnOnce(&BalanceChange) -> bool) {
            let Some(file) = &self.file else { return };
            let Ok(text) = std::fs::read_to_string(file) else { return };
            let Some(change) = BalanceChange::parse(&text) else { return };
            if apply(&change) {
                std::fs::remove_file(file).expect("the file was just read");
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn an_order_is_an_account_and_a_change() {
            let order = |text| BalanceChange::parse(text);
            assert_eq!(order("wallet:dave +5\n"), Some(BalanceChange::new("wallet:dave", 5)));
            assert_eq!(order("a -1"), Some(BalanceChange::new("a", -1)));
            assert_eq!((order("wallet:dave"), order("wallet:dave five"), order("")), (None, None, None));
        }
    }
}

#[cfg(not(feature = "tampering"))]
mod order {
    /// What to add to the balance of an account. There is none in this build.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum BalanceChange {}

    impl BalanceChange {
        /// Whose balance.
        pub fn account(&self) -> &str {
            match *self {}
        }

        /// By how many minor units.
        pub fn change(&self) -> i64 {
            match *self {}
        }
    }

    /// Looks for a file with a [`BalanceChange`]; not in this build.
    #[derive(Debug)]
    pub struct Tampering;

    impl Tampering {
        /// Looks nowhere.
        pub const fn from_env() -> Tampering {
            Tampering
        }

        /// Does nothing.
        #[inline(always)]
        pub fn look(&self, _apply: impl FnOnce(&BalanceChange) -> bool) {}
    }
}

pub use order::{BalanceChange, Tampering};
