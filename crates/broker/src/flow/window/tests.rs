use super::*;

#[test]
fn a_packet_id_is_its_numbers_and_never_zero() {
    assert_eq!([0, 1, 65_534, 65_535, 65_536].map(Window::packet_id), [1, 2, 65_535, 1, 2]);
}

#[test]
fn ids_are_found_in_any_order_also_where_they_begin_again() {
    let mut window = Window::new(65_533);
    for _ in 0..4 {
        window.start(Flight::Sent1);
    }
    assert_eq!(
        [65_534, 65_535, 1, 2].map(|id| window.find(id).map(|(number, _)| number)),
        [Some(65_533), Some(65_534), Some(65_535), Some(65_536)]
    );
    assert_eq!([0, 3, 65_533].map(|id| window.find(id)), [None; 3]);
    window.advance(65_535, Flight::Done);
    assert_eq!((window.find(1), window.front(), window.next()), (None, 65_533, 65_537));
    window.advance(65_533, Flight::Done);
    window.advance(65_534, Flight::Done);
    assert_eq!((window.front(), window.is_empty()), (65_536, false));
    window.advance(65_536, Flight::Done);
    assert_eq!((window.front(), window.next(), window.is_empty()), (65_537, 65_537, true));
}

#[test]
fn it_closes_at_the_receivers_maximum_and_before_an_id_comes_twice() {
    let mut window = Window::new(0);
    assert!(window.is_open(1));
    window.start(Flight::Sent2);
    assert!(!window.is_open(1) && window.is_open(2));
    // The first is never answered, all others are: the span is what closes it.
    while window.is_open(2) {
        let number = window.start(Flight::Sent1);
        window.advance(number, Flight::Done);
    }
    assert_eq!(window.next() - window.front(), PACKET_IDS - 1);
    assert_eq!(window.find(1), Some((0, Flight::Sent2)));
    window.advance(0, Flight::Done);
    assert!(window.is_empty() && window.is_open(1));
}

#[test]
fn numbers_that_are_left_out_are_over() {
    let mut window = Window::new(5);
    window.start(Flight::Sent1);
    window.skip_to(8);
    assert_eq!((window.start(Flight::Sent1), window.get(6), window.get(8)), (8, None, Some(Flight::Sent1)));
    window.advance(5, Flight::Done);
    assert_eq!(window.front(), 8);
}
