//! The values of a file, each with the place where it stands in the text.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::row::{Expected, Value};

/// A value and its place.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) span: Range<usize>,
    pub(crate) shape: Shape,
}

/// What a value is.
#[derive(Clone)]
pub(crate) enum Shape {
    /// `None` is a negative number or one that is too large.
    Integer(Option<u64>),
    Flag(bool),
    Text(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
    /// Numbers with a point, dates: no key takes them.
    Other,
}

/// A key with its value.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) name_span: Range<usize>,
    pub(crate) node: Node,
}

/// The whole text as a table.
pub(crate) fn parse(text: &str) -> Result<Node, toml::de::Error> {
    let table = DeTable::parse(text)?;
    Ok(Node { span: table.span(), shape: Shape::Table(entries(table.get_ref())) })
}

fn entries(table: &DeTable<'_>) -> Vec<Entry> {
    let entry = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let text: &std::borrow::Cow<'_, str> = name.get_ref();
        Entry { name: text.to_string(), name_span: name.span(), node: node(value) }
    };
    table.iter().map(entry).collect()
}

fn node(value: &Spanned<DeValue<'_>>) -> Node {
    let shape = match value.get_ref() {
        DeValue::Integer(integer) => {
            // TOML's integers are signed and have 64 bits; ours count things.
            let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
            Shape::Integer(number.filter(|number| i64::try_from(*number).is_ok()))
        }
        DeValue::Boolean(flag) => Shape::Flag(*flag),
        DeValue::String(text) => Shape::Text(text.to_string()),
        DeValue::Array(items) => Shape::List(items.iter().map(node).collect()),
        DeValue::Table(table) => Shape::Table(entries(table)),
        DeValue::Float(_) | DeValue::Datetime(_) => Shape::Other,
    };
    Node { span: value.span(), shape }
}

impl Node {
    /// The value, if it is of the type that a key expects.
    pub(crate) fn value(&self, expected: Expected) -> Option<Value<'_>> {
        match (expected, &self.shape) {
            (Expected::Integer, Shape::Integer(number)) => number.map(Value::Integer),
            (Expected::Flag, Shape::Flag(flag)) => Some(Value::Flag(*flag)),
            (Expected::Text, Shape::Text(text)) => Some(Value::Text(text)),
            (Expected::TextList, Shape::List(items)) => {
                items.iter().map(Node::text).collect::<Option<Vec<&str>>>().map(Value::Texts)
            }
            _ => None,
        }
    }

    fn text(&self) -> Option<&str> {
        match &self.shape {
            Shape::Text(text) => Some(text),
            _ => None,
        }
    }

    /// What stands in it, if it is a table.
    pub(crate) fn entries(&self) -> Option<&[Entry]> {
        match &self.shape {
            Shape::Table(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value of `name`, if it is a table that has one.
    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        self.entries()?.iter().find(|entry| entry.name == name).map(|entry| &entry.node)
    }

    /// The value at `path`, such as `listen.http`.
    pub(crate) fn at(&self, path: &str) -> Option<&Node> {
        path.split('.').try_fold(self, |node, name| node.get(name))
    }

    /// Where the value at `path` stands, or the nearest section around it. `user[1].role` is that of the second user.
    pub(crate) fn locate(&self, path: &str) -> Option<Range<usize>> {
        let (mut node, mut best) = (self, None);
        for step in path.split('.') {
            let (name, index) = match step.strip_suffix(']').and_then(|step| step.split_once('[')) {
                Some((name, index)) => (name, index.parse().unwrap_or(0)),
                None => (step, 0usize),
            };
            let Some(inner) = node.get(name) else { return best };
            best = Some(inner.span.clone());
            node = match &inner.shape {
                Shape::List(items) => match items.get(index) {
                    Some(item) => item,
                    None => return best,
                },
                _ => inner,
            };
            best = Some(node.span.clone());
        }
        best
    }
}
