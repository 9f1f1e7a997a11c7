//! Named arrays: the result of a run, for files and for the page.
//!
//! | part of a message | bytes |
//! | --- | --- |
//! | `SHEAF1\0\0` | 8 |
//! | length of the header | 4, little-endian, then 4 of zeros |
//! | header | JSON: `about` and `arrays`, each with name, type, shape, offset, bytes; padded to 8 with spaces |
//! | arrays | each at a multiple of 8 from the end of the header, little-endian |

use serde_json::{Value, json};
use sheaf_admm::Result;
use sheaf_tasks::npz::{Array, Values};

/// Named arrays.
#[derive(Clone, Debug, Default)]
pub struct Arrays(Vec<(String, Array)>);

impl Arrays {
    /// Adds an array of numbers.
    pub fn floats(&mut self, name: &str, shape: &[usize], values: Vec<f32>) -> Result<()> {
        self.0.push((name.into(), Array::new(shape.to_vec(), Values::F32(values))?));
        Ok(())
    }

    /// Adds an array of bytes.
    pub fn bytes(&mut self, name: &str, shape: &[usize], values: Vec<u8>) -> Result<()> {
        self.0.push((name.into(), Array::new(shape.to_vec(), Values::U8(values))?));
        Ok(())
    }

    /// Adds an array of whole numbers.
    pub fn integers(&mut self, name: &str, shape: &[usize], values: Vec<i32>) -> Result<()> {
        self.0.push((name.into(), Array::new(shape.to_vec(), Values::I32(values))?));
        Ok(())
    }

    /// Adds all of another list under names that begin with `prefix`.
    pub fn extend(&mut self, prefix: &str, other: Self) {
        self.0.extend(other.0.into_iter().map(|(name, array)| (format!("{prefix}{name}"), array)));
    }

    /// The array of that name.
    pub fn get(&self, name: &str) -> Option<&Array> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, array)| array)
    }

    /// The numbers of an array; empty if there is none of that name and type.
    pub fn values(&self, name: &str) -> &[f32] {
        match self.get(name).map(Array::values) {
            Some(Values::F32(values)) => values,
            _ => &[],
        }
    }

    /// Name, NumPy's type and shape of every array.
    pub fn list(&self) -> impl Iterator<Item = (&str, &str, &[usize])> {
        self.0.iter().map(|(name, array)| (name.as_str(), array.values().dtype(), array.shape()))
    }

    /// The bytes of an `.npz` file.
    pub fn to_npz(&self) -> Result<Vec<u8>> {
        let named: Vec<(&str, &Array)> = self.0.iter().map(|(name, array)| (name.as_str(), array)).collect();
        sheaf_tasks::npz::to_bytes(&named)
    }

    /// The message that the page reads, with `about` in its header.
    pub fn to_message(&self, about: Value) -> Vec<u8> {
        let (mut offset, mut entries) = (0, Vec::new());
        for (name, array) in &self.0 {
            let bytes = len_of(array.values());
            let (dtype, shape) = (array.values().dtype(), array.shape());
            entries
                .push(json!({"name": name, "type": dtype, "shape": shape, "offset": offset, "bytes": bytes}));
            offset += bytes.next_multiple_of(8);
        }
        let mut header = json!({"about": about, "arrays": entries}).to_string().into_bytes();
        header.resize(header.len().next_multiple_of(8), b' ');
        let mut message = Vec::with_capacity(16 + header.len() + offset);
        message.extend_from_slice(b"SHEAF1\0\0");
        message.extend_from_slice(&(header.len() as u64).to_le_bytes());
        message.extend_from_slice(&header);
        for (_, array) in &self.0 {
            match array.values() {
                Values::F32(values) => {
                    values.iter().for_each(|v| message.extend_from_slice(&v.to_le_bytes()))
                }
                Values::I32(values) => {
                    values.iter().for_each(|v| message.extend_from_slice(&v.to_le_bytes()))
                }
                Values::U8(values) => message.extend_from_slice(values),
                _ => {}
            }
            message.resize(message.len().next_multiple_of(8), 0);
        }
        message
    }
}

/// Bytes of an array in a message; lists hold three types.
fn len_of(values: &Values) -> usize {
    match values {
        Values::F32(values) => 4 * values.len(),
        Values::I32(values) => 4 * values.len(),
        Values::U8(values) => values.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_arrays_where_the_header_says() {
        let mut arrays = Arrays::default();
        arrays.bytes("flags", &[3], vec![1, 2, 3]).unwrap();
        arrays.floats("numbers", &[2, 1], vec![0.5, -2.0]).unwrap();
        let message = arrays.to_message(json!({"task": "maze"}));
        assert_eq!(&message[..8], b"SHEAF1\0\0");
        let len = u64::from_le_bytes(message[8..16].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&message[16..16 + len]).unwrap();
        let body = &message[16 + len..];
        let entry = &header["arrays"][1];
        assert_eq!((entry["name"].as_str(), entry["offset"].as_u64()), (Some("numbers"), Some(8)));
        assert_eq!(f32::from_le_bytes(body[12..16].try_into().unwrap()), -2.0);
        assert_eq!(message.len() % 8, 0);
    }
}
