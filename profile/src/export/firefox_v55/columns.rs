//! Tables of columns whose rows are chosen anew.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::V55Error;

/// The fields of an object, in the file's order, as they are in the file.
pub(super) type Fields = Vec<(String, Box<RawValue>)>;

/// An object's fields in order.
#[derive(Default)]
pub(super) struct Object(pub(super) Fields);

impl Object {
    pub(super) fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }

    /// A field's value; the type's default where there is none.
    pub(super) fn parse<'a, T: Deserialize<'a> + Default>(&'a self, key: &str) -> Result<T, V55Error> {
        Ok(match self.get(key) {
            Some(raw) => serde_json::from_str::<Option<T>>(raw.get())?.unwrap_or_default(),
            None => T::default(),
        })
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Object;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut fields = Fields::new();
                while let Some(entry) = map.next_entry()? {
                    fields.push(entry);
                }
                Ok(Object(fields))
            }
            fn visit_unit<E>(self) -> Result<Object, E> {
                Ok(Object::default())
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A column of indexes: -1 and null are none.
#[derive(Default)]
pub(super) struct Indexes(Vec<Option<u32>>);

impl<'de> Deserialize<'de> for Indexes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = Vec::<Option<i64>>::deserialize(deserializer)?;
        Ok(Indexes(
            values
                .into_iter()
                .map(|value| value.and_then(|value| u32::try_from(value).ok()))
                .collect(),
        ))
    }
}

impl Indexes {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// `None` also beyond the column's end.
    pub(super) fn get(&self, row: u32) -> Option<u32> {
        self.0.get(row as usize).copied().flatten()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Option<u32>> {
        self.0.iter().copied()
    }
}

/// A table: columns, and fields that are none.
#[derive(Default)]
pub(super) struct Table {
    /// Of the columns that nobody has to understand, each value as it is in the file.
    columns: Vec<(String, Vec<Box<RawValue>>)>,
    /// Fields that are no columns.
    others: Fields,
}

impl Table {
    /// All columns but these.
    pub(super) fn without(object: &Object, known: &[&str]) -> Result<Table, V55Error> {
        let len: usize = object.parse("length")?;
        let mut table = Table::default();
        for (key, value) in &object.0 {
            if key == "length" || known.contains(&key.as_str()) {
                continue;
            }
            match serde_json::from_str::<Vec<Box<RawValue>>>(value.get()) {
                Ok(column) if column.len() == len => table.columns.push((key.clone(), column)),
                _ => table.others.push((key.clone(), value.clone())),
            }
        }
        Ok(table)
    }

    /// Writes the columns' values in these rows, of which `None` is one that the file did not have; then the other fields.
    pub(super) fn write(&self, rows: &[Option<u32>], text: &mut String) {
        for (key, column) in &self.columns {
            column_of(text, key, rows.iter(), |text, row| {
                text.push_str(
                    row.and_then(|row| column.get(row as usize))
                        .map_or("null", |value| value.get()),
                );
            });
        }
        for (key, value) in &self.others {
            field(text, key, value.get());
        }
        let _ = write!(text, "\"length\":{}", rows.len());
    }
}

/// `"key":value,`
pub(super) fn field(text: &mut String, key: &str, value: &str) {
    name(text, key);
    text.push_str(value);
    text.push(',');
}

/// `"key":`
pub(super) fn name(text: &mut String, key: &str) {
    text.push_str(&serde_json::Value::from(key).to_string());
    text.push(':');
}

/// `"key":[...],`
pub(super) fn column_of<T>(
    text: &mut String,
    key: &str,
    values: impl Iterator<Item = T>,
    put: impl Fn(&mut String, T),
) {
    name(text, key);
    list(text, values, put);
    text.push(',');
}

/// `[...]`
pub(super) fn list<T>(text: &mut String, values: impl Iterator<Item = T>, put: impl Fn(&mut String, T)) {
    text.push('[');
    for (at, value) in values.enumerate() {
        if at > 0 {
            text.push(',');
        }
        put(text, value);
    }
    text.push(']');
}

/// A number, or what stands for none.
pub(super) fn put_or(text: &mut String, value: Option<u32>, none: &str) {
    match value {
        Some(value) => {
            let _ = write!(text, "{value}");
        }
        None => text.push_str(none),
    }
}
