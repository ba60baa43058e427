//! Each short filter, beside the words of the standard.

use super::*;

/// A filter is right if each of its levels is.
fn is_right(filter: &str) -> bool {
    let levels: Vec<&str> = filter.split('/').collect();
    let (last, others) = levels.split_last().expect("a text has a level");
    let is_plain = |level: &str| level == "+" || !level.contains(['+', '#']);
    !filter.is_empty() && others.iter().all(|level| is_plain(level)) && (is_plain(last) || *last == "#")
}

#[test]
fn wildcards_stand_alone_in_their_levels() {
    const LETTERS: [char; 4] = ['a', '/', '+', '#'];
    let (mut right, mut wrong) = (0, 0);
    for length in 0..=7 {
        for number in 0..LETTERS.len().pow(length) {
            let letter = |place| LETTERS[number / LETTERS.len().pow(place) % LETTERS.len()];
            let filter: String = (0..length).map(letter).collect();
            assert_eq!(check_levels(&filter).is_ok(), is_right(&filter), "{filter}");
            *if is_right(&filter) { &mut right } else { &mut wrong } += 1;
        }
    }
    assert!(right > 500 && wrong > 10_000, "{right} and {wrong}");
}
