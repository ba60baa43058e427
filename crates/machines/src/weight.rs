//! What memory really takes: an allocator gives no piece of just any size, and tables have room to grow.
//!
//! Why here: what clients leave behind is paid for by what it costs, and not by what they sent. A message of one byte
//! that waits costs a hundred.

/// A piece of memory of so many bytes, as an allocator with size classes gives it: multiples of 16, and beyond 128
/// bytes an eighth more at most.
pub const fn allocation(bytes: usize) -> u64 {
    let classes = if bytes <= 128 { bytes.next_multiple_of(16) } else { bytes + bytes / 8 };
    classes as u64
}

/// What stands for an item of so many bytes in a B-tree: the standard library's nodes have room for eleven, and are
/// little more than half full if items come in their order.
pub const fn in_tree(item_bytes: usize) -> u64 {
    (item_bytes * 5 / 2) as u64
}

/// The same in a hash table that doubles: at worst, seven in sixteen places are in use.
pub const fn in_table(item_bytes: usize) -> u64 {
    ((item_bytes + 1) * 16 / 7) as u64
}
