use super::*;
use hashbrown::HashMap;
use proptest::prelude::*;

/// A level by number: mostly short, some longer than a node holds, some empty.
fn level(number: u16) -> String {
    match number % 5 {
        0 => format!("level-{number}-of-more-bytes-than-a-node-holds-in-itself-{}", "x".repeat(usize::from(number))),
        1 if number == 1 => String::new(),
        _ => format!("l{number}"),
    }
}

proptest! {
    /// Adding and removing leaves in any order gives the tree that a map of paths describes.
    #[test]
    fn a_tree_is_a_map_of_its_edges(
        seed: u64,
        steps in proptest::collection::vec((any::<bool>(), any::<u16>(), 0..300_u16), 0..600),
    ) {
        let mut tree = TopicTree::<u32>::new(seed);
        let mut model: HashMap<(NodeId, String), NodeId> = HashMap::new();
        let mut nodes = vec![TopicTree::<u32>::ROOT];
        for (add, pick, number) in steps {
            let node = nodes[usize::from(pick) % nodes.len()];
            if add {
                let text = level(number);
                let hash = tree.hash(&text);
                let there = model.get(&(node, text.clone())).copied();
                prop_assert_eq!(tree.child(node, &text, hash), there);
                if there.is_none() {
                    let id = tree.add_child(node, &text, hash);
                    tree[id] = u32::from(number);
                    model.insert((node, text), id);
                    nodes.push(id);
                }
            } else if node != TopicTree::<u32>::ROOT && !model.keys().any(|(parent, _)| *parent == node) {
                let (key, _) = model.iter().find(|(_, id)| **id == node).map(|(key, id)| (key.clone(), *id)).unwrap();
                prop_assert_eq!(&key.1, tree.level(node));
                let number = tree.remove(node);
                prop_assert_eq!(level(number as u16), key.1.clone());
                prop_assert_eq!(tree.child(key.0, &key.1, tree.hash(&key.1)), None);
                model.remove(&key);
                nodes.retain(|id| *id != node);
            }
        }
        prop_assert_eq!(tree.len(), model.len());
        for ((parent, text), id) in model {
            prop_assert_eq!(tree.child(parent, &text, tree.hash(&text)), Some(id));
            prop_assert_eq!(tree.parent(id), parent);
        }
    }
}

#[test]
fn paths_are_rebuilt_with_their_empty_levels() {
    let mut tree = TopicTree::<u32>::new(7);
    let mut at = TopicTree::<u32>::ROOT;
    for level in ["", "sport", "", "a level that is too long for its node", ""] {
        at = tree.add_child(at, level, tree.hash(level));
    }
    let mut path = String::new();
    tree.write_path(at, &mut path);
    assert_eq!(path, "/sport//a level that is too long for its node/");
}

#[test]
fn a_hundred_thousand_children_are_found_and_go_again() {
    let mut tree = TopicTree::<u32>::new(3);
    let text = |n: u32| format!("child-{n}");
    let ids: Vec<NodeId> =
        (0..100_000).map(|n| tree.add_child(TopicTree::<u32>::ROOT, &text(n), tree.hash(&text(n)))).collect();
    let per_node = tree.heap_bytes() / 100_000 - size_of::<Node<u32>>();
    assert!(per_node <= 12, "{per_node} bytes of edges for a node");
    for (n, id) in (0..).zip(&ids) {
        assert_eq!(tree.child(TopicTree::<u32>::ROOT, &text(n), tree.hash(&text(n))), Some(*id));
    }
    let full = tree.heap_bytes();
    for id in ids {
        tree.remove(id);
    }
    assert_eq!(tree.len(), 0);
    for n in 0..100_000 {
        tree.add_child(TopicTree::<u32>::ROOT, &text(n), tree.hash(&text(n)));
    }
    assert!(tree.heap_bytes() <= full + 8 * 131_072, "vacant places are used again; new is the list of them");
}

#[test]
fn a_replaced_id_is_found_in_the_old_place() {
    let mut table = IdTable::default();
    for id in 0..1_000 {
        table.insert(u64::from(id % 10) << 32, id, |id| u64::from(id % 10) << 32);
    }
    assert!(table.replace(3 << 32, 13, 5_003));
    assert!(!table.replace(3 << 32, 13, 5_003));
    assert_eq!(table.find(3 << 32, |id| id == 5_003), Some(5_003));
    assert!(!table.remove(3 << 32, 13));
    assert!(table.remove(3 << 32, 5_003));
    assert_eq!(table.find(3 << 32, |id| id == 5_003), None);
}
