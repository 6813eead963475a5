//! Reads the JSON of an object as a value of expressions.

use std::collections::HashMap;
use std::fmt;

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString,
};
use cel::common::value::Val;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

pub(super) struct ObjectValue(pub(super) Box<dyn Val>);

impl<'de> Deserialize<'de> for ObjectValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = ObjectValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<ObjectValue, E> {
        Ok(ObjectValue(Box::new(CelBool::from(value))))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<ObjectValue, E> {
        Ok(ObjectValue(Box::new(CelInt::from(value))))
    }

    /// As Kubernetes reads JSON, whole numbers beyond 64 bits with a sign are doubles.
    #[allow(clippy::cast_precision_loss)]
    fn visit_u64<E: Error>(self, value: u64) -> Result<ObjectValue, E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => self.visit_f64(value as f64),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<ObjectValue, E> {
        Ok(ObjectValue(Box::new(CelDouble::from(value))))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<ObjectValue, E> {
        Ok(ObjectValue(Box::new(CelString::from(value.to_owned()))))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<ObjectValue, E> {
        Ok(ObjectValue(Box::new(CelString::from(value))))
    }

    fn visit_unit<E: Error>(self) -> Result<ObjectValue, E> {
        Ok(ObjectValue(Box::new(CelNull)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ObjectValue, A::Error> {
        let mut list: Vec<Box<dyn Val>> = Vec::new();
        while let Some(ObjectValue(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(ObjectValue(Box::new(CelList::from(list))))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<ObjectValue, A::Error> {
        let mut map: HashMap<CelMapKey<'static>, Box<dyn Val>> = HashMap::new();
        while let Some((key, ObjectValue(value))) = members.next_entry::<String, _>()? {
            map.insert(CelMapKey::from(key), value);
        }
        Ok(ObjectValue(Box::new(CelMap::from(map))))
    }
}
