use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_wire::mqtt::filter_matches;

fn entry(worker: u8, session: u32) -> Entry {
    Entry { session: SessionIndex::new(session), worker, options: EntryOptions::of_qos(1), ..Entry::default() }
}

fn owner(worker: u8, session: u32) -> Owner {
    Owner { worker, session: SessionIndex::new(session) }
}

fn subscriptions() -> Subscriptions {
    Subscriptions::new(1)
}

/// Sessions of worker 0 that get a message on a topic, one per filter that matches.
fn sessions(subscriptions: &Subscriptions, topic: &str) -> Vec<u32> {
    let mut found = Matches::new();
    subscriptions.matches(topic, 0, &mut found);
    let mut sessions: Vec<u32> = found.receivers(0).iter().map(|entry| entry.session.number()).collect();
    sessions.sort_unstable();
    sessions
}

#[test]
fn filters_match_as_the_standard_says() {
    let cases = [
        ("sport/tennis/player1/#", "sport/tennis/player1", true),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking", true),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true),
        ("sport/#", "sport", true),
        ("sport/#", "sports", false),
        ("#", "a/b/c", true),
        ("#", "/", true),
        ("sport/tennis/+", "sport/tennis/player1", true),
        ("sport/tennis/+", "sport/tennis/player1/ranking", false),
        ("sport/+", "sport", false),
        ("sport/+", "sport/", true),
        ("+/+", "/finance", true),
        ("/+", "/finance", true),
        ("+", "/finance", false),
        ("#", "$SYS/broker", false),
        ("+/monitor/clients", "$SYS/monitor/clients", false),
        ("$SYS/#", "$SYS/broker", true),
        ("$SYS/monitor/+", "$SYS/monitor/clients", true),
        ("a//b", "a//b", true),
        ("a/+/b", "a//b", true),
        ("a//b", "a/b", false),
        ("+/tennis/#", "sport/tennis", true),
        ("ACCOUNTS", "Accounts", false),
        ("/a", "a", false),
        ("a/b", "a/b/c/d/e", false),
    ];
    for (filter, topic, matches) in cases {
        let mut all = subscriptions();
        all.insert(None, filter, entry(0, 1));
        assert_eq!(sessions(&all, topic) == [1], matches, "{filter} and {topic}");
        assert_eq!(filter_matches(filter, topic), matches, "{filter} and {topic}, by the reference");
    }
}

#[test]
fn a_second_subscription_of_a_session_to_a_filter_replaces_the_first() {
    let mut all = subscriptions();
    let first = all.insert(None, "a/+", entry(0, 1));
    let second = all.insert(None, "a/+", Entry { subscription_id: 9, ..entry(0, 1) });
    assert!(first.is_new && !second.is_new && first.node == second.node);
    assert_eq!(all.get(first.node, owner(0, 1)).map(|entry| entry.subscription_id), Some(9));
    assert_eq!(all.len(), 1);
    assert!(all.insert(None, "a/+", entry(1, 1)).is_new, "another worker's session of the same number is another one");
    assert!(!all.insert(None, "a/+", entry(0, 1)).is_new);
    assert_eq!(all.len(), 2);
}

#[test]
fn nothing_remains_when_all_are_gone() {
    let mut all = subscriptions();
    let filters = [
        (None, "a/b/c"),
        (None, "a/b"),
        (None, "a/+/#"),
        (Some("g"), "a/b"),
        (Some("g"), "x/y"),
        (Some("h"), "a/b"),
        (None, "#"),
        (Some(QUEUE_GROUP), "+/+"),
    ];
    for session in 0..3 {
        for (group, filter) in filters {
            all.insert(group, filter, entry(0, session));
        }
    }
    for session in 0..3 {
        for (group, filter) in filters {
            assert!(all.remove(group, filter, owner(0, session)).is_some(), "{group:?} {filter}");
            assert!(all.remove(group, filter, owner(0, session)).is_none(), "{group:?} {filter}");
        }
    }
    assert_eq!((all.len(), all.nodes(), all.shapes.len(), all.groups.len(), all.lists.len()), (0, 0, 0, 0, 0));
    assert!(sessions(&all, "a/b/c").is_empty());
}

#[test]
fn the_filter_of_a_node_is_what_the_client_wrote() {
    let mut all = subscriptions();
    for (group, filter, written) in [
        (None, "a//b/+/#", "a//b/+/#"),
        (None, "/", "/"),
        (Some("g"), "a/b", "$share/g/a/b"),
        (Some(QUEUE_GROUP), "a/b", "$queue/a/b"),
        (Some("a-group-with-a-long-name-of-its-own"), "/x", "$share/a-group-with-a-long-name-of-its-own//x"),
    ] {
        let node = all.insert(group, filter, entry(0, 1)).node;
        assert_eq!(all.filter(node), written);
        assert_eq!(all.find(group, filter), Some(node));
        assert_eq!(all.is_shared(node), group.is_some());
    }
}

#[test]
fn a_group_gives_each_message_to_one_member_in_turn() {
    let mut all = subscriptions();
    for session in 0..3 {
        all.insert(Some("g"), "job/+", entry(0, session));
    }
    all.insert(Some("other"), "job/1", entry(1, 7));
    all.insert(None, "job/1", entry(0, 0));
    let mut found = Matches::new();
    let mut turns = BTreeMap::<u32, usize>::new();
    for _ in 0..30 {
        all.matches("job/1", 0, &mut found);
        assert_eq!(found.receivers(0).len(), 1, "the subscription that is not shared gets each message too");
        assert_eq!(found.picked().len(), 2, "one member of each group");
        for picked in found.picked() {
            *turns.entry(picked.entry.session.number()).or_default() += 1;
        }
    }
    assert_eq!(turns, BTreeMap::from([(0, 10), (1, 10), (2, 10), (7, 30)]));
}

#[test]
fn members_who_are_online_are_picked_first_and_all_if_none_is() {
    let mut all = subscriptions();
    let node = (0..1_000).map(|session| all.insert(Some("g"), "job", entry(0, session)).node).last().unwrap();
    let picked = |all: &Subscriptions, times| {
        let mut found = Matches::new();
        let picks = (0..times).map(|_| {
            all.matches("job", 0, &mut found);
            found.picked()[0].entry.session.number()
        });
        picks.collect::<BTreeSet<u32>>()
    };
    assert_eq!(picked(&all, 1_000).len(), 1_000);
    for session in [3, 500, 999] {
        assert!(all.set_presence(node, owner(0, session), Presence::Ready));
    }
    assert_eq!(picked(&all, 30), BTreeSet::from([3, 500, 999]));
    all.set_presence(node, owner(0, 500), Presence::Away);
    all.remove_at(node, owner(0, 3));
    all.insert(
        Some("g"),
        "job",
        Entry { options: EntryOptions::default().of_presence(Presence::Ready), ..entry(1, 3_000) },
    );
    assert_eq!(picked(&all, 30), BTreeSet::from([999, 3_000]));
    all.set_presence(node, owner(0, 999), Presence::Away);
    all.set_presence(node, owner(1, 3_000), Presence::Away);
    assert_eq!(picked(&all, 1_000).len(), 1_000);
    assert!(!all.set_presence(node, owner(0, 3), Presence::Ready), "who left cannot come online");
}

#[test]
fn members_who_are_ready_are_picked_before_those_who_are_busy() {
    let mut all = subscriptions();
    let node = (0..6).map(|session| all.insert(Some("g"), "job", entry(0, session)).node).last().unwrap();
    let picked = |all: &Subscriptions| {
        let mut found = Matches::new();
        let picks = (0..30).map(|_| {
            all.matches("job", 0, &mut found);
            found.picked()[0].entry.session.number()
        });
        picks.collect::<BTreeSet<u32>>()
    };
    let mut set = |session, presence| {
        all.set_presence(node, owner(0, session), presence);
        all.assert_sound();
        picked(&all)
    };
    assert_eq!(set(1, Presence::Busy), BTreeSet::from([1]), "online before those who are away");
    assert_eq!(set(2, Presence::Ready), BTreeSet::from([2]), "ready before busy");
    assert_eq!(set(1, Presence::Ready), BTreeSet::from([1, 2]));
    assert_eq!(set(2, Presence::Busy), BTreeSet::from([1]));
    assert_eq!(set(1, Presence::Busy), BTreeSet::from([1, 2]), "all who are online, if none is ready");
    assert_eq!(set(1, Presence::Away), BTreeSet::from([2]));
    assert_eq!(set(2, Presence::Away).len(), 6, "all, if none is online");
}

#[test]
fn what_goes_by_a_key_goes_to_the_same_member_on_all_workers() {
    for strategy in [ShareStrategy::Sticky, ShareStrategy::HashTopic, ShareStrategy::HashClient] {
        // Replicas with other seeds, filled in another order.
        let mut replicas = [1, 2].map(|seed| Subscriptions::new(seed).sharing_by(strategy));
        let of = |session| Entry {
            options: EntryOptions::default().of_presence(if session < 6 { Presence::Ready } else { Presence::Away }),
            ..entry((session % 2) as u8, session)
        };
        (0..9).for_each(|session| _ = replicas[0].insert(Some("g"), "job/+", of(session)));
        let node = (0..9).rev().map(|session| replicas[1].insert(Some("g"), "job/+", of(session)).node).last().unwrap();
        let pick = |all: &Subscriptions, topic: &str, client| {
            let mut found = Matches::new();
            all.matches(topic, client, &mut found);
            found.picked()[0].entry.owner()
        };
        let mut picked = BTreeSet::new();
        for (nth, client) in (0..200).zip((0..7).cycle()) {
            let topic = format!("job/{}", nth % 13);
            let first = pick(&replicas[0], &topic, client);
            assert_eq!(first, pick(&replicas[1], &topic, client), "{strategy:?}");
            assert!(first.session.number() < 6, "whoever is online");
            // It keeps what is its own while it is busy.
            replicas[1].set_presence(node, first, Presence::Busy);
            assert_eq!(pick(&replicas[1], &topic, client), first, "{strategy:?}");
            replicas[1].set_presence(node, first, Presence::Away);
            assert_ne!(pick(&replicas[1], &topic, client), first, "{strategy:?}: not who is away");
            replicas[1].set_presence(node, first, Presence::Ready);
            picked.insert(first);
        }
        assert_eq!(picked.len() == 1, strategy == ShareStrategy::Sticky, "{strategy:?}: {picked:?}");
    }
}

#[test]
fn receivers_are_told_by_worker() {
    let mut all = subscriptions();
    for worker in 0..3 {
        for session in 0..100 {
            all.insert(None, "news", entry(worker, session));
        }
    }
    all.insert(None, "#", entry(2, 5));
    let mut found = Matches::new();
    all.matches("news", 0, &mut found);
    assert_eq!([0, 1, 2, 3].map(|worker| found.receivers(worker).len()), [100, 100, 101, 0]);
    assert_eq!((found.filters(), found.workers()), (2, 3));
    all.insert(Some("g"), "news", entry(1, 5));
    all.matches_of_worker("news", 1, &mut found);
    assert_eq!([0, 1, 2].map(|worker| found.receivers(worker).len()), [0, 100, 0]);
    assert!(found.picked().is_empty());
    all.matches("nothing", 0, &mut found);
    assert_eq!([0, 1, 2].map(|worker| found.receivers(worker).len()), [0, 0, 1], "nothing of the match before remains");
}

#[test]
fn the_work_of_a_match_is_bounded_by_shapes() {
    let mut all = Subscriptions::new(1);
    let mut paid = 0;
    for bits in 0..1_u32 << 10 {
        let levels: Vec<&str> = (0..10).map(|nth| if bits >> nth & 1 == 1 { "+" } else { "a" }).collect();
        let filter = format!("{}/nobody-publishes-here", levels.join("/"));
        let new = all.new_shapes(&filter).expect("it is not deep").len();
        if paid + new <= 100 {
            all.insert(None, &filter, entry(0, bits));
            paid += new;
        }
    }
    let mut found = Matches::new();
    all.matches("a/a/a/a/a/a/a/a/a/a/a", 0, &mut found);
    assert!(found.visits() <= 502 + 100 + 91 + 12, "{} visits", found.visits());
    let new = |filter: &str| all.new_shapes(filter).map(|new| new.len());
    assert_eq!(new("b/b/b/b/b"), Some(0), "without a plus there is always room");
    assert_eq!(new("+/+/+/+/+/+/+/+"), Some(0), "nor does a common one cost anything");
    assert_eq!(new("+/+/+/o/o/o/o/o/o"), Some(0), "nor one in use");
    let deep = "a/".repeat(FILTER_LEVELS_MAX - 1);
    assert_eq!(new(&format!("{deep}a")), Some(0));
    assert_eq!(new(&format!("{deep}a/#")), Some(0));
    assert_eq!(new(&format!("{deep}a/a")), None);
}

#[test]
fn common_shapes_are_few_enough_for_each_match() {
    let choose_2 = |levels: u32| levels * (levels - 1) / 2;
    let any: u32 = (1..=8).map(|levels| (1 << levels) - 1).sum();
    let with_two: u32 = (9..=16).map(choose_2).sum();
    let with_one: u32 = (9..=32).sum();
    assert_eq!(any + with_two + with_one, 1_590, "as the description of shapes says");
    let all = Subscriptions::new(1);
    let levels = |count: usize, wild: &[usize]| {
        let level = |nth| if wild.contains(&nth) { "+" } else { "a" };
        (0..count).map(level).collect::<Vec<_>>().join("/")
    };
    let new = |count, wild: &[usize]| all.new_shapes(&levels(count, wild)).expect("it is not too deep").len();
    assert_eq!(new(8, &[0, 1, 2, 3, 4, 5, 6, 7]), 0);
    assert_eq!((new(16, &[0, 15]), new(17, &[0, 15]), new(16, &[0, 3, 14])), (0, 1, 2));
    assert_eq!((new(32, &[31]), new(33, &[31])), (0, 1));
}

#[test]
fn a_filter_as_deep_as_can_be_matches() {
    let mut all = subscriptions();
    let filter = vec!["+"; FILTER_LEVELS_MAX].join("/");
    assert!(all.new_shapes(&filter).is_some());
    all.insert(None, &filter, entry(0, 1));
    all.insert(None, &format!("{filter}/#"), entry(0, 2));
    let topic = vec!["a"; FILTER_LEVELS_MAX].join("/");
    assert_eq!(sessions(&all, &topic), [1, 2]);
    assert_eq!(sessions(&all, &format!("{topic}/a")), [2]);
    assert_eq!(sessions(&all, &"/".repeat(60_000)), [2]);
}

#[derive(Clone, Debug)]
enum Step {
    Insert { group: Option<u8>, filter: String, worker: u8, session: u32, presence: Presence },
    Remove { group: Option<u8>, filter: String, worker: u8, session: u32 },
    RemoveAny { nth: usize },
    Present { nth: usize, presence: Presence },
    Match { topic: String },
}

fn levels(of: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(of), 1..5).prop_map(|levels| levels.join("/"))
}

fn filters() -> impl Strategy<Value = String> {
    (levels(&["a", "b", "+", "+", "", "$x", "a-level-of-more-bytes-than-a-node-holds"]), any::<bool>())
        .prop_map(|(filter, rest)| if rest { format!("{filter}/#") } else { filter })
}

fn presences() -> impl Strategy<Value = Presence> {
    proptest::sample::select(&[Presence::Away, Presence::Busy, Presence::Ready][..])
}

fn steps() -> impl Strategy<Value = Step> {
    let group = || proptest::option::weighted(0.3, 0..3_u8);
    prop_oneof![
        4 => (group(), filters(), 0..2_u8, 0..40_u32, presences())
            .prop_map(|(group, filter, worker, session, presence)| {
                Step::Insert { group, filter, worker, session, presence }
            }),
        1 => (group(), filters(), 0..2_u8, 0..40_u32)
            .prop_map(|(group, filter, worker, session)| Step::Remove { group, filter, worker, session }),
        2 => any::<usize>().prop_map(|nth| Step::RemoveAny { nth }),
        1 => (any::<usize>(), presences()).prop_map(|(nth, presence)| Step::Present { nth, presence }),
        3 => levels(&["a", "b", "", "$x", "a-level-of-more-bytes-than-a-node-holds"])
            .prop_map(|topic| Step::Match { topic }),
    ]
}

type Key = (Option<String>, String, Owner);

proptest! {
    /// Whatever comes and goes, a match finds what a list of all subscriptions and section 4.7 give.
    #[test]
    fn the_trie_is_a_list_of_subscriptions(seed: u64, steps in proptest::collection::vec(steps(), 1..400)) {
        let mut all = Subscriptions::new(seed);
        let mut model = BTreeMap::<Key, (Entry, NodeId)>::new();
        let mut found = Matches::new();
        for step in steps {
            match step {
                Step::Insert { group, filter, worker, session, presence } => {
                    let group = group.map(|group| format!("group-{group}"));
                    let options = EntryOptions::default().of_presence(presence);
                    let entry = Entry { options, subscription_id: model.len() as u32, ..entry(worker, session) };
                    prop_assert!(all.new_shapes(&filter).is_some());
                    let inserted = all.insert(group.as_deref(), &filter, entry);
                    let before = model.insert((group, filter, entry.owner()), (entry, inserted.node));
                    prop_assert_eq!(inserted.is_new, before.is_none());
                    prop_assert!(before.is_none_or(|(_, node)| node == inserted.node));
                }
                Step::Remove { group, filter, worker, session } => {
                    let group = group.map(|group| format!("group-{group}"));
                    let removed = all.remove(group.as_deref(), &filter, owner(worker, session));
                    let expected = model.remove(&(group, filter, owner(worker, session)));
                    prop_assert_eq!(removed, expected.map(|(entry, _)| entry));
                }
                Step::RemoveAny { nth } if !model.is_empty() => {
                    let key = model.keys().nth(nth % model.len()).unwrap().clone();
                    let (entry, node) = model.remove(&key).unwrap();
                    prop_assert_eq!(all.remove_at(node, key.2), Some(entry));
                }
                Step::Present { nth, presence } if !model.is_empty() => {
                    let key = model.keys().nth(nth % model.len()).unwrap().clone();
                    let (entry, node) = model.get_mut(&key).unwrap();
                    prop_assert!(all.set_presence(*node, key.2, presence));
                    entry.options = entry.options.of_presence(presence);
                }
                Step::RemoveAny { .. } | Step::Present { .. } => {}
                Step::Match { topic } => {
                    all.matches(&topic, 0, &mut found);
                    let mut expected = vec![Vec::new(), Vec::new()];
                    let mut groups = BTreeMap::<(&str, &str), Vec<Entry>>::new();
                    for ((group, filter, owner), (entry, _)) in &model {
                        match group {
                            _ if !filter_matches(filter, &topic) => {}
                            None => expected[usize::from(owner.worker)].push(*entry),
                            Some(group) => groups.entry((group, filter)).or_default().push(*entry),
                        }
                    }
                    for (worker, expected) in (0..2_u8).zip(&mut expected) {
                        let key = |entry: &Entry| (entry.session, entry.subscription_id, entry.options.0);
                        let mut receivers = found.receivers(worker).to_vec();
                        receivers.sort_by_key(key);
                        expected.sort_by_key(key);
                        prop_assert_eq!(&receivers, expected);
                    }
                    prop_assert_eq!(found.picked().len(), groups.len());
                    let presence = |entry: &Entry| entry.options.presence();
                    for members in groups.values() {
                        // Another group with the same members may have picked otherwise.
                        let picks = found.picked().iter().map(|picked| &picked.entry);
                        let picks: Vec<_> = picks.filter(|pick| members.contains(pick)).collect();
                        prop_assert!(!picks.is_empty(), "each group has a pick");
                        prop_assert_eq!(picks.into_iter().map(presence).max(), members.iter().map(presence).max());
                    }
                }
            }
            prop_assert_eq!(all.len(), model.len());
        }
        for ((group, filter, _), (entry, node)) in &model {
            prop_assert_eq!(all.get(*node, entry.owner()), Some(*entry));
            let mut written = group.as_ref().map_or(String::new(), |group| format!("$share/{group}/"));
            written.push_str(filter);
            prop_assert_eq!(all.filter(*node), written);
        }
        for ((_, _, owner), (_, node)) in model {
            prop_assert!(all.remove_at(node, owner).is_some());
        }
        prop_assert_eq!((all.len(), all.nodes(), all.shapes.len(), all.lists.len()), (0, 0, 0, 0));
    }

    /// A long list keeps its index right: entries come, go and change sides.
    #[test]
    fn a_long_list_is_a_map_by_owner(steps in proptest::collection::vec((0..5_u8, 0..3_000_u32), 2_000..4_000)) {
        let mut list = Entries::default();
        let mut model = BTreeMap::new();
        for session in 0..1_500 {
            list.put(entry(0, session));
            model.insert(session, entry(0, session));
        }
        for (kind, session) in steps {
            if kind == 0 {
                prop_assert_eq!(list.remove(owner(0, session)), model.remove(&session));
                continue;
            }
            let presence = [Presence::Busy, Presence::Ready].get(usize::from(kind - 1)).copied();
            let options = EntryOptions::default().of_presence(presence.unwrap_or(Presence::Away));
            let entry = Entry { options, ..entry(0, session) };
            prop_assert_eq!(list.put(entry), model.insert(session, entry).is_none());
        }
        prop_assert_eq!(list.len(), model.len());
        list.assert_sound();
        for session in 0..3_000 {
            prop_assert_eq!(list.get(owner(0, session)), model.get(&session).copied());
        }
        for session in model.keys() {
            prop_assert!(list.remove(owner(0, *session)).is_some());
        }
        prop_assert_eq!(list.len(), 0);
    }
}

#[test]
fn watched_filters_are_told_with_their_first_entry_and_their_last() {
    let mut tree = Subscriptions::new(1).watching("$service/");
    let entry = |session| Entry { options: EntryOptions::default(), ..entry(0, session) };
    let mut told = |change: &mut dyn FnMut(&mut Subscriptions)| -> Vec<String> {
        change(&mut tree);
        let sign = |is_wanted| if is_wanted { '+' } else { '-' };
        tree.take_watched().into_iter().map(|of| format!("{}{}", sign(of.is_wanted), of.filter)).collect()
    };
    let (dave, carol) = (entry(1), entry(2));
    assert_eq!(told(&mut |tree| _ = tree.insert(None, "$service/items/a", dave)), ["+$service/items/a"]);
    assert_eq!(told(&mut |tree| _ = tree.insert(None, "$service/items/a", carol)), [""; 0]);
    assert_eq!(told(&mut |tree| _ = tree.insert(None, "$service/items/a", carol)), [""; 0], "once more");
    assert_eq!(told(&mut |tree| _ = tree.insert(None, "service/items/a", dave)), [""; 0]);
    assert_eq!(told(&mut |tree| _ = tree.insert(Some("g"), "$service/#", dave)), ["+$service/#"]);
    let owner = |entry: Entry| entry.owner();
    assert_eq!(told(&mut |tree| _ = tree.remove(None, "$service/items/a", owner(dave))), [""; 0]);
    let last = told(&mut |tree| _ = tree.remove(None, "$service/items/a", owner(carol)));
    assert_eq!(last, ["-$service/items/a"]);
    let of_group = told(&mut |tree| _ = tree.remove(Some("g"), "$service/#", owner(dave)));
    assert_eq!(of_group, ["-$service/#"]);
}

/// In an order of its own, over the number from which they are indexed and back.
#[test]
fn many_groups_of_one_filter_come_and_go() {
    let mut all = subscriptions();
    let name = |nth: usize| format!("g{nth}");
    for nth in 0..200 {
        all.insert(Some(&name(nth)), "fl/x", entry(0, nth as u32));
        all.assert_sound();
    }
    for nth in (0..200).map(|nth| nth * 77 % 200) {
        assert!(all.remove(Some(&name(nth)), "fl/x", entry(0, nth as u32).owner()).is_some());
        all.assert_sound();
    }
    assert!(all.is_empty() && all.nodes() == 0, "nothing is left");
}
