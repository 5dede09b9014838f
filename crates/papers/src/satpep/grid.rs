//! One file: goodput of several protocols at several points of an axis.

use super::models::{Path, goodput};
use super::seeds;
use crate::curves::curve;
use crate::sweep::sweep;
use crate::{Context, Error, Estimate, Found, Variants};
use results::Run;
use results::chart::Series;

/// A point of an axis: its name in settings and keys, and its value.
pub type Point = (&'static str, f64);

/// Goodput of some variants at some points.
pub struct Grid {
    variants: Vec<&'static str>,
    /// The points.
    pub points: Vec<Point>,
    /// What the points are, as in the entries' keys.
    axis: &'static str,
    /// For each point the runs of each variant.
    runs: Vec<Vec<Run>>,
}

impl Grid {
    /// Runs each variant at each point with the settings of it.
    pub fn run(
        context: &Context<'_>,
        (text, file): (&str, &str),
        variants: &[&'static str],
        (axis, points): (&'static str, &[Point]),
        settings: impl Fn(&str) -> Vec<String>,
    ) -> Result<Self, Error> {
        let mut scenarios = Vec::new();
        for (point, _) in points {
            let loaded = Variants::load(text, file, &settings(point))?;
            for variant in variants {
                scenarios.push(loaded.get(variant)?);
            }
        }
        let runs = sweep(context, &scenarios, context.seeds(seeds(context)))?;
        Ok(Self { variants: variants.to_vec(), points: points.to_vec(), axis, runs })
    }

    fn runs(&self, variant: &str, point: usize) -> &[Run] {
        let at = self.variants.iter().position(|name| *name == variant).unwrap_or(0);
        &self.runs[point * self.variants.len() + at]
    }

    /// Goodput of a variant at a point, in Mbit/s.
    pub fn goodput(&self, variant: &str, point: usize) -> Result<Estimate, Error> {
        let name = format!("{variant}, {}={}", self.axis, self.points[point].0);
        let one = |run: &Run| {
            let flow = run.report.flows.first().filter(|flow| flow.complete)?;
            flow.goodput_bps.map(|bps| bps / 1e6)
        };
        let all: Option<Vec<f64>> = self.runs(variant, point).iter().map(one).collect();
        all.and_then(Estimate::of).ok_or_else(|| Error::failed(format!("{name}: a file did not arrive")))
    }

    /// Goodputs of a variant.
    pub fn all(&self, variant: &str) -> Result<Vec<Estimate>, Error> {
        (0..self.points.len()).map(|point| self.goodput(variant, point)).collect()
    }

    /// Entries for all variants at all points, with what a model says of the path at each.
    pub fn found(&self, path: impl Fn(f64) -> Path) -> Result<Vec<Found>, Error> {
        let mut found = Vec::new();
        for variant in &self.variants {
            for (point, (name, x)) in self.points.iter().enumerate() {
                let simulated = Some(self.goodput(variant, point)?);
                let key = format!("{variant}, {}={name}", self.axis);
                found.push(Found { simulated, model: goodput(variant, &path(*x)), ..Found::new(key) });
            }
        }
        Ok(found)
    }

    /// Packets that queues dropped in all runs of a variant.
    pub fn dropped(&self, variant: &str) -> u64 {
        let runs = (0..self.points.len()).flat_map(|point| self.runs(variant, point));
        let links = runs.flat_map(|run| &run.report.links);
        links.map(|link| link.counters.dropped_queue_full.packets).sum()
    }

    /// Goodputs as curves, one for each variant.
    pub fn curves(&self) -> Result<Vec<Series>, Error> {
        let xs = || self.points.iter().map(|(_, x)| *x);
        self.variants.iter().map(|variant| Ok(curve(*variant, xs().zip(self.all(variant)?)))).collect()
    }
}
