//! The texts of levels: short ones in the node itself, long ones in cells of about their size.
//!
//! Why cells of our own: a boxed text is a pointer with its length (16 bytes) in every node, also those with a text of
//! six bytes, and an allocation's overhead for each long one.

const INLINE: usize = 19;
const LONG: u8 = u8::MAX;

/// A level's text, or where it is.
#[derive(Default)]
pub(super) struct Level {
    /// Bytes used of `bytes`; or `LONG`, and they hold the cell (u32) and its text's length (u16).
    len: u8,
    bytes: [u8; INLINE],
}

const _: () = assert!(INLINE < LONG as usize && size_of::<Level>() == INLINE + 1);

impl Level {
    /// Whether this is the level's text.
    #[inline]
    pub(super) fn is(&self, text: &str, texts: &Texts) -> bool {
        if self.len == LONG {
            return self.bytes(texts) == text.as_bytes();
        }
        usize::from(self.len) == text.len() && self.bytes[..text.len()] == *text.as_bytes()
    }

    /// The text's bytes.
    #[inline]
    pub(super) fn bytes<'a>(&'a self, texts: &'a Texts) -> &'a [u8] {
        if self.len != LONG {
            return &self.bytes[..usize::from(self.len)];
        }
        let (cell, len) = self.cell();
        texts.classes[class(len)].text(cell, len)
    }

    /// The text.
    pub(super) fn text<'a>(&'a self, texts: &'a Texts) -> &'a str {
        std::str::from_utf8(self.bytes(texts)).expect("what was kept was a text")
    }

    fn cell(&self) -> (u32, usize) {
        let [c0, c1, c2, c3, l0, l1, ..] = self.bytes;
        (u32::from_le_bytes([c0, c1, c2, c3]), usize::from(u16::from_le_bytes([l0, l1])))
    }
}

impl Level {
    /// Bytes outside the node, of a text of so many.
    pub(super) fn cell_bytes(len: usize) -> usize {
        if len <= INLINE { 0 } else { cell_bytes(class(len)) }
    }
}

/// Cells of a size each: multiples of 8 up to 64 bytes, then powers of two up to the longest text that MQTT can name.
#[derive(Default)]
pub(super) struct Texts {
    classes: [Cells; CLASSES],
}

const FINE_MAX: usize = 64;
const TEXT_MAX: usize = u16::MAX as usize;
const CLASSES: usize = class(TEXT_MAX) + 1;

const fn class(len: usize) -> usize {
    if len <= FINE_MAX { len.div_ceil(8) - 1 } else { len.next_power_of_two().ilog2() as usize + 1 }
}

const fn cell_bytes(class: usize) -> usize {
    if class < FINE_MAX / 8 { (class + 1) * 8 } else { 1 << (class - 1) }
}

const _: () =
    assert!(cell_bytes(class(64)) == 64 && cell_bytes(class(65)) == 128 && cell_bytes(class(TEXT_MAX)) > TEXT_MAX);

impl Texts {
    /// Keeps a text of at most 65,535 bytes: MQTT's length field has two.
    pub(super) fn keep(&mut self, text: &str) -> Level {
        assert!(text.len() <= TEXT_MAX, "a level of {} bytes: no MQTT string holds that", text.len());
        let mut level = Level::default();
        if text.len() <= INLINE {
            level.len = text.len() as u8;
            level.bytes[..text.len()].copy_from_slice(text.as_bytes());
            return level;
        }
        let class = class(text.len());
        let cell = self.classes[class].keep(text.as_bytes(), cell_bytes(class));
        level.len = LONG;
        level.bytes[..4].copy_from_slice(&cell.to_le_bytes());
        level.bytes[4..6].copy_from_slice(&(text.len() as u16).to_le_bytes());
        level
    }

    /// Gives a level's cell back, if it has one.
    pub(super) fn forget(&mut self, level: Level) {
        if level.len == LONG {
            let (cell, len) = level.cell();
            self.classes[class(len)].forget(cell);
        }
    }

    /// Heap bytes of all cells.
    pub(super) fn heap_bytes(&self) -> usize {
        self.classes.iter().map(Cells::heap_bytes).sum()
    }
}

const CHUNK_BYTES: usize = 16 << 10;

/// Cells of one size, in chunks.
#[derive(Default)]
struct Cells {
    chunks: Vec<Box<[u8]>>,
    /// 0 until the first text is kept.
    cell_bytes: usize,
    /// Cells below were given out at least once.
    used: u32,
    vacant: Vec<u32>,
}

impl Cells {
    fn keep(&mut self, text: &[u8], cell_bytes: usize) -> u32 {
        self.cell_bytes = cell_bytes;
        let cell = self.vacant.pop().unwrap_or_else(|| {
            self.used = self.used.checked_add(1).expect("2^32 - 1 cells are in use");
            self.used - 1
        });
        let (chunk, start) = self.place(cell);
        if chunk == self.chunks.len() {
            self.chunks.push(vec![0; self.per_chunk() * cell_bytes].into_boxed_slice());
        }
        self.chunks[chunk][start..start + text.len()].copy_from_slice(text);
        cell
    }

    fn forget(&mut self, cell: u32) {
        self.vacant.push(cell);
    }

    fn text(&self, cell: u32, len: usize) -> &[u8] {
        let (chunk, start) = self.place(cell);
        &self.chunks[chunk][start..start + len]
    }

    fn per_chunk(&self) -> usize {
        (CHUNK_BYTES / self.cell_bytes).max(1)
    }

    fn place(&self, cell: u32) -> (usize, usize) {
        (cell as usize / self.per_chunk(), cell as usize % self.per_chunk() * self.cell_bytes)
    }

    fn heap_bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(|chunk| chunk.len()).sum();
        chunks + self.chunks.capacity() * size_of::<Box<[u8]>>() + self.vacant.capacity() * size_of::<u32>()
    }
}
