//! The rights of a client, as the broker asks for them.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_machines::topic::Principal;

use crate::index::RightsIndex;

/// The rights of one user, asked at each PUBLISH and SUBSCRIBE. Shared between threads, so what it remembers is its own
/// affair.
///
/// `Any`, so that a shell finds its own type again where the broker gives the rights back (`Action::Request`).
pub trait Rights: Any + Send + Sync + fmt::Debug {
    /// Whom these rights belong to; `None` for anonymous. A reload finds the new rights by it.
    fn user(&self) -> Option<&str>;
    /// Whether the client may choose this client id.
    fn may_be_called(&self, client_id: &str) -> bool {
        let _any = client_id;
        true
    }
    /// Whether the client may publish to `topic`, which holds no wildcards.
    fn may_publish(&self, client_id: &str, topic: &str) -> Access;
    /// Whether the client may subscribe to `filter`, given without `$share/group/`. Of a topic, which is a filter
    /// without wildcards, it says whether the client may read what is published there.
    fn may_subscribe(&self, client_id: &str, filter: &str) -> Access;
    /// Whether any client of these rights may publish to `topic`: asked of what was published earlier and leaves now,
    /// and whose client is not known any more.
    fn may_any_publish(&self, topic: &str) -> bool {
        self.may_publish("", topic) == Access::Allowed
    }
}

/// Finds the rights that a principal has now; `None` when it has none any more.
pub type FindRights = dyn Fn(&Principal) -> Option<Arc<dyn Rights>> + Send + Sync;

/// Asked when something leaves that a principal has left behind: a will, a delayed message.
#[derive(Clone)]
pub struct RightsOf(pub Arc<FindRights>);

impl fmt::Debug for RightsOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RightsOf")
    }
}

/// Finds the rights of a user again after a reload, by those that it had; `None` when the user is gone.
pub type Renew = Arc<dyn Fn(&dyn Rights) -> Option<Arc<dyn Rights>> + Send + Sync>;

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Yes.
    Allowed,
    /// No.
    Denied,
    /// A filter covers topics that are allowed and others that are denied. For SUBSCRIBE only: it is granted, and each
    /// message is asked about by its topic.
    AllowedInPart,
    /// Yes, if this condition holds. Only the shell knows what it means, and it may have to ask another service
    /// ([`crate::Action::Confirm`]). For PUBLISH, which cannot wait for the answer, it means no. A condition that holds
    /// once holds from then on.
    IfConfirmed(Box<str>),
}

/// The rights of all connections of a worker: each object once, however many connections share it.
#[derive(Debug, Default)]
pub(crate) struct RightsTable {
    all: Vec<Option<(Arc<dyn Rights>, u32)>>,
    free: Vec<RightsIndex>,
    /// By the address of the object.
    places: HashMap<usize, RightsIndex>,
}

impl RightsTable {
    /// The place of these rights, counted once more.
    pub fn hold(&mut self, rights: Arc<dyn Rights>) -> RightsIndex {
        let address = address(&rights);
        if let Some(place) = self.places.get(&address) {
            let (_, count) = self.all[place.number() as usize].as_mut().expect("what is found by its address is held");
            assert!(*count > 0, "what is held by nobody is forgotten");
            *count += 1;
            return *place;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            RightsIndex::new((self.all.len() - 1) as u32)
        });
        assert!(self.all[place.number() as usize].is_none(), "a free place holds nothing");
        self.all[place.number() as usize] = Some((rights, 1));
        self.places.insert(address, place);
        place
    }

    /// One connection less.
    pub fn release(&mut self, place: RightsIndex) {
        let held = &mut self.all[place.number() as usize];
        let (rights, count) = held.as_mut().expect("released once for each hold");
        assert!(*count > 0, "released once for each hold");
        *count -= 1;
        if *count == 0 {
            assert!(self.places.remove(&address(rights)) == Some(place), "what is held is found by its address");
            *held = None;
            self.free.push(place);
        }
    }

    pub fn get(&self, place: RightsIndex) -> &Arc<dyn Rights> {
        &self.all[place.number() as usize].as_ref().expect("held by a connection").0
    }

    /// Panics if rights are not held as often as `holders` say, by place. Visits everything: for tests and simulation.
    pub fn assert_sound(&self, holders: impl Iterator<Item = RightsIndex>) {
        let mut counts = vec![0; self.all.len()];
        holders.for_each(|place| counts[place.number() as usize] += 1);
        for (place, held) in self.all.iter().enumerate() {
            assert_eq!(held.as_ref().map_or(0, |(_, count)| *count), counts[place], "holders of rights {place}");
        }
        assert_eq!(self.places.len(), self.held().count(), "what is held is found by its address");
        assert_eq!(self.free.len() + self.places.len(), self.all.len(), "a place is held or free");
    }

    /// All rights that are held, with their places.
    pub fn held(&self) -> impl Iterator<Item = (RightsIndex, &Arc<dyn Rights>)> {
        let all = self.all.iter().enumerate();
        all.filter_map(|(place, held)| Some((RightsIndex::new(place as u32), &held.as_ref()?.0)))
    }
}

/// What tells these rights from others, as long as somebody holds them.
pub(crate) fn address(rights: &Arc<dyn Rights>) -> usize {
    Arc::as_ptr(rights).cast::<()>() as usize
}
