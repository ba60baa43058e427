use super::{Fate, Results};

#[test]
fn a_second_run_knows_what_the_first_one_tried_and_the_last_line_counts() {
    let path = std::env::temp_dir().join(format!("mutants-results-{}.txt", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let mut first = Results::open(&path).unwrap();
    first.append(3, Fate::Survived, "", "0.1\tname").unwrap();
    first.append(4, Fate::TimedOut, "tests 0.0", "0.1\tname").unwrap();
    first.append(3, Fate::Killed, "tests 0.1", "0.1\tname").unwrap();
    drop(first);
    // It was ended while it wrote.
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("5\tkilled by te");
    std::fs::write(&path, &text).unwrap();

    let mut second = Results::open(&path).unwrap();
    assert_eq!(
        second.fates.iter().map(|(&n, &f)| (n, f)).collect::<Vec<_>>(),
        [(3, Fate::Killed), (4, Fate::TimedOut)]
    );
    assert_eq!(second.count(&[3, 4, 5]), [1, 1, 0]);
    second.append(5, Fate::Survived, "", "0.1\tname").unwrap();
    assert_eq!(Results::open(&path).unwrap().count(&[3, 4, 5]), [1, 1, 1]);

    std::fs::write(&path, "no number\tkilled\n").unwrap();
    assert!(Results::open(&path).is_err());
    std::fs::remove_file(&path).unwrap();
}
