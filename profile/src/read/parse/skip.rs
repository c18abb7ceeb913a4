//! Skips values, and checks that they are valid.

use super::Parser;
use super::error::Result;

impl Parser<'_> {
    /// Skips a value of any nesting: brackets are kept in a list, not on the stack.
    pub(super) fn skip(&mut self) -> Result<()> {
        let outer = self.closers.len();
        loop {
            match self.input.token()? {
                b'-' | b'0'..=b'9' => self.skip_number()?,
                b'"' => {
                    self.input.bump();
                    self.skip_text()?;
                }
                b'n' => self.literal(b"null")?,
                b't' => self.literal(b"true")?,
                b'f' => self.literal(b"false")?,
                b'[' if self.opens(b']')? => continue,
                b'{' if self.opens(b'}')? => {
                    self.skip_key()?;
                    continue;
                }
                // Empty.
                b'[' | b'{' => {}
                _ => return Err(self.wrong("expected value")),
            }
            if self.closes(outer)? {
                return Ok(());
            }
        }
    }

    /// Consumes an opening bracket. Returns false if it also consumed the closing bracket of an empty value.
    fn opens(&mut self, closer: u8) -> Result<bool> {
        self.check_depth(self.depth + self.closers.len() + 1)?;
        self.input.bump();
        let is_empty = self.input.token()? == closer;
        match is_empty {
            true => self.input.bump(),
            false => self.closers.push(closer),
        }
        Ok(!is_empty)
    }

    /// Consumes the separator before the next value. True at the end: the outermost bracket has closed.
    #[inline]
    fn closes(&mut self, outer: usize) -> Result<bool> {
        while self.closers.len() > outer {
            let Some(&closer) = self.closers.last() else { break };
            match self.input.token()? {
                b',' => {
                    self.input.bump();
                    self.count_value()?;
                    if closer == b'}' {
                        self.skip_key()?;
                    }
                    return Ok(false);
                }
                byte if byte == closer => {
                    self.input.bump();
                    self.closers.pop();
                }
                _ if closer == b'}' => return Err(self.wrong("expected `,` or `}`")),
                _ => return Err(self.wrong("expected `,` or `]`")),
            }
        }
        Ok(true)
    }

    fn skip_key(&mut self) -> Result<()> {
        if self.input.token()? != b'"' {
            return Err(self.wrong("key must be a string"));
        }
        self.input.bump();
        self.skip_text()?;
        self.colon()
    }

    /// Consumes the colon after a key.
    pub(super) fn colon(&mut self) -> Result<()> {
        match self.input.token()? {
            b':' => {
                self.input.bump();
                Ok(())
            }
            _ => Err(self.wrong("expected `:`")),
        }
    }
}
