use super::*;

const LIMITS: HeldBytesLimits = HeldBytesLimits { all_max: 1_000_000, of_viewer_max: 200_000 };

fn viewer(number: usize) -> CallerName {
    CallerName::Viewer(number.to_string().into())
}

/// Reads bodies of `caller` in pieces, as far as it may. The bytes, and what ended it.
fn fill(bodies: &Arc<HeldBytes>, caller: CallerName, held: &mut Vec<Held>) -> (usize, NoRoom) {
    let mut bytes = 0;
    loop {
        let mut body = bodies.hold(caller.clone());
        for _ in 0..10 {
            if let Err(why) = body.more(1_000) {
                held.push(body);
                return (bytes, why);
            }
            bytes += 1_000;
        }
        held.push(body);
    }
}

#[test]
fn one_viewer_has_its_bound_and_many_leave_room_to_the_next_and_to_services() {
    let (bodies, mut held) = (HeldBytes::new(LIMITS), Vec::new());
    assert_eq!(fill(&bodies, viewer(0), &mut held), (200_000, NoRoom::OfCaller));
    for number in 1..50 {
        let (bytes, _) = fill(&bodies, viewer(number), &mut held);
        assert!(bytes > 0 || number > 6, "viewer {number}");
    }
    assert!(bodies.state.lock().unwrap().viewers <= 750_000);
    let (bytes, why) = fill(&bodies, CallerName::Service("shop".into()), &mut held);
    assert!(bytes >= 180_000 && why == NoRoom::OfAll, "{bytes} {why:?}");
    drop(held);
    let state = bodies.state.lock().unwrap();
    assert_eq!((state.all, state.viewers, state.callers.len()), (0, 0, 0));
}

#[test]
fn what_is_whole_makes_room() {
    let bodies = HeldBytes::new(LIMITS);
    let mut first = bodies.hold(viewer(1));
    assert_eq!(first.more(200_000), Ok(()));
    let mut second = bodies.hold(viewer(1));
    assert_eq!(second.more(1), Err(NoRoom::OfCaller));
    drop(first);
    assert_eq!(second.more(200_000), Ok(()));
    assert_eq!(second.more(1), Err(NoRoom::OfCaller));
}

#[test]
fn what_is_served_of_it_makes_room() {
    let bytes = HeldBytes::new(LIMITS);
    let (mut first, mut second) = (bytes.hold(viewer(1)), bytes.hold(viewer(1)));
    assert_eq!((first.set(150_000), second.set(50_001)), (Ok(()), Err(NoRoom::OfCaller)));
    assert_eq!((first.set(100_000), second.set(100_000)), (Ok(()), Ok(())));
    assert_eq!((second.set(100_001), second.set(100_000)), (Err(NoRoom::OfCaller), Ok(())));
    drop((first, second));
    let state = bytes.state.lock().unwrap();
    assert_eq!((state.all, state.viewers, state.callers.len()), (0, 0, 0));
}
