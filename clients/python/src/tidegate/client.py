"""The ledger's HTTP API as methods.

Promise: a request whose outcome is unknown is sent again, with the same ids and content, until it has an answer or its
deadline passes. The ledger applies an id once, so nothing is done twice.
"""

from __future__ import annotations

import json
import urllib.parse
from typing import Any, Iterator, Mapping, Optional, Sequence

from .changes import Follower
from .connection import Connections
from .decoding import decode, encode
from .errors import TidegateError
from .ids import id_or_new
from .models import (
    Account,
    AccountKind,
    AccountRequest,
    AccountStatus,
    Asset,
    Audit,
    BalanceAt,
    Change,
    HistoryRow,
    HoldRequest,
    HoldState,
    Outcome,
    Token,
    TransferRequest,
    TransferState,
)
from .retry import Retry

FOR_EVER = Retry(deadline_s=None)


class _Keep:
    """What a limit is told that stays as it is."""


KEEP = _Keep()


class Client:
    """A client of one server, good for many threads.

    `url` is like `http://localhost:8080`, `token` a service's token, or call `log_in`. `timeout_s` is for one attempt,
    `retry` for a request with all its attempts. What the server refuses is raised as TidegateError; in a batch it
    stands in the line of its outcome.
    """

    def __init__(
        self, url: str, token: Optional[str] = None, *, timeout_s: float = 15.0, retry: Retry = Retry()
    ) -> None:
        self.connections, self.token, self.retry = Connections(url, timeout_s), token, retry
        self._password: Optional[tuple[str, str]] = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection of this thread."""
        self.connections.close()

    def log_in(self, user: str, password: str) -> Token:
        """Logs in. When the token expires, the client does it again by itself."""
        given = decode(Token, self._ask("POST", "/v1/login", {"user": user, "password": password}, guarded=False))
        self.token, self._password = given.token, (user, password)
        return given

    # ------------------------------------------------------------------------------------------------ accounts

    def open_account(self, id: str, *, asset: str, kind: AccountKind) -> Account:
        """Opens an account; one that is open already with the same asset and kind is returned."""
        return decode(Account, self._ask("POST", "/v1/accounts", {"id": id, "asset": asset, "kind": kind}))

    def open_accounts(self, accounts: Sequence[AccountRequest]) -> list[Outcome]:
        """Opens up to 8,190 accounts; an outcome for each, in this order."""
        return self._outcomes("/v1/accounts", {"accounts": [encode(account) for account in accounts]})

    def account(self, id: str) -> Account:
        """An account's figures."""
        return decode(Account, self._ask("GET", f"/v1/accounts/{_quoted(id)}"))

    def balance_at(self, id: str, at: str | int) -> BalanceAt:
        """An account's balance at a time: RFC 3339, or milliseconds since the epoch."""
        query: dict[str, Any] = {"at": at}
        while True:
            try:
                return decode(BalanceAt, self._ask("GET", f"/v1/accounts/{_quoted(id)}", query=query))
            except TidegateError as error:
                # The server looks at a bounded number of rows in one request.
                if error.code != "history_too_long" or "next" not in error.members:
                    raise
                query["before"] = error.members["next"]

    def accounts(self, prefix: str = "", *, page_rows: int = 1000) -> Iterator[Account]:
        """All accounts that this token may see whose ids begin with `prefix`, by id, page by page."""
        query = {"prefix": prefix, "limit": page_rows}
        return (decode(Account, row) for row in self._pages("/v1/accounts", query, "accounts", "after"))

    def history(
        self,
        id: str,
        *,
        from_time: Optional[str | int] = None,
        to_time: Optional[str | int] = None,
        page_rows: int = 1000,
    ) -> Iterator[HistoryRow]:
        """An account's history, newest first, page by page. Times are RFC 3339 or milliseconds since the epoch."""
        query = {"from_time": from_time, "to_time": to_time, "limit": page_rows}
        path = f"/v1/accounts/{_quoted(id)}/transfers"
        return (decode(HistoryRow, row) for row in self._pages(path, query, "transfers", "before"))

    def change_account(
        self,
        id: str,
        *,
        status: Optional[AccountStatus] = None,
        balance_min: int | None | _Keep = KEEP,
        balance_max: int | None | _Keep = KEEP,
        metadata: Optional[Mapping[str, Optional[str]]] = None,
        if_revision: Optional[int] = None,
    ) -> Account:
        """Freezes, closes, limits or describes an account; what is not named stays as it is. A limit of None is taken
        away, a key of metadata with None removed. With `if_revision`, a request whose first answer was lost may be
        refused (`revision_stale`) although it was done: read the account."""
        limits = {"balance_min": balance_min, "balance_max": balance_max}
        body: dict[str, Any] = {name: limit for name, limit in limits.items() if not isinstance(limit, _Keep)}
        others = {"status": status, "metadata": metadata, "if_revision": if_revision}
        body.update({name: value for name, value in others.items() if value is not None})
        return decode(Account, self._ask("PATCH", f"/v1/accounts/{_quoted(id)}", body))

    def open_holds(self, id: str, *, page_rows: int = 1000) -> Iterator[HoldState]:
        """The open holds on an account, in the order of their placement, page by page."""
        path = f"/v1/accounts/{_quoted(id)}/holds"
        return (decode(HoldState, row) for row in self._pages(path, {"limit": page_rows}, "holds", "after"))

    def declare_asset(self, name: str, decimals: int) -> None:
        """Says once how many digits of an amount stand behind the point. Amounts stay integers."""
        self._ask("POST", "/v1/assets", {"name": name, "decimals": decimals})

    def assets(self) -> list[Asset]:
        """All assets, and for those who may read all accounts, how much of each there is."""
        return [decode(Asset, row) for row in self._ask("GET", "/v1/assets")["assets"]]

    # ------------------------------------------------------------------------------------- transfers and holds

    def transfer(self, *, debit: str, credit: str, amount: int, id: Optional[str] = None, **further: Any) -> Outcome:
        """Moves `amount` minor units, once for this id. With None a new id is made, which the outcome has: a second
        call then moves money a second time. For what you may send again, and to be safe over a crash of your program,
        make the id with `new_id` and store it first. An empty id is a ValueError."""
        request = TransferRequest(id=id_or_new(id), debit=debit, credit=credit, amount=amount, **further)
        return decode(Outcome, self._ask("POST", "/v1/transfers", encode(request)))

    def transfers(self, transfers: Sequence[TransferRequest], *, linked: bool = False) -> list[Outcome]:
        """Up to 8,190 transfers; an outcome for each, in this order. If they are linked, all are applied or none."""
        body: dict[str, Any] = {"transfers": [encode(transfer) for transfer in transfers]}
        return self._outcomes("/v1/transfers", {**body, "linked": True} if linked else body)

    def transfer_state(self, id: str, *, id_space: Optional[str] = None) -> TransferState:
        """What became of a transfer; with `id_space`, of one whose id a viewer or another service chose."""
        query = {"id_space": id_space}
        return decode(TransferState, self._ask("GET", f"/v1/transfers/{_quoted(id)}", query=query))

    def place_hold(
        self, *, debit: str, credit: str, amount: int, expires_in_ms: int, id: Optional[str] = None, **further: Any
    ) -> Outcome:
        """Reserves `amount` of `debit` for a later post to `credit`. The id is as that of `transfer`."""
        request = HoldRequest(
            id=id_or_new(id), debit=debit, credit=credit, amount=amount, expires_in_ms=expires_in_ms, **further
        )
        return decode(Outcome, self._ask("POST", "/v1/holds", encode(request)))

    def post_hold(self, id: str, amount: Optional[int] = None, *, id_space: Optional[str] = None) -> Outcome:
        """Moves what is held, or a part; the rest is available again. With `id_space`, of a hold whose id a viewer or
        another service chose; likewise below."""
        body = {} if amount is None else {"amount": amount}
        query = {"id_space": id_space}
        return decode(Outcome, self._ask("POST", f"/v1/holds/{_quoted(id)}/post", body, query=query))

    def void_hold(self, id: str, *, id_space: Optional[str] = None) -> Outcome:
        """Makes what is held available again."""
        return decode(Outcome, self._ask("POST", f"/v1/holds/{_quoted(id)}/void", {}, query={"id_space": id_space}))

    def place_holds(self, holds: Sequence[HoldRequest], *, linked: bool = False) -> list[Outcome]:
        """Up to 8,190 holds; an outcome for each, in this order. If they are linked, all are placed or none."""
        body: dict[str, Any] = {"holds": [encode(hold) for hold in holds]}
        return self._outcomes("/v1/holds", {**body, "linked": True} if linked else body)

    def post_holds(self, amounts: Mapping[str, Optional[int]], *, id_space: Optional[str] = None) -> list[Outcome]:
        """Posts up to 8,190 holds: an amount for each id, or None for all that it holds."""
        posts = [{"id": id} if amount is None else {"id": id, "amount": amount} for id, amount in amounts.items()]
        return self._outcomes("/v1/holds/post", {"posts": posts}, {"id_space": id_space})

    def void_holds(self, ids: Sequence[str], *, id_space: Optional[str] = None) -> list[Outcome]:
        """Voids up to 8,190 holds."""
        return self._outcomes("/v1/holds/void", {"ids": list(ids)}, {"id_space": id_space})

    def hold(self, id: str, *, id_space: Optional[str] = None) -> HoldState:
        """A hold and where it is in its life."""
        return decode(HoldState, self._ask("GET", f"/v1/holds/{_quoted(id)}", query={"id_space": id_space}))

    # ------------------------------------------------------------------------------------------ changes, audit

    def changes(
        self,
        after: str = "start",
        *,
        accounts: Optional[str] = None,
        kinds: Sequence[str] = (),
        follow: bool = True,
        retry: Retry = FOR_EVER,
    ) -> Iterator[Change]:
        """What happened behind a cursor (or `start`, `now`), and what happens later unless `follow` is false. After a
        broken connection it goes on by itself. Keep the cursor of the last change that you have worked with."""
        query = {"after": after, "accounts": accounts, "kinds": ",".join(kinds) or None, "follow": follow}
        return iter(Follower(self, query, retry))

    def audit(self) -> Audit:
        """The last reconciliation of every shard."""
        return decode(Audit, self._ask("GET", "/v1/audit"))

    # ------------------------------------------------------------------------------------------------- asking

    def headers(self) -> dict[str, str]:
        """The headers that say who asks."""
        return {"authorization": f"Bearer {self.token}"} if self.token else {}

    def target(self, path: str, query: dict[str, Any]) -> str:
        """Path and query of a request."""
        words = {True: "true", False: "false"}
        sent = {name: words[value] if isinstance(value, bool) else value for name, value in query.items()}
        sent = {name: value for name, value in sent.items() if value is not None}
        return f"{path}?{urllib.parse.urlencode(sent)}" if sent else path

    def log_in_again(self) -> bool:
        """Gets a new token; False if there is no password for it."""
        if self._password is not None:
            self.log_in(*self._password)
        return self._password is not None

    def _ask(
        self, method: str, path: str, body: Any = None, *, query: Optional[dict[str, Any]] = None, guarded: bool = True
    ) -> Any:
        """The answer to a request, which is sent as often as it needs, with the same bytes."""
        target = self.target(path, query or {})
        sent = None if body is None else json.dumps(body).encode()
        kind = {} if sent is None else {"content-type": "application/json"}

        def once(left_s: float) -> Any:
            headers = {**kind, **self.headers()} if guarded else kind
            return self.connections.ask(method, target, sent, headers, left_s)[1]

        try:
            return self.retry.run(once)
        except TidegateError as error:
            if error.code != "token_expired" or not guarded or not self.log_in_again():
                raise
        return self.retry.run(once)

    def _outcomes(self, path: str, body: Any, query: Optional[dict[str, Any]] = None) -> list[Outcome]:
        return [decode(Outcome, line) for line in self._ask("POST", path, body, query=query)["outcomes"]]

    def _pages(self, path: str, query: dict[str, Any], rows: str, cursor: str) -> Iterator[dict[str, Any]]:
        while True:
            page = self._ask("GET", path, query=query)
            yield from page[rows]
            if "next" not in page:
                return
            query = {**query, cursor: page["next"]}


def _quoted(id: str) -> str:
    return urllib.parse.quote(id, safe="")
