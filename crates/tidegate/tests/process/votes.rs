//! A small show for these tests: two wallets, a candidate, and as many votes as a test wants.

use std::net::TcpStream;

use tidegate_client::{AccountKind, Client, Timeouts, Transfer};

use crate::{PATIENCE, SERVICE, Server};

/// Credits that `wallet:dave` and `wallet:carol` begin with.
pub const CREDITS: u64 = 1_000_000;

/// The longest memo, so that journals fill fast.
const MEMO: &str = "................................................................\
                    ................................................................\
                    ................................................................\
                    ................................................................";

/// Connects as the service that may do everything.
pub fn connect(server: &Server) -> Client<TcpStream> {
    connect_as(server, SERVICE)
}

/// Connects with this token.
pub fn connect_as(server: &Server, token: &str) -> Client<TcpStream> {
    let timeouts = Timeouts { connect: PATIENCE, read: PATIENCE, write: PATIENCE };
    Client::connect_within(server.binary, token, timeouts).expect("the server serves, and knows the token")
}

/// Opens the accounts and sells credits.
pub fn open_show(client: &mut Client<TcpStream>) {
    for (id, kind) in [
        ("source:shop", AccountKind::Source),
        ("wallet:dave", AccountKind::Wallet),
        ("wallet:carol", AccountKind::Wallet),
        ("candidate:1", AccountKind::Collector),
    ] {
        client.open_account(id, "credit", kind).expect("accounts open");
    }
    for wallet in ["wallet:dave", "wallet:carol"] {
        let sale = Transfer {
            id: wallet,
            debit: "source:shop",
            credit: wallet,
            amount: CREDITS,
            memo: "",
            code: 0,
            user_data: "",
        };
        assert!(client.transfer(&sale).expect("credits are sold").is_done());
    }
}

/// Ids of `count` votes.
pub fn ids(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{name}-{number}")).collect()
}

/// Dave's votes with these ids, of one credit each; some 400 bytes of journal each.
pub fn votes(ids: &[String]) -> Vec<Transfer<'_>> {
    let vote = |id| Transfer {
        id,
        debit: "wallet:dave",
        credit: "candidate:1",
        amount: 1,
        memo: MEMO,
        code: 0,
        user_data: "",
    };
    ids.iter().map(|id| vote(id)).collect()
}
