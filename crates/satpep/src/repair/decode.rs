//! Decoding: from most of a block's symbols and some of its repair symbols to those that are missing.
//!
//! The library's decoder takes about as long however few are missing, some ten times as long as encoding. Where few are,
//! this is quicker: encode the block with zeros for what is missing. What is received of the repair symbols differs
//! from that by what the missing ones contributed, a linear system with as many equations as symbols are missing.

use super::symbol::SourceBlock;
use crate::packet_number::PacketNumber;
use reed_solomon_simd::engine::tables::{ExpLog, get_exp_log, mul};
use reed_solomon_simd::engine::{DefaultEngine, Engine, GF_MODULUS, GfElement};
use reed_solomon_simd::{Error, ReedSolomonDecoder, ReedSolomonEncoder};

/// The most missing symbols for which the linear system is solved: its cost grows with their number's square and cube.
const FEW: usize = 64;

/// How the missing ones of a block's symbols follow from its repair symbols.
pub(super) struct Decoding {
    block: SourceBlock,
    /// Places of the missing symbols, in order.
    missing: Vec<usize>,
    method: Method,
}

enum Method {
    /// With as many repair symbols, by the inverse of their system.
    Few { encoder: Option<ReedSolomonEncoder>, solution: Vec<Vec<GfElement>> },
    /// By the library's decoder.
    Many,
}

impl Decoding {
    /// Decoding with the repair symbols of these indices, of which there are at least as many as are missing.
    ///
    /// # Errors
    ///
    /// What the code says of symbols that make no block.
    pub(super) fn new(block: SourceBlock, missing: Vec<usize>, indices: &[usize]) -> Result<Self, Error> {
        if missing.len() > FEW.min(indices.len()) {
            return Ok(Self { block, missing, method: Method::Many });
        }
        let field = Field { tables: get_exp_log() };
        let solution = field.inverse(contributions(block, &missing, &indices[..missing.len()], field.one())?);
        Ok(Self { block, missing, method: Method::Few { encoder: None, solution } })
    }

    /// What beginning takes, with so many symbols missing, in bytes that encoding takes up.
    pub(super) fn cost_to_begin(block: SourceBlock, missing: usize) -> usize {
        if missing > FEW { 0 } else { (block.count + block.repair_symbols) * Lanes::BYTES + 12 * missing.pow(3) }
    }

    /// What recovering a slice of `length` bytes takes, in bytes that encoding takes up.
    pub(super) fn cost(&self, length: usize) -> usize {
        let count = self.missing.len();
        match self.method {
            Method::Few { .. } => (self.block.count + count * count / 4) * length,
            Method::Many => 10 * self.block.count * length,
        }
    }

    /// Recovers a slice of `length` bytes of the missing symbols, in their order. `fill` writes that of a symbol which is
    /// there, `repair_symbols` has those of the repair symbols with their indices, in the order known from the start.
    ///
    /// # Errors
    ///
    /// What the code says of symbols that make no block.
    pub(super) fn recover(
        &mut self,
        length: usize,
        fill: impl FnMut(usize, &mut [u8]),
        repair_symbols: &[(usize, &[u8])],
    ) -> Result<Vec<Vec<u8>>, Error> {
        let Self { block, missing, method } = self;
        match method {
            Method::Few { encoder, solution } => {
                let code = match encoder.take() {
                    Some(mut code) => code.reset(block.count, block.repair_symbols, length).map(|()| code)?,
                    None => ReedSolomonEncoder::new(block.count, block.repair_symbols, length)?,
                };
                let code = encoder.insert(code);
                few(code, block.count, length, fill, missing, &repair_symbols[..missing.len()], solution)
            }
            Method::Many => many(*block, length, fill, missing, repair_symbols),
        }
    }
}

/// The missing symbols by the library's decoder.
fn many(
    block: SourceBlock,
    length: usize,
    mut fill: impl FnMut(usize, &mut [u8]),
    missing: &[usize],
    repair_symbols: &[(usize, &[u8])],
) -> Result<Vec<Vec<u8>>, Error> {
    let mut decoder = ReedSolomonDecoder::new(block.count, block.repair_symbols, length)?;
    let mut symbol = vec![0; length];
    for at in (0..block.count).filter(|at| missing.binary_search(at).is_err()) {
        fill(at, &mut symbol);
        decoder.add_original_shard(at, &symbol)?;
    }
    repair_symbols.iter().try_for_each(|(index, symbol)| decoder.add_recovery_shard(*index, symbol))?;
    let decoded = decoder.decode()?;
    Ok(missing.iter().map(|at| decoded.restored_original(*at).unwrap_or_default().to_vec()).collect())
}

/// Has the code make its tables, which takes tens of milliseconds: now, and not between two packets.
pub(crate) fn prepare() {
    for count in [1, FEW + 1] {
        let block = SourceBlock { first: PacketNumber::ZERO, count, stride: 1, repair_symbols: count };
        let indices: Vec<_> = (0..count).collect();
        let repair_symbols: Vec<_> = indices.iter().map(|index| (*index, &[0; 2][..])).collect();
        let decoding = Decoding::new(block, indices.clone(), &indices);
        let recovered = decoding.and_then(|mut decoding| decoding.recover(2, |_, _| {}, &repair_symbols));
        debug_assert!(recovered.is_ok_and(|recovered| recovered.len() == count));
    }
}

/// The missing symbols, from as many repair symbols.
fn few(
    encoder: &mut ReedSolomonEncoder,
    count: usize,
    length: usize,
    mut fill: impl FnMut(usize, &mut [u8]),
    missing: &[usize],
    repair_symbols: &[(usize, &[u8])],
    solution: &[Vec<GfElement>],
) -> Result<Vec<Vec<u8>>, Error> {
    let mut symbol = vec![0; length];
    for at in 0..count {
        match missing.binary_search(&at) {
            Ok(_) => symbol.fill(0),
            Err(_) => fill(at, &mut symbol),
        }
        encoder.add_original_shard(&symbol)?;
    }
    let encoded = encoder.encode()?;
    let syndromes: Vec<_> = repair_symbols
        .iter()
        .map(|(index, received)| {
            let known = encoded.recovery(*index).unwrap_or_default();
            Lanes::new(received.iter().zip(known).map(|(received, known)| received ^ known).collect())
        })
        .collect();
    let (engine, field) = (DefaultEngine::new(), Field { tables: get_exp_log() });
    let combined = solution.iter().map(|row| Lanes::combined(&engine, &field, row, &syndromes));
    Ok(combined.map(|lanes| lanes.into_bytes(length)).collect())
}

/// By how much each of the missing symbols (columns) counts in each of the repair symbols (rows): what the code makes of
/// a block in which the k-th word of the k-th missing symbol alone is one.
fn contributions(
    block: SourceBlock,
    missing: &[usize],
    repair_symbols: &[usize],
    one: GfElement,
) -> Result<Vec<Vec<GfElement>>, Error> {
    let length = missing.len().div_ceil(Lanes::WORDS) * Lanes::BYTES;
    let mut encoder = ReedSolomonEncoder::new(block.count, block.repair_symbols, length)?;
    let mut symbol = Lanes::new(vec![0; length]);
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
        let lanes = Lanes::new(encoded.recovery(*index).unwrap_or_default().to_vec());
        (0..missing.len()).map(|column| lanes.word(column)).collect()
    };
    Ok(repair_symbols.iter().map(row).collect())
}

/// A symbol as the code's engine has it: in every 64 bytes, 32 low bytes of words and then their 32 high ones.
struct Lanes(Vec<[u8; Lanes::BYTES]>);

impl Lanes {
    const BYTES: usize = 64;
    const WORDS: usize = Self::BYTES / 2;

    fn new(bytes: Vec<u8>) -> Self {
        let (whole, rest) = bytes.as_chunks();
        let mut lanes = whole.to_vec();
        if !rest.is_empty() {
            // The last words of a symbol stand in two halves of their own.
            let (low, high) = rest.split_at(rest.len() / 2);
            let mut last = [0; Self::BYTES];
            last[..low.len()].copy_from_slice(low);
            last[Self::WORDS..][..high.len()].copy_from_slice(high);
            lanes.push(last);
        }
        Self(lanes)
    }

    fn into_bytes(self, length: usize) -> Vec<u8> {
        let rest = length % Self::BYTES;
        let mut bytes = self.0.as_flattened()[..length - rest].to_vec();
        if let Some(last) = self.0.last().filter(|_| rest > 0) {
            bytes.extend_from_slice(&last[..rest / 2]);
            bytes.extend_from_slice(&last[Self::WORDS..][..rest / 2]);
        }
        bytes
    }

    /// The sum of `symbols`, each times its factor.
    fn combined(engine: &impl Engine, field: &Field, factors: &[GfElement], padded: &[Self]) -> Self {
        let length = padded.first().map_or(0, |symbol| symbol.0.len());
        let (mut sum, mut product) = (vec![[0; Self::BYTES]; length], vec![[0; Self::BYTES]; length]);
        for (factor, symbol) in factors.iter().zip(padded).filter(|(factor, _)| **factor != 0) {
            product.copy_from_slice(&symbol.0);
            engine.mul(&mut product, field.log(*factor));
            let bytes = sum.as_flattened_mut().iter_mut();
            bytes.zip(product.as_flattened()).for_each(|(sum, product)| *sum ^= product);
        }
        Self(sum)
    }

    fn word(&self, at: usize) -> GfElement {
        let lane = &self.0[at / Self::WORDS];
        GfElement::from_le_bytes([lane[at % Self::WORDS], lane[Self::WORDS + at % Self::WORDS]])
    }

    fn set_word(&mut self, at: usize, word: GfElement) {
        let lane = &mut self.0[at / Self::WORDS];
        [lane[at % Self::WORDS], lane[Self::WORDS + at % Self::WORDS]] = word.to_le_bytes();
    }
}

/// Arithmetic in the code's field, GF(2^16), where addition and subtraction are exclusive or.
struct Field {
    tables: &'static ExpLog,
}

impl Field {
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

    /// A block's symbols and its repair symbols.
    fn coded(block: SourceBlock, length: usize, seed: u64) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let random = units::CounterRandom::new(seed, 1);
        let byte = |at: usize| random.at(at as u64) as u8;
        let padded: Vec<Vec<u8>> =
            (0..block.count).map(|at| (at * length..(at + 1) * length).map(byte).collect()).collect();
        let mut encoder = ReedSolomonEncoder::new(block.count, block.repair_symbols, length).expect("a block");
        padded.iter().for_each(|symbol| encoder.add_original_shard(symbol).expect("room"));
        let repair_symbols = encoder.encode().expect("all").recovery_iter().map(<[u8]>::to_vec).collect();
        (padded, repair_symbols)
    }

    proptest! {
        #[test]
        fn a_few_and_many_missing_shards_are_recovered(
            count in 1usize..200, repair_symbols in 1usize..100, half in 1usize..100, seed in any::<u64>()
        ) {
            let block = SourceBlock { first: PacketNumber::ZERO, count, stride: 1, repair_symbols };
            let (padded, coded) = coded(block, half * 2, seed);
            let random = units::CounterRandom::new(seed, 2);
            let mut order: Vec<_> = (0..count).collect();
            order.sort_by_key(|at| random.at(*at as u64));
            let missing = 1 + seed as usize % count.min(repair_symbols);
            let lost = &order[..missing];
            // The last ones arrive, out of order.
            let arrived: Vec<_> = coded.iter().enumerate().rev().take(missing).collect();
            let indices: Vec<_> = arrived.iter().map(|(index, _)| *index).collect();
            let mut places = lost.to_vec();
            places.sort_unstable();
            let mut decoding = Decoding::new(block, places.clone(), &indices).expect("a block");
            let mut recovered: Vec<_> = places.iter().map(|at| (*at, Vec::new())).collect();
            // In slices, as good as at once.
            for slice in (0..half * 2).step_by(64).map(|start| start..(start + 64).min(half * 2)) {
                let repair_symbols: Vec<_> = arrived.iter().map(|(index, symbol)| (*index, &symbol[slice.clone()])).collect();
                let fill = |at: usize, out: &mut [u8]| out.copy_from_slice(&padded[at][slice.clone()]);
                let pieces = decoding.recover(slice.len(), fill, &repair_symbols).expect("a block");
                recovered.iter_mut().zip(pieces).for_each(|((_, symbol), piece)| symbol.extend(piece));
            }
            recovered.sort();
            let mut expected: Vec<_> = lost.iter().map(|at| (*at, padded[*at].clone())).collect();
            expected.sort();
            prop_assert_eq!(recovered, expected);
        }
    }
}
