//! An operator, who asks the broker of worker 0.

use std::sync::Arc;

use tidegate_broker::Principal;
use tidegate_broker::operator::{OperatorAnswer, OperatorCall, OperatorTicket, RetainedList, SessionList};
use tidegate_machines::topic::{Message, MessageMeta};

use super::{Heard, World};
use crate::support::script::Words;

impl World {
    /// `kick ID`, `end ID`, `list LIMIT AFTER`, `retained FILTER`, `publish TOPIC PAYLOAD qos=N retain`.
    pub(super) fn operate(&mut self, mut words: Words<'_>) {
        let (verb, what) = (words.first(), words.first());
        let rest = words.rest();
        let client_id = || what.into();
        let call = match verb {
            "kick" => OperatorCall::Disconnect { client_id: client_id() },
            "end" => OperatorCall::EndSession { client_id: client_id() },
            "list" => OperatorCall::ListSessions(SessionList {
                limit: what.parse().expect("rows"),
                after: rest.first().map_or_else(Box::default, |after| (*after).into()),
                ..SessionList::default()
            }),
            "retained" => {
                let list = RetainedList { filter: what.into(), after: Box::default(), limit: 100 };
                OperatorCall::ListRetained(list)
            }
            "publish" => {
                let payload = rest.first().filter(|payload| **payload != "-").map_or("", |payload| *payload);
                let qos = if rest.contains(&"qos=2") { 2 } else { u8::from(rest.contains(&"qos=1")) };
                let meta = MessageMeta { qos, retain: rest.contains(&"retain"), expires_at: None };
                let message = Arc::new(Message::new(what, &[], payload.as_bytes(), meta));
                OperatorCall::Publish { message, expires_in_s: None, payer: Principal::service("operator") }
            }
            other => panic!("an operator does not know how to {other}"),
        };
        self.brokers[0].operate(OperatorTicket(7), call);
    }

    /// What worker 0 has answered to the operator.
    pub(super) fn hear_operator(&mut self, heard: &mut Heard) -> bool {
        let answers = self.brokers[0].take_operated();
        let any = !answers.is_empty();
        for (ticket, answer) in answers {
            assert_eq!(ticket, OperatorTicket(7), "the ticket comes back");
            heard.add("operator", vec![worded(answer)]);
        }
        any
    }
}

fn worded(answer: OperatorAnswer) -> String {
    let list = |names: Vec<String>, next: Option<Box<str>>| {
        let next = next.map_or_else(String::new, |next| format!(" > {next}"));
        format!("{}{next}", names.join(" "))
    };
    match answer {
        OperatorAnswer::Sessions(rows, next) => {
            let row = |row: &tidegate_broker::operator::SessionRow| {
                let connected = if row.connection.is_some() { "+" } else { "-" };
                format!("{}{connected}{}", row.client_id, row.inbox_messages)
            };
            list(rows.iter().map(row).collect(), next)
        }
        OperatorAnswer::Retained(messages, next) => {
            list(messages.iter().map(|message| message.topic().to_owned()).collect(), next)
        }
        other => format!("{other:?}"),
    }
}
