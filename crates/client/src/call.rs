//! Blocking calls: each sends one request, waits for its reply and leaves other replies for [`Client::receive`].

use crate::client::{Client, mismatch};
use crate::error::ClientError;
use crate::reply::{Account, Opened, Outcome, Page, Reply};
use crate::request::{Hold, Transfer};
use std::io::{Read, Write};
use tidegate_wire::proto::{AccountKind, Asset, AuditReport, ChangeAccount, HoldState, OpenHolds, TransferState};

/// Waits for the reply, which must be of one kind.
macro_rules! expect {
    ($client:ident, $correlation:expr, $kind:ident($content:pat) => $value:expr, $name:literal) => {{
        let correlation = $correlation;
        match $client.receive_reply_to(correlation)? {
            Reply::$kind($content) => Ok($value),
            other => Err(mismatch($name, &other)),
        }
    }};
}

impl<S: Read + Write> Client<S> {
    /// Opens an account, or finds it open with the same asset and kind; with others the server says `account_exists`.
    pub fn open_account(&mut self, id: &str, asset: &str, kind: AccountKind) -> Result<Opened, ClientError> {
        expect!(self, self.send_open_account(id, asset, kind)?, Opened(opened) => opened, "account opened")
    }

    /// Opens accounts (id, asset, kind) one by one; outcomes come in the same order. A duplicate was open already with
    /// the same asset and kind.
    pub fn open_accounts(&mut self, accounts: &[(&str, &str, AccountKind)]) -> Result<Vec<Outcome>, ClientError> {
        let correlation = self.send_open_accounts(accounts)?;
        self.outcomes(correlation, accounts.len())
    }

    /// Decides one transfer.
    pub fn transfer(&mut self, transfer: &Transfer<'_>) -> Result<Outcome, ClientError> {
        let correlation = self.send_transfers(std::slice::from_ref(transfer), false)?;
        self.one_outcome(correlation)
    }

    /// Decides transfers one by one; outcomes come in the same order.
    pub fn transfers(&mut self, transfers: &[Transfer<'_>]) -> Result<Vec<Outcome>, ClientError> {
        let correlation = self.send_transfers(transfers, false)?;
        self.outcomes(correlation, transfers.len())
    }

    /// Decides transfers all or nothing; outcomes come in the same order.
    pub fn linked_transfers(&mut self, transfers: &[Transfer<'_>]) -> Result<Vec<Outcome>, ClientError> {
        let correlation = self.send_transfers(transfers, true)?;
        self.outcomes(correlation, transfers.len())
    }

    /// Places one hold.
    pub fn hold(&mut self, hold: &Hold<'_>) -> Result<Outcome, ClientError> {
        let correlation = self.send_holds(std::slice::from_ref(hold), false)?;
        self.one_outcome(correlation)
    }

    /// Places holds one by one; outcomes come in the same order.
    pub fn holds(&mut self, holds: &[Hold<'_>]) -> Result<Vec<Outcome>, ClientError> {
        let correlation = self.send_holds(holds, false)?;
        self.outcomes(correlation, holds.len())
    }

    /// Places holds all or nothing; outcomes come in the same order.
    pub fn linked_holds(&mut self, holds: &[Hold<'_>]) -> Result<Vec<Outcome>, ClientError> {
        let correlation = self.send_holds(holds, true)?;
        self.outcomes(correlation, holds.len())
    }

    /// Voids holds one by one; outcomes come in the same order.
    pub fn voids(&mut self, ids: &[&str]) -> Result<Vec<Outcome>, ClientError> {
        let correlation = self.send_voids(ids)?;
        self.outcomes(correlation, ids.len())
    }

    /// Reads what became of a transfer; the server says `transfer_not_found` if there is none.
    pub fn read_transfer(&mut self, id: &str) -> Result<TransferState, ClientError> {
        expect!(self, self.send_read_transfer(id)?, Transfer(transfer) => transfer, "transfer")
    }

    /// Reads a hold and its state; the server says `hold_not_found` if there is none.
    pub fn read_hold(&mut self, id: &str) -> Result<HoldState, ClientError> {
        expect!(self, self.send_read_hold(id)?, Hold(hold) => hold, "hold")
    }

    /// Lists the open holds on an account: `""` for the first page, else the page before's `next`.
    pub fn open_holds(&mut self, account: &str, after: &str, limit: u32) -> Result<OpenHolds, ClientError> {
        expect!(self, self.send_list_holds(account, after, limit)?, OpenHolds(page) => page, "open holds")
    }

    /// Changes status, limits or metadata of an account; says whether anything was changed, and how it is now.
    pub fn change_account(&mut self, change: ChangeAccount) -> Result<(bool, Account), ClientError> {
        expect!(self, self.send_change_account(change)?, Changed(changed) => changed, "account changed")
    }

    /// Declares the decimals of an asset, once; says whether by this call.
    pub fn declare_asset(&mut self, asset: &str, decimals: u32) -> Result<bool, ClientError> {
        expect!(self, self.send_declare_asset(asset, decimals)?, AssetDeclared(created) => created, "asset declared")
    }

    /// Lists all assets by name.
    pub fn assets(&mut self) -> Result<Vec<Asset>, ClientError> {
        expect!(self, self.send_list_assets()?, Assets(assets) => assets, "assets")
    }

    /// Posts all of a hold (`None`), or so much of it; what remains is available again.
    pub fn post(&mut self, id: &str, amount: Option<u64>) -> Result<Outcome, ClientError> {
        let correlation = self.send_posts(&[(id, amount)])?;
        self.one_outcome(correlation)
    }

    /// Posts holds one by one; outcomes come in the same order.
    pub fn posts(&mut self, posts: &[(&str, Option<u64>)]) -> Result<Vec<Outcome>, ClientError> {
        let correlation = self.send_posts(posts)?;
        self.outcomes(correlation, posts.len())
    }

    /// Voids a hold: all of it is available again.
    pub fn void(&mut self, id: &str) -> Result<Outcome, ClientError> {
        let correlation = self.send_voids(&[id])?;
        self.one_outcome(correlation)
    }

    /// Reads one account; the server says `account_not_found` if there is none.
    pub fn account(&mut self, id: &str) -> Result<Account, ClientError> {
        expect!(self, self.send_read_account(id)?, Account(account) => account, "account")
    }

    /// Lists accounts by id in byte order: those that begin with `prefix` and come after `after` (`""` for the first
    /// page). At most `limit` of them, 1 to 1,000; 0 lets the server choose.
    pub fn accounts(&mut self, prefix: &str, after: &str, limit: u32) -> Result<Vec<Account>, ClientError> {
        expect!(self, self.send_list_accounts(prefix, after, limit)?, Accounts(accounts) => accounts, "accounts")
    }

    /// Reads an account's history, newest first, from `before` on: `""` for the newest, else the page before's `next`.
    /// At most `limit` rows, 1 to 1,000; 0 lets the server choose.
    pub fn history(&mut self, id: &str, before: &str, limit: u32) -> Result<Page, ClientError> {
        expect!(self, self.send_read_history(id, before, limit)?, History(page) => page, "history")
    }

    /// The same, only rows of the times from the first to the second, both included, milliseconds since the epoch;
    /// `None` is no bound. A page may be short, even empty, and still have a `next`: the server looks at 1,000 rows for
    /// one. With an end and limit 1, the first row that comes and `held` are balance and holds of that time.
    pub fn history_of(
        &mut self,
        id: &str,
        before: &str,
        limit: u32,
        times: (Option<u64>, Option<u64>),
    ) -> Result<Page, ClientError> {
        expect!(self, self.send_read_history_of(id, before, limit, times)?, History(page) => page, "history")
    }

    /// Reads the last reconciliation of each shard.
    pub fn audit(&mut self) -> Result<Vec<AuditReport>, ClientError> {
        expect!(self, self.send_read_audit()?, Audit(shards) => shards, "audit")
    }

    /// Asks a room that this client does not know, and gives the body of its reply; the server says `room_unknown` if
    /// it has no room of this `family`.
    pub fn room(&mut self, family: u32, body: &[u8]) -> Result<Vec<u8>, ClientError> {
        let correlation = self.send_room(family, body)?;
        match self.receive_reply_to(correlation)? {
            Reply::Room { family: of, body } if of == family => Ok(body),
            other => Err(mismatch("a reply of the room", &other)),
        }
    }

    /// Waits until the server has answered.
    pub fn ping(&mut self) -> Result<(), ClientError> {
        let correlation = self.send_ping()?;
        match self.receive_reply_to(correlation)? {
            Reply::Pong => Ok(()),
            other => Err(mismatch("pong", &other)),
        }
    }

    fn one_outcome(&mut self, correlation: u64) -> Result<Outcome, ClientError> {
        self.outcomes(correlation, 1).map(|mut outcomes| outcomes.remove(0))
    }

    fn outcomes(&mut self, correlation: u64, asked: usize) -> Result<Vec<Outcome>, ClientError> {
        let outcomes = expect!(self, correlation, Outcomes(outcomes) => outcomes, "outcomes")?;
        if outcomes.len() != asked {
            return Err(ClientError::ReplyMismatch(format!("{asked} outcomes expected, {} received", outcomes.len())));
        }
        Ok(outcomes)
    }
}
