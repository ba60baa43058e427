//! The ledger's room at the HTTP door of one edge thread: its routes, and how a request is checked and sent to the
//! ledger.

use std::ops::Deref;
use std::sync::{Arc, Mutex};

use axum::extract::Path;
use axum::http::Method;
use axum::routing::{get, post};
use tidegate_ledger::changes::{After, ChangeFilter};
use tidegate_ledger::message::{CallerRequest, Reply, Request, Unavailable};
use tidegate_machines::IdSpace;
use tidegate_machines::ledger::AccountView;
use tidegate_telemetry::SharedGauge;

use super::address::InPath;
use super::backend::Backend;
use super::limits::{CHANGE_PAGE_WAIT_MAX, CHANGE_PAGES_OF_CALLER_MAX};
use super::metrics::LedgerHttpMetrics;
use super::page_turns::{PageLimits, PageTurn, PageTurns, TooManyPages};
use super::transfers::TRANSFERS;
use super::{accounts, assets, audit, changes, history_time, holds, openapi, settings, transfers};
use crate::auth::gate::{self, NotFound, Verdict};
use crate::auth::{AccountKinds, Identity};
use crate::http::{Door, HttpRoom, Routes, StreamPlace, StreamPlaces};
use crate::json::{Problem, ProblemCode, codes};
use crate::ledger_json::refusal_codes;
use crate::turns::CallerName;

/// The ledger before it has a door.
pub struct LedgerRoom<B> {
    backend: B,
    metrics: LedgerHttpMetrics,
}

impl<B: Backend> LedgerRoom<B> {
    /// The ledger behind `backend`.
    pub fn new(backend: B, metrics: LedgerHttpMetrics) -> LedgerRoom<B> {
        LedgerRoom { backend, metrics }
    }
}

impl<B: Backend> HttpRoom for LedgerRoom<B> {
    fn name(&self) -> &'static str {
        "ledger"
    }

    fn openapi(&self) -> utoipa::openapi::OpenApi {
        openapi::document()
    }

    fn codes(&self) -> Vec<ProblemCode> {
        let own = [
            changes::CURSOR_UNKNOWN,
            changes::CURSOR_OF_OTHER_HISTORY,
            changes::JOURNAL_UNREADABLE,
            history_time::HISTORY_TOO_LONG,
            history_time::TIME_TO_COME,
            history_time::TIME_UNCERTAIN,
        ];
        refusal_codes().into_iter().chain(own).collect()
    }

    fn routes(self: Box<Self>, door: &Door) -> Routes {
        let ledger = Ledger::new(door.clone(), *self);
        let hot = ledger.clone();
        Routes::new()
            .route("/v1/accounts", post(accounts::open::<B>).get(accounts::list::<B>).with_state(ledger.clone()))
            .route(
                "/v1/accounts/{id}",
                get(accounts::read::<B>).patch(settings::change_account::<B>).with_state(ledger.clone()),
            )
            .route("/v1/accounts/{id}/transfers", get(accounts::history::<B>).with_state(ledger.clone()))
            .route("/v1/accounts/{id}/holds", get(settings::list_holds::<B>).with_state(ledger.clone()))
            .route("/v1/transfers/{id}", get(transfers::read_transfer::<B>).with_state(ledger.clone()))
            .route(
                "/v1/assets",
                post(assets::declare_asset::<B>).get(assets::list_assets::<B>).with_state(ledger.clone()),
            )
            // A hold may be called like these; reading it is documented at its own path.
            .route(
                "/v1/holds/post",
                post(holds::post_many::<B>)
                    .get(|ledger, query, headers| holds::read_hold::<B>(ledger, named("post"), query, headers))
                    .with_state(ledger.clone()),
            )
            .route(
                "/v1/holds/void",
                post(holds::void_many::<B>)
                    .get(|ledger, query, headers| holds::read_hold::<B>(ledger, named("void"), query, headers))
                    .with_state(ledger.clone()),
            )
            .route("/v1/holds/{id}", get(holds::read_hold::<B>).with_state(ledger.clone()))
            .route(TRANSFERS, post(transfers::submit::<B>).with_state(ledger.clone()))
            .route("/v1/holds", post(holds::place::<B>).with_state(ledger.clone()))
            .route("/v1/holds/{id}/post", post(holds::post::<B>).with_state(ledger.clone()))
            .route("/v1/holds/{id}/void", post(holds::void::<B>).with_state(ledger.clone()))
            .route("/v1/changes", get(changes::changes::<B>).with_state(ledger.clone()))
            .route("/v1/audit", get(audit::audit::<B>).post(audit::run_audit::<B>).with_state(ledger))
            .hot(Method::POST, TRANSFERS, move |head, body| {
                let ledger = hot.clone();
                Box::pin(async move { ledger.transfer(&head, body).await.unwrap_or_else(Problem::whole_response) })
            })
    }
}

/// An id that a path of its own names.
fn named(id: &str) -> InPath {
    Ok(Path(id.to_owned()))
}

/// The ledger behind the door of one edge thread. Cheap to clone.
pub struct Ledger<B> {
    shared: Arc<Shared<B>>,
}

/// The fields behind a [`Ledger`]. Only this thread locks the mutex. It is there because axum requires its state to be
/// `Sync`.
pub struct Shared<B> {
    pub(super) door: Door,
    pub(super) metrics: LedgerHttpMetrics,
    backend: B,
    kinds: Mutex<AccountKinds>,
    change_places: StreamPlaces,
    history_places: StreamPlaces,
    page_turns: Arc<PageTurns>,
}

/// What is read as a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// A history.
    History,
    /// Changes.
    Changes,
}

impl<B> Clone for Ledger<B> {
    fn clone(&self) -> Self {
        Ledger { shared: self.shared.clone() }
    }
}

impl<B> Deref for Ledger<B> {
    type Target = Shared<B>;
    fn deref(&self) -> &Shared<B> {
        &self.shared
    }
}

impl<B: Backend> Ledger<B> {
    fn new(door: Door, room: LedgerRoom<B>) -> Ledger<B> {
        let kinds = Mutex::new(AccountKinds::new(door.limits().kinds_cached_max));
        let LedgerRoom { backend, metrics } = room;
        let limits = *door.limits();
        let places =
            |all_max, open: &SharedGauge| door.stream_places(all_max, limits.streams_for_services, open.clone());
        let change_places = places(limits.change_streams_max, &metrics.change_streams);
        let history_places = places(limits.history_streams_max, &metrics.history_streams);
        let shared = Shared {
            metrics,
            backend,
            kinds,
            change_places,
            history_places,
            page_turns: PageTurns::new(PageLimits {
                at_once: limits.change_pages_max,
                for_services: limits.change_pages_for_services,
                of_caller_max: CHANGE_PAGES_OF_CALLER_MAX,
            }),
            door,
        };
        Ledger { shared: Arc::new(shared) }
    }

    /// Asks the ledger, without a look at rights.
    async fn ask(&self, request: CallerRequest) -> Result<Reply, Problem> {
        match self.door.in_time(self.backend.call(request)).await? {
            Reply::Unavailable(unavailable) => Err(unavailable.into()),
            reply => Ok(reply),
        }
    }

    /// Asks the ledger on behalf of `caller`, if they may.
    pub async fn ask_for(&self, caller: &Identity, request: Request) -> Result<Reply, Problem> {
        self.ask_in(caller, caller.id_space(), request).await
    }

    /// The same with ids of another id space than the caller's.
    pub async fn ask_in(&self, caller: &Identity, id_space: &IdSpace, request: Request) -> Result<Reply, Problem> {
        let _place = caller.admit(&request)?;
        self.open_wallets(caller).await?;
        let reply = match self.permit(caller, &request).await? {
            Some(missing) if missing.item.is_some() => {
                caller.answered(&Reply::Refused(missing.refusal));
                return Err(missing.into());
            }
            Some(missing) => Reply::Refused(missing.refusal),
            None => gate::shown(caller, self.ask(caller.asks(caller.send_in(request, id_space))).await?),
        };
        caller.answered(&reply);
        Ok(reply)
    }

    /// Opens wallets that are to be before their owner asks anything else.
    async fn open_wallets(&self, caller: &Identity) -> Result<(), Problem> {
        let Some(opening) = caller.to_open() else { return Ok(()) };
        for (place, request) in opening.requests() {
            opening.answered(place, &self.ask(caller.asks(request)).await?);
        }
        Ok(())
    }

    /// A place for one more stream of `caller`. If all are taken, whoever has the most loses one.
    pub fn place_for_stream(&self, caller: &Identity, kind: StreamKind) -> Result<StreamPlace, Problem> {
        match kind {
            StreamKind::History => self.history_places.take(caller),
            StreamKind::Changes => self.change_places.take(caller),
        }
    }

    /// Waits until a page of changes may be read for `caller`.
    pub async fn turn_for_page(&self, caller: &Identity) -> Result<PageTurn, Problem> {
        let turn = self.page_turns.take(CallerName::of_identity(caller));
        let detail = match tokio::time::timeout(CHANGE_PAGE_WAIT_MAX, turn).await {
            Ok(Ok(turn)) => return Ok(turn),
            Ok(Err(TooManyPages)) => "this caller waits for as many pages of changes as it may; ask one after another",
            Err(_) => "too many pages of changes are being read; ask again later",
        };
        Err(Problem::new(codes::BUSY, detail).retry_after_s(1))
    }

    /// Opens a stream of replies, without a look at rights.
    pub fn open(&self, request: CallerRequest, window: usize) -> Result<B::Replies, Problem> {
        self.backend.open(request, window).map_err(Problem::from)
    }

    /// Reads changes for `caller`, without a look at rights but those of `filter`.
    pub fn changes(&self, caller: &Identity, after: After, filter: ChangeFilter) -> Result<B::Changes, Problem> {
        self.backend.changes(CallerName::of_identity(caller), after, filter).map_err(Problem::from)
    }

    /// Looks whether `caller` may ask `request`. `Some` when an account whose kind decides it does not exist, or is
    /// none that they may know: what the request is refused with.
    pub async fn permit(&self, caller: &Identity, request: &Request) -> Result<Option<NotFound>, Problem> {
        match self.verdict(caller, request) {
            Verdict::Allowed => return Ok(None),
            Verdict::Denied(detail) => {
                caller.denied();
                return Err(Problem::forbidden(detail));
            }
            Verdict::NeedsKinds(accounts) => {
                if let Some(refusal) = self.learn_kinds(caller, accounts, request).await? {
                    return Ok(Some(refusal));
                }
            }
        }
        match self.verdict(caller, request) {
            Verdict::Allowed => Ok(None),
            Verdict::Denied(detail) => Err(Problem::forbidden(detail)),
            // Forgotten between learning and asking: more kinds are asked for at once than the cache holds.
            Verdict::NeedsKinds(_) => Err(Unavailable::Busy.into()),
        }
    }

    fn verdict(&self, caller: &Identity, request: &Request) -> Verdict {
        let mut kinds = self.kinds.lock().expect("no thread panics while it holds the cache");
        gate::check(caller, request, &mut kinds)
    }

    /// Finds out the kinds of `accounts`. `Some` when one is missing or no collector: what the request is refused with.
    async fn learn_kinds(
        &self,
        caller: &Identity,
        accounts: Vec<Box<str>>,
        request: &Request,
    ) -> Result<Option<NotFound>, Problem> {
        for id in accounts {
            match self.ask(caller.asks(Request::ReadAccount { id: id.clone() })).await? {
                Reply::Account(account) if self.learn(&account) => {}
                Reply::Account(_) | Reply::Refused(_) => return Ok(Some(gate::not_found(request, &id))),
                _ => return Err(Problem::unexpected_reply()),
            }
        }
        Ok(None)
    }

    fn learn(&self, account: &AccountView) -> bool {
        self.kinds.lock().expect("no thread panics while it holds the cache").learn(&account.id, account.kind)
    }
}
