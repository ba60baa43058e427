//! Finds the receivers of a message: the walk through the tree, and a reused buffer for its result.

use tidegate_planted::{Bug, is_planted};

use super::{Entry, Flags, Group, NodeData, Owner, Presence, Subscriptions};
use crate::share::{GroupName, OfGroup, Picked};
use crate::topic_tree::{LevelHash, NodeId, TopicTree};

/// Members of a share group that are weighed in the time of one visit to a node, about: they stand side by side.
const WEIGHED_PER_VISIT: usize = 16;

/// The receivers of one message, by worker. Keeps its memory from one match to the next.
#[derive(Default)]
pub struct Matches {
    receivers: Vec<Vec<Entry>>,
    picked: Vec<Picked>,
    filters: usize,
    visits: usize,
    levels: Vec<(u32, u32, LevelHash)>,
    stack: Vec<(NodeId, u32)>,
}

impl Matches {
    /// An empty buffer.
    pub fn new() -> Matches {
        Matches::default()
    }

    /// Entries of sessions of a worker, share groups not among them. A session stands here once for each of its filters
    /// that match, not necessarily side by side: `filters` says whether that can be.
    pub fn receivers(&self, worker: u8) -> &[Entry] {
        self.receivers.get(usize::from(worker)).map_or(&[], |entries| entries)
    }

    /// The members picked, one for each share group whose filter matches. A share group's message comes besides those
    /// of other subscriptions of the session, not instead (MQTT 5, 4.8.2).
    pub fn picked(&self) -> &[Picked] {
        &self.picked
    }

    /// Workers with receivers or not: `receivers` of this one and above are empty.
    pub fn workers(&self) -> usize {
        self.receivers.len()
    }

    /// How many filters matched: with one, no session can be there twice.
    pub fn filters(&self) -> usize {
        self.filters
    }

    /// How many nodes were looked at.
    pub fn visits(&self) -> usize {
        self.visits
    }

    /// Whether there is no receiver.
    pub fn is_empty(&self) -> bool {
        self.filters == 0 && self.picked.is_empty()
    }

    fn clear(&mut self) {
        self.receivers.iter_mut().for_each(Vec::clear);
        self.picked.clear();
        self.filters = 0;
        self.visits = 0;
        self.stack.clear();
    }

    #[inline]
    fn receive(&mut self, entry: Entry) {
        let worker = usize::from(entry.worker);
        if worker >= self.receivers.len() {
            self.receivers.resize_with(worker + 1, Vec::new);
        }
        self.receivers[worker].push(entry);
    }
}

/// Which of the matching subscriptions are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// All, for a publication of the client with this hash.
    All(u64),
    Worker(u8),
}

impl Subscriptions {
    /// Finds the receivers of a message on a valid topic among the sessions of all workers, and picks a member of each
    /// share group. `client` is the [hash](crate::share::hash) of its publisher's client id, and counts only where
    /// share groups go by it. `found` is cleared first.
    pub fn matches(&self, topic: &str, client: u64, found: &mut Matches) {
        self.walk(topic, Whose::All(client), found);
    }

    /// As [`Self::matches`], but only a member of one share group, whose filter matches the topic.
    pub(crate) fn match_of_group(&self, OfGroup { group, client }: OfGroup, topic: &str, found: &mut Matches) {
        found.clear();
        let node = self.named.get(&group).copied();
        node.into_iter().for_each(|node| self.pick_for(Group { node, name: group }, topic, client, found));
    }

    /// Whether a member of a share group takes a message at once.
    pub(crate) fn is_ready(&self, group: GroupName) -> bool {
        // Those who are ready stand in front.
        let first = self.named.get(&group).and_then(|node| self.members(*node).next());
        first.is_some_and(|member| member.options.presence() == Presence::Ready)
    }

    /// As [`Self::matches`], but only sessions of one worker, and no share groups: for a message that every worker
    /// matches for itself.
    pub fn matches_of_worker(&self, topic: &str, worker: u8, found: &mut Matches) {
        self.walk(topic, Whose::Worker(worker), found);
    }

    /// Whether a session has a subscription, of its own or as a member of a share group, whose filter matches a topic.
    pub fn covers(&self, topic: &str, owner: Owner) -> bool {
        let (mut is_covered, levels) = (false, self.split(topic, Vec::new()));
        self.visit(topic, &levels, &mut Vec::new(), |node| is_covered = is_covered || self.has_entry(node, owner));
        is_covered
    }

    /// Tells `each` of a session's subscriptions whose filters match a topic: the node of each, and whether it is a
    /// share group. Returns how many nodes were visited for that.
    pub fn matching(&self, topic: &str, owner: Owner, mut each: impl FnMut(NodeId, bool)) -> usize {
        let (mut groups, levels) = (0, self.split(topic, Vec::new()));
        let visits = self.visit(topic, &levels, &mut Vec::new(), |node| {
            if self.get(node, owner).is_some() {
                each(node, false);
            }
            if self.tree[node].flags.any(Flags::GROUPS) {
                for group in self.groups[&node].iter() {
                    groups += 1;
                    if self.get(group.node, owner).is_some() {
                        each(group.node, true);
                    }
                }
            }
        });
        visits + groups
    }

    /// Whether a session has an entry at a node or at one of its share groups.
    fn has_entry(&self, node: NodeId, owner: Owner) -> bool {
        let has_groups = self.tree[node].flags.any(Flags::GROUPS);
        let mut groups = has_groups.then(|| self.groups[&node].iter()).into_iter().flatten();
        self.get(node, owner).is_some() || groups.any(|group| self.get(group.node, owner).is_some())
    }

    fn walk(&self, topic: &str, whose: Whose, found: &mut Matches) {
        found.clear();
        let levels = self.split(topic, std::mem::take(&mut found.levels));
        let mut stack = std::mem::take(&mut found.stack);
        let visits = self.visit(topic, &levels, &mut stack, |node| self.collect(node, topic, whose, found));
        found.visits += visits;
        (found.levels, found.stack) = (levels, stack);
    }

    /// Visits the nodes of a topic, and tells of those whose filters match it. Returns how many it visited.
    #[inline]
    fn visit(
        &self,
        topic: &str,
        levels: &[(u32, u32, LevelHash)],
        stack: &mut Vec<(NodeId, u32)>,
        mut matches: impl FnMut(NodeId),
    ) -> usize {
        let text = |nth: usize| &topic[levels[nth].0 as usize..levels[nth].1 as usize];
        let mut visits = 0;
        stack.push((TopicTree::<NodeData>::ROOT, 0));
        while let Some((node, depth)) = stack.pop() {
            visits += 1;
            let data = &self.tree[node];
            // [MQTT-4.7.2-1]: a filter that begins with a wildcard matches no topic that begins with $.
            let wildcards = if depth == 0 && topic.starts_with('$') { 0 } else { Flags::PLUS | Flags::HASH };
            let wildcards = data.flags.0 & wildcards;
            if wildcards & Flags::HASH != 0
                && let Some(rest) = self.tree.child(node, "#", self.hash)
            {
                // Also if nothing is left: "sport/#" matches "sport" (MQTT 5, 4.7.1.2).
                matches(rest);
            }
            let Some((_, _, hash)) = levels.get(depth as usize) else {
                matches(node);
                continue;
            };
            if wildcards & Flags::PLUS != 0
                && let Some(any) = self.tree.child(node, "+", self.plus)
            {
                // Its children are looked up last; the memory they are in is asked for now, beside that of the other
                // branch.
                if let Some((_, _, next)) = levels.get(depth as usize + 1) {
                    self.tree.prefetch_child(any, *next);
                }
                stack.push((any, depth + 1));
            }
            if let Some(named) = self.tree.child(node, text(depth as usize), *hash) {
                stack.push((named, depth + 1));
            }
        }
        visits
    }

    /// Cuts a topic into levels and hashes each, once. No further than one level below the deepest filter: that is
    /// enough to see that the topic goes on.
    fn split(&self, topic: &str, mut levels: Vec<(u32, u32, LevelHash)>) -> Vec<(u32, u32, LevelHash)> {
        levels.clear();
        let mut start = 0;
        for level in topic.split('/').take(self.levels_max + 1) {
            let end = start + level.len() as u32;
            levels.push((start, end, self.tree.hash(level)));
            start = end + 1;
        }
        levels
    }

    /// Adds what hangs on a matching node.
    fn collect(&self, node: NodeId, topic: &str, whose: Whose, found: &mut Matches) {
        let data = &self.tree[node];
        let is_asked = |entry: &Entry| match whose {
            Whose::All(_) => true,
            Whose::Worker(worker) => entry.worker == worker,
        };
        if data.flags.any(Flags::ONE) && is_asked(&data.entry) {
            found.filters += 1;
            found.receive(data.entry);
        } else if data.flags.any(Flags::MANY) {
            found.filters += 1;
            for entry in self.lists[data.list()].iter().filter(|entry| is_asked(entry)) {
                found.receive(*entry);
            }
        }
        if let Whose::All(client) = whose
            && data.flags.any(Flags::GROUPS)
        {
            self.groups[&node].iter().for_each(|group| self.pick_for(*group, topic, client, found));
        }
    }

    /// Adds the member that stands for a share group.
    fn pick_for(&self, group: Group, topic: &str, client: u64, found: &mut Matches) {
        let (picked, weighed) = self.pick(group.node, topic, client);
        let second = self.members(group.node).last().filter(|_| is_planted(Bug::SharedWithTwo));
        let picked = picked.into_iter().chain(second.copied());
        found.picked.extend(picked.map(|entry| Picked { entry, group: group.name }));
        found.visits += weighed / WEIGHED_PER_VISIT;
    }

    /// The members of a share group, those who are ready in front, then those who are online.
    pub fn members(&self, group: NodeId) -> impl Iterator<Item = &Entry> {
        let data = &self.tree[group];
        let one = data.flags.any(Flags::ONE).then_some(&data.entry);
        let several = data.flags.any(Flags::MANY).then(|| self.lists[data.list()].iter());
        one.into_iter().chain(several.into_iter().flatten())
    }

    /// The member of a share group that gets a message, if there is one, and how many were weighed against each other.
    fn pick(&self, group: NodeId, topic: &str, client: u64) -> (Option<Entry>, usize) {
        let data = &self.tree[group];
        if !data.flags.any(Flags::MANY) {
            return (data.flags.any(Flags::ONE).then_some(data.entry), 0);
        }
        let members = &self.lists[data.list()];
        match self.strategy.key(self.tree.level(group), topic, client) {
            None => (members.pick_next(), 0),
            Some(key) => (members.pick_by(key), members.weighed()),
        }
    }
}
