//! Regular expressions of strangers: what they may become, and what matching them costs.

use regex::{Regex, RegexBuilder};

/// Bytes that one compiled pattern may take.
pub(crate) const SIZE: usize = 512 << 10;

pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern).size_limit(SIZE).build().map_err(|error| error.to_string())
}

/// Units of work for each byte that is looked at. The engine is linear in the text, but in the worst case it follows
/// every place of the pattern at once, a counted repetition as often as it counts.
pub(crate) fn units_per_byte(pattern: &str) -> u64 {
    let mut reader = Reader { signs: pattern.chars().collect(), at: 0 };
    reader.alternatives().saturating_mul(2).saturating_add(1)
}

/// Reads just enough of a pattern to count its places. It is wrong only by counting too many.
struct Reader {
    signs: Vec<char>,
    at: usize,
}

impl Reader {
    /// Up to the end of a group or of the pattern.
    fn alternatives(&mut self) -> u64 {
        // Groups are followed in a list and not by recursion: a pattern may be nothing but parentheses.
        let mut open: Vec<u64> = Vec::new();
        let mut total: u64 = 0;
        while let Some(sign) = self.next() {
            let atom = match sign {
                '(' => {
                    if self.is_verbose() {
                        return u64::MAX;
                    }
                    open.push(total);
                    total = 0;
                    continue;
                }
                ')' => {
                    let inner = total.max(1);
                    total = open.pop().unwrap_or_default();
                    inner
                }
                '[' => self.class(),
                '\\' => self.escape(),
                _ => 1,
            };
            total = total.saturating_add(atom.saturating_mul(self.repetitions()));
        }
        open.into_iter().fold(total, u64::saturating_add)
    }

    fn next(&mut self) -> Option<char> {
        let sign = self.signs.get(self.at).copied();
        self.at += 1;
        sign
    }

    /// To the end of a class, which may hold others.
    fn class(&mut self) -> u64 {
        let mut depth = 1;
        while depth > 0 {
            match self.next() {
                Some('\\') => self.at += 1,
                Some('[') => depth += 1,
                Some(']') => depth -= 1,
                Some(_) => {}
                None => break,
            }
        }
        1
    }

    /// `\d`, `\p{Letter}`, `\u{1F600}`: the braces belong to it.
    fn escape(&mut self) -> u64 {
        if let Some('p' | 'P' | 'u' | 'x' | 'U') = self.next()
            && self.signs.get(self.at) == Some(&'{')
        {
            while self.next().is_some_and(|sign| sign != '}') {}
        }
        1
    }

    /// How often the atom before this place can stand in the program.
    fn repetitions(&mut self) -> u64 {
        let mut times: u64 = 1;
        // A repetition may be repeated itself.
        loop {
            while let Some('?' | '*' | '+') = self.signs.get(self.at) {
                self.at += 1;
            }
            if self.signs.get(self.at) != Some(&'{') {
                break;
            }
            let close = self.signs[self.at..].iter().position(|sign| *sign == '}');
            let Some(close) = close.map(|close| self.at + close) else { break };
            let bounds: String = self.signs[self.at + 1..close].iter().collect();
            let most = bounds.split(',').filter_map(|bound| bound.trim().parse().ok()).max();
            let Some(most) = most else { break };
            times = times.saturating_mul(1.max(most));
            self.at = close + 1;
        }
        times
    }

    /// Whether flags follow that allow blanks and remarks between an atom and its repetition, where they would not be
    /// seen here. Nobody writes such a pattern into a schema.
    fn is_verbose(&self) -> bool {
        let flags = self.signs[self.at..].iter().skip(1).take_while(|it| it.is_ascii_alphabetic());
        self.signs.get(self.at) == Some(&'?') && flags.into_iter().any(|flag| *flag == 'x')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_costs_its_places_with_every_repetition_counted() {
        for (pattern, places) in [
            ("", 0),
            ("^ab$", 4),
            ("(abc)*{100}", 300),
            ("(?:a)+", 3),
            ("[a-z]{8}-[0-9]{4}", 13),
            ("(ab|c){3}", 12),
            ("((a{10}){10}){10}", 1_000),
            (r"\p{L}{5}\d[\]\[{}]{2}", 8),
            ("a{2}{3}", 6),
            ("a{2}+{3}", 6),
            ("((((", 0),
            ("a{,", 3),
        ] {
            assert_eq!(units_per_byte(pattern), 2 * places + 1, "{pattern}");
        }
        assert_eq!(units_per_byte("(?ix)(abc) {9}"), u64::MAX);
        assert_eq!(units_per_byte(&"a{9999999999}{9999999999}".repeat(3)), u64::MAX);
    }

    #[test]
    fn what_becomes_too_large_is_refused() {
        assert!(compile("^[a-z]{1,64}$").is_ok());
        assert!(compile(r"(\p{L}{200}){200}").is_err());
        assert!(compile("(a)\\1").is_err(), "nothing that goes back");
    }
}
