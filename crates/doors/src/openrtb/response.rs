//! A bid response, written into one buffer. Prices are decimals with at most three places: a micro for one impression
//! is a thousandth of the price of a thousand, so nothing is rounded.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use std::io::Write;

use tidegate_pacer::bidder::{AuctionBid, Auctioned, NoBid};
use tidegate_pacer::openrtb::CurrencyCode;
use tidegate_pacer::token::{TOKEN_BYTES, TokenKey};
use tidegate_pacer::units::PriceMicros;

use super::request::Decoded;
use super::settings::{ChargeOn, OpenRtbSettings};
use crate::json::Text;

/// Characters of a token in base64.
pub const TOKEN_CHARS: usize = (TOKEN_BYTES * 4).div_ceil(3);
/// What most bids take, beside their markup.
const BID_BYTES: usize = 1_024;

/// A token as URLs and ids of bids have it.
pub fn token_text(token: &[u8; TOKEN_BYTES]) -> [u8; TOKEN_CHARS] {
    let mut text = [0; TOKEN_CHARS];
    BASE64_URL_SAFE_NO_PAD.encode_slice(token, &mut text).expect("it has room for a token");
    text
}

/// The token of a text.
pub fn token_of(text: &str) -> Option<[u8; TOKEN_BYTES]> {
    let mut token = [0; TOKEN_BYTES];
    let is_whole = BASE64_URL_SAFE_NO_PAD.decode_slice(text, &mut token).ok() == Some(TOKEN_BYTES);
    is_whole.then_some(token)
}

/// What a response is made of, beside the auction.
pub struct ResponseWriter<'s> {
    /// How notices come back.
    pub settings: &'s OpenRtbSettings,
    /// Who signs them.
    pub tokens: &'s TokenKey,
    /// For so many seconds a bid may still become an impression.
    pub expires_s: u64,
}

impl ResponseWriter<'_> {
    /// The response with the bids of an auction, of which there is one at least.
    pub fn bids(&self, decoded: &Decoded<'_>, auctioned: &Auctioned) -> Vec<u8> {
        let currency = auctioned.currency.unwrap_or(CurrencyCode::USD);
        let markup: usize = auctioned.bids.iter().map(|bid| bid.offering.written(&bid.fit).len()).sum();
        let mut out = Vec::with_capacity(markup + BID_BYTES * auctioned.bids.len());
        out.extend_from_slice(b"{\"id\":");
        text(&mut out, &decoded.id);
        write(&mut out, format_args!(",\"cur\":\"{}\",\"seatbid\":[", currency.as_str()));
        let mut is_first = true;
        for (place, bid) in auctioned.bids.iter().enumerate() {
            let seat = &bid.offering.seat;
            // Bids of one seat stand together, where the first of them is.
            if auctioned.bids[..place].iter().any(|before| before.offering.seat == *seat) {
                continue;
            }
            comma(&mut out, &mut is_first);
            out.extend_from_slice(b"{\"bid\":[");
            let mut is_first_of_seat = true;
            for bid in auctioned.bids[place..].iter().filter(|bid| bid.offering.seat == *seat) {
                comma(&mut out, &mut is_first_of_seat);
                self.bid(&mut out, (bid, &decoded.impression_ids[bid.impression]), currency);
            }
            out.push(b']');
            if let Some(seat) = seat {
                out.extend_from_slice(b",\"seat\":");
                text(&mut out, seat);
            }
            out.push(b'}');
        }
        out.extend_from_slice(b"]}");
        out
    }

    fn bid(&self, out: &mut Vec<u8>, (bid, impression): (&AuctionBid, &Text<'_>), currency: CurrencyCode) {
        out.extend_from_slice(b"{\"id\":\"");
        match &bid.token {
            Some(token) => out.extend_from_slice(&token_text(token)),
            None => write(out, format_args!("test-{}", bid.impression)),
        }
        out.extend_from_slice(b"\",\"impid\":");
        text(out, impression);
        out.extend_from_slice(b",\"price\":");
        cpm(out, bid.price);
        if let Some(token) = &bid.token
            && !self.settings.notice_base.is_empty()
        {
            self.notices(out, token, currency);
        }
        out.extend_from_slice(bid.offering.written(&bid.fit));
        if let Some(deal) = bid.offering.deal(&bid.fit) {
            out.extend_from_slice(b",\"dealid\":");
            text(out, deal);
        }
        write(out, format_args!(",\"exp\":{}}}", self.expires_s));
    }

    /// The notice that costs, and that of a loss. Who does not have to call us for anything does not.
    fn notices(&self, out: &mut Vec<u8>, token: &[u8; TOKEN_BYTES], currency: CurrencyCode) {
        let (proof, token) = (self.tokens.proof_of_loss(token), token_text(token));
        let base = &*self.settings.notice_base;
        let (field, path) = match self.settings.charge_on {
            ChargeOn::Billing => ("burl", "billing"),
            ChargeOn::Win => ("nurl", "win"),
        };
        write(out, format_args!(",\"{field}\":\"{base}/openrtb/2.6/{path}?token="));
        out.extend_from_slice(&token);
        out.extend_from_slice(b"&price=${AUCTION_PRICE}&currency=${AUCTION_CURRENCY}&bid_currency=");
        out.extend_from_slice(currency.as_str().as_bytes());
        write(out, format_args!("\",\"lurl\":\"{base}/openrtb/2.6/loss?token="));
        out.extend_from_slice(&token);
        write(out, format_args!("&proof={proof:016x}&reason=${{AUCTION_LOSS}}\""));
    }
}

/// The response that there is no bid, and why: for people who look for the reason.
pub fn no_bid(decoded: &Decoded<'_>, auctioned: &Auctioned) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(b"{\"id\":");
    text(&mut out, &decoded.id);
    // 9: the user has seen what there is as often as may be. Of all other reasons, the list has none.
    let capped = auctioned.no_bids[NoBid::FrequencyCapped as usize];
    write(&mut out, format_args!(",\"nbr\":{}", if capped > 0 { 9 } else { 0 }));
    let Auctioned { candidates, unfit, below_floor, .. } = auctioned;
    write(&mut out, format_args!(",\"ext\":{{\"candidates\":{candidates},\"no_bids\":{{"));
    let of_auction = [("not_targeted", unfit), ("below_floor", below_floor)];
    let of_bidder = NoBid::ALL.iter().zip(&auctioned.no_bids).map(|(why, count)| (why.name(), count));
    let mut is_first = true;
    for (why, count) in of_auction.into_iter().chain(of_bidder).filter(|(_, count)| **count > 0) {
        comma(&mut out, &mut is_first);
        write(&mut out, format_args!("\"{why}\":{count}"));
    }
    out.extend_from_slice(b"}}}");
    out
}

/// The price of a thousand.
fn cpm(out: &mut Vec<u8>, PriceMicros(micros): PriceMicros) {
    let (whole, part) = (micros / 1_000, micros % 1_000);
    write(out, format_args!("{whole}"));
    if part > 0 {
        let digits = [part / 100, part / 10 % 10, part % 10].map(|digit| b'0' + digit as u8);
        let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
        out.push(b'.');
        out.extend_from_slice(&digits[..digits.len() - zeros]);
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("memory takes what is written");
}

fn write(out: &mut Vec<u8>, what: std::fmt::Arguments<'_>) {
    out.write_fmt(what).expect("memory takes what is written");
}

fn comma(out: &mut Vec<u8>, is_first: &mut bool) {
    if !std::mem::take(is_first) {
        out.push(b',');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_written_to_the_micro() {
        let written = |micros: u32| {
            let mut out = Vec::new();
            cpm(&mut out, PriceMicros(micros));
            String::from_utf8(out).expect("digits")
        };
        let cases =
            [(1, "0.001"), (10, "0.01"), (2_500, "2.5"), (3_000, "3"), (2_101, "2.101"), (u32::MAX, "4294967.295")];
        for (micros, said) in cases {
            assert_eq!(written(micros), said);
        }
    }

    #[test]
    fn a_token_is_read_from_its_text_alone() {
        let token: [u8; TOKEN_BYTES] = std::array::from_fn(|at| (at as u8).wrapping_mul(37));
        let text = String::from_utf8(token_text(&token).into()).expect("letters");
        assert_eq!(token_of(&text), Some(token));
        for wrong in [&text[1..], &format!("{text}="), &format!("{text}A"), "", &text.replace(&text[..1], "+")] {
            assert_eq!(token_of(wrong), None, "{wrong}");
        }
    }
}
