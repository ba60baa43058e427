//! Who is let in, and who gives way.

use super::*;

fn address(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

fn door(connections_max: usize, connections_per_address_max: usize) -> Connections<u64> {
    let limits = ConnectionLimits { connections_max, connections_per_address_max };
    Connections::new(connections_max, limits.addresses())
}

fn service() -> CallerName {
    CallerName::Service("shop".into())
}

/// Lets in as many of `address` as show a token and find room.
fn flood_known(connections: &mut Connections<u64>, address: IpAddr) -> (Vec<Entered>, Crowded) {
    let mut entered = Vec::new();
    loop {
        match connections.enter(address, 0) {
            Ok(mut one) => {
                assert_eq!(one.gives_way, None, "whoever is known stays");
                connections.show(&mut one.entered, &service());
                entered.push(one.entered);
            }
            Err(crowded) => return (entered, crowded),
        }
    }
}

/// Lets in one of `of` that shows nothing, and says who gave way to it, which is gone at once.
fn one(connections: &mut Connections<u64>, all: &mut Vec<(u64, Entered)>, of: u8, name: u64) -> Option<u64> {
    let LetIn { entered, gives_way } = connections.enter(address(of), name).expect("it is let in");
    all.push((name, entered));
    gives_way.inspect(|gone| leave(connections, all, *gone))
}

fn leave(connections: &mut Connections<u64>, all: &mut Vec<(u64, Entered)>, name: u64) {
    let place = all.iter().position(|(other, _)| *other == name).expect("it is there");
    connections.leave(&mut all.remove(place).1);
}

fn show(connections: &mut Connections<u64>, all: &mut [(u64, Entered)], name: u64, caller: &CallerName) -> bool {
    let (_, entered) = all.iter_mut().find(|(other, _)| *other == name).expect("it is there");
    connections.show(entered, caller);
    entered.is_known()
}

#[test]
fn an_address_leaves_room_for_others_and_all_of_them_for_the_host() {
    let mut connections = door(100, 0);
    let (mut first, crowded) = flood_known(&mut connections, address(1));
    assert_eq!((first.len(), crowded), (75, Crowded::Address));
    let (second, crowded) = flood_known(&mut connections, address(2));
    assert_eq!((second.len(), crowded), (13, Crowded::Door), "an eighth is kept for the host");
    let (host, crowded) = flood_known(&mut connections, "::ffff:127.0.0.1".parse().unwrap());
    assert_eq!((host.len(), crowded), (12, Crowded::Door));
    first.iter_mut().for_each(|entered| connections.leave(entered));
    assert_eq!(flood_known(&mut connections, address(3)).0.len(), 63, "who leaves makes room");
}

#[test]
fn a_configured_share_holds_and_few_connections_are_some() {
    assert_eq!(flood_known(&mut door(100, 3), address(1)).0.len(), 3);
    assert_eq!(flood_known(&mut door(1, 0), address(1)).0.len(), 1);
}

#[test]
fn an_address_has_its_share_over_all_threads() {
    let limits = ConnectionLimits { connections_max: 8, connections_per_address_max: 3 };
    let addresses = limits.addresses();
    let [mut one, mut other] = [(); 2].map(|()| Connections::new(4, addresses.clone()));
    let (mut first, _) = flood_known(&mut one, address(1));
    let refused = other.enter(address(1), 0).map(|let_in| let_in.gives_way);
    assert_eq!((first.len(), refused), (3, Err(Crowded::Address)));
    one.leave(&mut first[0]);
    assert!(other.enter(address(1), 0).is_ok());
}

#[test]
fn who_shows_nothing_gives_way_to_whoever_comes_and_who_is_known_stays() {
    let (mut connections, mut all) = (door(16, 16), Vec::new());
    one(&mut connections, &mut all, 9, 900);
    assert!(show(&mut connections, &mut all, 900, &service()));
    for (of, names) in [(1, 100..107), (2, 200..206)] {
        names.for_each(|name| assert_eq!(one(&mut connections, &mut all, of, name), None, "there is room"));
    }
    assert_eq!(one(&mut connections, &mut all, 3, 300), Some(100), "the oldest of whoever has the most");
    assert!(show(&mut connections, &mut all, 300, &service()));
    // Whoever comes again and again pushes out their own.
    let gave_way: Vec<Option<u64>> = (206..212).map(|name| one(&mut connections, &mut all, 2, name)).collect();
    assert_eq!(gave_way, [101, 200, 201, 202, 203, 204].map(Some));
    assert!([900, 300].iter().all(|known| all.iter().any(|(name, _)| name == known)));
    all.iter_mut().for_each(|(_, entered)| connections.leave(entered));
    assert!(connections.open == 0 && connections.leaving.is_empty());
    assert_eq!(connections.newcomers.take_of_most().map(|(_, number, _)| number), None);
}

#[test]
fn an_address_with_its_share_pushes_out_its_own_only() {
    let (mut connections, mut all) = (door(64, 3), Vec::new());
    (200..203).for_each(|name| assert_eq!(one(&mut connections, &mut all, 2, name), None));
    let gave_way: Vec<Option<u64>> = (100..104).map(|name| one(&mut connections, &mut all, 1, name)).collect();
    assert_eq!(gave_way, [None, None, None, Some(100)]);
    (101..104).for_each(|name| assert!(show(&mut connections, &mut all, name, &service())));
    let refused = connections.enter(address(1), 104).map(|let_in| let_in.gives_way);
    assert_eq!(refused, Err(Crowded::Address), "all of them are known");
    leave(&mut connections, &mut all, 101);
    assert_eq!(one(&mut connections, &mut all, 1, 104), None);
}

#[test]
fn few_are_leaving_at_once_and_who_was_told_to_leave_does() {
    let mut connections = door(16, 16);
    let mut silent: Vec<Entered> = (0..14).map(|n| connections.enter(address(1), n).unwrap().entered).collect();
    for n in 0..LEAVING_MAX as u64 {
        assert_eq!(connections.enter(address(2), 100 + n).unwrap().gives_way, Some(n));
    }
    let refused = connections.enter(address(3), 999).map(|let_in| let_in.gives_way);
    assert_eq!(refused, Err(Crowded::Door));
    connections.show(&mut silent[0], &service());
    assert!(!silent[0].is_known(), "it was told to leave before");
    connections.leave(&mut silent[0]);
    assert!(connections.enter(address(3), 999).is_ok(), "it is gone");
}

#[test]
fn of_one_viewer_an_eighth_stays() {
    let (mut connections, mut all) = (door(16, 16), Vec::new());
    let dave = CallerName::Viewer("dave".into());
    (0..14).for_each(|name| assert_eq!(one(&mut connections, &mut all, 1, name), None));
    let known = (0..14).filter(|name| show(&mut connections, &mut all, *name, &dave)).count();
    assert_eq!(known, 2);
    assert_eq!(one(&mut connections, &mut all, 2, 99), Some(2), "the others give way");
    leave(&mut connections, &mut all, 0);
    assert!(show(&mut connections, &mut all, 7, &dave), "one of them is gone");
    all.iter_mut().for_each(|(_, entered)| connections.leave(entered));
    assert!(connections.of_viewer.is_empty());
}

/// A load balancer has no bound of its own; each of its connections is its client's as soon as that is known.
#[test]
fn a_balancers_connections_are_counted_at_their_clients() {
    let limits = ConnectionLimits { connections_max: 100, connections_per_address_max: 2 };
    let balancer = address(99);
    let proxies = TrustedProxies::new(vec!["10.0.0.99".parse().unwrap()]);
    let mut connections = Connections::new(100, limits.addresses_behind(proxies));
    let mut enter = |name: u64, client: Option<u8>| {
        let mut entered = connections.enter(balancer, name).expect("the balancer has no bound").entered;
        let gives_way = client.map(|client| connections.come_from(&mut entered, address(client)));
        (entered, gives_way)
    };
    let waiting: Vec<_> = (0..20).map(|name| enter(name, None).0).collect();
    let clients: Vec<_> = (0..40).map(|name| enter(100 + name, Some(name as u8 / 2))).collect();
    assert!(clients.iter().all(|(_, gives_way)| *gives_way == Some(Ok(None))), "two of each have room");
    let (mut third, gives_way) = enter(200, Some(0));
    assert_eq!(gives_way, Some(Ok(Some(100))), "the client's own oldest gives way");
    let left: Vec<_> = waiting.into_iter().chain(clients.into_iter().map(|(entered, _)| entered)).collect();
    for mut entered in left {
        connections.leave(&mut entered);
    }
    connections.leave(&mut third);
    assert_eq!((connections.open, connections.leaving.len()), (0, 0));
    let full = (0..2).map(|name| connections.enter(address(0), name)).filter(Result::is_ok).count();
    assert_eq!(full, 2, "nothing is left counted");
}
