//! Rust source split into what runs, what is quoted and what is remarked, so that a rule about one is not fooled by another.

/// A piece of text and the line it starts on, counted from one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// One file, taken apart.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    /// The file with every literal and comment blanked; lines stay where they were.
    pub(crate) code: String,
    pub(crate) strings: Vec<Piece>,
    pub(crate) comments: Vec<Piece>,
}

impl Source {
    pub(crate) fn read(text: &str) -> Self {
        let mut scanner =
            Scanner { rest: text.chars().collect(), at: 0, line: 1, source: Self::default() };
        while scanner.at < scanner.rest.len() {
            scanner.step();
        }
        scanner.source
    }

    /// The lines of code that hold `pattern`.
    pub(crate) fn code_lines<'a>(&'a self, pattern: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.code
            .lines()
            .enumerate()
            .filter(move |(_, line)| line.contains(pattern))
            .map(|(index, _)| index + 1)
    }
}

struct Scanner {
    rest: Vec<char>,
    at: usize,
    line: usize,
    source: Source,
}

impl Scanner {
    fn peek(&self, ahead: usize) -> char {
        self.rest.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => self.line_comment(),
            ('/', '*') => self.block_comment(),
            ('"', _) => self.quoted(),
            ('r', '"' | '#') if self.raw_string_starts() => self.raw(),
            ('\'', '\\') => self.character(),
            ('\'', _) if self.peek(2) == '\'' => self.character(),
            _ => self.keep(),
        }
    }

    /// Takes one character as code.
    fn keep(&mut self) {
        let character = self.take();
        self.source.code.push(character);
    }

    /// Takes one character and leaves a blank, or a line break, in the code.
    fn blank(&mut self) -> char {
        let character = self.take();
        self.source.code.push(if character == '\n' { '\n' } else { ' ' });
        character
    }

    fn take(&mut self) -> char {
        let character = self.peek(0);
        self.at += 1;
        if character == '\n' {
            self.line += 1;
        }
        character
    }

    fn more(&self) -> bool {
        self.at < self.rest.len()
    }

    fn line_comment(&mut self) {
        let (line, mut text) = (self.line, String::new());
        while self.more() && self.peek(0) != '\n' {
            text.push(self.blank());
        }
        self.source.comments.push(Piece { line, text });
    }

    fn block_comment(&mut self) {
        let (line, mut text, mut depth) = (self.line, String::new(), 0);
        while self.more() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    text.push(self.blank());
                    continue;
                }
            }
            self.blank();
            self.blank();
            if depth == 0 {
                break;
            }
        }
        self.source.comments.push(Piece { line, text });
    }

    fn quoted(&mut self) {
        let (line, mut text) = (self.line, String::new());
        self.blank();
        while self.more() && self.peek(0) != '"' {
            if self.peek(0) == '\\' {
                text.push(self.blank());
            }
            text.push(self.blank());
        }
        self.blank();
        self.source.strings.push(Piece { line, text });
    }

    /// Whether the `r` under the cursor opens a raw string rather than a raw identifier or a name's last letter.
    fn raw_string_starts(&self) -> bool {
        let after_name = self.at > 0
            && self.rest.get(self.at - 1).is_some_and(|c| c.is_alphanumeric() || *c == '_');
        let byte_prefix = self.at > 0 && self.rest.get(self.at - 1) == Some(&'b');
        let mut ahead = 1;
        while self.peek(ahead) == '#' {
            ahead += 1;
        }
        self.peek(ahead) == '"' && (!after_name || byte_prefix)
    }

    fn raw(&mut self) {
        let (line, mut text, mut hashes) = (self.line, String::new(), 0);
        self.blank();
        while self.peek(0) == '#' {
            self.blank();
            hashes += 1;
        }
        self.blank();
        while self.more() {
            if self.peek(0) == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == '#') {
                break;
            }
            text.push(self.blank());
        }
        for _ in 0..=hashes {
            self.blank();
        }
        self.source.strings.push(Piece { line, text });
    }

    fn character(&mut self) {
        self.blank();
        if self.peek(0) == '\\' {
            self.blank();
        }
        self.blank();
        while self.more() && self.peek(0) != '\'' {
            self.blank();
        }
        self.blank();
    }
}

#[cfg(test)]
mod tests {
    use super::Source;

    fn strings(text: &str) -> Vec<String> {
        Source::read(text).strings.into_iter().map(|piece| piece.text).collect()
    }

    #[test]
    fn code_strings_and_comments_are_told_apart() {
        let source = Source::read(
            "let a = \"todo!()\"; // dbg!(1)\nb('\"', 'x', '\\'');\n/* one\n/* two */ */ c",
        );
        assert_eq!(source.strings[0].text, "todo!()");
        assert_eq!(source.comments[0].text, "// dbg!(1)");
        assert_eq!(source.comments[1].line, 3);
        assert!(
            !source.code.contains("todo")
                && !source.code.contains("dbg")
                && source.code.ends_with(" c")
        );
        assert_eq!(source.code.lines().count(), 4);
    }

    #[test]
    fn raw_strings_end_where_their_hashes_say() {
        assert_eq!(strings("let a = r#\"say \"hi\" \"#; let b = br\"x\";"), ["say \"hi\" ", "x"]);
        assert_eq!(strings("let r#type = for_r\"y\";"), ["y"]);
    }

    #[test]
    fn a_lifetime_opens_nothing() {
        let source = Source::read("fn f<'a>(x: &'a str) -> &'a str { \"s\" }");
        assert_eq!(source.strings.len(), 1);
        assert!(source.code.contains("fn f<'a>(x: &'a str)"));
    }
}
