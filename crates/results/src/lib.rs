//! What simulations found, as files and documents: tables of flows, links, samples, queues and capacity ([`Tables`]) as CSV, JSON
//! lines or Parquet, packets as pcapng ([`Capture`]), a JSON document ([`RunDocument`]), pictures ([`plot`]) and charts of any
//! other data ([`chart`]); tables for people ([`listing`]).
//!
//! Everything written is a function of the runs alone: equal runs give equal bytes.

mod capture;
pub mod chart;
mod comparison;
mod document;
mod error;
mod estimate;
mod goodput;
pub mod listing;
pub mod page;
mod parquet;
mod partial_file;
mod passages;
mod picture;
pub mod plot;
mod run;
mod summary;
mod table;
mod table_file;
mod tables;
mod writer;

pub use capture::Capture;
pub use comparison::Comparison;
pub use document::{FlowDocument, LinkDocument, RunDocument};
pub use error::Error;
pub use estimate::Estimate;
pub use goodput::Together;
pub use parquet::read_parquet;
pub use partial_file::PartialFile;
pub use picture::PictureFormat;
pub use run::{Label, Run, at_limits};
pub use summary::{FlowSummary, LinkSummary, Statistic, Summary, jain};
pub use table::{Column, Table, Values};
pub use table_file::TableFile;
pub use tables::{TABLES, flows, goodputs, links, tables};
pub use writer::{Format, TableWriter, Tables};
