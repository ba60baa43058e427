//! The ledger of this server.

use tidegate_ledger::message::{HoldRequest, Reply, Request, TimeSpan};
use tidegate_ledger::router::Router;
use tidegate_machines::IdSpace;
use tidegate_machines::ledger::{HistoryRow, HoldState, HoldView, Outcome, Refusal, RowKind};
use tidegate_pacer::keeper::LedgerSeen;
use tidegate_runtime::pump::EdgeHandle;

use super::money::{Decided, HoldOf, Ledger, OpenHold, Post, PostPage, Refused, code_of};

/// The id space of the holds. The configuration gives no service one that begins so.
const ID_SPACE: &str = "tidegate.pacer";
/// How long the ledger keeps what is held for a lease. A lease is settled when its last bid's deadline has passed, also
/// after a crash, and what no lease is of is looked for at each start. So this is twice as long as a clock may be ahead
/// at a start: one that is ahead by months ends no hold whose wins are not paid.
const HOLD_MS: u64 = 800 * 86_400_000;
/// Holds that are asked for at once.
const PAGE: u32 = 1_000;

/// The ledger of this server.
pub struct Here {
    router: EdgeHandle<Router>,
}

impl Here {
    /// As it is reached.
    pub fn new(router: EdgeHandle<Router>) -> Here {
        Here { router }
    }

    async fn ask(&self, request: Request) -> Result<Vec<Decided>, String> {
        let space = IdSpace::new(ID_SPACE).expect("a plain name");
        match self.router.ask(request.in_space(&space).into()).await {
            Ok(Reply::Outcomes(outcomes)) => Ok(outcomes.into_iter().map(decided).collect()),
            Ok(Reply::Unavailable(why)) => Err(format!("{why:?}")),
            Ok(other) => unreachable!("holds have outcomes: {other:?}"),
            Err(unasked) => Err(format!("{unasked:?}")),
        }
    }
}

impl Ledger for Here {
    async fn place(&self, holds: &[HoldOf<'_>]) -> Result<Vec<Decided>, String> {
        let holds = holds.iter().map(|HoldOf { id, money }| HoldRequest {
            id: id.clone(),
            debit: money.account.clone(),
            credit: money.spend.clone(),
            amount: money.amount.0,
            expires_in_ms: HOLD_MS,
            memo: "".into(),
            code: code_of(money),
            user_data: "".into(),
            open_holds_max: u32::MAX,
        });
        self.ask(Request::PlaceHolds(holds.collect())).await
    }

    async fn post(&self, posts: &[(Box<str>, u64)]) -> Result<Vec<Decided>, String> {
        self.ask(Request::PostHolds(posts.iter().map(|(id, amount)| (id.clone(), Some(*amount))).collect())).await
    }

    async fn void(&self, ids: &[Box<str>]) -> Result<Vec<Decided>, String> {
        self.ask(Request::VoidHolds(ids.to_vec())).await
    }

    /// The id space is this pacer's alone.
    async fn own(&self, account: &str) -> Result<Vec<OpenHold>, String> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let request = Request::ListHolds { account: account.into(), after, limit: PAGE };
            let (holds, next) = match self.router.ask(request.into()).await {
                Ok(Reply::Holds { holds, next }) => (holds, next),
                Ok(Reply::Refused(Refusal::AccountNotFound)) => return Ok(Vec::new()),
                Ok(other) => return Err(format!("{other:?}")),
                Err(unasked) => return Err(format!("{unasked:?}")),
            };
            for HoldView { id, credit, amount, .. } in holds {
                if let (ID_SPACE, id) = IdSpace::split(&id) {
                    all.push(OpenHold { id: id.into(), credit, amount });
                }
            }
            if next.is_none() {
                return Ok(all);
            }
            after = next;
        }
    }

    async fn posts(&self, account: &str, before: Option<Box<str>>, rows: u32) -> Result<PostPage, String> {
        let request = Request::ReadHistory { id: account.into(), before, limit: rows, times: TimeSpan::ALL };
        let (rows, next) = match self.router.ask(request.into()).await {
            Ok(Reply::History { rows, next, .. }) => (rows, next),
            Ok(Reply::Refused(Refusal::AccountNotFound)) => return Ok(PostPage::default()),
            Ok(other) => return Err(format!("{other:?}")),
            Err(unasked) => return Err(format!("{unasked:?}")),
        };
        let is_post =
            |row: &HistoryRow| row.kind == RowKind::Post && *row.debit == *account && *row.id_space == *ID_SPACE;
        let (read, posts) = (rows.len(), rows.into_iter().filter(is_post));
        let posts = posts.map(|row| Post { id: row.id, code: row.code, amount: row.amount });
        Ok(PostPage { posts: posts.collect(), rows: read, next })
    }

    async fn posted(&self, id: &str) -> Result<Option<u64>, String> {
        let space = IdSpace::new(ID_SPACE).expect("a plain name");
        match self.router.ask(Request::ReadHold { id: id.into() }.in_space(&space).into()).await {
            Ok(Reply::Hold { hold, .. }) => match hold.state {
                HoldState::Posted { amount } => Ok(Some(amount)),
                _ => Ok(None),
            },
            Ok(Reply::Refused(Refusal::HoldNotFound)) => Ok(None),
            Ok(other) => Err(format!("{other:?}")),
            Err(unasked) => Err(format!("{unasked:?}")),
        }
    }

    /// It is where this is asked: what can be wrong with it shows when it is asked for money.
    async fn look(&self) -> LedgerSeen {
        LedgerSeen::Untold
    }
}

fn decided(outcome: Outcome) -> Decided {
    let Some(refusal) = outcome.refusal() else { return Ok(()) };
    let available = if let Refusal::InsufficientFunds { available } = refusal { available } else { 0 };
    Err(Refused { code: refusal.code().to_owned(), available })
}
