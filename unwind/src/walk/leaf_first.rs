//! A list whose last entries stay: a stack, leaf first.

/// A list whose first entries are replaced in place. Free room is before the first entry.
#[derive(Clone)]
pub(crate) struct LeafFirst<T> {
    room: Vec<T>,
    start: usize,
}

impl<T> Default for LeafFirst<T> {
    fn default() -> LeafFirst<T> {
        LeafFirst {
            room: Vec::new(),
            start: 0,
        }
    }
}

impl<T: Copy> LeafFirst<T> {
    /// Replaces all entries but the last `kept` ones by `leafward`.
    pub(crate) fn replace(&mut self, kept: usize, leafward: &[T]) {
        let kept = kept.min(self.len());
        let len = leafward.len() + kept;
        if len > self.room.len() {
            let Some(&any) = leafward.first() else { return };
            let mut room = vec![any; len * 2];
            let rootward = self.room.get(self.room.len() - kept..).unwrap_or_default();
            room[len * 2 - kept..].copy_from_slice(rootward);
            self.room = room;
        }
        let end = self.room.len() - kept;
        self.start = end - leafward.len();
        self.room[self.start..end].copy_from_slice(leafward);
    }

    /// Drops the last entries, all but this many.
    pub(crate) fn truncate(&mut self, len: usize) {
        let gone = self.len().saturating_sub(len);
        let kept_end = self.room.len() - gone;
        self.room.copy_within(self.start..kept_end, self.start + gone);
        self.start += gone;
    }

    /// Appends entries behind the last one.
    pub(crate) fn extend(&mut self, rootward: &[T]) {
        let all = [self, rootward].concat();
        self.replace(0, &all);
    }
}

impl<T> std::ops::Deref for LeafFirst<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.room.get(self.start..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entries_are_replaced_and_the_last_ones_stay() {
        let mut stack = LeafFirst::default();
        stack.replace(0, &[3, 2, 1]);
        assert_eq!(*stack, [3, 2, 1]);
        stack.replace(2, &[7, 6, 5, 4, 3]);
        assert_eq!(*stack, [7, 6, 5, 4, 3, 2, 1]);
        stack.replace(1, &[]);
        assert_eq!(*stack, [1]);
        stack.replace(9, &[2]);
        assert_eq!(*stack, [2, 1]);
        stack.extend(&[0]);
        assert_eq!(*stack, [2, 1, 0]);
        stack.truncate(2);
        assert_eq!(*stack, [2, 1]);
        stack.replace(0, &[]);
        assert!(stack.is_empty());
        for len in 1..100 {
            stack.replace(len - 1, &[len]);
            assert_eq!((stack.len(), stack.first(), stack.last()), (len, Some(&len), Some(&1)));
        }
    }
}
