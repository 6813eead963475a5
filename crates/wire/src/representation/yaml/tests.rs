//! The expected YAML was written by go-yaml v2.4.3 for the same JSON.

use proptest::prelude::*;

use super::*;

const CASES: &[(&str, &str)] = &[
    (
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","labels":{},"finalizers":[],"ownerReferences":[{"name":"x","controller":true},{"name":"y"}]},"data":null}"#,
        "apiVersion: v1\ndata: null\nkind: ConfigMap\nmetadata:\n  finalizers: []\n  labels: {}\n  name: a\n  ownerReferences:\n  - controller: true\n    name: x\n  - name: \"y\"\n",
    ),
    (
        r#"{"a":["yes","No","y","~","null","","0x1F","1e3","08","1_000","1:30","2001-1-1","2001-02-30",".5",".1_0",".inf","<<","=","0b-1","0x","1e999"]}"#,
        "a:\n- \"yes\"\n- \"No\"\n- \"y\"\n- \"~\"\n- \"null\"\n- \"\"\n- \"0x1F\"\n- \"1e3\"\n- \"08\"\n- \"1_000\"\n- \"1:30\"\n- \"2001-1-1\"\n- 2001-02-30\n- \".5\"\n- \".1_0\"\n- \".inf\"\n- <<\n- =\n- \"0b-1\"\n- 0x\n- 1e999\n",
    ),
    (
        r##"{"a":["---","- a","-a","? a",": a","a: b","a:b","a #b","a#b","#a","*a","'a'","a'b","\"a\"","a\\b","[a]","a,b"," a","a ","é"]}"##,
        "a:\n- '---'\n- '- a'\n- -a\n- '? a'\n- ': a'\n- 'a: b'\n- a:b\n- 'a #b'\n- a#b\n- '#a'\n- '*a'\n- '''a'''\n- a'b\n- '\"a\"'\n- a\\b\n- '[a]'\n- a,b\n- ' a'\n- 'a '\n- \u{e9}\n",
    ),
    (
        r#"{"a":["😀","é\u00a0","a\tb","a\rb","\u0000\u0001\u001b","\ufeff","\ufeffab","a\u2028b","\u2029 a"]}"#,
        "a:\n- \"\\U0001F600\"\n- \u{e9}\u{a0}\n- \"a\\tb\"\n- \"a\\rb\"\n- \"\\0\\x01\\e\"\n- \"\\uFEFF\"\n- \"\\uFEFF\\x61\\x62\"\n- 'a\u{2028}  b'\n- \"\\P a\"\n",
    ),
    (
        r#"{"a":"\n","b":"a\nb","c":"a\nb\n","d":"a\n\n"," e":" a\n b\n","f":"a \nb","g":"a\nb ","h":["x\ny\n",["z\n"]]}"#,
        "' e': |2\n   a\n   b\na: |2+\n\nb: |-\n  a\n  b\nc: |\n  a\n  b\nd: |+\n  a\n\nf: \"a \\nb\"\ng: \"a\\nb \"\nh:\n- |\n  x\n  y\n- - |\n    z\n",
    ),
    (
        r#"{"a\nb":1,"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk":[1],"":{"true":"x"}}"#,
        "\"\":\n  \"true\": x\n? |-\n  a\n  b\n: 1\n? kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\n: - 1\n",
    ),
    (
        r#"{"a":"word word word word word word word word word word word word word word word word word word word word end","b":"it's: it's: it's: it's: it's: it's: it's: it's: it's: it's: it's: it's: it's: it's: it's: it's: end","c":"tab\t  tab\t  tab\t  tab\t  tab\t  tab\t  tab\t  tab\t  tab\t  tab\t  tab\t  tab\t  tab\t  tab\t  end"}"#,
        "a: word word word word word word word word word word word word word word word word\n  word word word word end\nb: 'it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s:\n  it''s: it''s: it''s: it''s: end'\nc: \"tab\\t  tab\\t  tab\\t  tab\\t  tab\\t  tab\\t  tab\\t  tab\\t  tab\\t  tab\\t  tab\\t  tab\\t\n  \\ tab\\t  tab\\t  end\"\n",
    ),
    (
        r#"{"b10":1,"b9":2,"b":3,"B":4,"a.b":5,"a/b":6,"a-b":7,"f:x":8,"k:{\"a\":1}":9,"_":10}"#,
        "_: 10\nB: 4\na-b: 7\na.b: 5\na/b: 6\nb: 3\nb9: 2\nb10: 1\nf:x: 8\nk:{\"a\":1}: 9\n",
    ),
    (
        r#"[0,-0,1,-1,9223372036854775808,18446744073709551616,1.5,100000.5,1000000.5,1e21,1e-7,0.0001,true,false,null,[],{},[[1],[]],[{"a":[{"b":1}]}]]"#,
        "- 0\n- 0\n- 1\n- -1\n- 9223372036854775808\n- 1.8446744073709552e+19\n- 1.5\n- 100000.5\n- 1.0000005e+06\n- 1e+21\n- 1e-07\n- 0.0001\n- true\n- false\n- null\n- []\n- {}\n- - - 1\n  - []\n- - a:\n    - b: 1\n",
    ),
    (r#""text""#, "text\n"),
    (r#"{}"#, "{}\n"),
    ("[18446744073709551615]", "- 18446744073709551615\n"),
];

fn yaml(json: &str) -> Option<String> {
    let yaml = from_json(json.as_bytes()).ok()?;
    Some(String::from_utf8(yaml).unwrap())
}

#[test]
fn is_what_go_yaml_writes() {
    for (json, expected) in CASES {
        assert_eq!(yaml(json).as_deref(), Some(*expected), "{json}");
    }
}

#[test]
fn what_upstream_cannot_write_or_orders_by_chance_is_not_written() {
    for json in [
        // Characters that YAML does not allow: go-yaml returns an error.
        "[\"\u{7f}\"]",
        "[\"\u{80}\"]",
        r#"["\ud83d\ude00"]"#,
        // go-yaml reads these as line breaks.
        "[\"a\u{85}b\"]",
        "[\"a\u{2028}b\"]",
        // Go does not write such JSON.
        r#"["\/"]"#,
        r#"{"\u00e9":1}"#,
        // The order of these keys is circular.
        r#"{"10":1,"1b":2,"2":3}"#,
        r#"{"01":1,"1":2,"0b":3}"#,
        r#"{"a":1,"a":2}"#,
        // Not JSON.
        "",
        "{",
        "[1",
        "[01]",
        "[+1]",
        "[.5]",
        "[nan]",
        "[1e999]",
        "nul",
    ] {
        assert_eq!(yaml(json), None, "{json}");
    }
    let long = format!(r#"{{"{}":1}}"#, "k".repeat(1100));
    assert_eq!(yaml(&long), None);
    let many: Vec<_> = (0..=300).map(|n| format!("\"k{n}\":1")).collect();
    assert_eq!(yaml(&format!("{{{}}}", many.join(","))), None);
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(yaml(&deep), None);
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let text = prop_oneof![
        "[ -~]{0,100}",
        "[a-z\n ]{0,20}",
        "[-+0-9xobeE._: TZ]{1,20}",
        ".{0,8}",
    ];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        (-1e9..1e9).prop_map(Into::into),
        text.clone().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        let key = text.clone().prop_filter("a merge", |key| key != "<<");
        let members = proptest::collection::hash_map(key, inner.clone(), 0..5);
        prop_oneof![
            proptest::collection::vec(inner, 0..5).prop_map(Into::into),
            members.prop_map(|members| members.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..60), text in "[{}\\[\\]\",:\\\\u0-9a-f]{0,60}") {
        let _ = from_json(&bytes);
        let _ = from_json(text.as_bytes());
    }

    /// Another YAML reader reads back the written value. The key `<<` is left out:
    /// upstream writes it without quotes, and every reader takes it for a merge.
    #[test]
    fn what_is_written_is_what_was_read(value in json()) {
        let text = value.to_string();
        if let Some(yaml) = yaml(&text) {
            prop_assert!(yaml.ends_with('\n'));
            let read: serde_json::Value = serde_saphyr::from_str(&yaml)
                .map_err(|error| TestCaseError::fail(format!("{error}\n{yaml}")))?;
            prop_assert_eq!(read, value, "{}", yaml);
        }
    }
}
