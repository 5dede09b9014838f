//! What is sent: a file, or as many pseudo-random bytes as asked for.

use super::TransferError;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use units::{Bytes, CounterRandom};

/// Data to send, of a known size.
#[derive(Debug)]
pub struct Content {
    size: Bytes,
    source: Source,
}

#[derive(Debug)]
enum Source {
    File {
        file: File,
        path: PathBuf,
    },
    /// Bytes not yet used of the latest draw are the last `left` of `draw`.
    Random {
        random: CounterRandom,
        draw: [u8; 8],
        left: usize,
    },
}

impl Content {
    /// The content of a file.
    ///
    /// # Errors
    /// If it cannot be read or is not a regular file.
    pub fn from_file(path: &Path) -> Result<Self, TransferError> {
        let error = |source| TransferError::File { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(error)?;
        let metadata = file.metadata().map_err(error)?;
        if !metadata.is_file() {
            return Err(error(io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file")));
        }
        if metadata.len() == 0 && read_fully(&mut file, &mut [0]).map_err(error)? > 0 {
            let problem = "the kernel does not say how long it is; send a copy of it";
            return Err(error(io::Error::new(io::ErrorKind::InvalidInput, problem)));
        }
        let source = Source::File { file, path: path.to_owned() };
        Ok(Self { size: Bytes::new(metadata.len()), source })
    }

    /// By how many bytes the file has grown since; they do not belong to the content.
    pub fn grown(&self) -> Bytes {
        match &self.source {
            Source::File { file, .. } => {
                let now = file.metadata().map_or(0, |metadata| metadata.len());
                Bytes::new(now.saturating_sub(self.size.as_u64()))
            }
            Source::Random { .. } => Bytes::ZERO,
        }
    }

    /// `size` pseudo-random bytes, always the same for the same `seed`.
    pub fn random(size: Bytes, seed: u64) -> Self {
        Self { size, source: Source::Random { random: CounterRandom::new(seed, 0), draw: [0; 8], left: 0 } }
    }

    /// How many bytes it has in all.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// Reads the next bytes into `buffer`; returns how many, which is fewer than fit only at the end of a file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, TransferError> {
        match &mut self.source {
            Source::Random { random, draw, left } => {
                let (begun, rest) = buffer.split_at_mut(buffer.len().min(*left));
                begun.copy_from_slice(&draw[draw.len() - *left..][..begun.len()]);
                *left -= begun.len();
                let mut words = rest.chunks_exact_mut(draw.len());
                for word in &mut words {
                    word.copy_from_slice(&random.next_u64().to_le_bytes());
                }
                let last = words.into_remainder();
                if !last.is_empty() {
                    *draw = random.next_u64().to_le_bytes();
                    *left = draw.len() - last.len();
                    last.copy_from_slice(&draw[..last.len()]);
                }
                Ok(buffer.len())
            }
            Source::File { file, path } => {
                read_fully(file, buffer).map_err(|source| TransferError::File { path: path.clone(), source })
            }
        }
    }
}

/// Reads until `buffer` is full or the file ends.
fn read_fully(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn random_content_depends_on_the_seed_and_not_on_how_it_is_read() {
        let read = |seed, step: usize| {
            let mut content = Content::random(Bytes::new(1000), seed);
            let mut bytes = vec![0; 1000];
            for chunk in bytes.chunks_mut(step) {
                content.read(chunk).unwrap();
            }
            bytes
        };
        assert_eq!(read(1, 1000), read(1, 7));
        assert_ne!(read(1, 1000), read(2, 1000));
    }

    #[test]
    fn a_file_whose_size_is_not_known_is_refused_and_one_that_grows_says_so() {
        let error = Content::from_file(Path::new("/proc/self/status")).unwrap_err().to_string();
        assert!(error.contains("/proc/self/status: the kernel does not say how long it is"), "{error}");
        let mut file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(Content::from_file(file.path()).unwrap().size(), Bytes::ZERO);
        file.write_all(b"before").unwrap();
        let content = Content::from_file(file.path()).unwrap();
        assert_eq!(content.grown(), Bytes::ZERO);
        file.write_all(b", and after").unwrap();
        assert_eq!((content.size(), content.grown()), (Bytes::new(6), Bytes::new(11)));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Content::from_file(Path::new("/no/such/file")).unwrap_err().to_string();
        assert!(error.starts_with("/no/such/file: "), "{error}");
    }
}
