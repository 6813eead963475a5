//! Flows, hands, allocations and `Retry-After`, compared with figures of
//! k8s.io/apiserver v0.37.1.

use super::support::Lcg;
use crate::allocation::{Wish, allocate};
use crate::dropped_requests::DroppedRequests;
use crate::flow_hash::FlowHashes;
use crate::shuffle_sharding::Dealer;

/// The number of queues, the hand size, and the hand.
type Hand = (usize, usize, &'static [u32]);

/// A schema's name, a flow's distinguisher, its hash and its hands.
const FLOWS: &[(&str, &str, u64, &[Hand])] = &[
    (
        "global-default",
        "alice",
        0xf4de_3bd4_2ccd_f6b7,
        &[
            (128, 6, &[55, 62, 126, 125, 105, 1]),
            (64, 6, &[55, 56, 51, 36, 11, 5]),
            (16, 4, &[7, 14, 0, 3]),
            (1, 1, &[0]),
            (8, 8, &[7, 5, 3, 0, 4, 1, 6, 2]),
            (15, 15, &[5, 0, 9, 13, 2, 3, 7, 1, 12, 10, 11, 6, 8, 4, 14]),
        ],
    ),
    (
        "service-accounts",
        "system:serviceaccount:shop:cart",
        0x4969_5f47_31ac_b5f0,
        &[
            (128, 6, &[112, 93, 62, 69, 46, 82]),
            (64, 6, &[48, 60, 8, 37, 40, 50]),
            (16, 4, &[0, 12, 5, 15]),
            (1, 1, &[0]),
            (8, 8, &[0, 3, 4, 6, 1, 5, 7, 2]),
            (15, 15, &[11, 5, 2, 14, 0, 3, 10, 6, 7, 4, 12, 9, 1, 13, 8]),
        ],
    ),
    (
        "probes",
        "",
        0x14ae_6add_276a_7874,
        &[
            (128, 6, &[116, 10, 27, 11, 105, 13]),
            (64, 6, &[52, 10, 24, 19, 36, 28]),
            (16, 4, &[4, 14, 2, 3]),
            (1, 1, &[0]),
            (8, 8, &[4, 2, 0, 5, 1, 3, 7, 6]),
            (15, 15, &[2, 5, 11, 8, 0, 6, 4, 10, 7, 3, 14, 1, 9, 13, 12]),
        ],
    ),
    (
        "kube-scheduler",
        "kube-system",
        0x55bb_ee65_44a0_d556,
        &[
            (128, 6, &[86, 35, 11, 43, 100, 44]),
            (64, 6, &[22, 31, 15, 32, 10, 1]),
            (16, 4, &[6, 8, 2, 7]),
            (1, 1, &[0]),
            (8, 8, &[6, 4, 5, 1, 0, 7, 2, 3]),
            (15, 15, &[13, 11, 4, 2, 6, 1, 7, 10, 5, 9, 14, 8, 3, 12, 0]),
        ],
    ),
    (
        "exempt",
        "ü",
        0xc2c9_c8b9_ad87_0da5,
        &[
            (128, 6, &[37, 113, 76, 8, 12, 72]),
            (64, 6, &[37, 60, 38, 49, 9, 30]),
            (16, 4, &[5, 1, 15, 14]),
            (1, 1, &[0]),
            (8, 8, &[5, 0, 3, 7, 6, 4, 2, 1]),
            (15, 15, &[6, 14, 12, 13, 2, 1, 11, 10, 8, 5, 3, 4, 9, 0, 7]),
        ],
    ),
];

#[test]
fn flows_are_dealt_kube_apiservers_hands() {
    for (schema, distinguisher, hash, hands) in FLOWS {
        assert_eq!(
            FlowHashes::new(schema).hash(distinguisher),
            *hash,
            "{schema}"
        );
        for (deck, hand, cards) in *hands {
            let dealt = Dealer::new(*deck, *hand).unwrap().deal(*hash);
            assert_eq!(dealt.cards(), *cards, "{schema} {deck} {hand}");
        }
    }
}

#[test]
fn hands_that_cannot_be_dealt() {
    let valid = [
        (0, 1, false),
        (5, 6, false),
        (1_048_576, 3, true),
        (1_048_577, 3, false),
        (134_217_728, 1, false),
        (16, 15, true),
        (16, 16, false),
        (128, 8, true),
        (128, 9, false),
    ];
    for (deck, hand, valid) in valid {
        assert_eq!(Dealer::new(deck, hand).is_ok(), valid, "{deck} {hand}");
    }
}

#[test]
fn every_card_is_dealt_alike() {
    let dealer = Dealer::new(16, 4).unwrap();
    let mut random = Lcg(3);
    let mut counts = [0_u32; 16];
    for _ in 0..16_000 {
        let hash = random.below(1 << 31) << 31 | random.below(1 << 31);
        let mut hand = dealer.deal(hash).cards().to_vec();
        hand.iter().for_each(|card| counts[*card as usize] += 1);
        hand.sort_unstable();
        hand.dedup();
        assert_eq!(hand.len(), 4);
    }
    let far = counts.iter().filter(|count| count.abs_diff(4000) > 300);
    assert_eq!(far.count(), 0, "{counts:?}");
}

/// The seats, the wishes (a target with its lower and its upper bound), the seats
/// of each, and the fair fraction.
type Division = (usize, &'static [(f64, f64, f64)], &'static [f64], f64);

const DIVISIONS: &[Division] = &[
    (
        100,
        &[(40.0, 10.0, 60.0), (80.0, 20.0, 90.0), (0.0, 0.0, 50.0)],
        &[
            33.333_055_557_870_345,
            66.666_111_115_740_69,
            0.000_833_326_388_946_758_7,
        ],
        0.833_326_388_946_758_7,
    ),
    (
        100,
        &[
            (200.0, 30.0, 45.0),
            (10.0, 10.0, 90.0),
            (60.0, 5.0, 500.0),
            (1.0, 0.0, 3.0),
        ],
        &[45.0, 10.0, 44.262_295_081_967_2, 0.737_704_918_032_786_7],
        0.737_704_918_032_786_7,
    ),
    (
        602,
        &[
            (50.0, 50.0, 674.0),
            (73.0, 73.0, 698.0),
            (25.0, 25.0, 625.0),
            (300.5, 98.0, 698.0),
            (400.25, 245.0, 845.0),
            (24.0, 24.0, 649.0),
            (13.0, 13.0, 613.0),
        ],
        &[50.0, 73.0, 25.0, 171.999_999_999_999_97, 245.0, 24.0, 13.0],
        0.572_379_367_720_465_8,
    ),
    (
        30,
        &[(10.0, 10.0, 10.0), (20.0, 20.0, 20.0)],
        &[10.0, 20.0],
        1.0,
    ),
    (
        12,
        &[(5.0, 4.0, 6.0), (5.0, 5.0, 6.0)],
        &[6.0, 6.0],
        FRACTION_OF_12,
    ),
    (9, &[(5.0, 4.0, 6.0), (5.0, 5.0, 6.0)], &[4.0, 5.0], 0.8),
    (0, &[(5.0, 0.0, 6.0)], &[0.0], 0.0),
];
const FRACTION_OF_12: f64 = 1.2;

#[test]
fn seats_are_divided_as_by_kube_apiserver() {
    for (total, wishes, seats, fraction) in DIVISIONS {
        let wishes: Vec<Wish> = wishes
            .iter()
            .map(|(target, lower, upper)| Wish {
                target: *target,
                lower: *lower,
                upper: *upper,
            })
            .collect();
        let found = allocate(*total, &wishes).unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(found.fair_fraction, *fraction), "{total}: {found:?}");
        let all = found.seats.iter().zip(*seats).all(|(a, b)| close(*a, *b));
        assert!(all, "{total}: {found:?}");
    }
}

/// The `Retry-After` after every hundred refusals, through bursts and lulls.
const RETRY_AFTER: [u64; 40] = [
    8, 16, 32, 32, 32, 32, 32, 1, 1, 1, 16, 16, 32, 32, 32, 32, 32, 1, 1, 1, 8, 16, 32, 32, 32, 32,
    32, 2, 2, 1, 8, 16, 32, 32, 32, 32, 32, 1, 1, 1,
];

#[test]
fn retry_after_follows_the_refusals() {
    let mut dropped = DroppedRequests::default();
    assert_eq!(dropped.retry_after(), 1);
    let mut random = Lcg(7);
    let mut now = 1000;
    let mut found = Vec::new();
    for i in 0..4000 {
        let r = random.below(100);
        if i % 1000 < 700 {
            now += u64::from(r < 12);
        } else if r < 60 {
            now += r % 7;
        }
        dropped.record(now);
        if i % 100 == 99 {
            found.push(dropped.retry_after());
        }
    }
    assert_eq!(found, RETRY_AFTER);
}
