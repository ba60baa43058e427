//! What a notice says: the token of a bid, and what it costs.

use serde::Deserialize;
use tidegate_pacer::token::{Bid, TOKEN_BYTES, TokenKey};
use tidegate_pacer::units::PriceMicros;
use utoipa::IntoParams;

use super::response::token_of;

/// What an exchange puts in the place of a value that it does not know, when it looks at an ad and nothing is sold.
const AUDIT: &str = "AUDIT";
/// The longest price that is read.
const PRICE_BYTES_MAX: usize = 32;

/// A notice that a bid has won, or costs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PaidNotice {
    /// The token of the bid.
    #[param(example = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")]
    pub token: String,
    /// `${AUCTION_PRICE}`: the price of a thousand. Absent, empty or not replaced: what was bid.
    #[serde(default)]
    #[param(required = false, example = "2.1")]
    pub price: String,
    /// `${AUCTION_CURRENCY}`.
    #[serde(default)]
    #[param(required = false, example = "USD")]
    pub currency: String,
    /// What was bid in.
    #[serde(default)]
    #[param(required = false, example = "USD")]
    pub bid_currency: String,
}

/// A notice that a bid has lost.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LossNotice {
    /// The token of the bid.
    #[param(example = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")]
    pub token: String,
    /// What shows that this is the `lurl` of the bid.
    #[param(example = "0123456789abcdef")]
    pub proof: String,
    /// `${AUCTION_LOSS}`: why, by the list "Loss Reason Codes".
    #[serde(default)]
    #[param(required = false, example = "102")]
    pub reason: String,
}

/// What is wrong with a notice: the parameter, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong(pub &'static str, pub &'static str);

/// A token that this server has not made.
pub const TOKEN: Wrong = Wrong("token", "token: this server has made no such bid");

/// The bid of a token, which this server has made.
pub fn bid_of(tokens: &TokenKey, token: &str) -> Result<([u8; TOKEN_BYTES], Bid), Wrong> {
    token_of(token).and_then(|token| Some((token, tokens.open(&token)?))).ok_or(TOKEN)
}

impl LossNotice {
    /// The token of the bid that has lost.
    pub fn token(&self, tokens: &TokenKey) -> Result<[u8; TOKEN_BYTES], Wrong> {
        let (token, _) = bid_of(tokens, &self.token)?;
        let proof = u64::from_str_radix(&self.proof, 16).ok();
        let is_proved = proof == Some(tokens.proof_of_loss(&token));
        if is_proved { Ok(token) } else { Err(Wrong("proof", "proof: it is not that of this bid")) }
    }
}

impl PaidNotice {
    /// What `bid` costs; `None` if nothing was sold.
    pub fn price(&self, bid: &Bid) -> Result<Option<PriceMicros>, Wrong> {
        if [&self.price, &self.currency].into_iter().any(|value| value == AUDIT) {
            return Ok(None);
        }
        let is_said = |value: &str| !value.is_empty() && !value.starts_with("${");
        if is_said(&self.currency)
            && is_said(&self.bid_currency)
            && !self.currency.eq_ignore_ascii_case(&self.bid_currency)
        {
            return Err(Wrong("currency", "currency: expected the one that was bid in"));
        }
        if !is_said(&self.price) {
            return Ok(Some(bid.price));
        }
        let wrong = Wrong("price", "price: expected the price of a thousand as a decimal, such as 2.1");
        let is_decimal = self.price.len() <= PRICE_BYTES_MAX
            && self.price.starts_with(|first: char| matches!(first, '0'..='9' | '.'));
        let cpm = self.price.parse::<f64>().ok().filter(|_| is_decimal).ok_or(wrong)?;
        // A part of a micro is a whole one: no notice costs less than the exchange bills.
        match micros_of(cpm) {
            micros if micros <= u64::from(bid.price.0) => Ok(Some(PriceMicros(micros as u32))),
            _ if cpm * 1e3 <= f64::from(bid.price.0) * ABOVE_BID_MAX => Ok(Some(bid.price)),
            _ => Err(Wrong("price", "price: expected at most what was bid")),
        }
    }
}

/// A price that is so little above the bid is the bid: what is left of it by an exchange that counts in 32 bits.
const ABOVE_BID_MAX: f64 = 1.0 + f32::EPSILON as f64;

/// A price of a thousand in micros for one. A thousandth of a micro is what arithmetic with 64 bits leaves.
fn micros_of(cpm: f64) -> u64 {
    let nanos = (cpm * 1e6).round() as u64;
    nanos.div_ceil(1_000)
}

#[cfg(test)]
mod tests {
    use tidegate_machines::TimeMs;
    use tidegate_pacer::machine::LeaseId;
    use tidegate_pacer::token::Opening;

    use super::*;

    fn bid() -> Bid {
        let (price, at) = (PriceMicros(2_500), TimeMs(1_795_000_000_000));
        Bid { lease: LeaseId(1), number: 1, price, at, opened: Opening::of(at) }
    }

    #[test]
    fn a_price_is_rounded_up_and_never_above_the_bid() {
        let price = |price: &str| {
            let notice = PaidNotice { price: price.to_owned(), ..PaidNotice::default() };
            notice.price(&bid()).map(|price| price.map(|price| price.0)).map_err(|Wrong(field, _)| field)
        };
        for (said, costs) in [
            ("2.1", 2_100),
            ("2.100001", 2_101),
            ("2.5", 2_500),
            ("2.5000000000000004", 2_500),
            ("2", 2_000),
            ("0", 0),
            ("1e-3", 1),
            (".5", 500),
        ] {
            assert_eq!(price(said), Ok(Some(costs)), "{said}");
        }
        for unknown in ["", "${AUCTION_PRICE}"] {
            assert_eq!(price(unknown), Ok(Some(2_500)), "{unknown:?}");
        }
        assert_eq!(price("AUDIT"), Ok(None));
        for wrong in
            ["2.5001", "inf", ".", "..5", "-1", "NaN", "+1", "2,1", "1e99", "WmQxh2jZ5G8oYhY0Zg", &"1".repeat(33)]
        {
            assert_eq!(price(wrong), Err("price"), "{wrong}");
        }
    }

    #[test]
    fn a_price_that_an_exchange_counts_in_32_bits_is_at_most_the_bid() {
        for micros in (1..4_000_000_000).step_by(12_345_678).chain([1, 123_456, 7_999_999, 16_777_217, u32::MAX]) {
            let bid = Bid { price: PriceMicros(micros), ..bid() };
            let price = |cpm: f64| PaidNotice { price: cpm.to_string(), ..PaidNotice::default() }.price(&bid).ok();
            let cpm = f64::from(micros) / 1e3;
            let costs = price(f64::from(cpm as f32)).flatten().expect("it is the bid's, as well as can be said").0;
            assert!(costs <= micros && f64::from(costs) >= f64::from(micros) * (1.0 - 1e-6), "{costs} of {micros}");
            // By a thousandth of a micro more than arithmetic leaves.
            assert_eq!(price(cpm * (1.0 + 1e-6) + 1e-6), None, "{micros}");
        }
    }

    #[test]
    fn a_price_of_another_currency_is_none() {
        let price = |currency: &str, bid_currency: &str| {
            let (currency, bid_currency) = (currency.to_owned(), bid_currency.to_owned());
            PaidNotice { currency, bid_currency, ..PaidNotice::default() }.price(&bid()).is_ok()
        };
        assert!(price("USD", "usd") && price("", "USD") && price("${AUCTION_CURRENCY}", "USD") && price("EUR", ""));
        assert!(!price("EUR", "USD"));
    }

    #[test]
    fn a_token_is_one_that_was_made_here() {
        let key = TokenKey::derive(b"secret");
        let token = key.sign(&bid());
        let text = super::super::response::token_text(&token);
        let text = std::str::from_utf8(&text).expect("letters");
        assert_eq!(bid_of(&key, text), Ok((token, bid())));
        let loss = |proof: u64| {
            let notice = LossNotice { token: text.to_owned(), proof: format!("{proof:x}"), reason: String::new() };
            notice.token(&key).map_err(|Wrong(field, _)| field)
        };
        assert_eq!(loss(key.proof_of_loss(&token)), Ok(token));
        assert_eq!(loss(key.proof_of_loss(&token) ^ 1), Err("proof"));
        assert_eq!(bid_of(&TokenKey::derive(b"other"), text), Err(TOKEN));
        assert_eq!(bid_of(&key, "zzz"), Err(TOKEN));
    }
}
