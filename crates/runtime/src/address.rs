//! Who sends to whom, and what a parcel is.
//!
//! ```text
//!   endpoint = thread with rings        member = port, shard or client on that thread
//!   Address { endpoint: 0, member: 2 } ──Envelope { from, to, body }──▶ Address { endpoint: 1, member: 0 }
//! ```
//!
//! A body is an enum that the program composes of its rooms' messages with [`parcels!`](crate::parcels). A room names
//! only the trait [`Carries`] of its own message, so it compiles for every composition.

use std::fmt;

/// A thread that has rings: workers first, then edge and background threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointIndex(pub u16);

/// The number of a member on its thread. On a worker, ports come first, then shards; on other threads, members are
/// clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberIndex(pub u16);

/// Where parcels can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The thread.
    pub endpoint: EndpointIndex,
    /// Who on it.
    pub member: MemberIndex,
}

impl Address {
    /// Member `member` of endpoint `endpoint`.
    pub const fn new(endpoint: u16, member: u16) -> Address {
        Address { endpoint: EndpointIndex(endpoint), member: MemberIndex(member) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.endpoint.0, self.member.0)
    }
}

/// A parcel on its way. All kinds of bodies share a ring, so that they arrive in the order in which they were sent.
#[derive(Debug)]
pub struct Envelope<P> {
    /// Who sent it.
    pub from: Address,
    /// Who on the receiving thread gets it.
    pub to: MemberIndex,
    /// What it is.
    pub body: P,
}

/// Parcels that can carry messages of type `T`.
pub trait Carries<T>: Send + Sized + 'static {
    /// Makes a parcel of a message.
    fn pack(message: T) -> Self;
    /// The message of a parcel; `Err` gives a parcel of another kind back.
    fn unpack(self) -> Result<T, Self>;
}

/// Messages on their way out of a client.
pub type Outgoing<M> = Vec<(Address, M)>;

/// Composes the parcels of a program: an enum with one variant for each kind of message, and [`Carries`] for each.
///
/// ```
/// tidegate_runtime::parcels! {
///     /// What threads of this program send each other.
///     pub enum Parcel { Number(u64), Word(String) }
/// }
/// use tidegate_runtime::Carries;
/// let parcel = Parcel::pack(7u64);
/// assert!(matches!(parcel, Parcel::Number(7)));
/// assert_eq!(<Parcel as Carries<u64>>::unpack(parcel).ok(), Some(7));
/// ```
#[macro_export]
macro_rules! parcels {
    ($(#[$meta:meta])* $vis:vis enum $parcel:ident { $($kind:ident($message:ty)),+ $(,)? }) => {
        $(#[$meta])*
        #[allow(missing_docs)]
        $vis enum $parcel { $($kind($message)),+ }

        $(impl $crate::Carries<$message> for $parcel {
            #[inline]
            fn pack(message: $message) -> $parcel {
                $parcel::$kind(message)
            }
            #[inline]
            fn unpack(self) -> Result<$message, $parcel> {
                match self {
                    $parcel::$kind(message) => Ok(message),
                    #[allow(unreachable_patterns)]
                    other => Err(other),
                }
            }
        })+
    };
}
