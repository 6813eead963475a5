//! What go-yaml v2.4.3 made of these.

use super::*;

#[test]
fn from_files() {
    let text = std::fs::read_to_string("/tmp/hgz/y.txt").unwrap();
    let mut lines = text.lines();
    let (mut bad, mut total, mut bypass) = (0, 0, 0);
    while let (Some(json), Some(yaml)) = (lines.next(), lines.next()) {
        total += 1;
        let yaml: Option<String> = serde_json::from_str(yaml).unwrap();
        let got = from_json(json.as_bytes()).map(|y| String::from_utf8(y).unwrap());
        match (&got, &yaml) {
            (Err(_), _) => {
                bypass += 1;
                if bypass < 10 {
                    println!("BYPASS {json}");
                }
            }
            (Ok(a), Some(b)) if a == b => {}
            _ => {
                bad += 1;
                if bad < 15 {
                    println!(
                        "{json}\n--- go\n{}\n--- us\n{}\n",
                        yaml.as_deref().unwrap_or("ERROR"),
                        got.unwrap()
                    );
                }
            }
        }
    }
    println!("{bad} bad {bypass} bypass of {total}");
    assert_eq!(bad, 0);
}
