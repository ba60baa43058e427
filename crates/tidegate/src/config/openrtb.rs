//! `[pacing.openrtb]`: how exchanges tell what became of bids.

use anyhow::Result;
use tidegate_config::{Document, Text, config, words};
use tidegate_doors::openrtb::settings::{ChargeOn, OpenRtbSettings};

config! {
    /// `[pacing.openrtb]`.
    pub struct OpenRtbKeys in "pacing.openrtb" {
        notice_base_url: Text = "", .., restart,
            "where exchanges reach this server over HTTP, such as \"https://bids.example.com\": notices of bids go to \
             paths below it. Empty: bids have no notice URLs, and whoever knows of wins tells them by /v1/wins";
        charge_on: ChargeWord = "billing", .., restart,
            "which notice is a win that costs: \"billing\" (burl), when the exchange bills, or \"win\" (nurl), when \
             the auction is won, for exchanges without burl";
    }
}

words! {
    /// Which notice costs.
    pub struct ChargeWord(ChargeOn) { "billing" => ChargeOn::Billing, "win" => ChargeOn::Win }
}

/// Whose billing notices come within less after their bids has exchanges that show ads at once.
const BILLING_DEADLINE_MS: u64 = 60_000;

/// What the door is told.
pub fn openrtb_settings(document: &Document) -> Result<OpenRtbSettings> {
    let OpenRtbKeys { notice_base_url, charge_on } = document.section()?;
    let key = "pacing.openrtb.notice_base_url";
    OpenRtbSettings::new(&notice_base_url, charge_on)
        .map_err(|why| document.error_at(key, format!("{key}: {why}")).into())
}

/// What an operator should know of a deadline that is too short for them.
pub fn deadline_warning(settings: &OpenRtbSettings, win_deadline_ms: u64) -> Option<String> {
    let is_short = settings.charge_on == ChargeOn::Billing && win_deadline_ms < BILLING_DEADLINE_MS;
    (is_short && !settings.notice_base.is_empty()).then(|| {
        format!(
            "pacing.win_deadline_ms is {win_deadline_ms}: exchanges send billing notices when ads are shown, which may \
             be minutes after the bid, and what comes later is not counted; set {BILLING_DEADLINE_MS} or more, or \
             pacing.openrtb.charge_on = \"win\""
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::schema;

    #[test]
    fn an_address_that_is_none_is_named_with_its_line() {
        let text = "[pacing.openrtb]\ncharge_on = \"win\"\nnotice_base_url = \"bids.example.com\"\n";
        let document = Document::of("test.toml", text, &schema(&[])).expect("it can be read");
        let error = openrtb_settings(&document).expect_err("it has no scheme").to_string();
        assert!(error.starts_with("test.toml:3: pacing.openrtb.notice_base_url: "), "{error}");
    }
}
