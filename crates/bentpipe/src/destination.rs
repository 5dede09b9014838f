//! The file named by `--out`, and what it is to hold: its extension says so.

use crate::output::Failure;
use clap::ValueEnum;
use results::PictureFormat;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

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

/// A file that is written when there is a result, and not touched before.
pub struct Destination<'a> {
    path: &'a Path,
    kind: Kind,
    /// Opened before the process moves into a mount namespace of its own, where the path may mean something else.
    directory: File,
}

impl<'a> Destination<'a> {
    /// The file `path`, of the kind that its extension says.
    ///
    /// # Errors
    /// If `path` cannot be written, or ends with no known extension.
    pub fn create(path: &'a Path) -> Result<Self, Failure> {
        let kind = Kind::of(path)?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let open = || -> io::Result<File> {
            match File::options().append(true).open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    File::create_new(path)?;
                    fs::remove_file(path)?;
                }
                other => drop(other?),
            }
            File::open(directory.unwrap_or(".".as_ref()))
        };
        let directory = open().map_err(|error| Failure::usage(format!("--out {}: {error}", path.display())))?;
        Ok(Self { path, kind, directory })
    }

    /// Its name, as the user gave it.
    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// What it is to hold.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn write(&self, content: &[u8]) -> Result<(), Failure> {
        let directory = PathBuf::from(format!("/proc/self/fd/{}", self.directory.as_raw_fd()));
        fs::write(directory.join(self.path.file_name().unwrap_or_default()), content)
            .map_err(|error| Failure::failed(format!("{}: {error}", self.path.display())))
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
