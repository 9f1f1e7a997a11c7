//! Ready-made encoders and decoders.

mod class_decoder;
mod concat_decoder;
mod linear_decoder;
mod residual_mlp;
mod token_mlp;

pub use class_decoder::{ClassDecoder, ClassWork};
pub use concat_decoder::{ConcatDecoder, ConcatTable, ConcatWork};
pub use linear_decoder::{LinearDecoder, LinearWork};
pub use residual_mlp::{ResidualMlp, ResidualWork};
pub use token_mlp::{TokenMlp, TokenWork, one_hot};
