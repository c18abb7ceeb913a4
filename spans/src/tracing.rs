//! Spans of the crate `tracing`.

use core::fmt::{self, Debug};
use std::boxed::Box;
use std::collections::HashMap;
use std::string::String;
use std::sync::{PoisonError, RwLock};
use std::thread::{self, ThreadId};
use std::vec::Vec;

use tracing_core::callsite::Identifier;
use tracing_core::field::{Field as Key, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::backend;
use crate::format::{INSTANT, MOST_FIELDS, SPAN};
use crate::site::{Field, Site};

/// Records the spans of `tracing`: each time that a thread is in one. Events become instants.
///
/// A span of an `async fn` is entered each time that it is polled; [`async_span!`](crate::async_span!) measures it as a
/// whole.
///
/// ```
/// use tracing_subscriber::prelude::*;
///
/// tracing_subscriber::registry().with(sprof_spans::SpanLayer::default()).init();
/// let _span = tracing::info_span!("parse", rows = 3).entered();
/// ```
#[derive(Debug, Default)]
pub struct SpanLayer {
    /// They stay, as the places in the program do.
    sites: RwLock<HashMap<Identifier, &'static Site>>,
}

/// What the registry keeps of a span.
struct OpenSpan {
    site: &'static Site,
    fields: Fields,
    /// Each thread that is in it, and since when.
    began: Vec<(ThreadId, u64)>,
}

#[derive(Default)]
struct Fields(Vec<OwnedField>);

enum OwnedField {
    Other(Field<'static>),
    Text(String),
}

impl SpanLayer {
    fn site(&self, metadata: &'static Metadata<'static>) -> &'static Site {
        let id = metadata.callsite();
        if let Some(known) = self.sites.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
            return known;
        }
        let mut sites = self.sites.write().unwrap_or_else(PoisonError::into_inner);
        sites.entry(id).or_insert_with(|| {
            let keys: Vec<&str> = metadata
                .fields()
                .iter()
                .map(|field| field.name())
                .take(MOST_FIELDS)
                .collect();
            let name = if metadata.is_event() {
                metadata.target()
            } else {
                metadata.name()
            };
            Box::leak(Box::new(Site::new(name, keys.leak())))
        })
    }
}

impl Fields {
    fn put(&mut self, key: &Key, field: OwnedField) {
        let index = key.index();
        if index < MOST_FIELDS {
            while self.0.len() <= index {
                self.0.push(OwnedField::Other(Field::None));
            }
            self.0[index] = field;
        }
    }

    fn record<const T: usize>(&self, site: &'static Site, kind: u64, times: [u64; T]) {
        let mut fields = [Field::None; MOST_FIELDS];
        for (to, from) in fields.iter_mut().zip(&self.0) {
            *to = match from {
                OwnedField::Other(field) => *field,
                OwnedField::Text(text) => Field::Text(text),
            };
        }
        backend::record(site, kind, times, &fields[..self.0.len()]);
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, key: &Key, value: f64) {
        self.put(key, OwnedField::Other(value.into()));
    }

    fn record_i64(&mut self, key: &Key, value: i64) {
        self.put(key, OwnedField::Other(value.into()));
    }

    fn record_u64(&mut self, key: &Key, value: u64) {
        self.put(key, OwnedField::Other(value.into()));
    }

    fn record_bool(&mut self, key: &Key, value: bool) {
        self.put(key, OwnedField::Other(value.into()));
    }

    fn record_str(&mut self, key: &Key, value: &str) {
        self.put(key, OwnedField::Text(value.into()));
    }

    fn record_debug(&mut self, key: &Key, value: &dyn Debug) {
        self.put(key, OwnedField::Text(std::format!("{value:?}")));
    }
}

impl Debug for OpenSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.site.name)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id).filter(|_| backend::is_recording()) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            let site = self.site(attributes.metadata());
            let began = Vec::new();
            span.extensions_mut().insert(OpenSpan { site, fields, began });
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        if let Some(open) = extensions.get_mut::<OpenSpan>() {
            values.record(&mut open.fields);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id).filter(|_| backend::is_recording()) else {
            return;
        };
        let mut extensions = span.extensions_mut();
        if extensions.get_mut::<OpenSpan>().is_none() {
            // It began before the recording.
            let (site, fields, began) = (self.site(span.metadata()), Fields::default(), Vec::new());
            extensions.insert(OpenSpan { site, fields, began });
        }
        if let Some(open) = extensions.get_mut::<OpenSpan>() {
            open.began.push((thread::current().id(), backend::now()));
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(open) = extensions.get_mut::<OpenSpan>() else {
            return;
        };
        let this = thread::current().id();
        let Some(at) = open.began.iter().rposition(|(thread, _)| *thread == this) else {
            return;
        };
        let ((_, began), ended) = (open.began.remove(at), backend::now());
        if began != 0 && ended != 0 {
            open.fields.record(open.site, SPAN, [ended, began]);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if backend::is_recording() {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let now = backend::now();
            if now != 0 {
                fields.record(self.site(event.metadata()), INSTANT, [now]);
            }
        }
    }
}
