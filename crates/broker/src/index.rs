//! Indices into the tables of one worker, a type for each table, so that the index of one is not used for another.
//!
//! Why not a plain number with one value for "none": a connection, its session, its rights and its buffers point to
//! each other in both directions, and a number that was meant for another table finds something there, too. `Option` of
//! an index has the size of the number.

use std::num::NonZeroU32;

/// What a [`Slab`](crate::slab::Slab) is indexed by.
pub(crate) trait Index: Copy {
    /// The index with this number.
    fn of(number: u32) -> Self;
    /// Its number: dense, from 0.
    fn number(self) -> u32;
}

impl Index for u32 {
    #[inline]
    fn of(number: u32) -> u32 {
        number
    }

    #[inline]
    fn number(self) -> u32 {
        self
    }
}

macro_rules! index {
    ($(#[$doc:meta])* $visibility:vis $name:ident) => {
        $(#[$doc])*
        // The complement of the number: `None` takes the place of the greatest one, which no table reaches.
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        $visibility struct $name(NonZeroU32);

        impl $name {
            /// The index with this number, which is not [`u32::MAX`].
            #[inline]
            pub const fn new(number: u32) -> $name {
                $name(NonZeroU32::new(!number).expect("tables have fewer than 2^32 - 1 places"))
            }

            /// Its number: dense, from 0.
            #[inline]
            pub fn number(self) -> u32 {
                !self.0.get()
            }
        }

        impl Index for $name {
            #[inline]
            fn of(number: u32) -> $name {
                $name::new(number)
            }

            #[inline]
            fn number(self) -> u32 {
                $name::number(self)
            }
        }

        impl Default for $name {
            /// The first one.
            fn default() -> $name {
                $name::new(0)
            }
        }

        impl PartialOrd for $name {
            #[inline]
            fn partial_cmp(&self, other: &$name) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            #[inline]
            fn cmp(&self, other: &$name) -> std::cmp::Ordering {
                self.number().cmp(&other.number())
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.number().fmt(f)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.number().fmt(f)
            }
        }

        const _: () = assert!(size_of::<Option<$name>>() == size_of::<u32>());
    };
}

index! {
    /// A connection's place in its worker's table.
    pub(crate) ConnectionIndex
}

index! {
    /// A session's place in its worker's table.
    pub SessionIndex
}

index! {
    /// The place of rights, which connections share.
    pub(crate) RightsIndex
}

index! {
    /// The place of bytes that are to be sent to one client.
    pub(crate) OutboxIndex
}

index! {
    /// The place of bytes that one client has sent and that wait.
    pub(crate) InputIndex
}

/// The place of a shard among the topic shards of its worker. Not its number in the directory, which is a
/// [`tidegate_machines::ShardIndex`]: two workers both have a shard at place 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ShardPlace(pub u16);

impl std::fmt::Display for ShardPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_its_number_and_sorts_like_it() {
        let indices = [0, 1, 1_000, u32::MAX - 1].map(SessionIndex::new);
        assert_eq!(indices.map(SessionIndex::number), [0, 1, 1_000, u32::MAX - 1]);
        assert!(indices.is_sorted());
        assert_eq!(format!("{:?} {}", indices[2], indices[2]), "1000 1000");
        assert_eq!(SessionIndex::default(), indices[0]);
    }

    #[test]
    #[should_panic(expected = "fewer than 2^32 - 1 places")]
    fn the_greatest_number_is_no_index() {
        ConnectionIndex::new(u32::MAX);
    }
}
