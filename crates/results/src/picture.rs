//! Pictures as files: SVG as it is drawn, PDF and PNG made of it.

use crate::error::Error;
use flate2::read::DeflateDecoder;
use resvg::{tiny_skia, usvg};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// The format of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PictureFormat {
    /// Scalable vector graphics.
    Svg,
    /// A page of the size of the picture, its text as text.
    Pdf,
    /// Pixels, two for each of the picture's in each direction.
    Png,
}

/// Pixels of a PNG for one of the picture.
const PNG_SCALE: f32 = 2.0;

impl PictureFormat {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Svg, Self::Pdf, Self::Png];

    /// How files of the format end.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Pdf => "pdf",
            Self::Png => "png",
        }
    }

    /// The format that the name of `file` ends with.
    pub fn of(file: &Path) -> Option<Self> {
        let extension = file.extension()?.to_str()?;
        Self::ALL.into_iter().find(|format| extension.eq_ignore_ascii_case(format.extension()))
    }

    /// The picture `svg` in this format.
    ///
    /// # Errors
    /// If the picture cannot be converted.
    pub fn convert(self, svg: String) -> Result<Vec<u8>, Error> {
        match self {
            Self::Svg => Ok(svg.into_bytes()),
            Self::Pdf => pdf(&tree(&svg)?),
            Self::Png => png(&tree(&svg)?),
        }
    }

    /// Writes the picture `svg` to `file` in this format.
    ///
    /// # Errors
    /// If the picture cannot be converted, or the file not be written.
    pub fn write(self, svg: String, file: &Path) -> Result<(), Error> {
        let failed = |source| Error::File { file: file.display().to_string(), source };
        fs::write(file, self.convert(svg)?).map_err(failed)
    }
}

fn failed(problem: impl std::fmt::Display) -> Error {
    Error::Picture(problem.to_string())
}

/// DejaVu Sans, compressed by the build script.
static SANS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sans.deflate"));

/// The picture with its text laid out in a font that the program brings: hosts may have none.
fn tree(svg: &str) -> Result<usvg::Tree, Error> {
    let mut font = Vec::new();
    DeflateDecoder::new(SANS).read_to_end(&mut font).map_err(failed)?;
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(font);
    fonts.set_sans_serif_family("DejaVu Sans");
    let options = usvg::Options { fontdb: Arc::new(fonts), ..usvg::Options::default() };
    usvg::Tree::from_str(svg, &options).map_err(failed)
}

fn png(tree: &usvg::Tree) -> Result<Vec<u8>, Error> {
    let [width, height] = [tree.size().width(), tree.size().height()].map(|side| (side * PNG_SCALE).ceil() as u32);
    let mut pixels = tiny_skia::Pixmap::new(width, height).ok_or_else(|| failed("the picture is empty"))?;
    let scale = tiny_skia::Transform::from_scale(PNG_SCALE, PNG_SCALE);
    resvg::render(tree, scale, &mut pixels.as_mut());
    pixels.encode_png().map_err(failed)
}

fn pdf(tree: &usvg::Tree) -> Result<Vec<u8>, Error> {
    svg2pdf::to_pdf(tree, svg2pdf::ConversionOptions::default(), svg2pdf::PageOptions::default()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Chart, Series, Style};

    fn svg() -> String {
        let [x, y] = ["time, s", "goodput, Mbit/s"].map(Axis::linear);
        let series = vec![Series::new("cubic", Style::Line, vec![(0.0, 0.0), (1.0, 6.0)])];
        Chart { title: "a title".into(), x, y, series, caption: String::new() }.svg().expect("drawn")
    }

    #[test]
    fn the_extension_is_the_format() {
        for (file, format) in [
            ("a.svg", Some(PictureFormat::Svg)),
            ("b/c.PDF", Some(PictureFormat::Pdf)),
            ("d.tar.png", Some(PictureFormat::Png)),
            ("e.jpg", None),
            ("png", None),
        ] {
            assert_eq!(PictureFormat::of(Path::new(file)), format, "{file}");
        }
    }

    #[test]
    fn a_png_has_two_pixels_for_one_and_ink() {
        let png = PictureFormat::Png.convert(svg()).expect("converted");
        let pixels = tiny_skia::Pixmap::decode_png(&png).expect("a PNG");
        assert_eq!(pixels.width(), 1920);
        let dark = pixels.pixels().iter().filter(|pixel| pixel.red() < 100 && pixel.blue() < 100).count();
        assert!(dark > 2000, "text and axes: {dark}");
    }

    #[test]
    fn a_pdf_keeps_text_as_text() {
        let pdf = PictureFormat::Pdf.convert(svg()).expect("converted");
        assert!(pdf.starts_with(b"%PDF-"));
        let holds = |word: &[u8]| pdf.windows(word.len()).any(|part| part == word);
        assert!(holds(b"DejaVuSans") && holds(b"ToUnicode"));
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        assert!(PictureFormat::Png.convert("<p>no</p>".into()).is_err());
    }
}
