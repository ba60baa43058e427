//! What the fake ledger decides.

use super::*;

impl State {
    pub(super) fn decide(&mut self, request: Request) -> Reply {
        match request {
            Request::OpenAccount { id, asset, kind } => match self.accounts.get(&id) {
                _ if !is_account_id(&id) => Reply::Refused(Refusal::AccountIdInvalid),
                _ if asset.is_empty() || asset.len() > 32 || asset.contains(char::is_control) => {
                    Reply::Refused(Refusal::AssetInvalid)
                }
                Some(account) if account.view.asset == asset && account.view.kind == kind => {
                    Reply::AccountOpened { created: false, account: account.view.clone() }
                }
                Some(_) => Reply::Refused(Refusal::AccountExists),
                None => {
                    self.open(&id, &asset, kind);
                    Reply::AccountOpened { created: true, account: self.accounts[&id].view.clone() }
                }
            },
            Request::OpenAccounts(batch) => {
                let opened = (0..batch.len()).map(|index| {
                    let (id, asset, kind) = batch.get(index);
                    match self.decide(Request::OpenAccount { id: id.into(), asset: asset.into(), kind }) {
                        Reply::AccountOpened { created: true, .. } => Outcome::Applied,
                        Reply::AccountOpened { created: false, .. } => Outcome::Duplicate,
                        Reply::Refused(refusal) => Outcome::Refused(refusal),
                        other => unreachable!("{other:?} answers no opening"),
                    }
                });
                Reply::Outcomes(opened.collect())
            }
            Request::Transfers { batch, .. } => Reply::Outcomes(batch.iter().map(|t| self.transfer(&t)).collect()),
            Request::PlaceHolds(holds) | Request::PlaceLinkedHolds(holds) => {
                Reply::Outcomes(holds.into_iter().map(|hold| self.hold(hold)).collect())
            }
            Request::ReadTransfer { id } => match self.moves.get(&*id) {
                Some((moved, outcome)) => Reply::Transfer { shard: 0, transfer: Box::new(moved.view(&id, *outcome)) },
                None => Reply::Refused(Refusal::TransferNotFound),
            },
            Request::ReadHold { id } => match self.holds.get(&*id) {
                Some((hold, state)) => Reply::Hold { shard: 0, hold: Box::new(hold_view(hold, *state)) },
                None => Reply::Refused(Refusal::HoldNotFound),
            },
            Request::ListHolds { account, after, limit } => {
                if !self.accounts.contains_key(&account) {
                    return Reply::Refused(Refusal::AccountNotFound);
                }
                let of_account = |(hold, state): &&(HoldRequest, HoldState)| {
                    hold.debit == account && matches!(state, HoldState::Open)
                };
                let open: Vec<_> = self.holds.values().filter(of_account).collect();
                let first = after.unwrap_or(0) as usize;
                let end = open.len().min(first + limit as usize);
                let holds = open[first..end].iter().map(|(hold, state)| hold_view(hold, *state)).collect();
                Reply::Holds { holds, next: (end < open.len()).then_some(end as u64) }
            }
            Request::ChangeAccount { id, change } => match self.accounts.get_mut(&id) {
                None => Reply::Refused(Refusal::AccountNotFound),
                Some(account) => change_view(&mut account.view, &change),
            },
            Request::DeclareAsset { asset, decimals } => match self.assets.get(&asset) {
                Some(before) if *before != decimals => Reply::Refused(Refusal::AssetExists),
                before => {
                    let created = before.is_none();
                    self.assets.insert(asset, decimals);
                    Reply::AssetDeclared { created }
                }
            },
            Request::ListAssets => {
                let (issued, held) = (20, 3);
                let assets = self.assets.iter();
                Reply::Assets(
                    assets
                        .map(|(name, decimals)| AssetView {
                            name: name.clone(),
                            decimals: Some(*decimals),
                            issued,
                            held,
                        })
                        .collect(),
                )
            }
            Request::PostHolds(posts) => {
                Reply::Outcomes(posts.into_iter().map(|(id, amount)| self.post(&id, amount)).collect())
            }
            Request::VoidHolds(ids) => Reply::Outcomes(ids.into_iter().map(|id| self.void(&id)).collect()),
            Request::Announce(_) => Reply::Announced,
            Request::ReadAccount { id } => match self.accounts.get(&id) {
                Some(account) => Reply::Account(account.view.clone()),
                None => Reply::Refused(Refusal::AccountNotFound),
            },
            Request::ListAccounts { prefix, after, limit } => {
                let views = self.accounts.values().map(|account| &account.view);
                let after = after.unwrap_or_default();
                let page = views.filter(|view| view.id.starts_with(&*prefix) && *view.id > *after);
                Reply::Accounts(page.take(limit as usize).cloned().collect())
            }
            Request::ReadHistory { .. } | Request::ReadBalanceAt { .. } if self.damaged.is_some() => {
                Reply::Refused(Refusal::Damaged(self.damaged.expect("it is there")))
            }
            Request::ReadHistory { id, before, limit, times } => match self.accounts.get(&id) {
                None => Reply::Refused(Refusal::AccountNotFound),
                Some(account) => match before.map_or(Ok(account.rows.len()), |before| before.parse()) {
                    Ok(end) if end <= account.rows.len() => {
                        let looked_at = if times.is_all() { limit as usize } else { 1_000 };
                        let (mut rows, mut at, mut is_end) = (Vec::new(), end, false);
                        while at > 0 && end - at < looked_at && rows.len() < limit as usize && !is_end {
                            at -= 1;
                            let row = &account.rows[at];
                            is_end = times.ends_before(row.time_ms);
                            rows.extend(times.contains(row.time_ms).then(|| row.clone()));
                        }
                        let next = (at > 0 && !is_end).then(|| at.to_string().into());
                        Reply::History { rows, next, held: Some(account.view.held), rows_read: end - at }
                    }
                    _ => Reply::Refused(Refusal::CursorInvalid),
                },
            },
            Request::ReadBalanceAt { .. } if self.mend.is_some() => {
                let (mend, until) = self.mend.expect("it is there");
                Reply::BalanceAt { found: BalanceAt::Untold { mend, until }, rows_read: 2 }
            }
            Request::ReadBalanceAt { id, at, before } => {
                let mended_by = self.mended_by.unwrap_or(u64::MAX);
                let until = if at.0 >= mended_by { u64::MAX } else { at.0 };
                let (limit, times) = (1, TimeSpan::new(None, Some(until)).expect("a span"));
                match self.decide(Request::ReadHistory { id, before, limit, times }) {
                    Reply::History { mut rows, next, held, rows_read } => {
                        let last = rows.pop().map(Box::new);
                        let found = match (last, next) {
                            (None, Some(next)) => BalanceAt::Further { next },
                            (last, _) => {
                                let written_by = TimeMs(last.as_ref().map_or(0, |row| row.time_ms.min(mended_by)));
                                BalanceAt::Known { last, written_by, held }
                            }
                        };
                        Reply::BalanceAt { found, rows_read }
                    }
                    refused => refused,
                }
            }
            Request::StreamHistory { .. } => panic!("a stream has several replies"),
            Request::ReadAudit => Reply::Audit(vec![AuditReport {
                finished_at_ms: 1,
                sequence: 9,
                accounts_compared: self.accounts.len() as u64,
                ..AuditReport::default()
            }]),
        }
    }

    pub(super) fn open(&mut self, id: &str, asset: &str, kind: AccountKind) {
        let view = AccountView {
            id: id.into(),
            asset: asset.into(),
            kind,
            balance: 0,
            held: 0,
            credited: 0,
            debited: 0,
            settings: None,
        };
        self.accounts.insert(id.into(), Account { view, rows: Vec::new() });
    }

    pub(super) fn transfer(&mut self, transfer: &Transfer<'_>) -> Outcome {
        if let Err(refusal) = check_transfer(transfer) {
            return Outcome::Refused(refusal);
        }
        let moved = Moved {
            debit: transfer.debit.to_owned(),
            credit: transfer.credit.to_owned(),
            amount: transfer.amount,
            memo: transfer.memo.to_owned(),
        };
        match self.moves.get(transfer.id) {
            Some((before, _)) if *before != moved => return Outcome::Refused(Refusal::IdReused),
            Some((_, Outcome::Refused(refusal))) => return Outcome::Refused(*refusal),
            Some(_) => return Outcome::Duplicate,
            None => {}
        }
        let outcome = match self.refuse(transfer.debit, transfer.credit, transfer.amount) {
            Some(refusal) => Outcome::Refused(refusal),
            None => {
                self.move_money(transfer.id, RowKind::Transfer, transfer.debit, transfer.credit, transfer.amount);
                Outcome::Applied
            }
        };
        self.moves.insert(transfer.id.to_owned(), (moved, outcome));
        outcome
    }

    pub(super) fn refuse(&self, debit: &str, credit: &str, amount: u64) -> Option<Refusal> {
        let Some(from) = self.accounts.get(debit) else { return Some(Refusal::DebitAccountNotFound) };
        let Some(to) = self.accounts.get(credit) else { return Some(Refusal::CreditAccountNotFound) };
        let available = from.view.available().max(0) as u64;
        match from.view.kind {
            _ if from.view.asset != to.view.asset => Some(Refusal::AssetMismatch),
            AccountKind::Collector => Some(Refusal::CollectorCreditOnly),
            AccountKind::Wallet if available < amount => Some(Refusal::InsufficientFunds { available }),
            AccountKind::Source if from.view.debited + u128::from(amount) > i64::MAX as u128 => Some(Refusal::Overflow),
            _ => None,
        }
    }

    pub(super) fn move_money(&mut self, id: &str, kind: RowKind, debit: &str, credit: &str, amount: u64) {
        for (account, sign) in [(debit, -1), (credit, 1)] {
            let Account { view, rows } = self.accounts.get_mut(account).unwrap();
            view.balance += sign * amount as i64;
            if sign < 0 {
                view.debited += u128::from(amount);
            } else {
                view.credited += u128::from(amount);
            }
            let (id_space, id) = IdSpace::split(id);
            rows.push(HistoryRow {
                id: id.into(),
                id_space: id_space.into(),
                kind,
                debit: debit.into(),
                credit: credit.into(),
                amount,
                memo: "".into(),
                code: 0,
                user_data: "".into(),
                time_ms: 1,
                balance_after: view.balance,
            });
        }
    }

    pub(super) fn hold(&mut self, hold: HoldRequest) -> Outcome {
        let HoldRequest { id, debit, credit, amount, .. } = &hold;
        let amount = *amount;
        if let Err(refusal) = check_hold(&hold.borrow()) {
            return Outcome::Refused(refusal);
        }
        match self.holds.get(id) {
            Some((before, _)) if *before == hold => return Outcome::Duplicate,
            Some(_) => return Outcome::Refused(Refusal::IdReused),
            None => {}
        }
        if let Some(refusal) = self.refuse(debit, credit, amount) {
            return Outcome::Refused(refusal);
        }
        self.accounts.get_mut(debit).unwrap().view.held += amount;
        self.holds.insert(id.clone(), (hold, HoldState::Open));
        Outcome::Applied
    }

    pub(super) fn post(&mut self, id: &str, amount: Option<u64>) -> Outcome {
        if id.is_empty() {
            return Outcome::Refused(Refusal::IdInvalid);
        }
        let Some((hold, state)) = self.holds.get_mut(id) else { return Outcome::Refused(Refusal::HoldNotFound) };
        let posted = amount.unwrap_or(hold.amount);
        match *state {
            _ if posted == 0 => return Outcome::Refused(Refusal::AmountInvalid),
            HoldState::Posted(before) if before == posted => return Outcome::Duplicate,
            HoldState::Posted(_) => return Outcome::Refused(Refusal::HoldPosted),
            HoldState::Voided => return Outcome::Refused(Refusal::HoldVoided),
            HoldState::Open if posted > hold.amount => return Outcome::Refused(Refusal::PostExceedsHold),
            HoldState::Open => *state = HoldState::Posted(posted),
        }
        let hold = hold.clone();
        self.accounts.get_mut(&hold.debit).unwrap().view.held -= hold.amount;
        self.move_money(id, RowKind::Post, &hold.debit, &hold.credit, posted);
        Outcome::Applied
    }

    pub(super) fn void(&mut self, id: &str) -> Outcome {
        let Some((hold, state)) = self.holds.get_mut(id) else { return Outcome::Refused(Refusal::HoldNotFound) };
        match *state {
            HoldState::Posted(_) => Outcome::Refused(Refusal::HoldPosted),
            HoldState::Voided => Outcome::Duplicate,
            HoldState::Open => {
                *state = HoldState::Voided;
                self.accounts.get_mut(&hold.debit).unwrap().view.held -= hold.amount;
                Outcome::Applied
            }
        }
    }
}

impl Moved {
    fn view(&self, id: &str, outcome: Outcome) -> TransferView {
        let refused = match outcome {
            Outcome::Refused(refusal) => Some(refusal),
            _ => None,
        };
        let content = |text: &str| if refused.is_some() { "".into() } else { text.into() };
        TransferView {
            id: id.into(),
            state: refused.map_or(TransferState::Applied, TransferState::Refused),
            debit: content(&self.debit),
            credit: content(&self.credit),
            amount: if refused.is_some() { 0 } else { self.amount },
            memo: content(&self.memo),
            code: 0,
            user_data: "".into(),
            time_ms: 5,
            is_credit_pending: false,
            at: RecordPosition(77),
        }
    }
}

fn hold_view(hold: &HoldRequest, state: HoldState) -> HoldView {
    HoldView {
        id: hold.id.clone(),
        state: match state {
            HoldState::Open => ledger::HoldState::Open { expires_at_ms: 5 + hold.expires_in_ms },
            HoldState::Posted(amount) => ledger::HoldState::Posted { amount },
            HoldState::Voided => ledger::HoldState::Voided,
        },
        debit: hold.debit.clone(),
        credit: hold.credit.clone(),
        amount: hold.amount,
        expires_in_ms: hold.expires_in_ms,
        memo: hold.memo.clone(),
        code: hold.code,
        user_data: hold.user_data.clone(),
        time_ms: 5,
        at: RecordPosition(78),
    }
}

/// As the ledger does it, without its rules.
fn change_view(view: &mut AccountView, change: &ChangeRequest) -> Reply {
    let before = view.settings.as_deref().cloned().unwrap_or_default();
    if change.if_revision.is_some_and(|revision| revision != before.revision) {
        return Reply::Refused(Refusal::RevisionStale { revision: before.revision });
    }
    let change = change.borrow();
    let mut after = before.clone();
    after.rules.status = change.status.unwrap_or(before.status);
    after.rules.balance_min = change.balance_min.unwrap_or(before.balance_min);
    after.rules.balance_max = change.balance_max.unwrap_or(before.balance_max);
    for (key, value) in change.metadata.iter() {
        match value {
            Some(value) => after.metadata.insert(key.into(), value.into()),
            None => after.metadata.remove(key),
        };
    }
    let changed = after != before;
    after.revision += u64::from(changed);
    if changed {
        view.settings = Some(std::sync::Arc::new(after));
    }
    Reply::AccountChanged { changed, account: view.clone() }
}
