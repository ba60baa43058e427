//! A request of the load, its answer, and how the same request is sent again.

use std::net::TcpStream;

use tidegate_client::{Client, ClientError, Hold, Outcome, Reply};

use crate::show::{Move, Show};

/// Holds outlive the test; a hold that expires would make outcomes depend on the clock.
pub const HOLD_LIFE_MS: u64 = 3_600_000;

/// Items of one kind, asked with one request.
#[derive(Clone, Debug)]
pub enum Question {
    /// Transfers one by one.
    Transfers(Vec<Move>),
    /// Transfers all or nothing.
    Linked(Vec<Move>),
    /// Holds one by one.
    Holds(Vec<Move>),
    /// Posts of holds that were acknowledged: the hold, and how much of it.
    Posts(Vec<(Move, u64)>),
    /// Voids of holds that were acknowledged.
    Voids(Vec<Move>),
}

/// A question with the answer, if one came before the kill.
#[derive(Debug)]
pub struct Asked {
    /// What was asked.
    pub question: Question,
    /// One outcome per item; `None` if no reply came, or one that leaves open what was done.
    pub answer: Option<Vec<Outcome>>,
}

impl Question {
    /// Puts the question to the binary door.
    pub fn send(&self, client: &mut Client<TcpStream>, show: &Show) -> Result<u64, ClientError> {
        match self {
            Question::Transfers(moves) | Question::Linked(moves) => {
                let transfers: Vec<_> = moves.iter().map(|one| one.as_transfer(show)).collect();
                client.send_transfers(&transfers, matches!(self, Question::Linked(_)))
            }
            Question::Holds(moves) => {
                let hold = |one| Hold { transfer: Move::as_transfer(one, show), expires_in_ms: HOLD_LIFE_MS };
                client.send_holds(&moves.iter().map(hold).collect::<Vec<_>>(), false)
            }
            Question::Posts(posts) => {
                let posts: Vec<_> = posts.iter().map(|(hold, amount)| (&*hold.id, Some(*amount))).collect();
                client.send_posts(&posts)
            }
            Question::Voids(holds) => client.send_voids(&holds.iter().map(|hold| &*hold.id).collect::<Vec<_>>()),
        }
    }

    /// How many items it has.
    pub fn len(&self) -> usize {
        match self {
            Question::Transfers(moves) | Question::Linked(moves) | Question::Holds(moves) | Question::Voids(moves) => {
                moves.len()
            }
            Question::Posts(posts) => posts.len(),
        }
    }

    /// The id of an item.
    pub fn id(&self, item: usize) -> &str {
        match self {
            Question::Transfers(moves) | Question::Linked(moves) | Question::Holds(moves) | Question::Voids(moves) => {
                &moves[item].id
            }
            Question::Posts(posts) => &posts[item].0.id,
        }
    }

    /// Whether it settles holds, which must be known before.
    pub fn settles(&self) -> bool {
        matches!(self, Question::Posts(_) | Question::Voids(_))
    }
}

/// The outcomes in a reply; `None` for an error, which leaves open what was done.
pub fn outcomes(reply: Reply) -> Option<Vec<Outcome>> {
    match reply {
        Reply::Outcomes(outcomes) => Some(outcomes),
        Reply::Error(_) => None,
        other => panic!("outcomes expected, {other:?} received"),
    }
}
