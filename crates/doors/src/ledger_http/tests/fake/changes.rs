//! What happened in the fake ledger, as a stream.

use super::*;

/// Changes, two at a time. A cursor is the number of those before it.
pub struct FakeChanges {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) filter: ChangeFilter,
    pub(super) passed: usize,
    pub(super) is_at_end: bool,
}

impl FakeChanges {
    fn decide(&mut self) -> Option<Result<ChangePart, ChangesEnded>> {
        let mut state = self.state.lock().unwrap();
        if let Some(why) = state.unavailable {
            return Some(Err(ChangesEnded::Unavailable(why)));
        }
        if self.passed > state.changes.len() {
            return Some(Err(ChangesEnded::Unreadable(ChangesError::CursorInvalid)));
        }
        let some: Vec<_> = state.changes[self.passed..].iter().take(2).cloned().collect();
        if some.is_empty() && self.is_at_end || state.is_silent {
            return None;
        }
        self.is_at_end = some.is_empty();
        let mut rows = Vec::new();
        for (debit, credit, amount) in some {
            self.passed += 1;
            let interests = [&debit, &credit].map(|account| (self.filter.interest)(account));
            if self.filter.kinds.contains(&ChangeKind::Transfer) && interests.iter().any(|i| i.visible && i.wanted) {
                rows.push(change(self.passed, [debit, credit], interests.map(|interest| interest.visible), amount));
            }
        }
        state.parts += 1;
        Some(Ok(ChangePart { rows, cursor: self.passed.to_string().into(), is_at_end: self.is_at_end }))
    }
}

fn change(number: usize, accounts: [Box<str>; 2], visible: [bool; 2], amount: u64) -> Change {
    let [debit, credit] = [0, 1].map(|side: usize| ChangedAccount {
        id: (&*accounts[side]).into(),
        balance_after: visible[side].then_some(number as i64),
    });
    Change {
        cursor: number.to_string().into(),
        shard: 0,
        sequence: number as u64,
        time_ms: 1,
        kind: ChangeKind::Transfer,
        id: Some(format!("space\u{1f}t{number}").into()),
        account: None,
        opened_kind: None,
        settings: None,
        decimals: None,
        code: 0,
        user_data: "".into(),
        debit: Some(debit),
        credit: Some(credit),
        asset: Some("credit".into()),
        amount: Some(amount),
        held: None,
        expires_at_ms: None,
        memo: "m".repeat(256).into(),
        refusal: None,
    }
}

impl Changes for FakeChanges {
    async fn next(&mut self) -> Result<ChangePart, ChangesEnded> {
        loop {
            if let Some(part) = self.decide() {
                return part;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

impl Drop for FakeChanges {
    fn drop(&mut self) {
        self.state.lock().unwrap().streams -= 1;
    }
}
