//! Expressions that cost too much are stopped or refused.

use super::*;

/// Returns the CPU time of this thread, since others may use the processors, too.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("a time since the thread began")
}

/// What the interpreter cannot finish cheaply is stopped.
#[test]
fn dear_expressions_are_stopped() {
    let items = |n: usize| format!("[{}]", vec!["0"; n].join(","));
    let list = items(150);
    let long = "x".repeat(900);
    for source in [
        // Loops in loops.
        format!("{list}.all(a, {list}.all(b, {list}.all(c, true)))"),
        format!("{list}.all(a, {list}.exists(b, false) || {list}.all(c, {list}.all(d, true)))"),
        format!("{list}.map(a, {list}.map(b, {list}.map(c, 'a'))).size() > 0"),
        // An error that another operand hides does not hide the cost.
        format!("{list}.all(a, {list}.all(b, {list}.all(c, true))) || true"),
        // Texts that grow.
        format!(
            "['{long}'].map(a, {0}).map(b, {0}).map(c, {0}).size() > 0",
            "a+a+a+a+a+a+a+a+a+a+a+a"
        )
        .replace("(b, a+a+a+a+a+a+a+a+a+a+a+a", "(b, b+b+b+b+b+b+b+b+b+b+b+b")
        .replace("(c, a+a+a+a+a+a+a+a+a+a+a+a", "(c, c+c+c+c+c+c+c+c+c+c+c+c"),
        format!("{list}.all(a, {list}.all(b, '{long}'.matches('(x+x+)+y') || true))"),
        // Each search reads all of the text, and finds its first character.
        format!("{list}.all(a, {list}.all(b, '{long}'.findAll('.*y|x').size() > 0))"),
        format!("{list}.all(a, {list}.all(b, quantity('1e1000') < quantity('1e-1000') || true))"),
    ] {
        let began = cpu_time();
        let expression = parse(&source).unwrap_or_else(|error| panic!("{source}: {error}"));
        let object = Object(json!({}));
        let mut scope = Scope::new();
        scope.enter(&object, expression.projection()).unwrap();
        let value = expression.evaluate(&mut scope);
        let is_stopped = matches!(
            value,
            Err(Valueless::TooExpensive(
                TooExpensive::ForOneObject | TooExpensive::Memory
            ))
        );
        assert!(is_stopped, "{source}: {value:?}");
        assert!(cpu_time() - began < Duration::from_secs(20), "{source}");
    }
}

/// Hostile texts are parsed within the stack and soon, or refused.
#[test]
fn hostile_texts_are_refused_or_parsed() {
    let deep = |open: &str, middle: &str, close: &str, n: usize| {
        format!("{}{middle}{}", open.repeat(n), close.repeat(n))
    };
    for n in [10, 47, 200, 1300] {
        for source in [
            deep("(", "1", ")", n),
            deep("[", "1", "]", n),
            deep("{1:", "1", "}", n),
            deep("-", "1", "", n),
            deep("!", "true", "", n),
            deep("size(", "1", ")", n),
            deep("1+", "1", "", n),
            deep("1?1:", "1", "", n),
            deep("true||", "true", "", n),
            deep("object[", "1", "]", n),
            format!("object{}", ".a".repeat(n)),
            format!("object{}", "[0]".repeat(n)),
            format!("object{}", "[0".repeat(n)),
            "(((((((((".repeat(n / 9),
            "1 in ".repeat(n),
            "a?b".repeat(n),
            "'".repeat(n),
            "\u{1F600}".repeat(n),
        ] {
            if source.len() > MAX_BYTES {
                continue;
            }
            let began = cpu_time();
            if let Ok(expression) = parse(&source) {
                let object = Object(json!({}));
                let mut scope = Scope::new();
                scope.enter(&object, expression.projection()).unwrap();
                let _ = expression.evaluate(&mut scope);
            }
            let took = cpu_time() - began;
            assert!(took < Duration::from_secs(5), "{took:?}: {source}");
        }
    }
}

/// An expression makes and copies values of at most some megabytes.
#[test]
fn expressions_that_fill_the_memory_are_stopped() {
    let data = (0..2000).map(|n| (format!("key-{n:08}"), json!("v".repeat(30))));
    let object = json!({
        "data": data.collect::<serde_json::Map<_, _>>(),
        "text": "x".repeat(300_000),
        "list": vec![0; 3000],
    });
    let many = |part: &str, times| vec![part; times].join(",");
    for source in [
        format!("[{}]", many("object", 400)),
        format!("[{}]", many("object.text.split('')", 150)),
        format!("[{}]", many("object.text + object.text", 120)),
        format!("[{}]", many("object.text.replace('x', 'y')", 120)),
        format!("[{}]", many("object.text.findAll('x')", 150)),
        format!("[{}]", many("url('/' + object.text)", 150)),
        "[object.text.substring(0, 9000).replace('x', 'a&')].map(t, object.list.map(i, url('/?' + t).getQuery()))"
            .to_owned(),
        "object.list.map(i, format.uri().validate(object.text))".to_owned(),
        format!(
            "{{{}}}",
            (0..300)
                .map(|n| format!("{n}:object"))
                .collect::<Vec<_>>()
                .join(",")
        ),
        vec!["[object, object]"; 40].join("+"),
        "object.text.findAll('.*y|x')".to_owned(),
        "object.text.split('').distinct()".to_owned(),
        "object.data.map(k, object)".to_owned(),
        "object.data.map(k, {'o': object})".to_owned(),
        "object.data.filter(k, true).map(k, object.data.filter(l, true))".to_owned(),
        "[object.text].map(t, t.replace('', t))".to_owned(),
        "lists.range(1000000).map(i, lists.range(1000000))".to_owned(),
        "object.list.map(i, object.list)".to_owned(),
        "object.list.map(i, object.list.sort())".to_owned(),
        "object.list.map(i, i + lists.range(3000).distinct().size())".to_owned(),
        "sets.contains(lists.range(100000), lists.range(100000))".to_owned(),
        "'%s%s'.format([object.text, object.text]).split('')".to_owned(),
    ] {
        let started = Instant::now();
        let value = evaluate(&format!("({source}).size() > 0"), object.clone());
        let is_stopped = matches!(
            value,
            Err(Valueless::TooExpensive(
                TooExpensive::Memory | TooExpensive::ForOneObject
            ))
        );
        let begin: String = source.chars().take(60).collect();
        assert!(
            is_stopped,
            "{begin}: {value:?} after {:?}",
            started.elapsed()
        );
    }
    // Large objects as such are no reason.
    for source in [
        "object.list.map(i, i).size() == 3000",
        "object.list.filter(i, i == 0).size() == 3000",
        "object.text.split('x', 3).size() == 3",
        "object.text.indexOf('y') == -1",
        "object.list.sum() == 0",
    ] {
        assert_eq!(
            evaluate(source, object.clone()),
            Ok(json!(true)),
            "{source}"
        );
    }
}
