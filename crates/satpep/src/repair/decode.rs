//! Decoding: from most of a block's symbols and some of its repair symbols to those that are missing.
//!
//! The library's decoder takes about as long however few are missing, some ten times as long as encoding. Where few are,
//! this is quicker: encode the block with zeros for what is missing. What is received of the repair symbols differs
//! from that by what the missing ones contributed, a linear system with as many equations as symbols are missing.

use super::code::{BlockCode, checksum};
use super::lanes::{self, Lanes};
use super::symbol::{CHECKSUM, SourceBlock};
use crate::packet_number::PacketNumber;
use erasure::{CodeEngine, UNIT};
use reed_solomon_simd::Error;
use reed_solomon_simd::engine::tables::{ExpLog, get_exp_log, mul};
use reed_solomon_simd::engine::{GF_MODULUS, GfElement};
use reed_solomon_simd::rate::{DefaultRateDecoder, DefaultRateEncoder, RateDecoder, RateEncoder};

/// The most missing symbols for which the linear system is solved: its cost grows with their number's square and cube.
const FEW: usize = 64;
/// Bytes that one step takes up at most, of all symbols together, where the library decodes.
const STEP: usize = 512 << 10;

/// The decoding of a block, in steps.
pub(super) struct Decoding {
    block: SourceBlock,
    /// Bytes of a symbol.
    length: usize,
    /// Places of the missing symbols, in order.
    missing: Vec<usize>,
    method: Method,
    /// The missing symbols, each with its checksum, as far as they are recovered.
    recovered: Vec<Vec<u8>>,
}

enum Method {
    /// With as many repair symbols, by the inverse of their system: first the block is coded without the missing symbols.
    Coding(BlockCode, Vec<Vec<GfElement>>),
    /// Then they are made one by one of what the repair symbols differ by.
    Solving(Vec<Lanes>, Vec<Vec<GfElement>>),
    /// By the library's decoder: first its symbols are laid side by side.
    Gathering(Vec<u8>),
    /// Then it works on them slice by slice.
    Slicing(Vec<u8>),
}

/// The repair symbols that have arrived of a block: index and bytes.
pub(super) type Parts<'a> = &'a [(usize, Vec<u8>)];

impl Decoding {
    /// Decoding of symbols of `length` bytes with these repair symbols, of which there are at least as many as are missing.
    ///
    /// # Errors
    ///
    /// What the code says of symbols that make no block.
    pub(super) fn new(block: SourceBlock, length: usize, missing: Vec<usize>, parts: Parts<'_>) -> Result<Self, Error> {
        let recovered = Vec::with_capacity(missing.len());
        let method = if missing.len() > FEW.min(parts.len()) {
            Method::Gathering(Vec::new())
        } else {
            let indices: Vec<_> = parts.iter().take(missing.len()).map(|(index, _)| *index).collect();
            let field = Field::new();
            let solution = field.inverse(contributions(block, &missing, &indices, field.one())?);
            Method::Coding(BlockCode::new(block.count, block.repair_symbols, length), solution)
        };
        Ok(Self { block, length, missing, method, recovered })
    }

    /// What beginning takes, with so many symbols missing, in bytes that encoding takes up.
    pub(super) fn cost_to_begin(block: SourceBlock, missing: usize) -> usize {
        if missing > FEW { 0 } else { (block.count + block.repair_symbols) * UNIT + 12 * missing.pow(3) }
    }

    /// Goes one step further. `write` writes a symbol that is there, without its checksum, and returns how many bytes it wrote.
    /// Returns how much work that was, in bytes that encoding takes up, or nothing when all missing symbols are recovered.
    ///
    /// # Errors
    ///
    /// What the code says of symbols that make no block.
    pub(super) fn step(
        &mut self,
        write: impl FnOnce(usize, &mut [u8]) -> usize,
        parts: Parts<'_>,
    ) -> Result<Option<usize>, Error> {
        if self.recovered.len() == self.missing.len() && !matches!(self.method, Method::Slicing(_)) {
            return Ok(None);
        }
        match &mut self.method {
            Method::Coding(code, _) if !code.is_full() => {
                let at = code.next();
                let is_there = self.missing.binary_search(&at).is_err();
                return Ok(Some(if is_there { code.add(|space| write(at, space)) } else { code.add_zeros() }));
            }
            Method::Gathering(symbols) if symbols.len() < self.block.count * self.length => {
                let at = symbols.len() / self.length;
                let is_there = self.missing.binary_search(&at).is_err();
                gather(symbols, self.length, |space| if is_there { write(at, space) } else { 0 });
                return Ok(Some(self.length));
            }
            Method::Solving(syndromes, solution) => {
                let row = &solution[self.recovered.len()];
                self.recovered.push(solved(syndromes, row, self.length));
                return Ok(Some(self.length * row.len() / 4));
            }
            Method::Slicing(symbols) => {
                return slice(self.block, (symbols, self.length), &self.missing, parts, &mut self.recovered);
            }
            Method::Coding(..) | Method::Gathering(_) => {}
        }
        let is_coded = matches!(self.method, Method::Coding(..));
        self.method = match std::mem::replace(&mut self.method, Method::Gathering(Vec::new())) {
            Method::Coding(code, solution) => {
                let coded = code.finish();
                let syndrome = |(index, received): &(usize, Vec<u8>)| {
                    let mut lanes = Lanes::new(received);
                    lanes.add(coded.lanes(*index));
                    lanes
                };
                Method::Solving(parts.iter().take(self.missing.len()).map(syndrome).collect(), solution)
            }
            Method::Gathering(symbols) => {
                self.recovered = vec![Vec::with_capacity(self.length); self.missing.len()];
                Method::Slicing(symbols)
            }
            ready => ready,
        };
        Ok(Some(if is_coded { (self.block.repair_symbols + self.missing.len()) * self.length } else { 0 }))
    }

    /// The places of the missing symbols and the symbols, each with its checksum, as they have to be.
    pub(super) fn finish(self) -> impl Iterator<Item = (usize, Vec<u8>)> {
        let length = self.length;
        self.missing.into_iter().zip(self.recovered).filter(move |(_, symbol)| {
            let (sum, body) = symbol.split_at(symbol.len().min(CHECKSUM));
            symbol.len() == length && *sum == checksum(body)
        })
    }
}

/// Lays the next symbol, with its checksum, behind the others.
fn gather(symbols: &mut Vec<u8>, length: usize, write: impl FnOnce(&mut [u8]) -> usize) {
    let from = symbols.len();
    symbols.resize(from + length, 0);
    let (sum, body) = symbols[from..].split_at_mut(CHECKSUM);
    write(body);
    sum.copy_from_slice(&checksum(body));
}

/// Recovers the next slice of the missing symbols by the library's decoder, of all symbols of a length side by side.
fn slice(
    block: SourceBlock,
    (symbols, length): (&[u8], usize),
    missing: &[usize],
    parts: Parts<'_>,
    recovered: &mut [Vec<u8>],
) -> Result<Option<usize>, Error> {
    let from = recovered.first().map_or(length, Vec::len);
    let width = (STEP / block.count / UNIT).max(1) * UNIT;
    let slice = from..(from + width).min(length);
    if slice.is_empty() {
        return Ok(None);
    }
    let mut decoder = DefaultRateDecoder::new(block.count, block.repair_symbols, slice.len(), CodeEngine::new(), None)?;
    for (at, symbol) in symbols.chunks(length).enumerate().filter(|(at, _)| missing.binary_search(at).is_err()) {
        decoder.add_original_shard(at, &symbol[slice.clone()])?;
    }
    parts.iter().try_for_each(|(index, symbol)| decoder.add_recovery_shard(*index, &symbol[slice.clone()]))?;
    let decoded = decoder.decode()?;
    for (at, symbol) in missing.iter().zip(recovered) {
        symbol.extend_from_slice(decoded.restored_original(*at).unwrap_or_default());
    }
    Ok(Some(10 * block.count * slice.len()))
}

/// One of the missing symbols: the sum of what the repair symbols differ by, each times its factor.
fn solved(syndromes: &[Lanes], row: &[GfElement], length: usize) -> Vec<u8> {
    let field = Field::new();
    let factors = row.iter().map(|factor| (*factor != 0).then(|| field.log(*factor)));
    let sum = Lanes::combined(&CodeEngine::new(), lanes::units(length), factors.zip(syndromes));
    lanes::gathered(&sum.0, length)
}

/// Has the code make its tables, which takes tens of milliseconds: now, and not between two packets.
pub(crate) fn prepare() {
    for count in [1, FEW + 1] {
        let block = SourceBlock { first: PacketNumber::ZERO, count, stride: 1, repair_symbols: count };
        let parts: Vec<_> = (0..count).map(|index| (index, vec![0; 2 + CHECKSUM])).collect();
        if let Ok(mut decoding) = Decoding::new(block, 2 + CHECKSUM, (0..count).collect(), &parts) {
            while let Ok(Some(_)) = decoding.step(|_, _| 0, &parts) {}
            debug_assert_eq!(decoding.recovered.len(), count);
        }
    }
}

/// By how much each of the missing symbols (columns) counts in each of the repair symbols (rows): what the code makes of
/// a block in which the k-th word of the k-th missing symbol alone is one.
fn contributions(
    block: SourceBlock,
    missing: &[usize],
    repair_symbols: &[usize],
    one: GfElement,
) -> Result<Vec<Vec<GfElement>>, Error> {
    let length = missing.len().div_ceil(Lanes::WORDS) * UNIT;
    let mut encoder = DefaultRateEncoder::new(block.count, block.repair_symbols, length, CodeEngine::new(), None)?;
    let mut symbol = Lanes::new(&vec![0; length]);
    for at in 0..block.count {
        match missing.binary_search(&at) {
            Ok(column) => {
                symbol.set_word(column, one);
                encoder.add_original_shard(symbol.0.as_flattened())?;
                symbol.set_word(column, 0);
            }
            Err(_) => encoder.add_original_shard(symbol.0.as_flattened())?,
        }
    }
    let encoded = encoder.encode()?;
    let row = |index: &usize| {
        let lanes = Lanes::new(encoded.recovery(*index).unwrap_or_default());
        (0..missing.len()).map(|column| lanes.word(column)).collect()
    };
    Ok(repair_symbols.iter().map(row).collect())
}

/// Arithmetic in the code's field, GF(2^16), where addition and subtraction are exclusive or.
struct Field {
    tables: &'static ExpLog,
}

impl Field {
    fn new() -> Self {
        Self { tables: get_exp_log() }
    }

    fn one(&self) -> GfElement {
        self.tables.exp[0]
    }

    fn log(&self, value: GfElement) -> GfElement {
        self.tables.log[usize::from(value)]
    }

    fn product(&self, left: GfElement, right: GfElement) -> GfElement {
        if right == 0 { 0 } else { mul(left, self.log(right), &self.tables.exp, &self.tables.log) }
    }

    /// One over a value other than zero.
    fn reciprocal(&self, value: GfElement) -> GfElement {
        self.tables.exp[usize::from(GF_MODULUS - self.log(value))]
    }

    /// The inverse of a square matrix by Gauss and Jordan. Any rows and columns of the code's matrix have one; where there
    /// is none, what comes out fails the symbols' checksums.
    fn inverse(&self, mut matrix: Vec<Vec<GfElement>>) -> Vec<Vec<GfElement>> {
        let size = matrix.len();
        let unit = |row: usize| (0..size).map(|column| if row == column { self.one() } else { 0 }).collect();
        let mut inverse: Vec<Vec<GfElement>> = (0..size).map(unit).collect();
        for pivot in 0..size {
            let Some(row) = (pivot..size).find(|row| matrix[*row][pivot] != 0) else { continue };
            matrix.swap(pivot, row);
            inverse.swap(pivot, row);
            let scale = self.reciprocal(matrix[pivot][pivot]);
            for rows in [&mut matrix, &mut inverse] {
                rows[pivot].iter_mut().for_each(|value| *value = self.product(*value, scale));
            }
            for row in (0..size).filter(|row| *row != pivot) {
                let factor = matrix[row][pivot];
                for rows in [&mut matrix, &mut inverse] {
                    self.subtract(rows, row, factor, pivot);
                }
            }
        }
        inverse
    }

    /// Takes `factor` times the row `from` off the row `row`, another one.
    fn subtract(&self, rows: &mut [Vec<GfElement>], row: usize, factor: GfElement, from: usize) {
        if let Ok([row, from]) = rows.get_disjoint_mut([row, from]) {
            row.iter_mut().zip(from).for_each(|(value, from)| *value ^= self.product(*from, factor));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use reed_solomon_simd::ReedSolomonEncoder;

    /// A block's symbols and its repair symbols.
    fn coded(block: SourceBlock, length: usize, seed: u64) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let random = units::CounterRandom::new(seed, 1);
        let byte = |at: usize| random.at(at as u64) as u8;
        let symbol = |at: usize| {
            let body: Vec<u8> = (at * length + CHECKSUM..(at + 1) * length).map(byte).collect();
            [&checksum(&body)[..], &body].concat()
        };
        let padded: Vec<Vec<u8>> = (0..block.count).map(symbol).collect();
        let mut encoder = ReedSolomonEncoder::new(block.count, block.repair_symbols, length).expect("a block");
        padded.iter().for_each(|symbol| encoder.add_original_shard(symbol).expect("room"));
        let repair_symbols = encoder.encode().expect("all").recovery_iter().map(<[u8]>::to_vec).collect();
        (padded, repair_symbols)
    }

    proptest! {
        #[test]
        fn a_few_and_many_missing_shards_are_recovered(
            count in 1usize..200, repair_symbols in 1usize..100, half in 3usize..100, seed in any::<u64>()
        ) {
            let block = SourceBlock { first: PacketNumber::ZERO, count, stride: 1, repair_symbols };
            let length = half * 2;
            let (padded, coded) = coded(block, length, seed);
            let random = units::CounterRandom::new(seed, 2);
            let mut order: Vec<_> = (0..count).collect();
            order.sort_by_key(|at| random.at(*at as u64));
            let missing = 1 + seed as usize % count.min(repair_symbols);
            let lost = &order[..missing];
            // The last ones arrive, out of order.
            let arrived: Vec<_> = coded.iter().enumerate().rev().take(missing).collect();
            let mut places = lost.to_vec();
            places.sort_unstable();
            let parts: Vec<_> = arrived.iter().map(|(index, symbol)| (*index, symbol.to_vec())).collect();
            let mut decoding = Decoding::new(block, length, places, &parts).expect("a block");
            let write = |at: usize, out: &mut [u8]| {
                out.copy_from_slice(&padded[at][CHECKSUM..]);
                out.len()
            };
            while decoding.step(write, &parts).expect("a block").is_some() {}
            let mut expected: Vec<_> = lost.iter().map(|at| (*at, padded[*at].clone())).collect();
            expected.sort();
            prop_assert_eq!(decoding.finish().collect::<Vec<_>>(), expected);
        }
    }
}
