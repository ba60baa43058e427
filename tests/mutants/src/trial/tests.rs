use crate::reach::{Reach, Test};

use super::tests_of;

fn reach(binary: &str, tests: &[(u64, &str, &[u32])]) -> Reach {
    let tests =
        tests.iter().map(|&(millis, name, reached)| Test { millis, name: name.into(), reached: reached.into() });
    Reach { binary: binary.into(), folder: ".".into(), tests: tests.collect() }
}

#[test]
fn those_that_reach_a_mutant_run_the_quickest_first_and_the_slowest_not() {
    let reaches = [
        reach("one", &[(10, "a", &[7]), (20, "b", &[8]), (200, "c", &[7, 8]), (2_000, "d", &[7]), (90_000, "e", &[7])]),
        reach("two", &[(30, "f", &[7])]),
    ];
    let reached = tests_of(&reaches, 7, 60_000);
    let ran = reached.trials.iter().map(|trial| (trial.name.as_str(), trial.millis, trial.command.as_str()));
    let command = |binary, names| format!("exec {binary} -q -Zunstable-options --fail-fast --exact {names}");
    let (first, second, third) = (command("one", "a c"), command("two", "f"), command("one", "d"));
    let expected = [("tests 0.0", 210, &*first), ("tests 1.0", 30, &*second), ("tests 0.1", 2_000, &*third)];
    assert_eq!(ran.collect::<Vec<_>>(), expected);
    assert_eq!((reached.tests, reached.slow), (4, 1));
    assert_eq!(tests_of(&reaches, 9, 60_000).tests, 0);
}
