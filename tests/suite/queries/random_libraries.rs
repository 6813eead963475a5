//! Random expressions with the functions that Kubernetes adds to CEL.

use rand::Rng;
use rand::seq::IndexedRandom;

use super::random_expressions::Generator;

impl Generator<'_> {
    pub(super) fn one_of(&mut self, choices: &[&str]) -> String {
        (*choices.choose(self.rng).unwrap()).to_owned()
    }

    /// Returns a literal, which may be something else than wanted.
    fn literal(&mut self, wanted: &[&str]) -> String {
        let odd = ["", "a", "-", "1", "0x1", "1.2.3", "ä", " 1", "1 "];
        let choices = if self.below(90) { wanted } else { &odd };
        format!("'{}'", self.one_of(choices))
    }

    fn quantity_text(&mut self) -> String {
        if self.below(40) {
            let number = match self.rng.random_range(0..5) {
                0 => self.rng.random_range(0..3).to_string(),
                1 => self.rng.random_range(-100_000..100_000).to_string(),
                2 => format!("{}", self.rng.random_range(0..2_000_000) as f64 / 1000.0),
                3 => self.rng.random::<i64>().to_string(),
                _ => format!("{}{}", self.rng.random::<u64>(), self.rng.random::<u64>()),
            };
            let suffix = self.one_of(&[
                "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi",
                "Ei", "e3", "E2", "e-2", "e+5", "e19", "K", "i", "e",
            ]);
            return format!("'{number}{suffix}'");
        }
        self.literal(&[
            "0",
            "1",
            "500m",
            "1.5",
            "1.5Gi",
            "1Gi",
            "1024Mi",
            "128974848",
            "129e6",
            "129M",
            "123Mi",
            "0.1n",
            "1n",
            "0.0001",
            "100Ei",
            "9223372036854775807",
            "-9223372036854775808",
            "-1",
            "+5",
            "1000",
            "1k",
            ".5",
            "5.",
            "-0",
            "000",
            "1e0",
            "1E",
            "0.5Ki",
            "0.0000000001Ki",
            "-1.5Gi",
            "1e-10",
            "00012.500",
            ".",
            "-.",
            "1..2",
            "--1",
            "1_000",
            "1e1.5",
            "0Ki",
            "0.0",
            "-0.0Mi",
            "99999999999999999999999n",
        ])
    }

    fn quantity(&mut self, depth: u32) -> String {
        if depth == 0 || self.below(50) {
            return match self.below(90) {
                true => format!("quantity({})", self.quantity_text()),
                false => format!("quantity({})", self.text(0)),
            };
        }
        let function = self.one_of(&["add", "sub"]);
        let other = match self.below(70) {
            true => self.quantity(depth - 1),
            false => self.int(0),
        };
        format!("{}.{function}({other})", self.quantity(depth - 1))
    }

    fn of_quantities(&mut self) -> String {
        let depth = self.rng.random_range(0..3);
        let quantity = self.quantity(depth);
        match self.rng.random_range(0..8) {
            0 => format!("isQuantity({})", self.quantity_text()),
            1 => format!("sign({quantity})"),
            2 => format!("{quantity}.isInteger()"),
            3 => format!("{quantity}.asInteger()"),
            4 => format!("{quantity}.asApproximateFloat()"),
            5 => format!("{quantity} == quantity({})", self.quantity_text()),
            _ => {
                let function = self.one_of(&["isGreaterThan", "isLessThan", "compareTo"]);
                format!("{quantity}.{function}({})", self.quantity(1))
            }
        }
    }

    fn of_versions(&mut self) -> String {
        let text = |of: &mut Self| {
            of.literal(&[
                "1.2.3",
                "1.10.0",
                "v1.30",
                "v1.30.1",
                "1",
                "1.2",
                "01.2.3",
                "1.2.3-alpha.1",
                "1.2.3-alpha.01",
                "1.2.3-alpha",
                "1.2.3-beta+build.5",
                "1.2.3+build",
                "1.2.3+b.1",
                "1.2.3-",
                "1.2.3+",
                "1.2.3-a..b",
                "V1.2.3",
                "1.2.3.4",
                "v",
                "1..3",
                "-1.2.3",
                "1.2-alpha",
                "001.002.003",
                "1.2.03-rc.1",
                "18446744073709551615.0.0",
                "18446744073709551616.0.0",
                "1.2.3-0",
                "1.2.3-x.7.z.92",
                "00.0.0",
                "0.0.0",
                "1.2.3-1",
                "1.2.3-10",
                "1.2.3-9",
                "1.2.3--",
                "1.2.3-ä",
                "1.2.x",
                "v v1.2.3",
            ])
        };
        let one = text(self);
        let arguments = match self.rng.random_range(0..3) {
            0 => format!("{one}, true"),
            1 => format!("{one}, false"),
            _ => one,
        };
        let version = format!("semver({arguments})");
        match self.rng.random_range(0..5) {
            0 => format!("isSemver({arguments})"),
            1 => format!("{version}.{}()", self.one_of(&["major", "minor", "patch"])),
            2 => format!("{version} == semver({})", text(self)),
            _ => {
                let function = self.one_of(&["isGreaterThan", "isLessThan", "compareTo"]);
                format!("{version}.{function}(semver({}, true))", text(self))
            }
        }
    }

    /// Returns a list whose elements have a type, mostly.
    fn typed_list(&mut self) -> String {
        let count = self.rng.random_range(0..5);
        let kind = self.rng.random_range(0..8);
        if kind == 7 {
            // The keys of a map have no order, so there is no loop here.
            return self.list(0);
        }
        let elements = (0..count).map(|_| match kind {
            0 | 1 => self.int(0),
            2 => self.double(1),
            3 | 4 => self.text(0),
            5 => self.boolean(0),
            _ => {
                let seconds = self.rng.random_range(0..4);
                format!("duration('{seconds}s')")
            }
        });
        let elements: Vec<String> = elements.collect();
        format!("[{}]", elements.join(", "))
    }

    fn of_lists(&mut self) -> String {
        let list = self.typed_list();
        match self.rng.random_range(0..13) {
            0 => format!(
                "{list}.{}()",
                self.one_of(&["isSorted", "sum", "min", "max"])
            ),
            1 => format!(
                "dyn({list}).{}()",
                self.one_of(&["isSorted", "sum", "min", "max"])
            ),
            2 => format!(
                "{list}.{}({})",
                self.one_of(&["indexOf", "lastIndexOf"]),
                self.any(0)
            ),
            3 => format!("{list}.includes({})", self.any(0)),
            4 => format!("{}.includes({})", self.grouped_text(0), self.text(0)),
            5 => format!("{list}.{}()", self.one_of(&["sort", "distinct", "reverse"])),
            6 => {
                let (from, to) = (self.rng.random_range(-1..4), self.rng.random_range(-1..5));
                format!("{list}.slice({from}, {to})")
            }
            7 => format!("[{list}, {}].flatten()", self.typed_list()),
            8 => {
                let depth = self.rng.random_range(-1..4);
                format!("[{list}, [{}]].flatten({depth})", self.typed_list())
            }
            9 => format!("lists.range({})", self.rng.random_range(-2..6)),
            10 => format!(
                "{list}.sortBy(e, {})",
                self.one_of(&["e", "-e", "size(e)", "string(e)"])
            ),
            _ => {
                let function = self.one_of(&["contains", "equivalent", "intersects"]);
                format!("sets.{function}({list}, {})", self.typed_list())
            }
        }
    }

    fn of_texts(&mut self) -> String {
        let text = self.grouped_text(1);
        let patterns = [
            "[a-z]+",
            "a*",
            "",
            "(x|y)",
            "[0-9]*",
            "\\\\d+",
            "\\\\w+",
            "[^\\\\s]",
            "^.",
            "$",
            "\\\\bv",
            "[[:alpha:]]+",
            "[a&&b]",
            ".",
            "(?i)R",
            "ä",
            "[]a]",
            "(a",
            "x{2,1}",
        ];
        match self.rng.random_range(0..11) {
            0 => {
                let (old, new) = (self.literal(&["", "a", "-", "n", "io"]), self.text(0));
                format!("{text}.replace({old}, {new})")
            }
            1 => {
                let (old, most) = (self.literal(&["", "a", "-"]), self.rng.random_range(-1..4));
                format!("{text}.replace({old}, '_', {most})")
            }
            2 => {
                let (by, most) = (self.literal(&["", "a", "-"]), self.rng.random_range(-1..4));
                format!("{text}.split({by}, {most})")
            }
            3 => {
                let function = self.one_of(&["indexOf", "lastIndexOf"]);
                let wanted = self.literal(&["", "a", "-", "o"]);
                let from = self.rng.random_range(-1..8);
                format!("{text}.{function}({wanted}, {from})")
            }
            4 => format!("{text}.lastIndexOf({})", self.literal(&["", "a", "-", "o"])),
            5 => format!("{}.join()", self.typed_list()),
            6 => format!(
                "{}.join({})",
                self.typed_list(),
                self.literal(&["", ",", "ä"])
            ),
            7 => format!("{text}.find('{}')", self.one_of(&patterns)),
            8 => format!("{text}.findAll('{}')", self.one_of(&patterns)),
            9 => {
                let most = self.rng.random_range(-1..4);
                format!("{text}.findAll('{}', {most})", self.one_of(&patterns))
            }
            _ => {
                let clauses = [
                    "%s", "%d", "%x", "%b", "%o", "%%", "%.2f", "%e", "%X", "a", "%z",
                ];
                let count = self.rng.random_range(1..4);
                let format: String = (0..count).map(|_| self.one_of(&clauses)).collect();
                let arguments: Vec<String> = (0..3).map(|_| self.any(0)).collect();
                match self.below(80) {
                    true => format!("'{format}'.format([{}])", arguments.join(", ")),
                    false => format!("strings.quote({text})"),
                }
            }
        }
    }

    /// Returns a call of a library of Kubernetes.
    pub(super) fn library(&mut self) -> String {
        match self.rng.random_range(0..4) {
            0 => self.of_quantities(),
            1 => self.of_versions(),
            2 => self.of_lists(),
            _ => self.of_texts(),
        }
    }
}
