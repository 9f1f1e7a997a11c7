//! Arrays in memory, and how `npyz` reads and writes their numbers.

use std::io::{self, Read, Write};

use npyz::{NpyFile, WriterBuilder};
use sheaf_admm::{Error, ErrorKind, Result};

/// One line per type: the variant, its Rust type, NumPy's name and the type code in a header.
macro_rules! types {
    ($($variant:ident($t:ty) $name:literal $descr:literal)*) => {
        /// The numbers of an array.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Values {
            $(#[doc = concat!("`", $name, "`")] $variant(Vec<$t>),)*
        }

        impl Values {
            /// Number of values.
            pub fn len(&self) -> usize {
                match self { $(Self::$variant(v) => v.len(),)* }
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// NumPy's name of the type.
            pub fn dtype(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)* }
            }

            /// Bytes per number of a type code of a header; `None` for other types.
            pub(super) fn width(descr: &str) -> Option<u64> {
                match descr { $($descr => Some(size_of::<$t>() as u64),)* _ => None }
            }

            pub(super) fn read(file: NpyFile<impl Read>) -> io::Result<Self> {
                match file.dtype().descr().as_str() {
                    $($descr => file.into_vec().map(Self::$variant),)*
                    other => Err(io::Error::other(format!("type {other}"))),
                }
            }

            /// The same array with the last axis varying fastest, from one whose first axis does.
            pub(super) fn in_c_order(self, shape: &[usize]) -> Self {
                match self { $(Self::$variant(v) => Self::$variant(reordered(&v, shape)),)* }
            }

            pub(super) fn write(&self, shape: &[u64], out: impl Write) -> io::Result<()> {
                match self { $(Self::$variant(v) => {
                    let mut writer = npyz::WriteOptions::new().default_dtype().shape(shape).writer(out).begin_nd()?;
                    writer.extend(v.iter().copied())?;
                    writer.finish()
                })* }
            }
        }
    };
}

types! {
    U8(u8) "uint8" "'|u1'"
    Bool(bool) "bool" "'|b1'"
    I32(i32) "int32" "'<i4'"
    I64(i64) "int64" "'<i8'"
    F32(f32) "float32" "'<f4'"
    F64(f64) "float64" "'<f8'"
}

/// Values whose first axis varies fastest, in the order in which the last one does.
fn reordered<T: Copy>(values: &[T], shape: &[usize]) -> Vec<T> {
    let mut steps = vec![1; shape.len()];
    (1..shape.len()).for_each(|axis| steps[axis] = steps[axis - 1] * shape[axis - 1]);
    let (mut at, mut place) = (vec![0; shape.len()], 0);
    let mut out = Vec::with_capacity(values.len());
    while out.len() < values.len() {
        out.push(values[place]);
        for axis in (0..shape.len()).rev() {
            (at[axis], place) = (at[axis] + 1, place + steps[axis]);
            if at[axis] < shape[axis] {
                break;
            }
            (at[axis], place) = (0, place - steps[axis] * shape[axis]);
        }
    }
    out
}

/// Numbers with a shape, the last axis varying fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    shape: Vec<usize>,
    values: Values,
}

impl Array {
    /// A new array; the product of the shape must be the number of values, and it may have at most 8 axes.
    pub fn new(shape: Vec<usize>, values: Values) -> Result<Self> {
        let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        if count != Some(values.len()) || shape.len() > 8 {
            let expected = format!("as many values as shape {shape:?} holds, in at most 8 axes");
            return Err(Error::new(ErrorKind::Shape, "array", expected, values.len()));
        }
        Ok(Self { shape, values })
    }

    /// Lengths of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The numbers.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// The numbers, without a copy.
    pub fn into_values(self) -> Values {
        self.values
    }
}
