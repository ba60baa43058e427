use std::path::Path;

use super::{Bounds, End, run};

fn bounds() -> Bounds {
    Bounds { bounds: String::new(), processor_s: 1, waiting_s: 2, clock_s: 60 }
}

fn end(command: &str) -> End {
    run(command, Path::new("."), &[("TIDEGATE_MUTANT", "7")], 0, &bounds())
}

#[test]
fn the_status_tells_whether_a_command_passed_and_it_sees_its_mutant() {
    assert_eq!(end("exit 0"), End::Passed);
    assert_eq!(end("exit 1"), End::Failed);
    assert_eq!(end("kill -ABRT $$"), End::Failed);
    assert_eq!(end("[ $TIDEGATE_MUTANT = 7 ]"), End::Passed);
}

#[test]
fn what_loops_and_what_waits_is_ended() {
    assert_eq!(end("while :; do :; done"), End::OutOfTime);
    assert_eq!(end("sleep 1000"), End::OutOfTime);
    // In a process of its own, which must end, too.
    assert_eq!(end("sleep 1000 & wait"), End::OutOfTime);
}

#[test]
fn what_waits_for_a_short_time_is_left_alone() {
    assert_eq!(end("sleep 1.5; sleep 0.1"), End::Passed);
}
