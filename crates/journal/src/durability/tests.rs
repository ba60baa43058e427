use super::*;

const PLACE: Cursor = Cursor { position: Position(4_096), sequence: Sequence(7), chain: ChainHash([9; 32]) };

#[test]
fn who_has_not_seen_the_last_group_says_where_the_log_ends_and_nothing_of_its_history() {
    let (seen, unseen) = (Durability::at(PLACE), Durability::unchained(PLACE.position, PLACE.sequence));
    assert_eq!((seen.cursor(), unseen.cursor()), (Some(PLACE), None));
    let other = Cursor { chain: ChainHash([8; 32]), ..PLACE };
    assert!(seen.agrees_with(&PLACE) && !seen.agrees_with(&other));
    assert!(unseen.agrees_with(&PLACE) && unseen.agrees_with(&other));
    assert!(!unseen.agrees_with(&Cursor { sequence: Sequence(8), ..PLACE }));
    assert_eq!(seen.describe(), format!("sequence 7, chain {}", PLACE.chain));
    assert_eq!(unseen.describe(), "sequence 7");
}

#[test]
fn two_are_equal_that_speak_of_the_same_place() {
    let seen = Durability::at(PLACE);
    assert_eq!(seen, Durability::unchained(PLACE.position, PLACE.sequence));
    assert_ne!(seen, Durability::unchained(Position(4_097), PLACE.sequence));
    assert_ne!(seen, Durability::unchained(PLACE.position, Sequence(8)));
}
