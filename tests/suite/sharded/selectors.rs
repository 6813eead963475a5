//! Makes selectors, and tests invalid ones.

use http::Method;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::{World, escaped};
use crate::harness::differential::compare;
use crate::harness::expect::DEBUG;
use crate::harness::volume;

const SELECTORS: &str = "APIFRONT_TEST_SELECTORS";
const DEFAULT_SELECTORS: usize = 300;

const UID: &str = "object.metadata.uid";
const NAMESPACE: &str = "object.metadata.namespace";

/// Returns a selector of one to four ranges, in one of its possible spellings.
pub fn random(rng: &mut StdRng, keys: &[&str]) -> String {
    let key = *keys.choose(rng).expect("a key");
    let count = *[1, 1, 1, 2, 4].choose(rng).expect("a count");
    let ranges: Vec<String> = (0..count).map(|_| range(rng, key)).collect();
    let joined = ranges.join(*[" || ", "||", "\n||\t"].choose(rng).expect("a way"));
    match rng.random_range(0..6) {
        0 => format!("({joined})"),
        1 => joined.replace('\'', "\""),
        2 => format!(" {joined}  "),
        _ => joined,
    }
}

pub fn by_uid_or_namespace(rng: &mut StdRng) -> String {
    random(rng, &[UID, UID, NAMESPACE])
}

fn range(rng: &mut StdRng, key: &str) -> String {
    // Half of the ranges are like those of controllers, which divide the hashes
    // evenly.
    let (start, end) = if rng.random() {
        let shards = *[2_u128, 3, 4, 8].choose(rng).expect("shards");
        let n = rng.random_range(0..shards);
        ((n << 64) / shards, ((n + 1) << 64) / shards)
    } else {
        let (a, b) = (rng.random::<u64>(), rng.random::<u64>());
        (a.min(b).into(), u128::from(a.max(b)) + 1)
    };
    format!("shardRange({key}, '0x{start:016x}', '0x{end:016x}')")
}

const PIECES: [&str; 26] = [
    "shardRange",
    "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')",
    "shardRange(object.metadata.namespace,'0x0000000000000000','0x8000000000000000')",
    "'0x0000000000000000'",
    "\"0xffffffffffffffff\"",
    "'0x8'",
    "'0x10000000000000000'",
    "'0xA000000000000000'",
    "'8000000000000000'",
    "object.metadata.uid",
    "object.metadata.namespace",
    "object",
    "in",
    ".uid",
    "(",
    ")",
    ", ",
    "||",
    "&&",
    "!",
    "7",
    "true",
    "'",
    " ",
    "// all",
    "ü",
];

/// Both servers refuse the same texts with the same code. Where apifront itself
/// reads the text, the message is also the same.
#[tokio::test]
async fn wrong_selectors_are_refused_as_kube_apiserver_refuses_them() {
    skip_under_oracle!("the texts are asked of the cache");
    let world = World::shared();
    let (direct, client) = (world.direct(), world.front.admin_client());
    let mut rng = StdRng::seed_from_u64(volume::seed("wrong_selectors"));
    let (mut worded, mut refused) = (0, 0);
    for n in 0..volume::work(SELECTORS, DEFAULT_SELECTORS) {
        let pieces = rng.random_range(1..6);
        let mut text: String = (0..pieces)
            .map(|_| *PIECES.choose(&mut rng).expect("a piece"))
            .collect();
        if rng.random_range(0..3) == 0 {
            text = by_uid_or_namespace(&mut rng);
            let at = rng.random_range(0..text.len());
            text.replace_range(at..=at, PIECES.choose(&mut rng).expect("a piece"));
        }
        let watch = ["", "&watch=1&timeoutSeconds=1"][usize::from(n % 10 == 0)];
        let path = format!(
            "/api/v1/nodes?resourceVersion=0{watch}&shardSelector={}",
            escaped(&text)
        );
        let expected = direct.get(&path).await;
        let got = client.send(Method::GET, &path, &[DEBUG], "").await;
        let unread = got
            .text()
            .contains("only shardRange() calls joined by || are read");
        if unread {
            assert_eq!(got.status, 500, "{text}");
        } else {
            let difference = compare(&expected, &got);
            assert!(difference.is_empty(), "{text}\n{difference}");
            worded += usize::from(got.status == 500);
        }
        refused += usize::from(expected.status == 500);
        assert!(got.is_hit() || got.status == 500, "{text}: {}", got.text());
    }
    println!("compared: {refused} refusals, {worded} of them worded here");
    assert!(worded > 0 && refused > worded);
}
