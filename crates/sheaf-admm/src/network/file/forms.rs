//! Values that a file writes in several forms, read without guessing.
//!
//! A derived struct also reads a list, by the order of its fields, and an untagged enum takes the first variant that
//! fits: `Q = [3]` would be an identity of size 3. Here a list is a list of numbers or rows and everything else with
//! keys is a table. Errors name the forms that are known.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::{
    FileAgent, FileDiagonal, FileEdge, FileEnd, FileIdentity, FileMatrix, FileName, FileSelect, FileSettings,
    FileSparse, Numbers, Problem,
};

/// A value that is written as a table.
struct Table<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Keys<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Keys<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        from.deserialize_map(Keys(PhantomData)).map(Self)
    }
}

/// For `deserialize_with`: a table, if the key is there.
pub(super) fn table<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    Ok(Option::<Table<T>>::deserialize(from)?.map(|table| table.0))
}

fn tables<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Vec::<Table<T>>::deserialize(from)?.into_iter().map(|table| table.0).collect())
}

impl<'de> Deserialize<'de> for Problem {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Keys {
            #[serde(default, deserialize_with = "table")]
            settings: Option<FileSettings>,
            #[serde(default, deserialize_with = "tables")]
            agents: Vec<FileAgent>,
            #[serde(default, deserialize_with = "tables")]
            edges: Vec<FileEdge>,
        }

        let Table(Keys { settings, agents, edges }) = Table::deserialize(from)?;
        Ok(Self { settings, agents, edges })
    }
}

impl<'de> Deserialize<'de> for FileEnd {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct End;

        impl Visitor<'_> for End {
            type Value = FileEnd;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an agent, or its number from 0")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<FileEnd, E> {
                // A number beyond the address space is beyond all agents too.
                Ok(FileEnd::Number(usize::try_from(number).unwrap_or(usize::MAX)))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<FileEnd, E> {
                match u64::try_from(number) {
                    Ok(number) => self.visit_u64(number),
                    Err(_) => Err(E::invalid_value(serde::de::Unexpected::Signed(number), &self)),
                }
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<FileEnd, E> {
                Ok(FileEnd::Name(name.to_string()))
            }
        }

        from.deserialize_any(End)
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OneOrMany;

        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Numbers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a list of numbers, or a table with the key `file`")
            }

            fn visit_f64<E>(self, one: f64) -> Result<Numbers, E> {
                Ok(Numbers::One(one))
            }

            fn visit_i64<E>(self, one: i64) -> Result<Numbers, E> {
                Ok(Numbers::One(one as f64))
            }

            fn visit_u64<E>(self, one: u64) -> Result<Numbers, E> {
                Ok(Numbers::One(one as f64))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Numbers, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Numbers::Each)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Numbers, A::Error> {
                FileName::deserialize(MapAccessDeserializer::new(map)).map(Numbers::File)
            }
        }

        from.deserialize_any(OneOrMany)
    }
}

/// Every key of the tables that stand for a matrix.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct MatrixKeys {
    identity: Option<usize>,
    diagonal: Option<Vec<f64>>,
    select: Option<Vec<usize>>,
    of: Option<usize>,
    shape: Option<[usize; 2]>,
    sparse: Option<Vec<(usize, usize, f64)>>,
    file: Option<String>,
    array: Option<String>,
}

impl MatrixKeys {
    /// The matrix, if the keys are those of one form.
    fn form(self) -> Option<FileMatrix> {
        let Self { identity, diagonal, select, of, shape, sparse, file, array } = self;
        Some(match (identity, diagonal, (select, of), (shape, sparse), (file, array)) {
            (Some(identity), None, (None, None), (None, None), (None, None)) => {
                FileMatrix::Identity(FileIdentity { identity })
            }
            (None, Some(diagonal), (None, None), (None, None), (None, None)) => {
                FileMatrix::Diagonal(FileDiagonal { diagonal })
            }
            (None, None, (Some(select), Some(of)), (None, None), (None, None)) => {
                FileMatrix::Select(FileSelect { select, of })
            }
            (None, None, (None, None), (Some(shape), Some(sparse)), (None, None)) => {
                FileMatrix::Sparse(FileSparse { shape, sparse })
            }
            (None, None, (None, None), (None, None), (Some(file), array)) => {
                FileMatrix::File(FileName { file, array })
            }
            _ => return None,
        })
    }
}

impl<'de> Deserialize<'de> for FileMatrix {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Matrix;

        impl<'de> Visitor<'de> for Matrix {
            type Value = FileMatrix;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of rows, or a table for a matrix")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, rows: A) -> Result<FileMatrix, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(rows)).map(FileMatrix::Rows)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FileMatrix, A::Error> {
                let keys = MatrixKeys::deserialize(MapAccessDeserializer::new(map))?;
                keys.form().ok_or_else(|| {
                    A::Error::custom(
                        "keys of no matrix, expected `identity`; `diagonal`; `select` and `of`; `shape` and `sparse`; or `file`",
                    )
                })
            }
        }

        from.deserialize_any(Matrix)
    }
}
