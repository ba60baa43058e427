//! The load: clients with several patterns of requests. Each sends requests until its connection breaks, and logs all
//! requests and answers.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use tidegate_client::{Client, ClientError, Outcome, Transfer};

use crate::SERVICE;
use crate::chance::Chance;
use crate::http::{Answer, Http};
use crate::question::{Asked, Question, outcomes};
use crate::show::{Move, Show};

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One transfer a request, 16 requests in flight; sometimes an id again, with the same content or with other
    /// content.
    Singles,
    /// Up to 300 transfers a request, four in flight.
    Batches,
    /// Groups of two to five, all or nothing, from one wallet each.
    Linked,
    /// Holds, then posts of all or part, and voids.
    Holds,
    /// One transfer a request over HTTP, one in flight.
    Http,
}

/// All patterns; each has a client of its own.
pub const PATTERNS: [Pattern; 6] =
    [Pattern::Singles, Pattern::Batches, Pattern::Linked, Pattern::Holds, Pattern::Http, Pattern::Singles];

/// What one client brings home.
#[derive(Debug, Default)]
pub struct RequestLog {
    /// Everything asked, in order.
    pub asked: Vec<Asked>,
    /// What the server should not have said.
    pub violations: Vec<String>,
}

/// One client of one life of the server.
pub struct LoadClient<'a> {
    /// The accounts.
    pub show: &'a Show,
    /// Begins every id that this client makes; unique among all clients and lives.
    pub name: String,
    /// Its own.
    pub chance: Chance,
    /// Outcomes that all clients together were told.
    pub told: &'a AtomicU64,
}

impl LoadClient<'_> {
    /// Asks until the connection breaks.
    pub fn run(mut self, pattern: Pattern, binary: SocketAddr, http: SocketAddr) -> RequestLog {
        let mut log = RequestLog::default();
        if pattern == Pattern::Http {
            let Err(broken) = self.run_http(http, &mut log);
            if broken.kind() == io::ErrorKind::InvalidData {
                log.violations.push(format!("HTTP: {broken}"));
            }
        } else {
            let Err(broken) = self.run_binary(pattern, binary, &mut log);
            if !matches!(broken, ClientError::Closed { .. } | ClientError::Io(_)) {
                log.violations.push(format!("{pattern:?}: {broken}"));
            }
        }
        log
    }

    fn run_binary(
        &mut self,
        pattern: Pattern,
        address: SocketAddr,
        log: &mut RequestLog,
    ) -> Result<Infallible, ClientError> {
        let mut client = Client::connect(address, SERVICE)?;
        let window = match pattern {
            Pattern::Singles => 16,
            _ => 4,
        };
        let mut waiting: Vec<(u64, Purpose)> = Vec::new();
        let mut open_holds: Vec<Move> = Vec::new();
        let mut answered: Vec<usize> = Vec::new();
        loop {
            while waiting.len() < window {
                let purpose = match answered.is_empty() {
                    false if pattern == Pattern::Singles && self.chance.percent(10) => {
                        let earlier = *self.chance.pick(&answered);
                        self.once_more(earlier)
                    }
                    _ => Purpose::New(log.asked.len()),
                };
                let correlation = match &purpose {
                    Purpose::New(_) => {
                        let question = self.next_question(pattern, log.asked.len(), &mut open_holds);
                        let sent = question.send(&mut client, self.show);
                        // Remembered even if it could not be sent: part of it may have been.
                        log.asked.push(Asked { question, answer: None });
                        sent?
                    }
                    Purpose::Again(earlier) => log.asked[*earlier].question.send(&mut client, self.show)?,
                    Purpose::Clash(earlier) => clash(&log.asked[*earlier].question).send(&mut client, self.show)?,
                };
                waiting.push((correlation, purpose));
            }
            let (correlation, reply) = client.receive()?;
            let at = waiting.iter().position(|(of, _)| *of == correlation);
            let Some(at) = at else {
                log.violations.push(format!("a reply to {correlation}, which was not asked: {reply:?}"));
                continue;
            };
            let (_, purpose) = waiting.swap_remove(at);
            let Some(told) = outcomes(reply) else { continue };
            self.told.fetch_add(told.len() as u64, Ordering::Relaxed);
            match purpose {
                Purpose::New(index) => {
                    let asked = &mut log.asked[index];
                    if let Question::Holds(holds) = &asked.question {
                        let placed = holds.iter().zip(&told).filter(|(_, outcome)| outcome.is_done());
                        open_holds.extend(placed.map(|(hold, _)| hold.clone()));
                    }
                    asked.answer = Some(told);
                    answered.push(index);
                }
                Purpose::Again(earlier) => {
                    let first = log.asked[earlier].answer.as_ref().expect("only answered questions are asked again");
                    if let Err(violation) = same_again(&first[0], &told[0]) {
                        log.violations.push(format!("{}: {violation}", log.asked[earlier].question.id(0)));
                    }
                }
                Purpose::Clash(earlier) => {
                    let reused = matches!(&told[0], Outcome::Refused { code, .. } if code == "id_reused");
                    if !reused {
                        let id = log.asked[earlier].question.id(0);
                        log.violations.push(format!("{id} with another amount: id_reused expected, {told:?}"));
                    }
                }
            }
        }
    }

    fn once_more(&mut self, earlier: usize) -> Purpose {
        if self.chance.percent(50) { Purpose::Again(earlier) } else { Purpose::Clash(earlier) }
    }

    fn next_question(&mut self, pattern: Pattern, number: usize, open_holds: &mut Vec<Move>) -> Question {
        let name = self.name.clone();
        let id = move |item: u64| format!("{name}-{number}-{item}");
        let (show, chance) = (self.show, &mut self.chance);
        match pattern {
            Pattern::Singles | Pattern::Http => Question::Transfers(vec![show.random_move(id(0), chance)]),
            Pattern::Batches => {
                let count = 1 + chance.below(300);
                Question::Transfers((0..count).map(|item| show.random_move(id(item), chance)).collect())
            }
            Pattern::Linked => {
                let first = show.random_move(id(0), chance);
                // Linked transfers must share their debit's shard; one account is on one shard for sure.
                let debit = first.debit;
                let more = (1..2 + chance.below(4)).map(|item| {
                    std::iter::repeat_with(|| show.random_move(id(item), chance))
                        .find(|other| other.credit != debit)
                        .map(|other| Move { debit, ..other })
                        .expect("the repetition does not end")
                });
                let more: Vec<_> = more.collect();
                Question::Linked(std::iter::once(first).chain(more).collect())
            }
            Pattern::Holds => {
                let settled = open_holds.len().min(1 + chance.below(20) as usize);
                let settled = if chance.percent(50) { settled } else { 0 };
                let settled = open_holds.split_off(open_holds.len() - settled);
                match chance.below(3) {
                    _ if settled.is_empty() => {
                        let count = 1 + chance.below(20);
                        Question::Holds((0..count).map(|item| show.random_move(id(item), chance)).collect())
                    }
                    0 => Question::Voids(settled),
                    _ => {
                        let part = |hold: Move| (1 + chance.below(hold.amount), hold);
                        Question::Posts(settled.into_iter().map(part).map(|(part, hold)| (hold, part)).collect())
                    }
                }
            }
        }
    }

    fn run_http(&mut self, address: SocketAddr, log: &mut RequestLog) -> io::Result<Infallible> {
        let mut client = Http::connect(address)?;
        loop {
            let question = self.next_question(Pattern::Http, log.asked.len(), &mut Vec::new());
            let Question::Transfers(moves) = &question else { unreachable!("HTTP visitors only transfer") };
            let Transfer { id, debit, credit, amount, memo, .. } = moves[0].as_transfer(self.show);
            let body = json!({ "id": id, "debit": debit, "credit": credit, "amount": amount, "memo": memo });
            log.asked.push(Asked { question, answer: None });
            let answer = client.post("/v1/transfers", &body)?;
            match http_outcome(&answer) {
                Ok(Some(outcome)) => {
                    self.told.fetch_add(1, Ordering::Relaxed);
                    log.asked.last_mut().expect("just pushed").answer = Some(vec![outcome]);
                }
                Ok(None) => {}
                Err(violation) => log.violations.push(violation),
            }
        }
    }
}

/// What a request in flight is for; questions by their index in the log.
enum Purpose {
    /// Asked for the first time.
    New(usize),
    /// An answered one, with the same content.
    Again(usize),
    /// The id of an answered one, with another amount.
    Clash(usize),
}

/// The same id with other content.
fn clash(question: &Question) -> Question {
    let Question::Transfers(moves) = question else { unreachable!("only single transfers are asked again") };
    Question::Transfers(vec![Move { amount: moves[0].amount + 1, ..moves[0].clone() }])
}

/// Whether `again` is what must be said when a question that was answered with `first` is repeated.
pub fn same_again(first: &Outcome, again: &Outcome) -> Result<(), String> {
    let fits = match first {
        Outcome::Applied | Outcome::Duplicate => *again == Outcome::Duplicate,
        Outcome::Refused { code, available, .. } => matches!(
            again,
            Outcome::Refused { code: same, available: then, .. } if same == code && then == available
        ),
    };
    if fits { Ok(()) } else { Err(format!("the first answer was {first:?}, now it is {again:?}")) }
}

/// `None` for answers that leave open what was done.
fn http_outcome(answer: &Answer) -> Result<Option<Outcome>, String> {
    match answer.status {
        201 => Ok(Some(Outcome::Applied)),
        200 => Ok(Some(Outcome::Duplicate)),
        404 | 409 => Ok(Some(Outcome::Refused {
            code: answer.code().to_owned(),
            available: answer.body["available"].as_u64().unwrap_or(0),
            remembered: answer.body["decided_at_ms"].as_u64(),
        })),
        503 => Ok(None),
        _ => Err(format!("HTTP answered {answer:?}")),
    }
}

/// The connection type of all checks.
pub type Connection = Client<TcpStream>;
