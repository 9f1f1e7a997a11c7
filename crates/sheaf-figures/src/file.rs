//! A figure as a file: SVG as it was drawn, PNG and PDF converted from it with the fonts of the program.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, fontdb::Database};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::write_whole;

/// The fonts of all figures.
const FONTS: [&[u8]; 2] =
    [include_bytes!("../assets/DejaVuSans.ttf"), include_bytes!("../assets/DejaVuSans-Bold.ttf")];
/// Pixels of the page in an inch, as in CSS: a figure of 680 pixels is 7 inches wide in every format.
const PER_INCH: f32 = 96.0;
/// Pixels of a PNG per pixel of the page: 288 dots an inch.
const PNG_SCALE: f32 = 3.0;

/// A figure, drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    svg: String,
}

/// What a file can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Vectors.
    Svg,
    /// Pixels.
    Png,
    /// Vectors on a page of their own.
    Pdf,
}

impl Format {
    /// The format that the ending of a name selects.
    pub fn of(path: &Path) -> Result<Self> {
        let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
        match ending.to_str() {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            Some("pdf") => Ok(Self::Pdf),
            _ => {
                let (want, got) = ("a name ending in .svg, .png or .pdf", path.display());
                Err(Error::new(ErrorKind::Unsupported, "file of the figure", want, got)
                    .hint(".svg and .pdf are vectors, .png pixels"))
            }
        }
    }
}

impl Figure {
    /// A figure from the text of the plotting crate, whose units are smaller than pixels.
    pub(crate) fn new(svg: String, width: f64, height: f64) -> Self {
        // The first two lengths are those of the page; the view box keeps the units.
        let svg = replace_length(replace_length(svg, "width", width), "height", height);
        // Cells that touch must not show the page between them.
        let svg = svg.replace(" stroke=\"none\"/>", " stroke=\"none\" shape-rendering=\"crispEdges\"/>");
        Self { svg }
    }

    /// The same figure with another SVG text, such as one with parts taken out.
    pub fn with_svg(self, svg: String) -> Self {
        Self { svg }
    }

    /// The SVG text.
    pub fn svg(&self) -> &str {
        &self.svg
    }

    /// The bytes of a file.
    pub fn bytes(&self, format: Format) -> Result<Vec<u8>> {
        match format {
            Format::Svg => Ok(self.svg.clone().into_bytes()),
            Format::Png => png(&pixels(&self.svg, PNG_SCALE)?),
            Format::Pdf => {
                let options = svg2pdf::ConversionOptions::default();
                let page = svg2pdf::PageOptions { dpi: PER_INCH };
                svg2pdf::to_pdf(&tree(&self.svg)?, options, page).map_err(|e| failed(&e))
            }
        }
    }

    /// Writes the file whose format its name selects, through a temporary file.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_whole(path, &self.bytes(Format::of(path)?)?)
    }
}

/// Replaces the first `name="number"`.
fn replace_length(svg: String, name: &str, value: f64) -> String {
    let mark = format!("{name}=\"");
    let Some(start) = svg.find(&mark).map(|at| at + mark.len()) else { return svg };
    let Some(end) = svg[start..].find('"').map(|len| start + len) else { return svg };
    format!("{}{value}{}", &svg[..start], &svg[end..])
}

fn failed(e: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, "figure", "a drawing that can be converted", e)
}

/// The parsed drawing.
fn tree(svg: &str) -> Result<usvg::Tree> {
    static DATABASE: OnceLock<Arc<Database>> = OnceLock::new();
    let fonts = DATABASE.get_or_init(|| {
        let mut fonts = Database::new();
        FONTS.iter().for_each(|font| fonts.load_font_data(font.to_vec()));
        fonts.set_sans_serif_family("DejaVu Sans");
        Arc::new(fonts)
    });
    let options = usvg::Options {
        fontdb: Arc::clone(fonts),
        font_family: "DejaVu Sans".into(),
        ..usvg::Options::default()
    };
    usvg::Tree::from_str(svg, &options).map_err(|e| failed(&e))
}

/// Pixels of a drawing, red, green and blue on white.
#[derive(Clone, Debug)]
pub(crate) struct Pixels {
    pub width: u32,
    pub height: u32,
    pub rgb: Vec<u8>, // [height, width, 3]
}

/// Draws an SVG text in pixels; `scale` of them for one of the page.
pub(crate) fn pixels(svg: &str, scale: f32) -> Result<Pixels> {
    let tree = tree(svg)?;
    let size = tree.size();
    let (width, height) =
        ((size.width() * scale).round().max(1.0) as u32, (size.height() * scale).round().max(1.0) as u32);
    let Some(mut map) = Pixmap::new(width, height) else {
        let want = "a figure of a size that fits into memory";
        return Err(Error::new(ErrorKind::OutOfRange, "figure", want, format_args!("{width} × {height}")));
    };
    map.fill(resvg::tiny_skia::Color::WHITE);
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut map.as_mut());
    // On white nothing is transparent.
    let rgb = map.data().as_chunks::<4>().0.iter().flat_map(|&[r, g, b, _]| [r, g, b]).collect();
    Ok(Pixels { width, height, rgb })
}

fn png(pixels: &Pixels) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, pixels.width, pixels.height);
    encoder.set_color(::png::ColorType::Rgb);
    encoder.set_depth(::png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(|e| failed(&e))?;
    writer.write_image_data(&pixels.rgb).map_err(|e| failed(&e))?;
    writer.finish().map_err(|e| failed(&e))?;
    Ok(bytes)
}
