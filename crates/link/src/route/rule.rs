//! One rule of a route: which messages it is for, and between which queues it chooses.

use crate::attributes::Attributes;

/// How a rule chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choose {
    /// Each queue gets its share.
    Weight,
    /// The first that is there.
    Failover,
    /// The one with the fewest messages.
    LeastLoaded,
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The attribute whose beginning is looked at.
    pub attribute: Box<str>,
    /// It begins with one of these; empty for whatever it is.
    pub prefix: Vec<Box<str>>,
    /// The body has one of these, in lower case; empty for whatever it has.
    pub contains: Vec<Box<str>>,
    /// Queues, and the weight of each.
    pub to: Vec<(Box<str>, u64)>,
    /// How it chooses between them.
    pub choose: Choose,
}

impl Rule {
    /// Whether it is for all messages.
    pub fn is_for_all(&self) -> bool {
        self.prefix.is_empty() && self.contains.is_empty()
    }

    /// Whether it is for a message.
    pub fn fits(&self, attributes: &Attributes, body: &[u8]) -> bool {
        let begins = || {
            let value = attributes.get(&self.attribute).unwrap_or_default();
            self.prefix.iter().any(|prefix| value.starts_with(&**prefix))
        };
        let has = || {
            let text = String::from_utf8_lossy(body).to_lowercase();
            self.contains.iter().any(|word| text.contains(&**word))
        };
        (self.prefix.is_empty() || begins()) && (self.contains.is_empty() || has())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_fits_if_all_that_it_says_holds() {
        let rule = |prefix: &[&str], contains: &[&str]| Rule {
            attribute: "to".into(),
            prefix: prefix.iter().map(|text| (*text).into()).collect(),
            contains: contains.iter().map(|text| (*text).into()).collect(),
            to: Vec::new(),
            choose: Choose::Weight,
        };
        let to = Attributes::read(br#"{"to":"+49171"}"#);
        let (both, all) = (rule(&["+4915", "+4917"], &["pin", "größe"]), rule(&[], &[]));
        assert!(both.fits(&to, b"your PIN") && both.fits(&to, "GRÖSSE, GRÖßE".as_bytes()));
        assert!(!both.fits(&to, b"hello") && !both.fits(&Attributes::default(), b"pin"));
        assert!(all.is_for_all() && all.fits(&Attributes::default(), b"\xff") && !both.is_for_all());
        assert!(!rule(&["+1"], &[]).fits(&to, b"pin"));
    }
}
