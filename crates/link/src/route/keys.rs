//! `[[route]]` and `[[route_rule]]`: what an operator says of routes.

use anyhow::{Error, Result, anyhow};
use tidegate_config::{Count, Document, Milliseconds, NoDefault, Optional, Required, Text, Texts, config, words};
use tidegate_machines::shard_of;
use tidegate_queue::machine::is_queue_name;
use tidegate_queue::{Declared, RouteQueues, Routing};

use super::rule::{Choose, Rule};
use crate::checks::Checks;
use crate::target::LinkSettings;

words! {
    /// How a rule chooses between its queues.
    pub struct ChooseWord(Choose) {
        "weight" => Choose::Weight, "failover" => Choose::Failover, "least_loaded" => Choose::LeastLoaded
    }
}

config! {
    /// `[[route]]`
    pub struct RouteKeys in [["route"]] {
        name: Required<Text> = NoDefault, .., restart, "name, for logs, metrics and trails; at most 55 bytes";
        from: Required<Text> = NoDefault, .., restart,
            "the [[queue]] whose messages go to other queues here, as the [[route_rule]]s of this route say";
        batch: Count<usize> = 500, 1..=1_000, restart, "messages that are moved by one record";
        lease_ms: Milliseconds = 5_000, 1_000..=43_200_000, restart,
            "how long they are leased meanwhile: after a kill of this server they wait for so long";
        pause_max_ms: Milliseconds = 1_000, 100..=3_600_000, restart,
            "longest pause while queues cannot be asked; the first is 100 ms, each further one twice as long";
    }
}

config! {
    /// `[[route_rule]]`
    pub struct RuleKeys in [["route_rule"]] {
        route: Required<Text> = NoDefault, .., restart,
            "the [[route]] that it is of; the first rule in the file that fits a message is followed, and a message \
             that none fits is a dead letter";
        prefix: Optional<Texts> = NoDefault, .., restart,
            "it is for messages whose attribute begins with one of these; without it, for all";
        attribute: Text = "to", .., restart, "the attribute that prefix is about";
        contains: Optional<Texts> = NoDefault, .., restart,
            "it is for messages whose body has one of these texts, in upper or lower case; without it, for all";
        to: Required<Texts> = NoDefault, .., restart,
            "the [[queue]]s between which it chooses, each perhaps with a space and its weight behind it: \"fast 3\"";
        choose: ChooseWord = "weight", .., restart,
            "how: each gets its share (weight), the first that somebody receives from and that has room (failover), or \
             that one of these with the fewest messages (least_loaded)";
    }
}

/// A route as it is used.
#[derive(Clone, Debug)]
pub struct Route {
    /// What all links are told.
    pub link: LinkSettings,
    /// In their order.
    pub rules: Vec<Rule>,
    /// Messages at once.
    pub batch: usize,
}

impl Route {
    /// The queues that are chosen by how they are.
    pub fn watched(&self) -> impl Iterator<Item = &Box<str>> {
        let rules = self.rules.iter().filter(|rule| rule.choose != Choose::Weight);
        rules.flat_map(|rule| rule.to.iter().map(|(queue, _)| queue))
    }
}

/// Reads and checks all routes and rules. `declared` are the queues of the configuration, `shards` how many shards they
/// are on in a new directory.
pub fn routes(document: &Document, declared: &Declared, shards: u16) -> Result<Vec<Route>> {
    let keys: Vec<RouteKeys> = document.list()?;
    let mut checks = Checks::new(document, "route");
    let mut routes = Vec::with_capacity(keys.len());
    for (index, keys) in keys.into_iter().enumerate() {
        let row = checks.row(index, &keys.name, &keys.from)?;
        if !declared.contains_key(&keys.from) {
            return Err(row.wrong("from", no_queue(&keys.from)));
        }
        let RouteKeys { name, from, batch, lease_ms, pause_max_ms } = keys;
        let link = LinkSettings { kind: "route", name, from, lease_ms, pause_max_ms };
        routes.push(Route { link, rules: Vec::new(), batch });
    }
    for (index, keys) in document.list::<RuleKeys>()?.into_iter().enumerate() {
        let wrong = |key: &str, what: String| {
            anyhow!(document.error_at(&format!("route_rule[{index}].{key}"), format!("route_rule.{key}: {what}")))
        };
        let route = routes.iter_mut().find(|route| route.link.name == keys.route);
        let route = route.ok_or_else(|| wrong("route", format!("there is no [[route]] named {:?}", keys.route)))?;
        if route.rules.last().is_some_and(Rule::is_for_all) {
            let what = "no message comes to this rule: the one before it is for all; put this one first, or give that \
                one a prefix";
            return Err(wrong("route", what.to_owned()));
        }
        let rule = settled(keys, &route.link.from, declared, &wrong)?;
        let is_apart = |(to, _): &&(Box<str>, u64)| shard_of(to, shards) != shard_of(&route.link.from, shards);
        if let Some((to, _)) = rule.to.iter().find(is_apart) {
            let from = &route.link.from;
            let what = format!("{from:?} and {to:?} are on different shards; write one {{tag}} into both");
            return Err(wrong("to", what));
        }
        route.rules.push(rule);
    }
    let routing = routing(&routes);
    for (index, route) in routes.iter().enumerate() {
        let wrong = |key: &str, what: String| {
            anyhow!(document.error_at(&format!("route[{index}].{key}"), format!("route.{key}: {what}")))
        };
        if route.rules.is_empty() {
            return Err(wrong("name", format!("expected a [[route_rule]] with route = {:?}", route.link.name)));
        }
        let (queue, dead_letter_of) = (&route.link.from, |queue: &str| declared.get(queue)?.dead_letter.as_deref());
        if routing.goes_round(queue, dead_letter_of) {
            let what = format!(
                "messages of {queue:?} may come back to it by routes, or as dead letters that no rule fits: they would \
                 go round for ever"
            );
            return Err(wrong("from", what));
        }
    }
    Ok(routes)
}

/// What routes do with queues.
pub fn routing(routes: &[Route]) -> Routing {
    let queues = |route: &Route| RouteQueues {
        name: route.link.name.clone(),
        from: route.link.from.clone(),
        to: route.rules.iter().flat_map(|rule| rule.to.iter().map(|(queue, _)| queue.clone())).collect(),
        has_unfit: !route.rules.last().is_some_and(Rule::is_for_all),
    };
    Routing(routes.iter().map(queues).collect())
}

fn no_queue(name: &str) -> String {
    format!("there is no [[queue]] {name:?}")
}

fn settled(keys: RuleKeys, from: &str, declared: &Declared, wrong: &dyn Fn(&str, String) -> Error) -> Result<Rule> {
    let mut to: Vec<(Box<str>, u64)> = Vec::with_capacity(keys.to.len());
    for text in &keys.to {
        let (queue, weight) = match text.split_once(' ') {
            Some((queue, weight)) => (queue, Some(weight)),
            None => (&**text, None),
        };
        if !is_queue_name(queue) || !declared.contains_key(queue) {
            return Err(wrong("to", no_queue(queue)));
        }
        if queue == from {
            return Err(wrong("to", format!("{queue:?} is the queue that the messages come from")));
        }
        if to.iter().any(|(other, _)| **other == *queue) {
            return Err(wrong("to", format!("{queue:?} is there twice; give it a weight")));
        }
        let weight = match weight.map(|weight| weight.parse::<u64>()) {
            None => 1,
            Some(_) if keys.choose != Choose::Weight => {
                return Err(wrong("to", format!("{text:?}: a weight is of use only with choose = \"weight\"")));
            }
            Some(Ok(weight @ 1..=1_000)) => weight,
            Some(_) => return Err(wrong("to", format!("{text:?}: expected a weight of 1 to 1000 behind the queue"))),
        };
        to.push((queue.into(), weight));
    }
    for (key, texts) in [("prefix", &keys.prefix), ("contains", &keys.contains)] {
        if texts.as_ref().is_some_and(|texts| texts.is_empty() || texts.iter().any(|text| text.is_empty())) {
            return Err(wrong(key, "expected texts that are not empty; leave it out for all messages".to_owned()));
        }
    }
    if keys.attribute.is_empty() {
        return Err(wrong("attribute", "expected the name of an attribute; leave it out for \"to\"".to_owned()));
    }
    let contains = keys.contains.unwrap_or_default().iter().map(|word| word.to_lowercase().into()).collect();
    let (attribute, prefix) = (keys.attribute, keys.prefix.unwrap_or_default());
    Ok(Rule { attribute, prefix, contains, to, choose: keys.choose })
}
