//! The source behind all feeds: messages in partitions, each in its order, which it reads in turn.

use tidegate_broker::{FeedMessage, FeedNews};

/// Messages of one partition that a part has at most.
const MESSAGES_OF_PART_MAX: usize = 3;

/// All messages that there are.
pub struct Source {
    partitions: Vec<Vec<String>>,
}

impl Source {
    pub fn new(partitions: u16) -> Source {
        Source { partitions: vec![Vec::new(); partitions.into()] }
    }

    /// One more message. Its first letter names its partition.
    pub fn log(&mut self, text: &str) {
        let partition = usize::from(text.as_bytes()[0] - b'a') % self.partitions.len();
        self.partitions[partition].push(text.to_owned());
    }

    /// Behind all that there is.
    pub fn end(&self) -> String {
        text_of(&self.partitions.iter().map(Vec::len).collect::<Vec<_>>())
    }

    /// Whether a text is a place.
    pub fn has_place(&self, place: &str) -> bool {
        place_of(place).is_some_and(|place| place.len() == self.partitions.len())
    }
}

/// How many messages of each partition were read.
fn place_of(text: &str) -> Option<Vec<usize>> {
    text.split('.').map(|number| number.parse().ok()).collect()
}

fn text_of(place: &[usize]) -> String {
    place.iter().map(usize::to_string).collect::<Vec<_>>().join(".")
}

/// A feed that is open.
pub struct Reader {
    pub filter: String,
    place: Vec<usize>,
    /// The partition that is next.
    turn: usize,
    pub is_wanted: bool,
}

impl Reader {
    pub fn new(filter: &str, place: &str) -> Reader {
        Reader { filter: filter.to_owned(), place: place_of(place).expect("a place"), turn: 0, is_wanted: true }
    }

    /// What comes next of the first partition in turn that has something; what is of no interest is passed.
    pub fn part(&mut self, source: &Source) -> Option<FeedNews> {
        let count = source.partitions.len();
        let mut in_turn = (self.turn..self.turn + count).map(|turn| turn % count);
        let partition = in_turn.find(|partition| self.place[*partition] < source.partitions[*partition].len())?;
        let texts = source.partitions[partition][self.place[partition]..].iter().take(MESSAGES_OF_PART_MAX);
        let mut messages = Vec::new();
        for text in texts {
            self.place[partition] += 1;
            if self.filter == "feed/all" || self.filter.ends_with(&text[..1]) {
                messages.push(FeedMessage {
                    partition: partition as u16,
                    place: text_of(&self.place).into_bytes().into(),
                    properties: [].into(),
                    payload: text.as_bytes().into(),
                });
            }
        }
        (self.turn, self.is_wanted) = (partition + 1, false);
        Some(FeedNews::Part { messages, place: text_of(&self.place).into_bytes().into() })
    }
}
