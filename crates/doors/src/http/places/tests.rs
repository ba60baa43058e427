use super::*;

const LIMITS: PlacesLimits = PlacesLimits { all_max: 12, of_caller_max: 4, for_services: 3 };

fn viewer(name: &str) -> CallerName {
    CallerName::Viewer(name.into())
}

fn service(name: &str) -> CallerName {
    CallerName::Service(name.into())
}

fn is_cut(place: &Place) -> bool {
    place.cut.is_cut()
}

/// Takes as many places as it gets without cutting a stream.
fn fill(places: &Arc<Places>, caller: &CallerName) -> Vec<Place> {
    (0..100).map_while(|_| places.take(caller.clone()).ok().map(|(place, _)| place)).collect()
}

#[test]
fn viewers_leave_places_to_services_and_a_newcomer_takes_the_newest_of_the_greediest() {
    let places = Places::new(LIMITS);
    let (a, b) = (fill(&places, &viewer("a")), fill(&places, &viewer("b")));
    assert_eq!((a.len(), b.len()), (4, 4));
    assert_eq!(places.take(viewer("a")).unwrap_err(), NoPlace::OfCaller);
    let (last, was_cut) = places.take(viewer("c")).unwrap();
    assert!(!was_cut, "the ninth that viewers may have");

    let (of_d, was_cut) = places.take(viewer("d")).unwrap();
    assert!(was_cut);
    let cut: Vec<usize> = (0..4).filter(|at| is_cut(&a[*at]) || is_cut(&b[*at])).collect();
    assert_eq!(cut, [3], "one, the newest");

    let services = fill(&places, &service("x"));
    assert_eq!(services.len(), 3, "those that are kept for services; nobody has two more than it then");
    assert!(places.take(service("y")).is_ok_and(|(_, was_cut)| was_cut), "it has none");
    assert!(!is_cut(&last) && !is_cut(&of_d), "who has one keeps it");
}

#[test]
fn all_get_one_until_there_are_as_many_callers_as_places() {
    let places = Places::new(LIMITS);
    let _greedy: Vec<_> = ["a", "b", "c"].map(|name| fill(&places, &viewer(name))).into();
    let mut others = Vec::new();
    for number in 0..6 {
        let (place, _) = places.take(viewer(&format!("new-{number}"))).expect("there are nine for viewers");
        others.push(place);
    }
    assert_eq!(places.take(viewer("tenth")).unwrap_err(), NoPlace::OfAll);
    assert_eq!(places.take(viewer("new-0")).unwrap_err(), NoPlace::OfAll, "nobody has two more");
    assert!(others.iter().all(|place| !is_cut(place)));
    let (operator, was_cut) = places.take(service("operator")).unwrap();
    assert!(!was_cut && !is_cut(&operator));
}

#[test]
fn services_keep_what_is_theirs_and_give_back_what_is_not() {
    let places = Places::new(LIMITS);
    let services = [fill(&places, &service("x")), fill(&places, &service("y")), fill(&places, &service("z"))];
    assert_eq!(services.iter().map(Vec::len).sum::<usize>(), 12);
    let mut viewers = Vec::new();
    for number in 0..9 {
        viewers.push(places.take(viewer(&number.to_string())).expect("services have more than is theirs").0);
    }
    assert_eq!(places.take(viewer("9")).unwrap_err(), NoPlace::OfAll);
    assert_eq!(services.iter().flatten().filter(|place| !is_cut(place)).count(), 3);
}

#[test]
fn what_is_over_or_was_cut_is_counted_once() {
    let places = Places::new(LIMITS);
    for _ in 0..3 {
        let greedy = [fill(&places, &viewer("a")), fill(&places, &viewer("b")), fill(&places, &viewer("c"))];
        let (newcomer, _) = places.take(viewer("d")).unwrap();
        drop((greedy, newcomer));
        let state = places.state();
        assert_eq!((state.taken, state.open.len()), ([0, 0], 0));
    }
}
