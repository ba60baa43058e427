//! Through which queues a message has come that links carry, so that one which comes back to a queue is known there.
//!
//! ```text
//!   4711/in 812/router       NODE/QUEUE, the first one first
//! ```
//!
//! Why: a queue says of an id that it remembers that it has the message already, and the link that gave it lets go of
//! it. Of a message that links have led round in a circle, that would be the only copy there is.
//!
//! The queue where a message was sent first does not stand there: it gave the message its key, and knows it by that
//! (`decide/send.rs`). Whoever takes it later under that key writes itself into the record.

use std::fmt;

use super::limits::VIA_BYTES_MAX;
use super::settings::is_queue_name;

/// The way of a message to the queue that has taken it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via<'a> {
    /// The queues before, as text; empty if there was none.
    pub before: &'a str,
    /// The node that has taken it.
    pub node: u16,
    /// Its queue.
    pub queue: &'a str,
}

impl<'a> Via<'a> {
    /// Takes the last queue of a way apart.
    pub fn parse(text: &'a str) -> Option<Via<'a>> {
        let (before, last) = text.rsplit_once(' ').unwrap_or(("", text));
        let (node, queue) = place(last)?;
        Some(Via { before, node, queue })
    }

    /// Bytes of it as text.
    pub fn bytes(&self) -> usize {
        let Via { before, node, queue } = self;
        let space = usize::from(!before.is_empty());
        let digits = node.checked_ilog10().map_or(1, |power| power as usize + 1);
        before.len() + space + digits + "/".len() + queue.len()
    }
}

impl fmt::Display for Via<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Via { before, node, queue } = self;
        let space = if before.is_empty() { "" } else { " " };
        write!(f, "{before}{space}{node}/{queue}")
    }
}

/// Whether this is a way, and none that is too long.
pub(super) fn is_via(text: &str) -> bool {
    text.len() <= VIA_BYTES_MAX && text.split(' ').all(|text| place(text).is_some())
}

/// Whether a message has come through a queue of this name, of one of the nodes that `is_node` says.
pub(super) fn has_passed(text: &str, queue: &str, is_node: impl Fn(u16) -> bool) -> bool {
    text.split(' ').filter_map(place).any(|(node, of)| of == queue && is_node(node))
}

/// One queue of a way.
fn place(text: &str) -> Option<(u16, &str)> {
    let (number, queue) = text.split_once('/')?;
    // One text for each number.
    let is_number = number == "0" || number.starts_with(|first: char| first.is_ascii_digit() && first != '0');
    let node = number.parse().ok().filter(|_| is_number)?;
    is_queue_name(queue).then_some((node, queue))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_names_nodes_and_queues() {
        for good in ["0/a", "9/a", "10/a", "4711/in 812/router", "1/a 65535/a:b.{c}"] {
            assert!(is_via(good), "{good}");
            let via = Via::parse(good).unwrap();
            assert_eq!(via.to_string(), good);
            assert_eq!(via.bytes(), good.len());
        }
        let long = "1/a ".repeat(VIA_BYTES_MAX / 4);
        for bad in ["", " ", "1/a ", "1/a  2/b", "in", "/in", "1/", "01/a", "+1/a", "65536/a", "1/a b", &long] {
            assert!(!is_via(bad), "{bad}");
        }
    }

    #[test]
    fn a_queue_was_passed_if_its_name_and_one_of_its_nodes_stand_there() {
        let passed = |queue, of: u16| has_passed("1/in 2/out", queue, |node| node == of);
        assert!(passed("in", 1) && passed("out", 2));
        assert!(!passed("in", 2) && !passed("out", 1) && !passed("i", 1));
        assert!(!has_passed("", "in", |_| true));
    }
}
