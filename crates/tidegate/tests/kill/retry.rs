//! After a restart, sends every request again. What was acknowledged must have been done once; what was not gets its
//! answer now.

use tidegate_client::{ClientError, Outcome, Reply};

use crate::load::{Connection, same_again};
use crate::question::{Asked, Question, outcomes};
use crate::show::Show;

/// Requests in flight while asking again.
const WINDOW: usize = 64;

/// What asking again showed.
#[derive(Debug, Default)]
pub struct Found {
    /// Items whose answer had been told before the kill.
    pub told: u64,
    /// Items without an answer that turned out to be done.
    pub found_done: u64,
    /// Items without an answer that were done now.
    pub done_now: u64,
    /// Broken promises.
    pub violations: Vec<String>,
}

/// Asks everything again, holds before what settles them, and fills in the answers that were missing.
pub fn ask_again(client: &mut Connection, show: &Show, all: &mut [Asked], found: &mut Found) {
    let (settles, rest): (Vec<&mut Asked>, Vec<&mut Asked>) = all.iter_mut().partition(|one| one.question.settles());
    for of_a_kind in [rest, settles] {
        ask_each(client, show, of_a_kind, found).unwrap_or_else(|error| panic!("asking again: {error}"));
    }
}

fn ask_each(client: &mut Connection, show: &Show, all: Vec<&mut Asked>, found: &mut Found) -> Result<(), ClientError> {
    let mut coming = all.into_iter();
    let mut waiting: Vec<(u64, &mut Asked)> = Vec::new();
    loop {
        while waiting.len() < WINDOW {
            let Some(asked) = coming.next() else { break };
            waiting.push((asked.question.send(client, show)?, asked));
        }
        if waiting.is_empty() {
            return Ok(());
        }
        let (correlation, reply) = client.receive()?;
        let at = waiting.iter().position(|(of, _)| *of == correlation).expect("replies are to what was asked");
        let (_, asked) = waiting.swap_remove(at);
        if let Reply::Error(error) = &reply {
            // Nobody else asks anything now, so nothing can be in the way.
            found.violations.push(format!("{}: {error}", asked.question.id(0)));
        }
        if let Some(again) = outcomes(reply) {
            compare(asked, again, found);
        }
    }
}

fn compare(asked: &mut Asked, again: Vec<Outcome>, found: &mut Found) {
    let Asked { question, answer } = asked;
    if again.len() != question.len() {
        found.violations.push(format!("{} outcomes for {} items: {question:?}", again.len(), question.len()));
        return;
    }
    match answer {
        Some(told) => {
            found.told += told.len() as u64;
            for (item, (first, again)) in told.iter().zip(&again).enumerate() {
                if let Err(violation) = same_again(first, again) {
                    found.violations.push(format!("{} was acknowledged: {violation}", question.id(item)));
                }
            }
        }
        None => {
            found.found_done += again.iter().filter(|outcome| **outcome == Outcome::Duplicate).count() as u64;
            found.done_now += again.iter().filter(|outcome| **outcome == Outcome::Applied).count() as u64;
            *answer = Some(again);
        }
    }
    let answer = answer.as_ref().expect("filled in above");
    check_all_or_nothing(question, answer, found);
    let refused = answer.iter().position(|outcome| !outcome.is_done());
    if let (true, Some(item)) = (question.settles(), refused) {
        let (id, outcome) = (question.id(item), &answer[item]);
        found.violations.push(format!("the hold {id} was acknowledged and is open, but settling it gave {outcome:?}"));
    }
}

fn check_all_or_nothing(question: &Question, answer: &[Outcome], found: &mut Found) {
    let done = answer.iter().filter(|outcome| outcome.is_done()).count();
    if matches!(question, Question::Linked(_)) && done != 0 && done != answer.len() {
        found.violations.push(format!("{} is linked, but {done} of {} were done", question.id(0), answer.len()));
    }
}
