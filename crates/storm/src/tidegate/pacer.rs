//! Campaigns of a bench: their accounts in the ledger, and their plans over HTTP.

use super::http;
use super::server::TOKEN;
use super::session::Session;
use crate::hammer::{Campaigns, openrtb};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use tidegate_wire::proto::AccountKind;

/// What each campaign may spend, in millionths: more than any run can.
const BUDGET_MICROS: u64 = 100_000_000_000_000;
/// What a campaign bids for one impression.
const PRICE_MICROS: u32 = 2_500;
/// What the campaigns' accounts are counted in.
const ASSET: &str = "usd_micros";
/// Connections by which campaigns are reloaded: a plan is durable when it is taken, and they share a sync.
const RELOADERS: u32 = 8;
/// Where their money comes from, and where it goes. The names of the accounts begin as `[pacing]` says by default.
const SOURCE: &str = "source:advertisers";
const SPEND: &str = "spend:bench";

/// What the campaigns of a bench have in common.
#[derive(Clone, Copy, Debug, Default)]
pub struct CampaignSet {
    /// How many there are.
    pub count: u32,
    /// Whether a user may see each only so often.
    pub is_capped: bool,
    /// Whether they take part in auctions of OpenRTB, each on one of the sites and apps of the load.
    pub is_auctioned: bool,
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
        let mut caller = Caller::open(http)?;
        Ok(Campaigns((1..=self.count).map(|campaign| self.put(&mut caller, campaign, 1)).collect::<Result<_>>()?))
    }

    /// Gives all campaigns new plans, again and again, until `is_over`: how many plans were taken.
    pub fn reload(self, http: SocketAddr, is_over: &AtomicBool) -> Result<u64> {
        std::thread::scope(|scope| {
            let reloaders: Vec<_> = (0..RELOADERS)
                .map(|first| scope.spawn(move || self.reload_each(http, first + 1, RELOADERS as usize, is_over)))
                .collect();
            reloaders.into_iter().map(|reloader| reloader.join().expect("a reloader does not panic")).sum()
        })
    }

    /// The same for each `step`th campaign from `first` on.
    fn reload_each(self, http: SocketAddr, first: u32, step: usize, is_over: &AtomicBool) -> Result<u64> {
        let (mut caller, mut taken) = (Caller::open(http)?, 0);
        for version in 2.. {
            for campaign in (first..=self.count).step_by(step) {
                if is_over.load(Ordering::Relaxed) {
                    return Ok(taken);
                }
                self.put(&mut caller, campaign, version)?;
                taken += 1;
            }
        }
        unreachable!("versions do not come to an end")
    }

    /// Gives a campaign a plan of this version; the campaign's number.
    fn put(self, caller: &mut Caller, campaign: u32, version: u64) -> Result<u32> {
        let path = format!("/v1/campaigns/bench-{campaign}");
        let answer = caller.put(&path, &self.plan(campaign, version))?;
        let number = answer["number"].as_u64().and_then(|number| u32::try_from(number).ok());
        number.with_context(|| format!("PUT {path} was answered without a number: {answer}"))
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
        if self.is_auctioned {
            plan["openrtb"] = openrtb_of(campaign);
        }
        plan
    }
}

/// What a campaign buys: one place, in all sizes, and what it shows there.
fn openrtb_of(campaign: u32) -> Value {
    let place = campaign as usize % openrtb::PLACES_BOUGHT;
    let creative = |id: String, media: &str| {
        json!({
            "id": id,
            "media": media,
            "markup": "<a href=\"https://shoes.example/?c=bench\"><img src=\"https://cdn.shoes.example/a.png\"></a>",
            "domains": ["shoes.example"],
            "categories": ["IAB18-3"],
        })
    };
    let mut creatives: Vec<Value> = vec![creative("film".into(), "video"), creative("parts".into(), "native")];
    for (width, height) in openrtb::SIZES {
        let mut banner = creative(format!("{width}x{height}"), "banner");
        (banner["width"], banner["height"]) = (json!(width), json!(height));
        creatives.push(banner);
    }
    json!({ "sites": [openrtb::site(place)], "apps": [openrtb::app(place)], "creatives": creatives })
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
