//! Shards: files of results in a folder.

use crate::key::{checksum, name_of};
use crate::rows::{KEYS, joined};
use crate::{Error, Key, RunKey};
use results::{Table, Values, read_parquet};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The results of sweeps in a folder. A shard appears under its name when it is complete, so that what is there is whole; several
/// processes may write to one folder. The name ends with the checksum of the bytes: `shard-RUNS-CHECKSUM.parquet`.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    runs: BTreeSet<RunKey>,
}

impl Store {
    /// The store in `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// If the folder cannot be made or read, or one of its shards is none or damaged.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(|source| Error::File { path: folder.to_owned(), source })?;
        let mut store = Self { folder: folder.to_owned(), runs: BTreeSet::new() };
        for shard in store.shards()? {
            let keys = read(&shard, Some(&KEYS))?;
            let found = runs(&keys).ok_or(Error::NoShard(shard))?;
            store.runs.extend(found);
        }
        Ok(store)
    }

    /// Whether it has the results of a run.
    pub fn has(&self, run: RunKey) -> bool {
        self.runs.contains(&run)
    }

    /// How many runs it has.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Keeps a shard, made by [`crate::encoded`], of these runs.
    ///
    /// # Errors
    /// If it cannot be written. What was kept before stays.
    pub fn put(&mut self, runs: &[RunKey], shard: &[u8]) -> Result<(), Error> {
        let name = name_of(runs);
        let path = self.folder.join(format!("shard-{name}-{}.parquet", checksum(shard)));
        write_whole(&self.folder, &path, shard).map_err(|source| Error::File { path, source })?;
        self.runs.extend(runs);
        Ok(())
    }

    /// The rows of `wanted` runs, in that order, and for each row the place of its run in `wanted`. Runs that are not there are
    /// left out.
    ///
    /// # Errors
    /// If a shard cannot be read or is damaged.
    pub fn rows(&self, wanted: &[RunKey]) -> Result<(Table, Vec<usize>), Error> {
        let mut places: BTreeMap<RunKey, Vec<usize>> = BTreeMap::new();
        wanted.iter().enumerate().for_each(|(place, run)| places.entry(*run).or_default().push(place));
        let (mut parts, mut order, mut before) = (Vec::new(), Vec::new(), 0);
        let mut seen = BTreeSet::new();
        for shard in self.shards()? {
            let table = read(&shard, None)?;
            let keys = runs(&table).ok_or(Error::NoShard(shard))?;
            if !keys.iter().any(|run| places.contains_key(run)) {
                // Perhaps another version's, with other columns.
                continue;
            }
            // Two processes may have made the same run, or one twice.
            for (row, run) in once(&table, &keys) {
                if !seen.contains(run) {
                    order.extend(places.get(run).into_iter().flatten().map(|place| (*place, before + row)));
                }
            }
            seen.extend(keys);
            before += table.rows();
            parts.push(table);
        }
        order.sort_unstable();
        let (places, rows): (Vec<usize>, Vec<usize>) = order.into_iter().unzip();
        let mut all = joined(parts.into_iter().filter(|table| !table.columns.is_empty()).collect())
            .unwrap_or(Table { columns: Vec::new() });
        all.columns.iter_mut().for_each(|column| column.values = column.values.take(&rows));
        Ok((all, places))
    }

    /// The shards, in the order of their names.
    fn shards(&self) -> Result<Vec<PathBuf>, Error> {
        let failed = |source| Error::File { path: self.folder.clone(), source };
        let mut shards = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let is_shard = name.to_str().is_some_and(|name| name.starts_with("shard-") && name.ends_with(".parquet"));
            shards.extend(is_shard.then(|| self.folder.join(name)));
        }
        shards.sort();
        Ok(shards)
    }
}

/// The columns `names` of a shard, or all of them.
fn read(shard: &Path, names: Option<&[&str]>) -> Result<Table, Error> {
    verify(shard)?;
    read_parquet(shard, names).map_err(|error| match error {
        results::Error::Parquet { .. } => Error::DamagedShard(error.to_string()),
        error => error.into(),
    })
}

/// Whether the bytes of a shard are those that its name promises. A format without checksums would take a flipped bit for a result.
fn verify(shard: &Path) -> Result<(), Error> {
    // Versions before checksums named a shard after its runs only.
    let Some((_, promised)) = shard.file_stem().and_then(|name| name.to_str()?.strip_prefix("shard-")?.split_once('-'))
    else {
        return Ok(());
    };
    let bytes = fs::read(shard).map_err(|source| Error::File { path: shard.to_owned(), source })?;
    match checksum(&bytes) == promised {
        true => Ok(()),
        false => {
            Err(Error::DamagedShard(format!("{}: its checksum differs from the one in its name", shard.display())))
        }
    }
}

/// Writes `bytes` to `path` in `folder`, by way of a file of a name that no other writer has: process numbers repeat between containers
/// and hosts. If that fails, the file is removed.
fn write_whole(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new()
        .prefix(".")
        .suffix(".unfinished")
        // As for any new file; the umask takes away from it.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// The rows of a shard with their runs, but of a run that it has several times only one copy: the first row of each flow.
fn once<'a>(table: &Table, keys: &'a [RunKey]) -> Vec<(usize, &'a RunKey)> {
    let flows = match table.column("name") {
        Some(Values::Text(flows)) => Some(flows),
        _ => None,
    };
    let mut known = BTreeSet::new();
    let is_first = |(row, run): &(usize, &'a RunKey)| flows.is_none_or(|flows| known.insert((*run, &flows[*row])));
    keys.iter().enumerate().filter(is_first).collect()
}

/// The run of each row; nothing if these are not the rows of a shard.
fn runs(table: &Table) -> Option<Vec<RunKey>> {
    if table.columns.is_empty() {
        return Some(Vec::new());
    }
    let (Values::Text(keys), Values::Integer(seeds)) = (table.column(KEYS[0])?, table.column(KEYS[1])?) else {
        return None;
    };
    keys.iter().zip(seeds).map(|(key, seed)| Some((Key::parse(key.as_deref()?)?, (*seed)?))).collect()
}
