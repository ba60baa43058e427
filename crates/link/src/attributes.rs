//! Attributes of a message, as all doors write them: a JSON object of names, whose values are texts, or objects with
//! `type` and `value` (`docs/formats/queue.md`).

use std::collections::BTreeMap;

use serde_json::Value;

/// The texts among the attributes of a message, by name.
#[derive(Debug, Default)]
pub struct Attributes(BTreeMap<String, Value>);

impl Attributes {
    /// Reads them; what is none is left out.
    pub fn read(bytes: &[u8]) -> Attributes {
        Attributes(serde_json::from_slice(bytes).unwrap_or_default())
    }

    /// The value of one, if it is there and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        let text = match self.0.get(name)? {
            Value::String(text) => text,
            typed => typed.get("value")?.as_str()?,
        };
        (!text.is_empty()).then_some(text)
    }
}

/// Texts as attributes.
pub fn written(texts: &[(&str, String)]) -> Box<[u8]> {
    let texts: BTreeMap<&str, &String> = texts.iter().map(|(name, text)| (*name, text)).collect();
    serde_json::to_vec(&texts).expect("names and texts are JSON").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_all_doors_are_read() {
        let read = |text: &str| {
            let attributes = Attributes::read(text.as_bytes());
            (attributes.get("to").map(str::to_owned), attributes.get("n").map(str::to_owned))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read(r#"{"to":"+491","n":{"type":"Number","value":"4"}}"#), (some("+491"), some("4")));
        assert_eq!(read(r#"{"to":"","n":[1]}"#), (None, None));
        assert_eq!((read(""), read("[]"), read("\u{0}")), ((None, None), (None, None), (None, None)));
        let bytes = written(&[("to", "+491".to_owned()), ("n", "\"".to_owned())]);
        assert_eq!(&*bytes, br#"{"n":"\"","to":"+491"}"#);
        assert_eq!(Attributes::read(&bytes).get("n"), Some("\""));
    }
}
