//! Reading a command of a script: words, and words with values.

/// The words of one command.
pub struct Words<'a> {
    words: Vec<&'a str>,
}

impl<'a> Words<'a> {
    pub fn new(text: &'a str) -> Words<'a> {
        Words { words: text.split_whitespace().collect() }
    }

    /// Takes the first word.
    pub fn first(&mut self) -> &'a str {
        if self.words.is_empty() { "" } else { self.words.remove(0) }
    }

    /// Whether a word is there; takes it.
    pub fn has(&mut self, word: &str) -> bool {
        let place = self.words.iter().position(|other| *other == word);
        place.map(|place| self.words.remove(place)).is_some()
    }

    /// The value of `name=value`; takes it.
    pub fn value(&mut self, name: &str) -> Option<&'a str> {
        let is_named = |word: &&str| word.split_once('=').is_some_and(|(key, _)| key == name);
        let place = self.words.iter().position(is_named)?;
        Some(self.words.remove(place).split_once('=').expect("was found by its =").1)
    }

    /// A number named `name`; takes it.
    pub fn number(&mut self, name: &str) -> Option<u32> {
        self.value(name).map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
    }

    /// What is left; nothing may be misspelt.
    pub fn rest(self) -> Vec<&'a str> {
        self.words
    }

    /// Says that nothing may be left.
    pub fn end(self) {
        assert!(self.words.is_empty(), "nobody knows what {:?} means", self.words);
    }
}
