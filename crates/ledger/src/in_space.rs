//! The ids of a client's request become the ledger's: those of the client's id space.
//!
//! Why here, and once: every door sends its clients' requests through [`Request::in_space`], and a request that gets an
//! id of its own cannot be forgotten, because the match names each kind of request.

use tidegate_machines::IdSpace;
use tidegate_machines::ledger::Label;

use crate::message::{ItemLabel, Request, Span, TransferBatch, TransferItem};

impl Request {
    /// The same request, its transfer and hold ids those of `space`.
    pub fn in_space(self, space: &IdSpace) -> Request {
        match self {
            Request::Transfers { linked, batch } => Request::Transfers { linked, batch: batch.in_space(space) },
            Request::PlaceHolds(mut holds) => {
                holds.iter_mut().for_each(|hold| hold.id = space.whole(&hold.id));
                Request::PlaceHolds(holds)
            }
            Request::PlaceLinkedHolds(mut holds) => {
                holds.iter_mut().for_each(|hold| hold.id = space.whole(&hold.id));
                Request::PlaceLinkedHolds(holds)
            }
            Request::ReadTransfer { id } => Request::ReadTransfer { id: space.whole(&id) },
            Request::ReadHold { id } => Request::ReadHold { id: space.whole(&id) },
            Request::PostHolds(mut posts) => {
                posts.iter_mut().for_each(|(id, _)| *id = space.whole(id));
                Request::PostHolds(posts)
            }
            Request::VoidHolds(mut ids) => {
                ids.iter_mut().for_each(|id| *id = space.whole(id));
                Request::VoidHolds(ids)
            }
            other @ (Request::OpenAccount { .. }
            | Request::OpenAccounts(_)
            | Request::Announce(_)
            | Request::ReadAccount { .. }
            | Request::ListAccounts { .. }
            | Request::ReadHistory { .. }
            | Request::ReadBalanceAt { .. }
            | Request::StreamHistory { .. }
            | Request::ListHolds { .. }
            | Request::ChangeAccount { .. }
            | Request::DeclareAsset { .. }
            | Request::ListAssets
            | Request::ReadAudit) => other,
        }
    }
}

impl TransferBatch {
    /// The same transfers, their ids those of `space`. Of the empty one nothing is copied.
    fn in_space(self, space: &IdSpace) -> TransferBatch {
        if space.is_empty() {
            return self.without_spaces();
        }
        let mut text = Vec::with_capacity(self.text_bytes() + self.len() * (space.name().len() + 1));
        let (mut items, mut labels) = (Vec::with_capacity(self.len()), Vec::new());
        for transfer in self.iter() {
            let begin = text.len() as u32;
            space.put(transfer.id, &mut text);
            let id = Span { offset: begin, length: text.len() as u32 - begin };
            let mut span = |part: &str| {
                let offset = text.len() as u32;
                text.extend_from_slice(part.as_bytes());
                Span { offset, length: part.len() as u32 }
            };
            let (debit, credit, memo) = (span(transfer.debit), span(transfer.credit), span(transfer.memo));
            if self.has_labels() {
                let Label { code, user_data } = transfer.label;
                labels.push(ItemLabel { code, user_data: span(user_data) });
            }
            items.push(TransferItem { id, debit, credit, memo, amount: transfer.amount });
        }
        TransferBatch::new(text.into(), items, labels).expect("texts were copied whole")
    }
}

#[cfg(test)]
mod tests {
    use tidegate_machines::ledger::Transfer;

    use super::*;

    fn transfer(id: &str) -> Transfer<'_> {
        let label = Label { code: 7, user_data: "order-7" };
        Transfer { id, debit: "wallet:dave", credit: "candidate:3", amount: 6, memo: "for you", label }
    }

    fn batch(ids: &[&str]) -> TransferBatch {
        TransferBatch::copy_of(ids.iter().map(|id| transfer(id)))
    }

    fn transfers(ids: &[&str], space: &str) -> Vec<String> {
        let request = Request::Transfers { linked: false, batch: batch(ids) };
        let Request::Transfers { batch, .. } = request.in_space(&IdSpace::new(space).unwrap()) else { unreachable!() };
        for moved in batch.iter() {
            assert_eq!(moved, Transfer { id: moved.id, ..transfer("") });
        }
        batch.iter().map(|transfer| transfer.id.to_owned()).collect()
    }

    #[test]
    fn ids_get_the_space_of_their_client() {
        assert_eq!(transfers(&["vote-1", "vote-2"], "dave"), ["dave\u{1f}vote-1", "dave\u{1f}vote-2"]);
        assert_eq!(transfers(&["vote-1", "vote-2"], ""), ["vote-1", "vote-2"]);
    }

    #[test]
    fn who_names_a_space_is_left_without_an_id() {
        assert_eq!(transfers(&["order-1", "dave\u{1f}vote-1"], ""), ["order-1", ""]);
        let posts = Request::PostHolds(vec![("dave\u{1f}h".into(), None), ("h".into(), Some(1))]);
        let Request::PostHolds(posts) = posts.in_space(&IdSpace::default()) else { unreachable!() };
        assert_eq!(posts, [("".into(), None), ("h".into(), Some(1))]);
        let voids = Request::VoidHolds(vec!["h".into()]).in_space(&IdSpace::new("dave").unwrap());
        let Request::VoidHolds(ids) = voids else { unreachable!() };
        assert_eq!(ids, [Box::from("dave\u{1f}h")]);
    }
}
