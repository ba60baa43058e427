//! Whose campaigns come first, where more of them want something than can have it in a round.

use std::collections::BTreeMap;

/// These campaigns, one of each owner's in turn: however many one owner has, those of another wait for as many of its
/// as they are themselves. The first `turn` owners come last: who was first in one round is not in the next.
pub(super) fn in_turn<'c, O: Ord>(
    campaigns: impl Iterator<Item = &'c u32>,
    mut owner_of: impl FnMut(u32) -> O,
    turn: usize,
) -> Vec<u32> {
    let mut of_owners: BTreeMap<O, Vec<u32>> = BTreeMap::new();
    let mut count = 0;
    for number in campaigns {
        of_owners.entry(owner_of(*number)).or_default().push(*number);
        count += 1;
    }
    let mut rests: Vec<_> = of_owners.into_values().map(Vec::into_iter).collect();
    let owners = rests.len().max(1);
    rests.rotate_left(turn % owners);
    let mut order = Vec::with_capacity(count);
    while !rests.is_empty() {
        rests.retain_mut(|rest| {
            let next = rest.next();
            order.extend(next);
            next.is_some()
        });
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_few_campaigns_does_not_wait_for_all_of_who_has_many() {
        let owner_of = |number| match number {
            0..1_000 => "ann",
            1_000..1_003 => "bob",
            _ => "cleo",
        };
        let campaigns: Vec<u32> = (0..1_004).collect();
        let order = in_turn(campaigns.iter(), owner_of, 0);
        assert_eq!(order[..8], [0, 1_000, 1_003, 1, 1_001, 2, 1_002, 3]);
        assert_eq!(order.len(), 1_004);
        assert_eq!(order[8..], (4..1_000).collect::<Vec<_>>());
        assert_eq!(in_turn(campaigns.iter(), owner_of, 4)[..4], [1_000, 1_003, 0, 1_001], "another one is first");
        assert!(in_turn([].iter(), owner_of, 7).is_empty());
    }
}
