//! Fields as all encoders write them: in the order of their numbers, each at most once, zeros left out. A message is
//! read by these first; if they do not come to its end, they were the wrong way, and it is read field by field.

/// The fixed64 behind `tag`, zero if another tag comes; `None` if it is cut off.
#[inline(always)]
pub(super) fn fixed64(rest: &mut &[u8], tag: u8) -> Option<u64> {
    match *rest {
        [first, behind @ ..] if *first == tag => {
            let (value, behind) = behind.split_first_chunk()?;
            *rest = behind;
            Some(u64::from_le_bytes(*value))
        }
        _ => Some(0),
    }
}

/// The varint behind `tag`, zero if another tag comes; `None` if it is cut off or has more than four bytes.
#[inline(always)]
pub(super) fn varint(rest: &mut &[u8], tag: u8) -> Option<u32> {
    match *rest {
        [first, behind @ ..] if *first == tag => {
            let mut value = 0;
            for index in 0..4 {
                let byte = *behind.get(index)?;
                value |= u32::from(byte & 0x7f) << (7 * index);
                if byte < 0x80 {
                    *rest = &behind[index + 1..];
                    return Some(value);
                }
            }
            None
        }
        _ => Some(0),
    }
}

/// The bytes behind `tag`, none if another tag comes; `None` if they are cut off or longer than 127.
#[inline(always)]
pub(super) fn bytes<'a>(rest: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    match *rest {
        [first, length @ 0..0x80, behind @ ..] if *first == tag => {
            let (content, behind) = behind.split_at_checked(usize::from(*length))?;
            *rest = behind;
            Some(content)
        }
        _ => Some(&[]),
    }
}
