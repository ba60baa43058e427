//! The pacer's frames on the binary port: packets from templates, in which only what differs is written.
//!
//! Why templates: encoding ten requests costs as much as everything else that the load does for a packet, and the load
//! shares its cores with the server.

use super::lottery::WinLottery;
use super::protocol::To;
use super::{Answer, Answers, Campaigns, Protocol, Won};
use crate::tidegate::session;
use crate::workload::scramble;
use anyhow::{Result, bail};
use std::net::TcpStream;
use tidegate_wire::pacer::{
    BidRequestRef, FAMILY, PacerReplyRef, WinRef, encode_bid_requests, encode_wins, read_reply,
};
use tidegate_wire::proto::reply_frame;
use tidegate_wire::{ReplyBodyRef, RoomRef, Split, decode_reply, limits, split};

/// Correlations of packets: the tag is added. All of them have five bytes on the wire, so that one replaces another.
const PACKETS: u64 = 1 << 28;

/// The correlation of all notices: their answers are counted, not told apart.
const NOTICES: u64 = 1;

/// Where the correlation of a frame begins: behind two bytes of length and a tag.
const CORRELATION_AT: usize = 3;

/// What stands for the id and the user of a request in a template, until it is found and replaced.
const PLACEHOLDER: u64 = 0x5a5a_a5a5_5a5a_a5a5;

/// A packet with the campaigns of its requests.
struct Template {
    bytes: Vec<u8>,
    /// Where the id and the user of each request begin.
    numbers_at: Vec<(u16, u16)>,
}

/// Asks over the binary port of Tidegate, or of a peer that answers the same frames.
pub struct Frames {
    templates: Vec<Template>,
    next_template: usize,
    packet: u64,
    users: u32,
    asked: u64,
    token: Option<String>,
    wins: WinLottery,
}

impl Frames {
    /// Packets of `packet` requests, for each campaign equally often.
    pub fn new(campaigns: &Campaigns, packet: usize, users: u32, key: u64) -> Frames {
        // In an order that looks random, as that of auctions does.
        let mut campaigns = campaigns.0.clone();
        campaigns.sort_by_cached_key(|campaign| scramble(u64::from(*campaign)));
        let templates = campaigns.len() / greatest_common_divisor(campaigns.len(), packet);
        let template = |index: usize| {
            let of_packet = (index * packet..(index + 1) * packet).map(|slot| campaigns[slot % campaigns.len()]);
            Template::new(of_packet, key)
        };
        Frames {
            templates: (0..templates).map(template).collect(),
            next_template: 0,
            packet: packet as u64,
            users,
            asked: 0,
            token: None,
            wins: WinLottery::default(),
        }
    }

    /// This share of the bids wins.
    pub fn winning(self, share: f64) -> Frames {
        Frames { wins: WinLottery::of(share), ..self }
    }

    /// The service that asks; without one no Hello is sent.
    pub fn with_token(self, token: Option<String>) -> Frames {
        Frames { token, ..self }
    }
}

impl Template {
    fn new(campaigns: impl Iterator<Item = u32>, key: u64) -> Template {
        let request = |campaign| BidRequestRef { id: PLACEHOLDER, campaign, user: PLACEHOLDER, key, price_micros: 0 };
        let mut bytes = Vec::new();
        encode_bid_requests(&mut bytes, PACKETS, campaigns.map(request));
        let places: Vec<u16> = bytes
            .windows(8)
            .enumerate()
            .filter(|(_, window)| *window == PLACEHOLDER.to_le_bytes())
            .map(|(at, _)| at as u16)
            .collect();
        Template { bytes, numbers_at: places.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect() }
    }
}

impl Protocol for Frames {
    type Won = Won;
    const IN_ORDER: bool = false;

    fn greet(&mut self, socket: &mut TcpStream) -> Result<()> {
        self.token.as_ref().map_or(Ok(()), |token| session::log_in_as(socket, token))
    }

    fn bids_per_packet(&self) -> u64 {
        self.packet
    }

    #[inline]
    fn ask(&mut self, tag: u32, out: &mut Vec<u8>) {
        let template = &self.templates[self.next_template];
        self.next_template = (self.next_template + 1) % self.templates.len();
        let start = out.len();
        out.extend_from_slice(&template.bytes);
        let frame = &mut out[start..];
        let correlation = PACKETS + u64::from(tag);
        for (index, byte) in frame[CORRELATION_AT..CORRELATION_AT + 5].iter_mut().enumerate() {
            *byte = (correlation >> (7 * index)) as u8 & 0x7f | if index < 4 { 0x80 } else { 0 };
        }
        for (id_at, user_at) in &template.numbers_at {
            self.asked += 1;
            let id = scramble(self.asked);
            let user = scramble(((id >> 32) * u64::from(self.users)) >> 32);
            frame[usize::from(*id_at)..][..8].copy_from_slice(&id.to_le_bytes());
            frame[usize::from(*user_at)..][..8].copy_from_slice(&user.to_le_bytes());
        }
    }

    #[inline]
    fn answer(&mut self, bytes: &[u8], answers: &mut Answers, won: &mut Vec<Won>) -> Result<Option<Answer>> {
        let Split::Frame(range) = split(bytes, limits::FRAME_BYTES_MAX)? else { return Ok(None) };
        let end = range.end;
        let reply = decode_reply(&bytes[range])?;
        match reply.body {
            ReplyBodyRef::Room(RoomRef { family: FAMILY, body }) => match read_reply(body)? {
                PacerReplyRef::Bids(bids) => {
                    if bids.len() as u64 != self.packet {
                        bail!("{} requests were answered with {} bids", self.packet, bids.len());
                    }
                    for bid in bids {
                        match <&[u8; _]>::try_from(bid.token) {
                            Ok(token) => {
                                answers.bids += 1;
                                won.extend(self.wins.draw().map(|share| share.of(token, bid.price_micros)));
                            }
                            Err(_) if bid.token.is_empty() => answers.no_bid(bid.no_bid),
                            Err(_) => bail!("a bid has a token of {} bytes", bid.token.len()),
                        }
                    }
                }
                PacerReplyRef::Outcomes(outcomes) => outcomes.for_each(|outcome| answers.notice(outcome)),
                other => bail!("an answer to bids or wins was expected, not {other:?}"),
            },
            ReplyBodyRef::Other(reply_frame::Body::Error(error)) if error.code == "busy" => answers.refuse("busy"),
            ReplyBodyRef::Other(reply_frame::Body::Error(error)) => {
                bail!("the server said {}: {}", error.code, error.detail)
            }
            other => bail!("an answer of the pacer was expected, not {other:?}"),
        }
        let to = match reply.correlation.checked_sub(PACKETS) {
            Some(tag) => To::Packet(u32::try_from(tag).unwrap_or(u32::MAX)),
            None => To::Notices,
        };
        Ok(Some(Answer { bytes: end, to }))
    }

    fn notify(&mut self, won: &mut Vec<Won>, out: &mut Vec<u8>) -> u64 {
        let frames = won.chunks(limits::PACER_ITEMS_MAX);
        let count = frames.len() as u64;
        for wins in frames {
            let wins = wins.iter().map(|won| WinRef { token: &won.token, price_micros: won.price_micros });
            encode_wins(out, NOTICES, wins);
        }
        won.clear();
        count
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};
    use tidegate_wire::pacer::read_request;
    use tidegate_wire::pacer::{BidsWriter, NoBidReason, NoticeOutcome, NoticeOutcomesWriter, PacerRequestRef};
    use tidegate_wire::{BodyRef, decode_request};

    /// The requests of the frames in `stream`, by correlation.
    fn requests_of(stream: &[u8]) -> Vec<(u64, Vec<BidRequestRef>)> {
        let (mut at, mut all) = (0, vec![]);
        while let Split::Frame(range) = split(&stream[at..], limits::FRAME_BYTES_MAX).unwrap() {
            let request = decode_request(&stream[at..][range.clone()]).unwrap();
            let BodyRef::Room(room) = request.body else { panic!("a room") };
            let PacerRequestRef::Bids(bids) = read_request(room.body).unwrap() else { panic!("bids") };
            all.push((request.correlation, bids.collect()));
            at += range.end;
            if at == stream.len() {
                break;
            }
        }
        all
    }

    #[test]
    fn every_campaign_is_asked_for_equally_often_and_every_id_once() {
        for (campaigns, packet) in [("1-30", 10), ("1-7", 10), ("5", 1), ("1-300", 256)] {
            let campaigns: Campaigns = campaigns.parse().unwrap();
            let mut frames = Frames::new(&campaigns, packet, 50, 9);
            let rounds = 2 * frames.templates.len();
            let mut out = vec![];
            (0..rounds as u32).for_each(|tag| frames.ask(tag * 1_000, &mut out));
            let packets = requests_of(&out);
            let correlations: Vec<u64> = packets.iter().map(|(correlation, _)| *correlation).collect();
            assert_eq!(correlations, (0..rounds as u64).map(|tag| PACKETS + tag * 1_000).collect::<Vec<_>>());
            let requests: Vec<BidRequestRef> = packets.into_iter().flat_map(|(_, requests)| requests).collect();
            assert_eq!(requests.len(), rounds * packet);
            let ids: HashSet<u64> = requests.iter().map(|request| request.id).collect();
            assert_eq!(ids.len(), requests.len());
            let users: HashSet<u64> = requests.iter().map(|request| request.user).collect();
            assert!(users.len() <= 50 && requests.iter().all(|request| (request.key, request.price_micros) == (9, 0)));
            let mut by_campaign = HashMap::new();
            requests.iter().for_each(|request| *by_campaign.entry(request.campaign).or_insert(0) += 1);
            let counts: HashSet<usize> = by_campaign.values().copied().collect();
            assert_eq!((by_campaign.len(), counts.len()), (campaigns.0.len(), 1), "{by_campaign:?}");
        }
    }

    #[test]
    fn answers_are_counted_and_a_share_of_the_bids_wins() {
        let mut frames = Frames::new(&"1".parse().unwrap(), 10, 1, 0).winning(0.25);
        let (mut answers, mut won) = (Answers::default(), vec![]);
        for tag in 0..100 {
            let mut bytes = vec![];
            let mut reply = BidsWriter::begin(&mut bytes, PACKETS + tag);
            (0..8).for_each(|_| reply.bid(1_000, &[7; 32]));
            reply.no_bid(NoBidReason::Throttled);
            reply.no_bid(NoBidReason::NoLease);
            reply.finish();
            for cut in [1, bytes.len() - 1] {
                assert_eq!(frames.answer(&bytes[..cut], &mut answers, &mut won).unwrap(), None);
            }
            let answer = frames.answer(&bytes, &mut answers, &mut won).unwrap().unwrap();
            assert_eq!(answer, Answer { bytes: bytes.len(), to: To::Packet(tag as u32) });
        }
        assert_eq!((answers.bids, answers.requests(), won.len()), (800, 1_000, 200));
        assert_eq!(answers.no_bids[NoBidReason::Throttled as usize], 100);
        assert!(won.iter().all(|won| won.token == [7; 32] && (500..=1_000).contains(&won.price_micros)));
        let mut out = vec![];
        won.extend_from_within(..100);
        assert_eq!((frames.notify(&mut won, &mut out), won.len()), (2, 0));
        let mut bytes = vec![];
        let mut reply = NoticeOutcomesWriter::begin(&mut bytes, NOTICES);
        [NoticeOutcome::Taken, NoticeOutcome::Late].into_iter().for_each(|outcome| reply.push(outcome));
        reply.finish();
        let answer = frames.answer(&bytes, &mut answers, &mut won).unwrap().unwrap();
        assert_eq!((answer.to, answers.notices[NoticeOutcome::Late as usize]), (To::Notices, 1));
    }

    #[test]
    fn an_answer_of_another_length_is_an_error() {
        let mut frames = Frames::new(&"1".parse().unwrap(), 10, 1, 0);
        let mut bytes = vec![];
        let mut reply = BidsWriter::begin(&mut bytes, PACKETS);
        reply.no_bid(NoBidReason::Throttled);
        reply.finish();
        let error = frames.answer(&bytes, &mut Answers::default(), &mut vec![]).unwrap_err();
        assert_eq!(error.to_string(), "10 requests were answered with 1 bids");
    }
}
