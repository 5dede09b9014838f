//! What a file named by `--out` is to hold: its extension says so.

use crate::output::Failure;
use clap::ValueEnum;
use results::PictureFormat;
use std::path::Path;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An HTML page in one file.
    Page,
    /// A picture alone.
    Picture(PictureFormat),
}

impl Kind {
    /// By the extension of `file`.
    ///
    /// # Errors
    /// If it is none of those that can be written.
    pub fn of(file: &Path) -> Result<Self, Failure> {
        let is_page = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("html"));
        let picture = PictureFormat::of(file).map(Self::Picture);
        picture.or(is_page.then_some(Self::Page)).ok_or_else(|| {
            let file = file.display();
            Failure::usage(format!(
                "--out {file}: the name must end in .html (a page), .svg, .pdf or .png (the picture alone)"
            ))
        })
    }
}

/// [`PictureFormat`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum PictureArg {
    /// Scalable vector graphics
    #[default]
    Svg,
    /// Portable document format, for papers
    Pdf,
    /// Pixels
    Png,
}

impl From<PictureArg> for PictureFormat {
    fn from(format: PictureArg) -> Self {
        match format {
            PictureArg::Svg => Self::Svg,
            PictureArg::Pdf => Self::Pdf,
            PictureArg::Png => Self::Png,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_decides_and_unknown_ones_are_refused() {
        assert_eq!(Kind::of(Path::new("a.HTML")).unwrap(), Kind::Page);
        assert_eq!(Kind::of(Path::new("a/b.pdf")).unwrap(), Kind::Picture(PictureFormat::Pdf));
        for unknown in ["plot", "plot.jpg", ".svg/plot", "plot.svgz"] {
            let refused = Kind::of(Path::new(unknown)).unwrap_err().to_string();
            assert!(refused.contains(unknown) && refused.contains(".png"), "{refused}");
        }
    }
}
