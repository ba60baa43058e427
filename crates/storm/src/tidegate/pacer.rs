//! Campaigns of a bench: their accounts in the ledger, and their plans over HTTP.

use super::http;
use super::server::TOKEN;
use super::session::Session;
use crate::hammer::Campaigns;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use tidegate_wire::proto::AccountKind;

/// What each campaign may spend, in millionths: more than any run can.
const BUDGET_MICROS: u64 = 1_000_000_000_000_000;
/// What a campaign bids for one impression.
const PRICE_MICROS: u32 = 2_500;
/// What the campaigns' accounts are counted in.
const ASSET: &str = "usd_micros";
/// Where their money comes from, and where it goes. The names of the accounts begin as `[pacing]` says by default.
const SOURCE: &str = "source:advertisers";
const SPEND: &str = "spend:bench";

/// What the campaigns of a bench have in common.
#[derive(Clone, Copy, Debug)]
pub struct CampaignSet {
    /// How many there are.
    pub count: u32,
    /// Whether a user may see each only so often.
    pub is_capped: bool,
}

impl CampaignSet {
    /// Opens and funds an account for each campaign, and makes the campaigns.
    pub fn make(self, binary: SocketAddr, http: SocketAddr) -> Result<Campaigns> {
        let mut session = Session::open(binary)?;
        let accounts: Vec<String> = (1..=self.count).map(account).collect();
        let wallets = accounts.iter().map(|account| (account.as_str(), AccountKind::Wallet));
        let others = [(SOURCE, AccountKind::Source), (SPEND, AccountKind::Collector)];
        session.open_all(others.into_iter().chain(wallets), ASSET)?;
        session.fund(SOURCE, &accounts, BUDGET_MICROS)?;
        self.tell(http, 1)
    }

    /// Gives all campaigns a plan of this version, one after the other.
    pub fn tell(self, http: SocketAddr, version: u64) -> Result<Campaigns> {
        let mut caller = Caller::open(http)?;
        let numbers = (1..=self.count).map(|campaign| {
            let path = format!("/v1/campaigns/bench-{campaign}");
            let answer = caller.put(&path, &self.plan(campaign, version))?;
            let number = answer["number"].as_u64().and_then(|number| u32::try_from(number).ok());
            number.with_context(|| format!("PUT {path} was answered without a number: {answer}"))
        });
        Ok(Campaigns(numbers.collect::<Result<_>>()?))
    }

    /// What is wanted of a campaign. A new version also changes the price.
    fn plan(self, campaign: u32, version: u64) -> Value {
        let mut plan = json!({
            "version": version,
            "account": account(campaign),
            "spend": SPEND,
            "budget_micros": BUDGET_MICROS,
            "zone": "UTC",
            "flights": [{ "starts_ms": 0, "ends_ms": 4_102_444_800_000_u64 }],
            "price_micros": PRICE_MICROS + (version % 2) as u32,
            "strategy": { "name": "as_fast_as_possible" },
        });
        if self.is_capped {
            plan["frequency"] = json!({ "bids_max": 100, "window_s": 3_600 });
        }
        plan
    }
}

fn account(campaign: u32) -> String {
    format!("campaign:bench-{campaign:05}")
}

/// A connection to the HTTP port that stays open.
struct Caller {
    socket: TcpStream,
    inbox: Vec<u8>,
}

impl Caller {
    fn open(http: SocketAddr) -> Result<Caller> {
        let socket = TcpStream::connect(http)?;
        socket.set_nodelay(true)?;
        Ok(Caller { socket, inbox: Vec::new() })
    }

    /// Puts a document; what the answer says.
    fn put(&mut self, path: &str, document: &Value) -> Result<Value> {
        let body = document.to_string();
        let request = format!(
            "PUT {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {TOKEN}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.socket.write_all(request.as_bytes())?;
        let (status, end) = loop {
            // Of what is no head yet, the parser only says that more must come.
            if !self.inbox.is_empty()
                && let Some(whole) = http::response(&self.inbox)?
            {
                break whole;
            }
            let mut chunk = [0; 4096];
            let read = self.socket.read(&mut chunk)?;
            ensure!(read > 0, "the server closed the connection instead of answering PUT {path}");
            self.inbox.extend_from_slice(&chunk[..read]);
        };
        let answer: Vec<u8> = self.inbox.drain(..end).collect();
        let text = String::from_utf8(answer)?;
        ensure!(matches!(status, 200 | 201), "PUT {path} was answered: {text}");
        let (_, body) = text.split_once("\r\n\r\n").context("an answer without a body")?;
        serde_json::from_str(body).with_context(|| format!("PUT {path} was answered with no JSON: {body}"))
    }
}
