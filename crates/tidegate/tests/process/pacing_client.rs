//! Bids, wins and losses by the client of the binary port, also over connections that break.

use std::net::{Shutdown, TcpStream};

use serde_json::json;
use tidegate_client::{Bid, BidRequest, Client, ClientError, NoBidReason, NoticeOutcome, Reply, Token, Win};
use tidegate_wire::pacer::FAMILY;

use crate::http::Http;
use crate::pacing::{FUNDS, campaign, connect, fund, put, settings, settings_with};
use crate::votes::connect_as;
use crate::{Server, audit, folder, wait_for};

/// The code with which the server refused.
pub fn refused<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> String {
    match answer {
        Err(ClientError::Server(error)) => error.code,
        other => panic!("it is refused: {other:?}"),
    }
}

fn request(id: u64, campaign: u32) -> BidRequest {
    BidRequest { id, campaign, ..BidRequest::default() }
}

/// Asks for packets of 256 until there are so many bids.
fn offers(client: &mut Client<TcpStream>, campaign: u32, wanted: usize) -> Vec<Bid> {
    let mut offered = Vec::new();
    wait_for("requests have been bid on at once, or after a lease has grown", || {
        let packet: Vec<BidRequest> = (0..256).map(|id| request(id, campaign)).collect();
        offered.extend(client.bids(&packet).expect("bids are answered").into_iter().flatten());
        (offered.len() >= wanted).then_some(())
    });
    offered
}

#[test]
fn packets_are_answered_on_the_binary_port() {
    let folder = folder();
    let server = Server::start(&settings(folder.path()));
    let mut http = connect(&server);
    fund(&mut http, "shoes", FUNDS);
    let number = put(&mut http, "shoes", &json!({})) as u32;
    let mut exchange = connect_as(&server, "a-token-that-may-bid");
    let tokens: Vec<Token> = offers(&mut exchange, number, 300).iter().map(|bid| bid.token).collect();
    assert_eq!(exchange.bids(&[request(1, 999_999)]).expect("an answer"), [Err(NoBidReason::CampaignUnknown)]);

    let [.., other, newest] = tokens[..] else { panic!("there are some") };
    let forged = [&newest[..31], &[!newest[31]]].concat().try_into().expect("32 bytes");
    let won = |token, price_micros| Win { token, price_micros };
    let wins = [won(newest, 900), won(newest, 900), won(forged, 1), won(newest, 1_001)];
    let outcomes =
        [NoticeOutcome::Taken, NoticeOutcome::Duplicate, NoticeOutcome::TokenInvalid, NoticeOutcome::PriceAboveBid];
    assert_eq!(exchange.wins(&wins).expect("an answer"), outcomes);
    assert_eq!(campaign(&mut http, "shoes")["spent_micros"], 900);

    let outcomes = [NoticeOutcome::Won, NoticeOutcome::Taken, NoticeOutcome::Duplicate, NoticeOutcome::TokenInvalid];
    assert_eq!(exchange.losses(&[newest, other, other, forged]).expect("an answer"), outcomes);
    assert_eq!(exchange.wins(&[won(other, 1)]).expect("an answer"), [NoticeOutcome::Lost]);
    let view = campaign(&mut http, "shoes");
    assert_eq!((view["spent_micros"].as_u64(), view["losses"].as_u64()), (Some(900), Some(1)));

    let mut planner = connect_as(&server, "a-token-of-a-planner");
    assert_eq!(refused(planner.bids(&[request(1, number)])), "forbidden");
    assert_eq!(refused(planner.wins(&wins)), "forbidden");
    assert_eq!(refused(planner.losses(&[newest])), "forbidden");
    assert!(server.terminate().status.success());
}

/// A token that is not of 32 bytes is an outcome, not a fault of its packet.
#[test]
fn tokens_of_another_length_are_invalid() {
    let folder = folder();
    let server = Server::start(&settings(folder.path()));
    let mut exchange = connect_as(&server, "a-token-that-may-bid");
    let wins = [&[0x12, 41, 0x0a, 35, 0x0a, 31][..], &[7; 31], &[0x10, 1], &[0x0a, 2, 0x10, 1]].concat();
    let losses = [&[0x1a, 6, 0x0a, 4][..], b"none"].concat();
    for (body, told) in [(wins, 2), (losses, 1)] {
        exchange.send_room(FAMILY, &body).expect("it is short");
        let (_, answer) = exchange.receive().expect("it is answered");
        assert_eq!(answer, Reply::Notices(vec![NoticeOutcome::TokenInvalid; told]));
    }
    assert!(server.terminate().status.success());
}

/// Connections break before the server has read a notice, after it has taken it, and with the server. The client says
/// so, and each notice that is sent again on the next connection counts once.
#[test]
fn notices_count_once_over_broken_connections() {
    let folder = folder();
    // Longer than this test takes, so that no outcome is late.
    let settings = settings_with(folder.path(), 3_600_000);
    let mut server = Server::start(&settings);
    let mut http = connect(&server);
    fund(&mut http, "shoes", FUNDS);
    let number = put(&mut http, "shoes", &json!({})) as u32;
    let mut exchange = connect_as(&server, "a-token-that-may-bid");
    let offered = offers(&mut exchange, number, 4);
    let win = |index: usize| [Win { token: offered[index].token, price_micros: 100 }];
    let is_closed = |answer: Result<(u64, Reply), ClientError>, unanswered: usize| match answer {
        Err(ClientError::Closed { in_flight }) => assert_eq!(in_flight, unanswered),
        other => panic!("the connection is broken: {other:?}"),
    };

    // The server never saw it.
    exchange.send_wins(&win(0)).expect("it waits to be written");
    exchange.stream().shutdown(Shutdown::Both).expect("it was open");
    is_closed(exchange.receive(), 1);
    exchange = connect_as(&server, "a-token-that-may-bid");
    assert_eq!(exchange.wins(&win(0)).expect("an answer"), [NoticeOutcome::Taken]);

    // The server took it, and only the answer is lost, with that to bids.
    exchange.send_wins(&win(1)).expect("it waits to be written");
    exchange.send_losses(&[offered[2].token]).expect("it waits to be written");
    exchange.send_bids(&[request(1, number)]).expect("it waits to be written");
    exchange.flush().expect("the server reads");
    let told = |http: &mut Http<TcpStream>| {
        let view = campaign(http, "shoes");
        ["spent_micros", "impressions", "losses"].map(|field| view[field].as_u64())
    };
    wait_for("both are taken", || (told(&mut http) == [Some(200), Some(2), Some(1)]).then_some(()));
    exchange.stream().shutdown(Shutdown::Both).expect("it was open");
    while exchange.receive().is_ok() {
        // What had arrived before.
    }
    exchange = connect_as(&server, "a-token-that-may-bid");
    assert_eq!(exchange.wins(&win(1)).expect("an answer"), [NoticeOutcome::Duplicate]);
    assert_eq!(exchange.losses(&[offered[2].token]).expect("an answer"), [NoticeOutcome::Duplicate]);

    server.kill();
    exchange.send_wins(&win(3)).expect("it waits to be written");
    is_closed(exchange.receive(), 1);
    server = Server::start(&settings);
    http = connect(&server);
    exchange = connect_as(&server, "a-token-that-may-bid");
    assert_eq!(exchange.wins(&win(3)).expect("an answer"), [NoticeOutcome::Taken]);
    assert_eq!(exchange.wins(&win(1)).expect("an answer"), [NoticeOutcome::Duplicate]);
    assert_eq!(exchange.wins(&win(2)).expect("an answer"), [NoticeOutcome::Lost]);
    assert_eq!(told(&mut http), [Some(300), Some(3), Some(1)]);
    offers(&mut exchange, number, 1);
    assert!(server.terminate().status.success());
    let audited = audit(&folder.path().join("data"));
    assert!(audited.status.success(), "{audited}");
}
