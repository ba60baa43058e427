//! Why an operator did something, as it is written into a log.
//!
//! Why only printable text: what is shown line by line, by an audit or at a start, must not be able to show a line that
//! nobody wrote.

use anyhow::{Result, bail};
use tidegate_machines::ledger::is_printable;

/// That `reason` can be written into a log: at most `bytes_max` bytes, of characters that a person sees.
pub fn check_reason(reason: &str, bytes_max: usize) -> Result<()> {
    if reason.len() > bytes_max {
        bail!("--reason has {} bytes; at most {bytes_max} are kept", reason.len());
    }
    if !is_printable(reason) {
        bail!(
            "--reason {reason:?}: expected one line of characters that a person sees, without a space at an end: it is \
             shown wherever the log is read"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_that_a_person_sees() {
        for good in ["", "disk 2 was replaced", "ein Käse für 3 €", &"x".repeat(9)] {
            check_reason(good, 32).unwrap();
        }
        for bad in ["a\nERROR forged", "a\u{1b}[2J", "a\0", "a\u{202e}b", " a", "a\t"] {
            let refused = check_reason(bad, 32).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("--reason {bad:?}: ")), "{refused}");
            assert!(!refused.contains('\n') && !refused.contains('\u{1b}'), "{refused}");
        }
        let long = check_reason(&"x".repeat(33), 32).unwrap_err();
        assert_eq!(long.to_string(), "--reason has 33 bytes; at most 32 are kept");
    }
}
