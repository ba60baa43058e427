//! Rust source for the checks of architecture rules: without comments and without tests.
//!
//! ```text
//!   text ─▶ tokens (comments gone) ─▶ without #[cfg(test)] ─▶ + each path of each `use` ─▶ mentions("std::thread")?
//! ```

/// A piece of source.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// An identifier, a keyword or a number.
    Name(String),
    /// What stands in a string.
    Text(String),
    Mark(char),
}

/// The code of one file.
#[derive(Debug, Default)]
pub struct Code {
    tokens: Vec<Token>,
    /// What `use` brings in, each path in full.
    imports: Vec<Vec<Token>>,
    /// Modules that are declared for tests only: their files are none of the crate's.
    pub test_modules: Vec<String>,
}

impl Code {
    /// Reads the source of one file.
    pub fn of(source: &str) -> Code {
        let (tokens, test_modules) = without_tests(tokens(source));
        let imports = imports(&tokens);
        Code { tokens, imports, test_modules }
    }

    /// Whether it says `pattern`: a word (`ledger` stands in `LedgerTicket`, `"$ledger/"` and `ledgers`), or a piece of
    /// code (`std::time::Instant`, also if it is imported as `std::time::{Duration, Instant}`).
    pub fn mentions(&self, pattern: &str) -> bool {
        if is_word(pattern) {
            let is_said = |said: String| said == pattern || said.strip_suffix('s') == Some(pattern);
            return self.tokens.iter().any(|token| match token {
                Token::Name(text) | Token::Text(text) => words(text).any(is_said),
                Token::Mark(_) => false,
            });
        }
        let pattern = tokens(pattern);
        let stands_in = |code: &[Token]| code.windows(pattern.len()).any(|window| window == pattern);
        stands_in(&self.tokens) || self.imports.iter().any(|path| stands_in(path))
    }

    /// The modules at the root of its crate that it names, if `depth` times `super` leads there.
    pub fn modules_known(&self, depth: usize) -> Vec<String> {
        let mut known: Vec<String> = self.imports.iter().filter_map(|path| at_root(path, depth)).collect();
        known.extend((0..self.tokens.len()).filter_map(|place| {
            let goes_on = place >= 2 && is(self.tokens.get(place - 1), ":") && is(self.tokens.get(place - 2), ":");
            at_root(&self.tokens[place..], depth).filter(|_| !goes_on)
        }));
        known.sort();
        known.dedup();
        known
    }

    /// What stands in its strings.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.tokens.iter().filter_map(|token| match token {
            Token::Text(text) => Some(&**text),
            _ => None,
        })
    }
}

/// Whether a pattern is a word rather than a piece of code.
pub fn is_word(pattern: &str) -> bool {
    pattern.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// `LedgerTicket` and `ledger_ticket` as `ledger`, `ticket`.
fn words(text: &str) -> impl Iterator<Item = String> {
    let letters: Vec<char> = text.chars().collect();
    let mut words = vec![String::new()];
    for (place, letter) in letters.iter().enumerate() {
        let before = place.checked_sub(1).map(|before| letters[before]);
        let is_next_lower = letters.get(place + 1).is_some_and(|next| next.is_lowercase());
        let begins = letter.is_uppercase() && before.is_some_and(|before| !before.is_uppercase() || is_next_lower);
        if begins || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if letter.is_alphanumeric() {
            words.last_mut().expect("never empty").extend(letter.to_lowercase());
        }
    }
    words.into_iter().filter(|word| !word.is_empty())
}

fn tokens(source: &str) -> Vec<Token> {
    let letters: Vec<char> = source.chars().collect();
    let at = |place: usize| letters.get(place).copied().unwrap_or('\0');
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut tokens = Vec::new();
    let mut place = 0;
    while place < letters.len() {
        let letter = at(place);
        if letter == '/' && at(place + 1) == '/' {
            while place < letters.len() && at(place) != '\n' {
                place += 1;
            }
        } else if letter == '/' && at(place + 1) == '*' {
            place = behind_comment(&letters, place);
        } else if letter == '"' {
            let (text, end) = text(&letters, place + 1);
            tokens.push(Token::Text(text));
            place = end;
        } else if letter == '\'' {
            place = behind_char(&letters, place);
        } else if is_name(letter) {
            let end = (place..).find(|end| !is_name(at(*end))).expect("zero is no name");
            let name: String = letters[place..end].iter().collect();
            let hashes = (end..).take_while(|hash| at(*hash) == '#').count();
            let is_raw = matches!(&*name, "r" | "br" | "cr") && at(end + hashes) == '"';
            if is_raw {
                let (text, end) = raw_text(&letters, end + hashes + 1, hashes);
                tokens.push(Token::Text(text));
                place = end;
            } else if matches!(&*name, "b" | "c") && at(end) == '"' {
                // The prefix of a string, which comes next.
                place = end;
            } else {
                tokens.push(Token::Name(name));
                place = end;
            }
        } else {
            if !letter.is_whitespace() {
                tokens.push(Token::Mark(letter));
            }
            place += 1;
        }
    }
    tokens
}

/// Behind a comment in `/* */`, which may hold others.
fn behind_comment(letters: &[char], begin: usize) -> usize {
    let (mut depth, mut place) = (0, begin);
    while place < letters.len() {
        match letters[place..].get(..2) {
            Some(['/', '*']) => (depth, place) = (depth + 1, place + 2),
            Some(['*', '/']) => (depth, place) = (depth - 1, place + 2),
            _ => place += 1,
        }
        if depth == 0 {
            return place;
        }
    }
    place
}

/// Behind a character, or behind the quote of a lifetime.
fn behind_char(letters: &[char], quote: usize) -> usize {
    if letters.get(quote + 1) == Some(&'\\') {
        // The letter behind the backslash may be a quote.
        let end = letters.iter().skip(quote + 3).position(|letter| *letter == '\'');
        return end.map_or(letters.len(), |end| quote + 3 + end + 1);
    }
    if letters.get(quote + 2) == Some(&'\'') { quote + 3 } else { quote + 1 }
}

/// A string from behind its quote, and the place behind it.
fn text(letters: &[char], begin: usize) -> (String, usize) {
    let (mut text, mut place) = (String::new(), begin);
    while place < letters.len() && letters[place] != '"' {
        if letters[place] == '\\' {
            place += 1;
        }
        text.extend(letters.get(place));
        place += 1;
    }
    (text, place + 1)
}

fn raw_text(letters: &[char], begin: usize, hashes: usize) -> (String, usize) {
    let is_end = |place: &usize| {
        letters[*place] == '"' && letters[place + 1..].iter().take_while(|letter| **letter == '#').count() >= hashes
    };
    let end = (begin..letters.len()).find(is_end).unwrap_or(letters.len());
    (letters[begin..end].iter().collect(), end + 1 + hashes)
}

/// The `a` of a path that begins with `crate::a`, or with as many `super` as lead to the root.
fn at_root(path: &[Token], depth: usize) -> Option<String> {
    let leads =
        |word: &str, at: usize| is(path.get(at), word) && is(path.get(at + 1), ":") && is(path.get(at + 2), ":");
    let supers = (0..).take_while(|step| leads("super", 3 * step)).count();
    let begin = match supers {
        0 if leads("crate", 0) => 3,
        supers if supers > 0 && supers == depth => 3 * supers,
        _ => return None,
    };
    match path.get(begin) {
        Some(Token::Name(name)) => Some(name.clone()),
        _ => None,
    }
}

fn is(token: Option<&Token>, expected: &str) -> bool {
    match token {
        Some(Token::Name(name)) => name == expected,
        Some(Token::Mark(mark)) => mark.to_string() == expected,
        _ => false,
    }
}

/// Takes out what is only there for tests, and names the modules among it whose files are elsewhere.
fn without_tests(tokens: Vec<Token>) -> (Vec<Token>, Vec<String>) {
    let (mut kept, mut modules) = (Vec::new(), Vec::new());
    let mut place = 0;
    while place < tokens.len() {
        let rest = &tokens[place..];
        if is_for_tests(rest, &["#", "!"]) {
            return (Vec::new(), Vec::new());
        }
        if !is_for_tests(rest, &["#"]) {
            kept.push(tokens[place].clone());
            place += 1;
            continue;
        }
        while is(tokens.get(place), "#") {
            place = behind_group(&tokens, place + 1);
        }
        let end = behind_item(&tokens, place);
        let item = &tokens[place..end];
        let module = item.iter().position(|token| is(Some(token), "mod"));
        if let (Some(module), true) = (module, is(item.last(), ";"))
            && let Some(Token::Name(name)) = item.get(module + 1)
        {
            modules.push(name.clone());
        }
        place = end;
    }
    (kept, modules)
}

/// Whether an attribute begins here that makes what follows one of the tests' own.
fn is_for_tests(tokens: &[Token], sign: &[&str]) -> bool {
    let begins = |words: &[&str]| {
        let all = sign.iter().chain(["[", "cfg", "("].iter()).chain(words);
        all.enumerate().all(|(place, word)| is(tokens.get(place), word))
    };
    begins(&["test", ")"]) || begins(&["all", "(", "test"])
}

/// Behind the bracket that closes the one at `open`.
fn behind_group(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (place, token) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::Mark('(' | '[' | '{') => depth += 1,
            Token::Mark(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return place + 1;
        }
    }
    tokens.len()
}

/// Behind the item, field or variant that begins here.
fn behind_item(tokens: &[Token], begin: usize) -> usize {
    const ITEMS: [&str; 14] = [
        "fn",
        "pub",
        "mod",
        "use",
        "impl",
        "struct",
        "enum",
        "const",
        "static",
        "type",
        "unsafe",
        "async",
        "trait",
        "macro_rules",
    ];
    let is_item = ITEMS.iter().any(|item| is(tokens.get(begin), item));
    let mut place = begin;
    while place < tokens.len() {
        match tokens[place] {
            Token::Mark('{') => {
                place = behind_group(tokens, place);
                return if is(tokens.get(place), ";") { place + 1 } else { place };
            }
            Token::Mark('(' | '[') => place = behind_group(tokens, place),
            Token::Mark(';') => return place + 1,
            Token::Mark(',') if !is_item => return place + 1,
            Token::Mark('}' | ')') => return place,
            _ => place += 1,
        }
    }
    place
}

/// The paths of all `use`, each in full.
fn imports(tokens: &[Token]) -> Vec<Vec<Token>> {
    let mut paths = Vec::new();
    for place in (0..tokens.len()).filter(|place| is(tokens.get(*place), "use")) {
        write_out(tokens, place + 1, &[], &mut paths);
    }
    paths
}

/// Writes out the tree at `place`, whose paths all begin with `prefix`. Returns the place behind it.
fn write_out(tokens: &[Token], mut place: usize, prefix: &[Token], paths: &mut Vec<Vec<Token>>) -> usize {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(place) {
        match token {
            Token::Mark('{') => {
                place += 1;
                while !is(tokens.get(place), "}") && place < tokens.len() {
                    place = write_out(tokens, place, &path, paths);
                    place += usize::from(is(tokens.get(place), ","));
                }
                return place + 1;
            }
            Token::Mark(':') | Token::Name(_) => path.push(token.clone()),
            _ => break,
        }
        place += 1;
    }
    paths.push(path);
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r###"
        //! A ledger, in a comment. "
        use std::time::{Duration, Instant as Now};
        use std::{fs::{self, File}, net};
        /* another /* thread */ */
        fn f<'a>(x: &'a str) -> char { let quote = '"'; let tick = '\''; "accounts // and" ; r#"a "vote""#; quote }
        #[cfg(test)]
        #[derive(Debug)]
        pub struct Only { thread: std::thread::Thread }
        struct AskLedgerToo { #[cfg(test)] tested: Transfer<A>, kept: HTTPServer }
        #[cfg(test)]
        mod tests;
        #[cfg(all(test, unix))]
        mod more { use mio::Poll; }
        fn last() -> DurableLike { Durable (1) }
    "###;

    #[test]
    fn words_are_found_in_names_and_texts_and_nowhere_else() {
        let code = Code::of(SOURCE);
        for (word, is_said) in [
            ("ledger", true),
            ("account", true),
            ("vote", true),
            ("http", true),
            ("server", true),
            ("kept", true),
            ("thread", false),
            ("comment", false),
            ("another", false),
            ("transfer", false),
            ("mio", false),
            ("led", false),
        ] {
            assert_eq!(code.mentions(word), is_said, "{word}");
        }
        assert_eq!(code.test_modules, ["tests"]);
        assert_eq!(code.texts().collect::<Vec<_>>(), ["accounts // and", "a \"vote\""]);
    }

    #[test]
    fn code_is_found_however_it_is_imported() {
        let code = Code::of(SOURCE);
        for (pattern, is_said) in [
            ("std::time::Instant", true),
            ("std::time::Duration", true),
            ("std::fs", true),
            ("std::fs::File", true),
            ("std::net", true),
            ("Durable(", true),
            ("std::thread", false),
            ("std::time::SystemTime", false),
            ("mio::Poll", false),
        ] {
            assert_eq!(code.mentions(pattern), is_said, "{pattern}");
        }
        assert!(!Code::of("fn f(IsDurable(x): IsDurable) {}").mentions("Durable("));
        assert!(!Code::of("#![cfg(test)] use std::thread;").mentions("std::thread"), "a file of tests");
    }
}
