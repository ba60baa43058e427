//! Properties, for any input.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// Any number, and those that measurements have.
fn number() -> BoxedStrategy<f64> {
    prop_oneof![any::<f64>(), 0.0..1e6, Just(0.0), Just(f64::NAN), Just(f64::INFINITY), Just(-1.0)].boxed()
}

fn any_day() -> BoxedStrategy<Day> {
    let weights = vec(prop_oneof![number(), 0.0..10.0], 24);
    let day = weights.prop_map(|weights| Day::new(&std::array::from_fn(|quarter| weights[quarter / 4])));
    prop_oneof![Just(Day::flat()), day].boxed()
}

/// Told anything, under names that exist and one that does not.
fn any_parameters() -> impl Strategy<Value = BTreeMap<Box<str>, i64>> {
    let mut names: Vec<_> = STRATEGIES.iter().flat_map(|row| row.parameters).map(|parameter| parameter.name).collect();
    names.push("other");
    btree_map(select(names).prop_map(Box::from), prop_oneof![any::<i64>(), 0..2_000_i64], 0..4)
}

/// Anything at all.
fn any_case() -> BoxedStrategy<Case> {
    let time = || prop_oneof![any::<u64>(), MIDNIGHT..=MIDNIGHT + 2 * DAY];
    let money = || prop_oneof![any::<u64>(), 0..=100_000_000_u64];
    let memory = proptest::array::uniform4(prop_oneof![number(), 0.0..2.0]).prop_map(Memory);
    let plan = (time(), time(), time(), money(), any::<u32>(), any_parameters());
    let state = (money(), money(), prop_oneof![any::<u64>(), 0..200_000_u64], memory);
    (plan, state, number(), number(), number(), any_day())
        .prop_map(|(plan, state, requests_per_s, win_rate, win_price, day)| {
            let (begins, ends, now, budget, price_max, parameters) = plan;
            let (spent, reserved, since_ms, memory) = state;
            let horizon = Horizon { begins: TimeMs(begins), ends: TimeMs(ends) };
            Case {
                horizon,
                budget,
                spent,
                reserved,
                now,
                price_max,
                requests_per_s,
                win_rate,
                win_price,
                day,
                since_ms,
                parameters,
                memory,
            }
        })
        .boxed()
}

/// What happens: a campaign that is under way in a market, with the memory that its strategy made.
fn likely_case() -> BoxedStrategy<Case> {
    let money = (1_000_000..1_000_000_000_u64, 0.0..1.2, 0.0..0.2);
    let traffic = (prop_oneof![Just(0.0), 0.01..1e6], prop_oneof![Just(0.0), 0.001..1.0], 0.0..1.5, any_day());
    let times = (0..DAY, prop_oneof![Just(0), 1..120_000_u64]);
    (money, traffic, times, 1..1_000_000_u32, any_parameters())
        .prop_map(|((budget, spent, reserved), traffic, (at, since_ms), price_max, parameters)| {
            let (requests_per_s, win_rate, win_price, day) = traffic;
            Case {
                budget,
                spent: (budget as f64 * spent) as u64,
                reserved: (budget as f64 * reserved) as u64,
                now: MIDNIGHT + at,
                price_max,
                requests_per_s,
                win_rate,
                win_price: f64::from(price_max) * win_price,
                day,
                since_ms,
                parameters,
                ..Case::on_plan()
            }
        })
        .boxed()
}

/// The case after its strategy was asked a few times before, when less was spent, or more: on the day before.
fn remembered(case: &Case, strategy: &StrategyRow, (times, spent): (u64, f64)) -> Case {
    let mut memory = Memory::default();
    for time in 0..times {
        let then = Case {
            memory,
            now: case.now.saturating_sub((times - time) * 30_000).max(MIDNIGHT),
            spent: (case.spent as f64 * spent) as u64 / (times - time),
            since_ms: time * 30_000,
            ..case.clone()
        };
        memory = then.ask(strategy).memory;
    }
    Case { memory, ..case.clone() }
}

/// How often a strategy was asked before, and which part of what is spent now was spent then.
fn past() -> impl Strategy<Value = (u64, f64)> {
    (0..4_u64, 0.0..2.0)
}

fn with(property: Property) -> impl Iterator<Item = &'static StrategyRow> {
    STRATEGIES.iter().filter(move |row| row.properties.contains(&property))
}

/// Whether an answer bids no more than another one, apart from rounding.
fn is_not_higher(one: Throttle, other: Throttle) -> bool {
    let is_not_above = |one: f64, other: f64| one <= other + 1e-12;
    is_not_above(one.share, other.share) && (one.share == 0.0 || is_not_above(one.shade, other.shade))
}

fn bits(throttle: Throttle) -> [u64; 6] {
    let [a, b, c, d] = throttle.memory.0;
    [throttle.share, throttle.shade, a, b, c, d].map(f64::to_bits)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn share_and_shade_are_between_zero_and_one_whatever_the_input_is(case in any_case()) {
        for strategy in STRATEGIES {
            let throttle = case.ask(strategy);
            prop_assert!((0.0..=1.0).contains(&throttle.share), "{}: {throttle:?}", strategy.name);
            prop_assert!((0.0..=1.0).contains(&throttle.shade), "{}: {throttle:?}", strategy.name);
        }
    }

    #[test]
    fn what_a_strategy_keeps_are_numbers(case in any_case()) {
        for strategy in STRATEGIES {
            let mut case = Case { memory: Memory::default(), ..case.clone() };
            for _ in 0..4 {
                case.memory = case.ask(strategy).memory;
                prop_assert!(case.memory.0.iter().all(|number| number.is_finite()), "{}: {case:?}", strategy.name);
            }
        }
    }

    #[test]
    fn nothing_is_bid_outside_of_the_horizon_or_without_money(case in any_case()) {
        let is_over = !(case.horizon.begins.0 <= case.now && case.now < case.horizon.ends.0);
        let is_spent = case.spent.saturating_add(case.reserved) >= case.budget;
        for strategy in STRATEGIES {
            if is_over || is_spent {
                prop_assert_eq!(case.ask(strategy).share, 0.0, "{}", strategy.name);
            }
        }
    }

    #[test]
    fn the_same_input_gives_the_same_bits(case in prop_oneof![any_case(), likely_case()]) {
        for strategy in STRATEGIES {
            prop_assert_eq!(bits(case.ask(strategy)), bits(case.clone().ask(strategy)), "{}", strategy.name);
        }
    }

    #[test]
    fn who_has_spent_or_reserved_more_bids_no_more(
        case in likely_case(), past in past(), more in 0..50_000_000_u64, reserved in any::<bool>(),
    ) {
        for strategy in with(Property::FallsWithSpent) {
            let less = remembered(&case, strategy, past);
            let mut more_of = less.clone();
            *(if reserved { &mut more_of.reserved } else { &mut more_of.spent }) += more;
            let (one, other) = (more_of.ask(strategy), less.ask(strategy));
            prop_assert!(is_not_higher(one, other), "{}: {one:?} > {other:?}", strategy.name);
        }
    }

    #[test]
    fn who_has_a_higher_budget_bids_no_less(case in likely_case(), past in past(), more in 0..50_000_000_u64) {
        for strategy in with(Property::RisesWithBudget) {
            let lower = remembered(&case, strategy, past);
            let higher = Case { budget: lower.budget + more, ..lower.clone() };
            let (one, other) = (lower.ask(strategy), higher.ask(strategy));
            prop_assert!(is_not_higher(one, other), "{}: {one:?} > {other:?}", strategy.name);
        }
    }

    /// By powers of two, which `f64` multiplies without rounding: the answers have the same bits.
    #[test]
    fn money_in_another_unit_gives_the_same_answers(case in likely_case(), times in 0..4_u64, twice in 0..12_u32) {
        let times_of = 1 << twice;
        let scaled = Case {
            budget: case.budget * times_of,
            spent: case.spent * times_of,
            reserved: case.reserved * times_of,
            price_max: case.price_max * times_of as u32,
            win_price: case.win_price * times_of as f64,
            ..case.clone()
        };
        for strategy in with(Property::ScaleFree) {
            // Memories may hold money: each has its own.
            let memory_of = |case: &Case| {
                let mut first = Case { memory: Memory::default(), since_ms: 0, now: MIDNIGHT + 1, ..case.clone() };
                for _ in 0..times {
                    first.memory = first.ask(strategy).memory;
                    first.since_ms = 20_000;
                }
                first.memory
            };
            let one = Case { memory: memory_of(&case), ..case.clone() }.ask(strategy);
            let other = Case { memory: memory_of(&scaled), ..scaled.clone() }.ask(strategy);
            prop_assert_eq!(bits(one)[..2].to_vec(), bits(other)[..2].to_vec(), "{}", strategy.name);
        }
    }

    #[test]
    fn a_stateless_strategy_answers_the_same_with_any_memory(case in any_case(), other in any_case()) {
        for strategy in with(Property::Stateless) {
            let [one, other] = [case.memory, other.memory].map(|memory| Case { memory, ..case.clone() }.ask(strategy));
            prop_assert_eq!(bits(one)[..2].to_vec(), bits(other)[..2].to_vec(), "{}", strategy.name);
        }
    }

    #[test]
    fn a_strategy_that_keeps_the_price_never_lowers_it(case in any_case()) {
        for strategy in with(Property::KeepsPrice) {
            prop_assert_eq!(case.ask(strategy).shade, 1.0, "{}", strategy.name);
        }
    }

    #[test]
    fn a_plan_never_falls_and_ends_at_the_budget(day in any_day(), ends in 1..10 * DAY, budget in 0..1_u64 << 50) {
        let horizon = Horizon { begins: TimeMs(MIDNIGHT), ends: TimeMs(MIDNIGHT + ends) };
        for strategy in STRATEGIES.iter().filter(|row| row.follows != Follows::Nothing) {
            let planned = |at: u64| strategy.planned(horizon, BudgetMicros(budget), &day, TimeMs(at)).unwrap().0;
            let curve: Vec<_> = (0..=64).map(|part| planned(MIDNIGHT + ends * part / 64)).collect();
            prop_assert!(curve.is_sorted(), "{}: {curve:?}", strategy.name);
            prop_assert_eq!((curve[0], curve[64], planned(0), planned(u64::MAX)), (0, budget, 0, budget));
        }
    }
}

#[test]
fn each_strategy_is_in_range_at_the_edges_of_its_parameters() {
    for strategy in STRATEGIES {
        for parameter in strategy.parameters {
            assert!((parameter.min..=parameter.max).contains(&parameter.default), "{}", parameter.name);
            for value in [parameter.min, parameter.default, parameter.max] {
                let choice = crate::plan::StrategyChoice {
                    name: strategy.name.into(),
                    parameters: [(parameter.name.into(), value)].into(),
                };
                assert_eq!(check(&choice).unwrap().name, strategy.name);
                let mut case = Case { parameters: choice.parameters, ..Case::on_plan() };
                for _ in 0..100 {
                    let throttle = case.ask(strategy);
                    assert!((0.0..=1.0).contains(&throttle.share) && (0.0..=1.0).contains(&throttle.shade));
                    case.memory = throttle.memory;
                    case.now += case.since_ms;
                }
            }
        }
    }
}

/// `exp` and its like are rounded differently on different machines, and some multiply and add at once.
#[test]
fn no_strategy_uses_a_function_that_machines_round_differently() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/strategy");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect();
    assert!(files.len() > STRATEGIES.len(), "each has a file");
    for path in files {
        let code = std::fs::read_to_string(&path).unwrap();
        for word in ["exp", "exp2", "exp_m1", "ln", "ln_1p", "log", "log2", "log10", "powf", "powi", "tanh", "mul_add"]
        {
            assert!(!code.contains(&format!(".{word}(")), "{}: {word}", path.display());
        }
    }
}
