//! Random expressions about addresses, networks, URLs and formats. Many of the texts are
//! odd, or wrong.

use rand::Rng;
use rand::seq::IndexedRandom;

use super::network_texts::{
    ADDRESSES, FORMATS, FORMATTED, FRAGMENTS, GROUPS, HOSTS, LENGTHS, NAMES, NUMBERS, ODD, PAIRS,
    PORTS, SCHEMES, SEGMENTS,
};
use super::random_expressions::{Generator, Type, text_literal};

impl Generator<'_> {
    /// Joins so many of the texts.
    fn some_of(&mut self, texts: &[&str], number: usize, between: &str) -> String {
        let texts: Vec<String> = (0..number).map(|_| self.one_of(texts)).collect();
        texts.join(between)
    }

    /// Makes mistakes, or none.
    fn mistaken(&mut self, text: String) -> String {
        let mut characters: Vec<char> = text.chars().collect();
        while self.below(20) {
            let at = self.rng.random_range(0..=characters.len());
            if self.below(50) {
                characters.insert(at, *ODD.choose(self.rng).unwrap());
            } else if at < characters.len() {
                characters.remove(at);
            }
        }
        characters.into_iter().collect()
    }

    fn address(&mut self) -> String {
        let address = match self.rng.random_range(0..5) {
            0 => self.some_of(&NUMBERS[..12], 4, "."),
            1 => {
                let fields = self.rng.random_range(3..6);
                self.some_of(NUMBERS, fields, ".")
            }
            2 => self.ipv6(),
            _ => self.one_of(ADDRESSES),
        };
        self.mistaken(address)
    }

    fn ipv6(&mut self) -> String {
        let (before, after) = (self.rng.random_range(0..6), self.rng.random_range(0..5));
        let known = if self.below(80) { 13 } else { GROUPS.len() };
        let mut address = self.some_of(&GROUPS[..known], before, ":");
        address += if self.below(70) { "::" } else { ":" };
        address += &self.some_of(&GROUPS[..known], after, ":");
        if self.below(15) {
            address += &format!(":{}", self.some_of(NUMBERS, 4, "."));
        }
        if self.below(5) {
            address += "%eth0";
        }
        address
    }

    fn network_text(&mut self) -> String {
        let length = self.one_of(LENGTHS);
        let network = format!("{}/{length}", self.address());
        self.mistaken(network)
    }

    fn url_text(&mut self) -> String {
        let mut url = self.one_of(SCHEMES);
        if self.below(75) {
            url += "//";
            if self.below(20) {
                url += &self.one_of(&[
                    "u@",
                    "u:p@",
                    "@",
                    "u:p:q@",
                    "a@b@",
                    "%41%3a:%zz@",
                    "ä@",
                    ":@",
                ]);
            }
            url += &match self.below(30) {
                true => self.address(),
                false => self.one_of(HOSTS),
            };
            url += &self.one_of(PORTS);
        }
        for _ in 0..self.rng.random_range(0..4) {
            url += &format!("/{}", self.one_of(SEGMENTS));
        }
        if self.below(50) {
            let pairs = self.rng.random_range(0..5);
            url += &format!("?{}", self.some_of(PAIRS, pairs, "&"));
        }
        if self.below(25) {
            url += &format!("#{}", self.one_of(FRAGMENTS));
        }
        self.mistaken(url)
    }

    fn formatted_text(&mut self) -> String {
        let text = match self.rng.random_range(0..6) {
            0 | 1 => self.one_of(FORMATTED),
            2 => self.url_text(),
            3 => {
                // About the longest label or subdomain.
                let length = *[62, 63, 64, 65, 252, 253, 254, 255]
                    .choose(self.rng)
                    .unwrap();
                let name = self
                    .one_of(&["a", "0", "ab.", "a-", "A", "ä"])
                    .repeat(length);
                let name: String = name.chars().take(length).collect();
                name + &self.one_of(&["", "", "-", "/a", "/"])
            }
            _ => {
                let parts = self.rng.random_range(1..4);
                let between = self.one_of(&["", ".", "/", "-"]);
                self.some_of(NAMES, parts, &between)
            }
        };
        self.mistaken(text)
    }

    /// Returns an expression of a text.
    fn given(&mut self, text: &str) -> String {
        match self.rng.random_range(0..20) {
            0 => self.part_or(Type::Text, &text_literal(text)),
            1 => format!("('' + {})", text_literal(text)),
            2 => format!("dyn({})", text_literal(text)),
            _ => text_literal(text),
        }
    }

    fn ip(&mut self) -> String {
        match self.below(20) {
            true => format!("{}.ip()", self.cidr()),
            false => {
                let text = self.address();
                format!("ip({})", self.given(&text))
            }
        }
    }

    fn cidr(&mut self) -> String {
        let text = match self.below(50) {
            true => self.network_text(),
            // Some contain each other.
            false => {
                let address = self.one_of(&ADDRESSES[..13]);
                format!("{address}/{}", self.one_of(&LENGTHS[..9]))
            }
        };
        let masked = if self.below(20) { ".masked()" } else { "" };
        format!("cidr({}){masked}", self.given(&text))
    }

    fn url(&mut self) -> String {
        let text = self.url_text();
        format!("url({})", self.given(&text))
    }

    fn format(&mut self) -> String {
        let name = self.one_of(FORMATS);
        match self.below(70) {
            true => format!("format.{name}()"),
            false => format!("format.named({}).value()", text_literal(&name)),
        }
    }

    /// Returns an expression about addresses, networks, URLs or formats.
    pub(super) fn network(&mut self) -> String {
        match self.rng.random_range(0..4) {
            0 => self.of_addresses(),
            1 => self.of_cidrs(),
            2 => self.of_urls(),
            _ if self.below(80) => self.of_formats(),
            _ => self.of_loops(),
        }
    }

    fn of_addresses(&mut self) -> String {
        let text = self.address();
        match self.rng.random_range(0..8) {
            0 => format!("isIP({})", self.given(&text)),
            1 | 2 => format!("ip.isCanonical({})", self.given(&text)),
            3 => format!("string({})", self.ip()),
            4 => format!("{} == {}", self.ip(), self.ip()),
            5 => format!("type({}) == net.IP", self.ip()),
            _ => {
                let of = self.one_of(&[
                    "family",
                    "isUnspecified",
                    "isLoopback",
                    "isLinkLocalMulticast",
                    "isLinkLocalUnicast",
                    "isGlobalUnicast",
                ]);
                format!("{}.{of}()", self.ip())
            }
        }
    }

    fn of_cidrs(&mut self) -> String {
        match self.rng.random_range(0..9) {
            0 => {
                let text = self.network_text();
                format!("isCIDR({})", self.given(&text))
            }
            1 => format!("string({})", self.cidr()),
            2 => format!("{} == {}", self.cidr(), self.cidr()),
            3 => format!("type({}) == net.CIDR", self.cidr()),
            4 => format!("{}.prefixLength()", self.cidr()),
            5 => format!("{}.containsIP({})", self.cidr(), self.ip()),
            6 => {
                let text = self.address();
                format!("{}.containsIP({})", self.cidr(), self.given(&text))
            }
            7 => format!("{}.containsCIDR({})", self.cidr(), self.cidr()),
            _ => {
                let text = self.network_text();
                format!("{}.containsCIDR({})", self.cidr(), self.given(&text))
            }
        }
    }

    fn of_urls(&mut self) -> String {
        match self.rng.random_range(0..9) {
            0 | 1 => {
                let text = self.url_text();
                format!("isURL({})", self.given(&text))
            }
            2 => format!("{} == {}", self.url(), self.url()),
            3 => format!("{}.getQuery()", self.url()),
            4 => format!("{}.getQuery()['a'].join(',')", self.url()),
            _ => {
                let part = self.one_of(&[
                    "getScheme",
                    "getHost",
                    "getHostname",
                    "getPort",
                    "getEscapedPath",
                ]);
                format!("{}.{part}()", self.url())
            }
        }
    }

    fn of_formats(&mut self) -> String {
        let text = self.formatted_text();
        let validated = format!("{}.validate({})", self.format(), self.given(&text));
        match self.rng.random_range(0..8) {
            0 => format!("{validated}.hasValue()"),
            1 => format!("{validated}.value()"),
            2 => format!("{} == {}", self.format(), self.format()),
            3 => {
                let name = self.one_of(FORMATS);
                let name = self.mistaken(name);
                format!("format.named({}).hasValue()", self.given(&name))
            }
            _ => format!("{validated}.orValue([])"),
        }
    }

    /// Returns loops whose variables have the names of functions and namespaces.
    fn of_loops(&mut self) -> String {
        let texts = [self.address(), self.network_text(), self.url_text()];
        let texts = texts.map(|text| text_literal(&text)).join(", ");
        let rest = self.one_of(&[
            "filter(ip, isIP(ip)).map(ip, string(ip(ip)))",
            "map(ip, ip.contains('.'))",
            "filter(ip, isIP(ip) && ip.isCanonical(ip))",
            "filter(cidr, isCIDR(cidr)).map(cidr, cidr(cidr).prefixLength())",
            "filter(url, isURL(url)).map(url, url(url).getHost())",
            "map(format, format.size())",
            "map(format, format.uri().validate(format).hasValue())",
            "map(format, '%s'.format([format]))",
            "map(net, isIP(net) ? type(ip(net)) == net.IP : false)",
            "exists(ip, ip(ip).isLoopback())",
            "all(string, isURL(string))",
        ]);
        format!("[{texts}].{rest}")
    }
}
