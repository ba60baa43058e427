//! Numbers and texts of records and snapshots. A number is a varint in the fewest bytes; nothing else is read.

use tidegate_shard::form::Malformed;

use crate::strategy::Memory;

/// Appends a number.
pub(crate) fn put_number(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// Appends bytes, their count before them.
pub(crate) fn put_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    put_number(into, bytes.len() as u64);
    into.extend_from_slice(bytes);
}

/// Appends a name at the end of a record; nothing for nobody.
pub(crate) fn put_name(into: &mut Vec<u8>, name: &str) {
    if !name.is_empty() {
        put_bytes(into, name.as_bytes());
    }
}

/// Appends a floating point number.
pub(crate) fn put_float(into: &mut Vec<u8>, number: f64) {
    into.extend_from_slice(&number.to_bits().to_le_bytes());
}

/// Reads what the functions above append.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (byte, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*byte)
    }

    /// Eight bytes, whatever they are.
    pub fn eight(&mut self) -> Result<[u8; 8], Malformed> {
        let (eight, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*eight)
    }

    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 || shift > 0 && byte == 0 {
                return Err(Malformed);
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    pub fn small(&mut self) -> Result<u32, Malformed> {
        self.number()?.try_into().map_err(|_| Malformed)
    }

    /// A number that is one, and finite: strategies are asked and answer nothing else.
    pub fn float(&mut self) -> Result<f64, Malformed> {
        let number = f64::from_bits(u64::from_le_bytes(self.eight()?));
        if number.is_finite() { Ok(number) } else { Err(Malformed) }
    }

    /// What a strategy remembers.
    pub fn memory(&mut self) -> Result<Memory, Malformed> {
        let mut memory = Memory::default();
        for number in &mut memory.0 {
            *number = self.float()?;
        }
        Ok(memory)
    }

    pub fn is(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    /// What `put_name` has appended.
    pub fn name(&mut self) -> Result<Box<str>, Malformed> {
        match self.0 {
            [] => Ok("".into()),
            _ => Some(self.text()?).filter(|name| !name.is_empty()).map(Box::from).ok_or(Malformed),
        }
    }

    /// Things, their count before them. Each has a byte at least, so that a count that lies costs no memory.
    pub fn many<T>(
        &mut self,
        mut each: impl FnMut(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        if count > self.0.len() {
            return Err(Malformed);
        }
        (0..count).map(|_| each(self)).collect()
    }

    /// Whether nothing is left.
    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// Nothing is left.
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}
