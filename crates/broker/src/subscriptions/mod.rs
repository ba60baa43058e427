//! All subscriptions of all sessions of all workers. A message is matched once, on the worker that received it.
//!
//! ```text
//!   "site/+/dev-7/temp"            site ─ + ─ dev-7 ─ temp: entry, entry, …       one node a level (crate::topic_tree)
//!   "$share/g/site/+/dev-7/temp"                       └─ "/g": members           a group is a child no topic matches
//! ```
//!
//! Promise: a session with a filter of its own costs a worker 53 bytes; a match visits at most one node for each level
//! of the topic and each shape of filter ([`shapes`](self)), with two cache misses a node, however many subscriptions
//! there are; adding or removing a subscriber takes constant time, also on a filter with a million.
//!
//! Each worker has a full replica that only it uses: no locks, and no round trip between workers while a message waits.
//! Node ids differ between workers, so workers send each other filters.
//!
//! Invariant: nothing here knows connections, inboxes or messages.

mod entries;
mod entry;
mod groups;
mod matches;
mod shapes;
mod watch;

#[cfg(test)]
mod tests;

use crate::SessionIndex;
use crate::ShareStrategy;
use crate::holdings::Paid;
use crate::share::GroupName;
use crate::slab::Slab;
use crate::topic_tree::{LevelHash, NodeId, TopicTree};
use entries::Entries;
pub use entry::{Entry, EntryOptions, Owner, Presence};
use groups::{Group, Groups};
use hashbrown::HashMap;
pub use matches::Matches;
use shapes::{Shape, Shapes};
use tidegate_wire::mqtt::QUEUE_GROUP;
use watch::Watch;
pub use watch::WatchedFilter;

/// Levels that a filter may have here.
pub const FILTER_LEVELS_MAX: usize = Shape::LEVELS_MAX;

/// What comes before the filters of [`QUEUE_GROUP`], as EMQX has it.
const QUEUE_PREFIX: &str = "$queue/";

/// What a node stores.
#[derive(Default)]
struct NodeData {
    /// The only entry; of several, `session` is the number of their list.
    entry: Entry,
    flags: Flags,
}

impl NodeData {
    /// The number of the list of several entries, which stands where the only entry has its session.
    #[inline]
    fn list(&self) -> u32 {
        debug_assert!(self.flags.any(Flags::MANY), "several entries are in a list");
        self.entry.session.number()
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Flags(u8);

impl Flags {
    /// There is a child `+`.
    const PLUS: u8 = 1 << 0;
    /// There is a child `#`.
    const HASH: u8 = 1 << 1;
    /// There are share groups.
    const GROUPS: u8 = 1 << 2;
    /// It is a share group.
    const GROUP: u8 = 1 << 3;
    /// There is a `+` on the way from the root to here, this level included.
    const WILD: u8 = 1 << 4;
    /// There is one entry, in the node.
    const ONE: u8 = 1 << 5;
    /// There are several entries, in a list.
    const MANY: u8 = 1 << 6;

    #[inline]
    fn any(self, flags: u8) -> bool {
        self.0 & flags != 0
    }
}

/// See the module's description.
pub struct Subscriptions {
    tree: TopicTree<NodeData>,
    lists: Slab<u32, Entries>,
    /// Share groups of each filter that has some.
    groups: HashMap<NodeId, Groups, foldhash::fast::FixedState>,
    /// The node of each share group.
    named: HashMap<GroupName, NodeId, foldhash::fast::FixedState>,
    shapes: Shapes,
    /// Levels of the deepest filter there ever was.
    levels_max: usize,
    entries: usize,
    watch: Watch,
    strategy: ShareStrategy,
    plus: LevelHash,
    hash: LevelHash,
}

/// Shapes that a filter would bring and that are paid for.
#[derive(Debug, Default)]
pub struct NewShapes(Vec<Shape>);

impl NewShapes {
    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is nothing to pay.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Where a subscription is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inserted {
    /// Names the filter and its share group on this worker, as long as there is an entry.
    pub node: NodeId,
    /// Its session had no subscription to this filter (and group). Otherwise the entry was replaced.
    /// `[MQTT-3.8.4-3]`: a SUBSCRIBE with the same filter replaces the subscription.
    pub is_new: bool,
}

impl Subscriptions {
    /// No subscriptions. `seed` must not be known to clients, who choose the names that are hashed with it.
    pub fn new(seed: u64) -> Subscriptions {
        let tree = TopicTree::new(seed);
        Subscriptions {
            plus: tree.hash("+"),
            hash: tree.hash("#"),
            tree,
            lists: Slab::default(),
            groups: HashMap::default(),
            named: HashMap::default(),
            shapes: Shapes::default(),
            levels_max: 0,
            entries: 0,
            watch: Watch::default(),
            strategy: ShareStrategy::default(),
        }
    }

    /// The same, which tells of filters that begin with `prefix`: [`Self::take_watched`].
    pub fn watching(self, prefix: &str) -> Subscriptions {
        assert!(self.is_empty(), "nothing was subscribed to unseen");
        Subscriptions { watch: Watch::new(prefix), ..self }
    }

    /// The same, whose share groups divide their messages so.
    pub fn sharing_by(self, strategy: ShareStrategy) -> Subscriptions {
        Subscriptions { strategy, ..self }
    }

    /// Which watched filters got their first subscription or lost their last since the last call, in order.
    pub fn take_watched(&mut self) -> Vec<WatchedFilter> {
        self.watch.take()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether there are no subscriptions.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// How many levels of filters and share groups there are, each counted once.
    pub fn nodes(&self) -> usize {
        self.tree.len()
    }

    /// Heap bytes of all of it.
    pub fn heap_bytes(&self) -> usize {
        let lists: usize = self.lists.iter().map(Entries::heap_bytes).sum();
        let groups: usize = self.groups.values().map(Groups::heap_bytes).sum();
        let tables = self.lists.heap_bytes() + self.groups.allocation_size() + self.shapes.heap_bytes();
        self.tree.heap_bytes() + lists + groups + self.named.allocation_size() + tables
    }

    /// What a filter adds to the work of each match that somebody has to pay for: shapes that are not common and not in
    /// use. `None` if it has too many levels. To be asked by the worker of the session, before it tells the others;
    /// `insert` itself takes everything, so that all replicas stay the same.
    pub fn new_shapes(&self, filter: &str) -> Option<NewShapes> {
        let mut shape = Shape::default();
        let mut new = Vec::new();
        for (nth, level) in filter.split('/').take_while(|level| *level != "#").enumerate() {
            if nth == FILTER_LEVELS_MAX {
                return None;
            }
            shape = shape.then(level);
            if !shape.is_common() && !self.shapes.has(shape) {
                new.push(shape);
            }
        }
        Some(NewShapes(new))
    }

    /// Somebody pays for shapes that were new and are in use now, as long as they are; `paid` is asked for each.
    pub(crate) fn pay(&mut self, shapes: NewShapes, mut paid: impl FnMut() -> Paid) {
        shapes.0.into_iter().for_each(|shape| self.shapes.pay(shape, paid()));
    }

    /// Adds an entry under a filter, or under a share group of it; an entry of the same session is replaced. The filter
    /// is valid and has at most [`FILTER_LEVELS_MAX`] levels.
    pub fn insert(&mut self, group: Option<&str>, filter: &str, entry: Entry) -> Inserted {
        let mut node = TopicTree::<NodeData>::ROOT;
        let mut shape = Shape::default();
        let mut levels = 0;
        for level in filter.split('/') {
            let hash = self.tree.hash(level);
            if level != "#" {
                shape = shape.then(level);
            }
            node = match self.tree.child(node, level, hash) {
                Some(child) => child,
                None => self.add_level(node, level, hash, shape),
            };
            levels += 1;
        }
        self.levels_max = self.levels_max.max(levels);
        if let Some(group) = group {
            node = self.group(node, group);
        }
        assert!(levels <= FILTER_LEVELS_MAX + 1, "whoever lets a filter in bounds its levels");
        let is_new = self.put(node, entry);
        self.entries += usize::from(is_new);
        if is_new {
            self.watch.added(node, filter);
        }
        Inserted { node, is_new }
    }

    /// The node of a filter, or of its share group, if anybody subscribes to it.
    pub fn find(&self, group: Option<&str>, filter: &str) -> Option<NodeId> {
        let mut node = TopicTree::<NodeData>::ROOT;
        for level in filter.split('/') {
            node = self.tree.child(node, level, self.tree.hash(level))?;
        }
        if let Some(group) = group {
            let name = group_level(group);
            node = self.tree.child(node, &name, self.tree.hash(&name))?;
        }
        Some(node)
    }

    /// The entry of a session at a node.
    pub fn get(&self, node: NodeId, owner: Owner) -> Option<Entry> {
        let data = &self.tree[node];
        if data.flags.any(Flags::MANY) {
            return self.lists[data.list()].get(owner);
        }
        (data.flags.any(Flags::ONE) && data.entry.owner() == owner).then_some(data.entry)
    }

    /// Removes a session's entry by filter, and gives it.
    pub fn remove(&mut self, group: Option<&str>, filter: &str, owner: Owner) -> Option<Entry> {
        let node = self.find(group, filter)?;
        self.remove_at(node, owner)
    }

    /// Removes a session's entry from a node, and gives it. Levels on which nothing hangs any more go with it.
    pub fn remove_at(&mut self, node: NodeId, owner: Owner) -> Option<Entry> {
        let removed = self.take(node, owner)?;
        assert!(self.entries > 0, "what is removed was counted");
        self.entries -= 1;
        self.watch.removed(node);
        self.prune(node);
        Some(removed)
    }

    /// Says how far a member of a share group is there: that decides who is picked. To be called for entries in share
    /// groups only; elsewhere it is of no use. Whether the session has an entry there.
    pub fn set_presence(&mut self, node: NodeId, owner: Owner, presence: Presence) -> bool {
        let Some(mut entry) = self.get(node, owner) else { return false };
        if entry.options.presence() != presence {
            entry.options = entry.options.of_presence(presence);
            self.put(node, entry);
        }
        true
    }

    /// The filter that a node stands for, as a client would write it: with `$share/{group}/` or `$queue/` before it.
    pub fn filter(&self, node: NodeId) -> String {
        let mut filter = String::new();
        let mut end = node;
        if self.tree[node].flags.any(Flags::GROUP) {
            let group = &self.tree.level(node)[1..];
            if group == QUEUE_GROUP {
                filter.push_str(QUEUE_PREFIX);
            } else {
                filter.push_str("$share/");
                filter.push_str(group);
                filter.push('/');
            }
            end = self.tree.parent(node);
        }
        self.tree.write_path(end, &mut filter);
        filter
    }

    /// Panics if tree, lists, groups, shapes and counts disagree. Visits everything: for tests and simulation.
    pub fn assert_sound(&self) {
        let (mut entries, mut lists, mut groups) = (0, 0, 0);
        let mut shapes: HashMap<Shape, u32> = HashMap::new();
        for node in self.tree.sound_nodes() {
            let flags = self.tree[node].flags;
            assert!(node == TopicTree::<NodeData>::ROOT || !self.is_bare(node), "{node:?} is of no use");
            assert!(!flags.any(Flags::ONE) || !flags.any(Flags::MANY), "{node:?} has one entry or a list");
            if flags.any(Flags::MANY) {
                let list = &self.lists[self.tree[node].list()];
                list.assert_sound();
                assert!(list.len() > 1, "a list is for several");
                (entries, lists) = (entries + list.len(), lists + 1);
            }
            entries += usize::from(flags.any(Flags::ONE));
            for (level, flag, hash) in [("+", Flags::PLUS, self.plus), ("#", Flags::HASH, self.hash)] {
                let child = self.tree.child(node, level, hash);
                assert_eq!(child.is_some(), flags.any(flag), "{node:?} knows its child {level}");
            }
            if flags.any(Flags::GROUP) {
                let of_filter = &self.groups[&self.tree.parent(node)];
                of_filter.assert_has(node);
                groups += 1;
            }
            assert_eq!(flags.any(Flags::GROUPS), self.groups.contains_key(&node), "{node:?} knows its groups");
            if flags.any(Flags::WILD) {
                *shapes.entry(self.shape(node)).or_default() += 1;
            }
        }
        assert_eq!(entries, self.entries, "entries");
        assert_eq!(lists, self.lists.len(), "a list hangs on one node");
        assert_eq!(groups, self.groups.values().map(Groups::len).sum::<usize>(), "share groups");
        let is_named = |group: &Group| self.named.get(&group.name) == Some(&group.node);
        assert!(self.groups.values().flat_map(Groups::iter).all(is_named), "share groups have their names");
        assert_eq!(groups, self.named.len(), "names of share groups");
        self.shapes.assert_sound();
        assert_eq!(shapes.len(), self.shapes.len(), "shapes");
        assert!(shapes.iter().all(|(shape, nodes)| self.shapes.count(*shape) == *nodes), "nodes of each shape");
    }

    /// Entries of the sessions of a worker. Visits everything: for tests and simulation.
    pub fn entries_of(&self, worker: u8) -> usize {
        let entries = |node: NodeId| -> usize {
            let data = &self.tree[node];
            let is_its = |entry: &Entry| entry.worker == worker;
            match () {
                () if data.flags.any(Flags::MANY) => self.lists[data.list()].iter().filter(|one| is_its(one)).count(),
                () => usize::from(data.flags.any(Flags::ONE) && is_its(&data.entry)),
            }
        };
        self.tree.sound_nodes().into_iter().map(entries).sum()
    }

    /// Whether a node is a share group.
    pub fn is_shared(&self, node: NodeId) -> bool {
        self.tree[node].flags.any(Flags::GROUP)
    }

    fn add_level(&mut self, parent: NodeId, level: &str, hash: LevelHash, shape: Shape) -> NodeId {
        let node = self.tree.add_child(parent, level, hash);
        match level {
            "+" => self.tree[parent].flags.0 |= Flags::PLUS,
            "#" => self.tree[parent].flags.0 |= Flags::HASH,
            _ => {}
        }
        if shape.is_wild() && level != "#" {
            self.tree[node].flags.0 |= Flags::WILD;
            self.shapes.add(shape);
        }
        node
    }

    /// The node of a share group, made if it is not there.
    fn group(&mut self, filter: NodeId, group: &str) -> NodeId {
        let name = group_level(group);
        let hash = self.tree.hash(&name);
        if let Some(node) = self.tree.child(filter, &name, hash) {
            return node;
        }
        let node = self.tree.add_child(filter, &name, hash);
        self.tree[node].flags.0 |= Flags::GROUP;
        self.tree[filter].flags.0 |= Flags::GROUPS;
        let group = Group { node, name: GroupName::of(&self.filter(node)) };
        self.groups.entry(filter).or_default().push(group);
        let earlier = self.named.insert(group.name, node);
        assert!(earlier.is_none(), "two share groups have two names");
        node
    }

    /// Hangs an entry on a node. Whether its owner had none there.
    fn put(&mut self, node: NodeId, entry: Entry) -> bool {
        let data = &mut self.tree[node];
        if data.flags.any(Flags::MANY) {
            return self.lists[data.list()].put(entry);
        }
        if !data.flags.any(Flags::ONE) || data.entry.owner() == entry.owner() {
            let is_new = !data.flags.any(Flags::ONE);
            data.flags.0 |= Flags::ONE;
            data.entry = entry;
            return is_new;
        }
        let mut list = Entries::default();
        list.put(data.entry);
        list.put(entry);
        assert!(list.len() == 2, "two sessions have two entries");
        data.flags.0 = data.flags.0 & !Flags::ONE | Flags::MANY;
        data.entry = Entry { session: SessionIndex::new(self.lists.insert(list)), ..Entry::default() };
        true
    }

    /// Takes an entry off a node.
    fn take(&mut self, node: NodeId, owner: Owner) -> Option<Entry> {
        let data = &mut self.tree[node];
        if data.flags.any(Flags::MANY) {
            let number = data.list();
            let list = &mut self.lists[number];
            assert!(list.len() > 1 && !data.flags.any(Flags::ONE), "a list is for several");
            let removed = list.remove(owner)?;
            if list.len() == 1 {
                let last = self.lists.remove(number);
                data.entry = last.first().expect("one is left");
                data.flags.0 = data.flags.0 & !Flags::MANY | Flags::ONE;
            }
            return Some(removed);
        }
        if !data.flags.any(Flags::ONE) || data.entry.owner() != owner {
            return None;
        }
        data.flags.0 &= !Flags::ONE;
        Some(std::mem::take(&mut data.entry))
    }

    /// Whether a node can be removed: it has no subscriptions and no children.
    fn is_bare(&self, node: NodeId) -> bool {
        self.tree.children(node) == 0 && !self.tree[node].flags.any(Flags::ONE | Flags::MANY)
    }

    /// Removes a node on which nothing hangs any more, and then those above it for which that made the difference.
    fn prune(&mut self, node: NodeId) {
        let mut node = node;
        while node != TopicTree::<NodeData>::ROOT && self.is_bare(node) {
            let parent = self.tree.parent(node);
            if self.tree[node].flags.any(Flags::GROUP) {
                self.forget_group(parent, node);
            } else {
                self.forget_level(parent, node);
            }
            assert!(!self.tree[node].flags.any(Flags::GROUPS | Flags::PLUS | Flags::HASH), "nothing is below");
            self.tree.remove(node);
            node = parent;
        }
    }

    fn forget_group(&mut self, filter: NodeId, group: NodeId) {
        let groups = self.groups.get_mut(&filter).expect("a filter with a group has a list of them");
        let name = groups.remove(group);
        if groups.is_empty() {
            self.groups.remove(&filter);
            self.tree[filter].flags.0 &= !Flags::GROUPS;
        }
        let named = self.named.remove(&name);
        assert!(named == Some(group), "a share group has one name");
    }

    fn forget_level(&mut self, parent: NodeId, node: NodeId) {
        if self.tree[node].flags.any(Flags::WILD) {
            let shape = self.shape(node);
            self.shapes.remove(shape);
        }
        let gone = match () {
            () if self.tree.is_level(node, "+") => Flags::PLUS,
            () if self.tree.is_level(node, "#") => Flags::HASH,
            () => 0,
        };
        self.tree[parent].flags.0 &= !gone;
    }

    /// The shape of a node that is not `#`.
    fn shape(&self, node: NodeId) -> Shape {
        if node == TopicTree::<NodeData>::ROOT {
            return Shape::default();
        }
        self.shape(self.tree.parent(node)).then(self.tree.level(node))
    }
}

/// The level under which a share group hangs below its filter: no topic and no filter has a level with a slash.
fn group_level(group: &str) -> String {
    format!("/{group}")
}
