//! The scrub reads everything, a piece at a time, and names what is damaged.

use super::*;

fn built() -> World {
    let mut world = World::new(1, IdsOptions { freeze_at: 300, filter_bytes_max: 1 << 16, ..small() });
    world.insert_new(300 * 14);
    world.sync_journal();
    world.maintain(100).expect("the disk works");
    world
}

#[test]
fn a_pass_reads_all_runs_in_bounded_steps_and_then_begins_again() {
    let world = built();
    let mut scrubber = world.index.scrubber();
    for _ in 0..2 {
        let (mut steps, mut bytes) = (0, 0);
        loop {
            let step = scrubber.step(8192).expect("nothing is damaged");
            // The end of a run is read in one piece.
            assert!(step.bytes <= 8192 + 3 * 4096, "{step:?}");
            (steps, bytes) = (steps + 1, bytes + step.bytes);
            assert_eq!(step.bytes_done, bytes);
            if step.is_pass_done {
                // The headers are read, but not counted.
                assert_eq!(bytes, step.bytes_in_all - 4096 * world.index.facts().runs);
                break;
            }
        }
        assert!(steps > 5, "{steps}");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_found_and_named_and_the_scrub_goes_on() {
    for path in built().run_files() {
        let len = built().disk.contents(&path).expect("it exists").len() as u64;
        for offset in (5..len).step_by(1_999) {
            let mut world = built();
            let mut scrubber = world.index.scrubber();
            assert!(world.disk.flip_bit(&path, offset, 5));
            let (mut errors, mut steps) = (Vec::new(), 0);
            loop {
                steps += 1;
                assert!(steps < 1_000);
                match scrubber.step(1 << 14) {
                    Ok(step) if step.is_pass_done => break,
                    Ok(_) => {}
                    Err(error) => errors.push(error.to_string()),
                }
            }
            assert_eq!(errors.len(), 1, "byte {offset}");
            assert!(errors[0].contains(&*path.to_string_lossy()), "{errors:?}");
            world.disk.crash();
            world.recover();
            assert!(world.discarded.is_some(), "the next start builds it again");
        }
    }
}
