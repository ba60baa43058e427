//! Watches the quotes of a CSV file while it is read, and where its rows begin.
//!
//! ```text
//!   file ─▶ Quotes ─▶ the CSV reader
//!             └─ a quote without an end, or with one in the middle of a cell: an error with its line
//! ```
//!
//! Promise: a quote that is not closed ends the reading before the row that it stands in. Why: a CSV reader takes what
//! follows an open quote for a part of the cell, all further rows of the file among it, and says nothing.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::rc::Rc;

/// Bytes between two quotes, at most: far more than any field takes, and little enough to be kept in memory.
const QUOTED_BYTES_MAX: u64 = 64 << 10;
/// What a file may begin with that is no part of its first cell.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// What is wrong with a quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuoteFault {
    /// The line in which it opens, from 1.
    pub line: u64,
    end: End,
}

/// How a quoted cell ends that does not end as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// With the file.
    Never,
    /// Too late.
    Far,
    /// In this line, and the cell goes on.
    InACell(u64),
}

/// Where in a cell the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Begin,
    Plain,
    Quoted,
    /// Behind a quote in a quoted cell: its end, or the first of two.
    Quote,
}

/// Where the rows begin that were read of a file and are not worked off yet: the CSV reader says where it began to look
/// for one, which is before empty lines.
#[derive(Clone, Default)]
pub struct RowStarts(Rc<RefCell<VecDeque<RowStart>>>);

/// Where a row begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowStart {
    /// Its line, from 1.
    pub line: u64,
    /// Bytes before it.
    pub offset: u64,
}

impl RowStarts {
    /// The first row from this byte on. Those before it are forgotten.
    pub fn from(&self, offset: u64) -> Option<RowStart> {
        let mut starts = self.0.borrow_mut();
        while starts.front().is_some_and(|start| start.offset < offset) {
            starts.pop_front();
        }
        starts.front().copied()
    }
}

/// The bytes of a file up to the first quote that is wrong.
pub struct Quotes<R> {
    file: R,
    place: Place,
    /// Bytes that were seen.
    seen: u64,
    line: u64,
    /// The line in which the last quote opened, and the bytes seen before it.
    opened: (u64, u64),
    fault: Option<QuoteFault>,
    /// Nothing of the line was seen yet.
    is_line_new: bool,
    starts: RowStarts,
}

impl<R: Read> Quotes<R> {
    /// Watches this file.
    pub fn new(file: R) -> Quotes<R> {
        let (place, starts) = (Place::Begin, RowStarts::default());
        Quotes { file, place, seen: 0, line: 1, opened: (1, 0), fault: None, is_line_new: true, starts }
    }

    /// Where its rows begin.
    pub fn starts(&self) -> RowStarts {
        self.starts.clone()
    }

    /// Looks at bytes of the file; says how many of them come before a fault.
    fn watch(&mut self, bytes: &[u8]) -> usize {
        for (number, byte) in bytes.iter().enumerate() {
            if let Err(end) = self.step(*byte) {
                self.fault = Some(QuoteFault { line: self.opened.0, end });
                return number;
            }
        }
        bytes.len()
    }

    fn step(&mut self, byte: u8) -> Result<(), End> {
        let is_mark = usize::try_from(self.seen).is_ok_and(|seen| BYTE_ORDER_MARK.get(seen) == Some(&byte));
        self.place = match (self.place, byte) {
            (Place::Begin, _) if is_mark => Place::Begin,
            (Place::Begin, b'"') => {
                self.opened = (self.line, self.seen);
                Place::Quoted
            }
            (Place::Quoted, b'"') => Place::Quote,
            (Place::Quoted, _) if self.seen - self.opened.1 > QUOTED_BYTES_MAX => return Err(End::Far),
            (Place::Quoted, _) | (Place::Quote, b'"') => Place::Quoted,
            (_, b',' | b'\r' | b'\n') => Place::Begin,
            (Place::Quote, _) => return Err(End::InACell(self.line)),
            (Place::Begin | Place::Plain, _) => Place::Plain,
        };
        let is_break = matches!(byte, b'\r' | b'\n');
        if self.is_line_new && !is_break {
            self.starts.0.borrow_mut().push_back(RowStart { line: self.line, offset: self.seen });
        }
        self.is_line_new = is_break && self.place == Place::Begin;
        self.seen += 1;
        self.line += u64::from(byte == b'\n');
        Ok(())
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.fault.is_none() {
            let got = self.file.read(into)?;
            if got == 0 && self.place == Place::Quoted && !into.is_empty() {
                self.fault = Some(QuoteFault { line: self.opened.0, end: End::Never });
            }
            let good = self.watch(&into[..got]);
            if self.fault.is_none() || good > 0 {
                return Ok(good);
            }
        }
        Err(io::Error::new(ErrorKind::InvalidData, self.fault.clone().expect("it was looked at just now")))
    }
}

impl std::error::Error for QuoteFault {}

impl fmt::Display for QuoteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quote that opens in this line ")?;
        match self.end {
            End::Never => f.write_str("is never closed: the rest of the file would be one cell"),
            End::Far => write!(f, "is not closed within {} KiB", QUOTED_BYTES_MAX >> 10),
            End::InACell(line) => write!(f, "is closed in line {line} in the middle of a cell"),
        }?;
        f.write_str(". A quote within a cell is written twice. Nothing was sent of this row and of those behind it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What passes, and what is wrong then, read so many bytes at a time.
    fn watched(text: &str, piece: usize) -> (String, Option<QuoteFault>) {
        let mut quotes = Quotes::new(text.as_bytes());
        let (mut passed, mut bytes) = (Vec::new(), vec![0; piece]);
        loop {
            match quotes.read(&mut bytes) {
                Ok(0) => return (String::from_utf8(passed).unwrap(), None),
                Ok(got) => passed.extend_from_slice(&bytes[..got]),
                Err(error) => {
                    let fault = error.get_ref().and_then(|inner| inner.downcast_ref::<QuoteFault>());
                    assert!(quotes.read(&mut bytes).is_err(), "it stays so");
                    return (String::from_utf8(passed).unwrap(), fault.cloned());
                }
            }
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_is_found_with_its_line() {
        for piece in [1, 2, 7, 1_000] {
            for good in [
                "",
                "a,b\n",
                "\"\",\"\"\"\"\n\"two\nlines, and a comma\"\r\n",
                "a \"word\" of it,5\" wide\n",
                "\u{feff}\"a\",b",
                "\"end\"",
            ] {
                assert_eq!(watched(good, piece), (good.to_owned(), None), "{good:?}");
            }
            for (wrong, line, end) in [
                ("a,b\nc,\"d\ne,f\n", 2, End::Never),
                ("a\n\"b\"\"\n", 2, End::Never),
                ("a\nb,\"c\n\nd,\"e\"\n", 2, End::InACell(4)),
                ("\u{feff}\"a", 1, End::Never),
                ("\"a\" ,b\n", 1, End::InACell(1)),
            ] {
                assert_eq!(watched(wrong, piece).1, Some(QuoteFault { line, end }), "{wrong:?}");
            }
        }
        assert_eq!(watched("a\nb,\"c\n\nd,\"e\"\n", 3).0, "a\nb,\"c\n\nd,\"", "up to the byte that shows it");
        let long = format!("a\n\"{}", "x\n".repeat(QUOTED_BYTES_MAX as usize));
        let (passed, fault) = watched(&long, 512);
        assert_eq!(fault, Some(QuoteFault { line: 2, end: End::Far }));
        assert!(passed.len() as u64 <= QUOTED_BYTES_MAX + 10, "{}", passed.len());
    }
}
