//! Who is let in, and who gives way.

use super::*;

fn address(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

fn door(connections_max: usize, connections_per_address_max: usize) -> Arc<Connections<u64>> {
    Connections::new(ConnectionLimits { connections_max, connections_per_address_max })
}

fn service() -> CallerName {
    CallerName::Service("shop".into())
}

/// Lets in as many of `address` as show a token and find room.
fn flood_known(connections: &Arc<Connections<u64>>, address: IpAddr) -> (Vec<Entered<u64>>, Crowded) {
    let mut entered = Vec::new();
    loop {
        match connections.enter(address, 0) {
            Ok(one) => {
                assert_eq!(one.gives_way, None, "whoever is known stays");
                one.entered.show(&service());
                entered.push(one.entered);
            }
            Err(crowded) => return (entered, crowded),
        }
    }
}

/// Lets in so many of `address` that show nothing, and says who gave way to each.
fn flood(
    connections: &Arc<Connections<u64>>,
    of: u8,
    numbers: std::ops::Range<u64>,
) -> Vec<(Entered<u64>, Option<u64>)> {
    let entries = numbers.map(|number| connections.enter(address(of), number).expect("it is let in"));
    entries.map(|entry| (entry.entered, entry.gives_way)).collect()
}

#[test]
fn an_address_leaves_room_for_others_and_all_of_them_for_the_host() {
    let connections = door(100, 0);
    let (first, crowded) = flood_known(&connections, address(1));
    assert_eq!((first.len(), crowded), (75, Crowded::Address));
    let (second, crowded) = flood_known(&connections, address(2));
    assert_eq!((second.len(), crowded), (13, Crowded::Door), "an eighth is kept for the host");
    let (host, crowded) = flood_known(&connections, "::ffff:127.0.0.1".parse().unwrap());
    assert_eq!((host.len(), crowded), (12, Crowded::Door));
    drop(first);
    assert_eq!(flood_known(&connections, address(3)).0.len(), 63, "who leaves makes room");
}

#[test]
fn a_configured_share_holds_and_few_connections_are_some() {
    assert_eq!(flood_known(&door(100, 3), address(1)).0.len(), 3);
    assert_eq!(flood_known(&door(1, 0), address(1)).0.len(), 1);
}

#[test]
fn who_shows_nothing_gives_way_to_whoever_comes_and_who_is_known_stays() {
    let connections = door(16, 16);
    let known = connections.enter(address(9), 900).unwrap().entered;
    known.show(&service());
    let silent = [flood(&connections, 1, 100..107), flood(&connections, 2, 200..206)];
    assert!(silent.iter().flatten().all(|(_, gave_way)| gave_way.is_none()), "the door has room");
    let newcomer = connections.enter(address(3), 300).unwrap();
    assert_eq!(newcomer.gives_way, Some(100), "the oldest of whoever has the most");
    newcomer.entered.show(&service());
    assert!(silent[0][0].0.is_leaving() && !silent[0][1].0.is_leaving());
    // Whoever comes again and again pushes out their own.
    let again = flood(&connections, 2, 206..212);
    let gave_way: Vec<Option<u64>> = again.iter().map(|(_, gave_way)| *gave_way).collect();
    assert_eq!(gave_way, [101, 200, 201, 202, 203, 204].map(Some));
    assert!(!known.is_leaving() && !newcomer.entered.is_leaving());
    drop((silent, again, known, newcomer));
    let state = connections.state();
    assert!(state.open == 0 && state.of_address.is_empty() && state.leaving.is_empty(), "{state:?}");
}

#[test]
fn an_address_with_its_share_pushes_out_its_own_only() {
    let connections = door(64, 3);
    let others = flood(&connections, 2, 200..203);
    let mut own = flood(&connections, 1, 100..104);
    let gave_way: Vec<Option<u64>> = own.iter().map(|(_, gave_way)| *gave_way).collect();
    assert_eq!(gave_way, [None, None, None, Some(100)]);
    own.iter().for_each(|(entered, _)| entered.show(&service()));
    assert!(!own[0].0.is_known(), "it was told to leave before");
    let refused = connections.enter(address(1), 104).map(|entry| entry.gives_way);
    assert_eq!(refused, Err(Crowded::Address), "all of them are known");
    own.remove(1);
    assert_eq!(connections.enter(address(1), 104).unwrap().gives_way, None);
    drop(others);
}

#[test]
fn few_are_leaving_at_once() {
    let connections = door(100, 100);
    let mut silent = flood(&connections, 1, 0..87);
    let next: Vec<_> = flood(&connections, 2, 100..101);
    assert_eq!(next[0].1, None);
    silent.extend(flood(&connections, 2, 101..101 + LEAVING_MAX as u64));
    assert!(connections.enter(address(3), 999).is_err_and(|crowded| crowded == Crowded::Door));
    silent.retain(|(entered, _)| !entered.is_leaving());
    assert_eq!(silent.len(), 87);
    assert!(connections.enter(address(3), 999).is_ok(), "they are gone");
}

#[test]
fn of_one_viewer_an_eighth_stays() {
    let connections = door(16, 16);
    let viewer = CallerName::Viewer("dave".into());
    let mut daves: Vec<_> = flood(&connections, 1, 0..14);
    daves.iter().for_each(|(entered, _)| entered.show(&viewer));
    assert_eq!(daves.iter().filter(|(entered, _)| entered.is_known()).count(), 2);
    assert_eq!(connections.enter(address(2), 99).unwrap().gives_way, Some(2), "the others give way");
    daves.remove(0);
    daves[5].0.show(&viewer);
    assert!(daves[5].0.is_known(), "one of them is gone");
    drop(daves);
    assert!(connections.state().of_viewer.is_empty());
}
