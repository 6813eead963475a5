//! Changes valid text so that it may be invalid.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

/// Inserts, removes or replaces one or two characters.
pub fn text(rng: &mut StdRng, text: &str) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..rng.random_range(1..3) {
        let odd = *[
            '=', '!', ',', '(', ')', '<', '>', ' ', '\\', '.', '-', '/', 'ü', 'a', '\t', '"',
        ]
        .choose(rng)
        .expect("characters");
        let at = rng.random_range(0..=characters.len());
        match rng.random_range(0..3) {
            0 => characters.insert(at, odd),
            1 if at < characters.len() => characters[at] = odd,
            _ if at < characters.len() => {
                characters.remove(at);
            }
            _ => {}
        }
    }
    characters.into_iter().collect()
}

/// Changes the version or the start of a continue token, or makes it invalid.
pub fn token(rng: &mut StdRng, token: &str) -> String {
    let decoded = URL_SAFE_NO_PAD.decode(token).unwrap_or_default();
    let Ok(mut value) = serde_json::from_slice::<Value>(&decoded) else {
        return text(rng, token);
    };
    match rng.random_range(0..10) {
        0 => value["rv"] = json!(0),
        1 => value["rv"] = json!(-1),
        2 => value["rv"] = json!("7"),
        3 => value["v"] = json!("meta.k8s.io/v2"),
        4 => value["start"] = json!(""),
        5 => value["start"] = json!("/../x\u{0}"),
        6 => value["start"] = json!("c"),
        // Go accepts keys in any case.
        7 => value["RV"] = json!(1),
        8 => return token[..rng.random_range(0..token.len())].to_owned(),
        _ => return text(rng, token),
    }
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// Returns the token for the same place in the state of `version`.
pub fn at(token: &str, version: u64) -> String {
    let decoded = URL_SAFE_NO_PAD.decode(token).unwrap_or_default();
    let Ok(mut value) = serde_json::from_slice::<Value>(&decoded) else {
        return token.to_owned();
    };
    value["rv"] = json!(version);
    URL_SAFE_NO_PAD.encode(value.to_string())
}
