//! The three kinds of protobuf fields that a pprof profile has: <https://protobuf.dev/programming-guides/encoding/>.

/// A message while it is written.
#[derive(Default)]
pub(super) struct Message(Vec<u8>);

const VARINT: u64 = 0;
const LEN: u64 = 2;

impl Message {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// A number; 0 is the default, and not written.
    pub(super) fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3 | VARINT);
            self.varint(value);
        }
    }

    /// A text.
    pub(super) fn text(&mut self, field: u64, value: &str) {
        self.chunk(field, value.as_bytes());
    }

    /// A message in this one.
    pub(super) fn message(&mut self, field: u64, inner: &Message) {
        self.chunk(field, &inner.0);
    }

    /// Several numbers in one field.
    pub(super) fn packed(&mut self, field: u64, values: impl Iterator<Item = u64>) {
        let mut inner = Message::default();
        values.for_each(|value| inner.varint(value));
        self.chunk(field, &inner.0);
    }

    fn chunk(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | LEN);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Seven bits a byte, the lowest first; the top bit says that more follow.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the encoding's own description.
    #[test]
    fn fields_as_the_description_has_them() {
        let mut inner = Message::default();
        inner.number(1, 150);
        assert_eq!(inner.bytes(), [0x08, 0x96, 0x01]);
        let mut outer = Message::default();
        outer.text(2, "testing");
        assert_eq!(outer.bytes(), b"\x12\x07testing");
        outer.clear();
        outer.message(3, &inner);
        assert_eq!(outer.bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        outer.clear();
        outer.packed(6, [3, 270, 86942].into_iter());
        assert_eq!(outer.bytes(), [0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]);
        outer.clear();
        outer.number(1, 0);
        assert!(outer.bytes().is_empty());
    }
}
