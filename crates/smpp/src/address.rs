//! Numbers and names of those who send and receive.

/// Characters of an address.
const CHARS_MAX: usize = 20;
/// Characters of one with letters (3GPP TS 23.040, 9.1.2.5: ten bytes of 7-bit characters).
const NAME_CHARS_MAX: usize = 11;

/// An address with its type of number and numbering plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// Type of number: 0 unknown, 1 international, 2 national, 5 alphanumeric …
    pub ton: u8,
    /// Numbering plan: 0 unknown, 1 E.164 …
    pub npi: u8,
    /// Without a plus before it.
    pub digits: Box<str>,
}

/// A text is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a number of at most 20 digits, as +491701234567, or a name of at most 11 characters of ASCII")]
pub struct NoAddress;

impl Address {
    /// Reads an address as people write it: `+49 170…` is international, digits alone are of the type that is `usual`,
    /// and what has letters is a name.
    pub fn read(text: &str, usual: (u8, u8)) -> Result<Address, NoAddress> {
        let is_space = |letter: &char| matches!(letter, ' ' | '-' | '(' | ')' | '/');
        let bare: String = text.chars().filter(|letter| !is_space(letter)).collect();
        let (plus, digits) = bare.strip_prefix('+').map_or((false, &*bare), |digits| (true, digits));
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.len() <= CHARS_MAX {
            let (ton, npi) = if plus { (1, 1) } else { usual };
            return Ok(Address { ton, npi, digits: digits.into() });
        }
        let is_name = text.bytes().any(|byte| byte.is_ascii_alphabetic())
            && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
            && text.len() <= NAME_CHARS_MAX;
        match is_name {
            true => Ok(Address { ton: 5, npi: 0, digits: text.into() }),
            false => Err(NoAddress),
        }
    }

    /// As people write it.
    pub fn written(&self) -> String {
        match self.ton == 1 && !self.digits.starts_with('+') {
            true => format!("+{}", self.digits),
            false => self.digits.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let read = |text: &str| Address::read(text, (2, 1)).map(|Address { ton, npi, digits }| (ton, npi, digits));
        assert_eq!(read("+49 (170) 123-45"), Ok((1, 1, "4917012345".into())));
        assert_eq!(read("12345"), Ok((2, 1, "12345".into())));
        assert_eq!(read("Tidegate 24"), Ok((5, 0, "Tidegate 24".into())));
        for none in ["", "+", "+49a1701234567", "123456789012345678901", "Tidegate 245", "Grüße", "a\0b", "#"] {
            assert_eq!(read(none), Err(NoAddress), "{none:?}");
        }
        assert_eq!(Address::read("+491", (0, 0)).unwrap().written(), "+491");
    }
}
