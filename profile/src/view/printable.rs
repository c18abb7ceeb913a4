//! The last step before display: makes all names safe for a terminal.

use std::borrow::Cow;

use crate::data::{Data, RowValue};
use crate::text::one_line;

impl Data {
    /// Converts all texts with [`one_line`]. To be called after symbol lookup, because a converted library path may not
    /// name its file.
    pub fn make_printable(&mut self) {
        let texts = self.texts.iter_mut();
        texts.for_each(|text| {
            if let Cow::Owned(line) = one_line(text) {
                *text = line.into();
            }
        });
        let own = [
            &mut self.product,
            &mut self.imported_from,
            &mut self.arguments,
            &mut self.os,
            &mut self.cpu,
        ];
        own.into_iter().for_each(clean);
        for category in &mut self.categories {
            clean(&mut category.name);
            category.subcategories.iter_mut().for_each(clean);
        }
        self.event.iter_mut().for_each(clean);
        if let Some(weights) = &mut self.weights {
            [&mut weights.name, &mut weights.unit].into_iter().for_each(clean);
            weights.others.iter_mut().for_each(clean);
        }
        for lib in &mut self.libs {
            let names = [&mut lib.name, &mut lib.path, &mut lib.debug_name, &mut lib.debug_path];
            names.into_iter().flatten().for_each(clean);
            [&mut lib.breakpad_id, &mut lib.code_id, &mut lib.arch]
                .into_iter()
                .flatten()
                .for_each(clean);
        }
        for thread in &mut self.threads {
            let names = [
                &mut thread.name,
                &mut thread.process_name,
                &mut thread.pid,
                &mut thread.tid,
            ];
            names.into_iter().for_each(clean);
            thread.event.iter_mut().for_each(clean);
        }
        if let Some(recorded) = &mut self.recorded {
            [&mut recorded.event, &mut recorded.kernel_code]
                .into_iter()
                .chain(&mut recorded.commit)
                .for_each(clean);
            for limit in &mut recorded.limits {
                clean(&mut limit.what);
                limit.words.iter_mut().for_each(clean);
            }
        }
        for section in &mut self.extra {
            clean(&mut section.label);
            for row in &mut section.rows {
                [&mut row.label, &mut row.format].into_iter().for_each(clean);
                if let RowValue::Text(text) = &mut row.value {
                    clean(text);
                }
            }
        }
    }
}

fn clean(text: &mut String) {
    if let Cow::Owned(line) = one_line(text) {
        *text = line;
    }
}
