//! PNG images: writes one frame, reads any picture.

use std::io::Cursor;

use ::png::{BitDepth, ColorType, Decoder, Encoder, Transformations};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::limits::product;

use super::canvas::{self, Canvas};
use super::{Frame, Scene, palette};

/// A frame as the bytes of a PNG file, with cells of `cell` pixels.
pub fn render(scene: &Scene, frame: &Frame, cell: usize) -> Result<Vec<u8>> {
    encode(&canvas::draw(scene, frame, cell, None)?)
}

/// A canvas of the common palette as the bytes of a PNG file.
pub fn encode(canvas: &Canvas) -> Result<Vec<u8>> {
    encode_with(canvas, palette::table())
}

/// A canvas as the bytes of a PNG file; `colours` are red, green and blue of each.
pub fn encode_with(canvas: &Canvas, colours: Vec<u8>) -> Result<Vec<u8>> {
    let failed =
        |e: ::png::EncodingError| Error::new(ErrorKind::Io, "PNG image", "pixels that can be encoded", e);
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, canvas.width as u32, canvas.height as u32);
    encoder.set_color(ColorType::Indexed);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_palette(colours);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&canvas.pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(bytes)
}

/// Most pixels of an image that is read: 4096 × 4096.
pub const MAX_PIXELS: u64 = 1 << 24;
/// Largest file of a picture or a text that is solved, in bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 26;

/// An image as red, green and blue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Rows of pixels.
    pub height: usize,
    /// Columns of pixels.
    pub width: usize,
    /// Colour of each pixel.
    pub rgb: Vec<u8>, // [height, width, 3]
}

/// Reads a PNG file of any colour type; transparent pixels become white. `place` names it in errors.
pub fn decode(bytes: &[u8], place: &str) -> Result<Image> {
    let failed = |e: ::png::DecodingError| {
        Error::new(ErrorKind::Malformed, place, "a PNG image", e)
            .hint("save the picture as PNG and try again")
    };
    let mut decoder = Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(failed)?;
    let (width, height) = reader.info().size();
    let fits = product(&[width as usize, height as usize], MAX_PIXELS);
    let Some(size) = reader.output_buffer_size().filter(|_| fits.is_some()) else {
        let want = format!("an image of at most {MAX_PIXELS} pixels");
        return Err(Error::new(ErrorKind::OutOfRange, place, want, format_args!("{width} × {height}"))
            .hint("scale the picture down"));
    };
    let mut pixels = vec![0; size];
    let info = reader.next_frame(&mut pixels).map_err(failed)?;
    let pixels = &pixels[..info.buffer_size()];
    let over_white = |value: u8, alpha: u8| {
        let (value, alpha) = (u32::from(value), u32::from(alpha));
        ((value * alpha + 255 * (255 - alpha) + 127) / 255) as u8
    };
    let rgb = match info.color_type {
        ColorType::Rgb => pixels.to_vec(),
        ColorType::Grayscale => pixels.iter().flat_map(|&g| [g; 3]).collect(),
        ColorType::GrayscaleAlpha => {
            pixels.as_chunks().0.iter().flat_map(|&[g, a]| [over_white(g, a); 3]).collect()
        }
        ColorType::Rgba => {
            let mixed = pixels.as_chunks().0.iter();
            mixed.flat_map(|&[r, g, b, a]| [r, g, b].map(|c| over_white(c, a))).collect()
        }
        ColorType::Indexed => {
            let want = "a palette image with its palette";
            return Err(Error::new(ErrorKind::Malformed, place, want, "one without"));
        }
    };
    Ok(Image { height: info.height as usize, width: info.width as usize, rgb })
}
