//! Tables for Python: Arrow, through the PyCapsule interface, without copies.

use crate::errors::BentpipeError;
use arrow_array::cast::AsArray;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array,
};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use numpy::PyArray1;
use pyo3::BoundObject;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyIterator, PyList, PyType};
use results::Values;
use std::sync::Arc;

/// A table of results, for whatever reads Arrow (`polars.DataFrame(table)`, `pyarrow.table(table)`): columns of numbers are
/// handed on without a copy. `table["name"]` is a column as a NumPy array.
#[pyclass(frozen, module = "bentpipe._bentpipe")]
#[derive(Clone)]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    /// One whose batches have this schema.
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    /// One of columns of equal length.
    pub(crate) fn of_columns(columns: Vec<(String, ArrayRef)>) -> PyResult<Self> {
        let batch = batch(columns)?;
        Ok(Self { schema: batch.schema(), batches: vec![batch] })
    }

    /// One with these columns of this one.
    pub(crate) fn select(&self, names: &[&str]) -> PyResult<Self> {
        let indices = names.iter().map(|name| self.index(name)).collect::<PyResult<Vec<_>>>()?;
        let schema = self.schema.project(&indices).map_err(arrow_error)?;
        let batches = self.batches.iter().map(|batch| batch.project(&indices).map_err(arrow_error));
        Ok(Self { schema: Arc::new(schema), batches: batches.collect::<PyResult<_>>()? })
    }

    /// Schema and batches as a stream of Arrow's IPC format.
    fn stream(&self) -> Result<Vec<u8>, ArrowError> {
        let mut writer = StreamWriter::try_new(Vec::new(), &self.schema)?;
        self.batches.iter().try_for_each(|batch| writer.write(batch))?;
        writer.into_inner()
    }

    fn index(&self, name: &str) -> PyResult<usize> {
        self.schema.index_of(name).map_err(|_| {
            let known: Vec<_> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
            PyKeyError::new_err(format!("there is no column {name}; there are {}", known.join(", ")))
        })
    }
}

/// Columns of equal length as a batch.
pub(crate) fn batch(columns: Vec<(String, ArrayRef)>) -> PyResult<RecordBatch> {
    let fields: Vec<_> =
        columns.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(arrow_error)
}

fn arrow_error(error: impl std::fmt::Display) -> PyErr {
    BentpipeError::new_err(error.to_string())
}

/// A column of a table of results.
pub(crate) fn array(values: &Values) -> ArrayRef {
    match values {
        Values::Text(values) => Arc::new(values.iter().map(Option::as_deref).collect::<StringArray>()),
        Values::Integer(values) => Arc::new(UInt64Array::from(values.clone())),
        Values::Number(values) => Arc::new(Float64Array::from(values.clone())),
        Values::Flag(values) => Arc::new(BooleanArray::from(values.clone())),
    }
}

#[pymethods]
impl Table {
    /// A stream of its rows (Arrow's PyCapsule interface). The schema is the table's own, whichever is asked for, as the
    /// interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = RecordBatchIterator::new(self.batches.clone().into_iter().map(Ok), Arc::clone(&self.schema));
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }

    /// Its schema (Arrow's PyCapsule interface).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(arrow_error)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// For pickle: the table as a stream of Arrow's IPC format, which a process on another machine reads, too.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let table = slf.get();
        let stream = slf.py().detach(|| table.stream()).map_err(arrow_error)?;
        Ok((slf.get_type().getattr("_of_stream")?, (PyBytes::new(slf.py(), &stream),)))
    }

    /// The table whose stream `__reduce__` made.
    #[classmethod]
    fn _of_stream(_: &Bound<'_, PyType>, stream: &[u8]) -> PyResult<Self> {
        let reader = StreamReader::try_new(stream, None).map_err(arrow_error)?;
        let schema = reader.schema();
        Ok(Self { schema, batches: reader.collect::<Result<_, _>>().map_err(arrow_error)? })
    }

    /// The number of rows.
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Whether it has a column of this name.
    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.extract::<String>().is_ok_and(|name| self.schema.index_of(&name).is_ok())
    }

    /// The names of the columns, one after the other.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.columns())?.try_iter()
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    fn __repr__(&self) -> String {
        format!("<bentpipe.Table, {} rows: {}>", self.__len__(), self.columns().join(", "))
    }

    /// A column as a NumPy array: numbers (NaN where one is missing), flags, or objects: texts, and flags of which one is missing
    /// (None).
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let index = self.index(name)?;
        // Here an exception, as of Ctrl-C, is raised; where the bindings import it, it would be a panic.
        py.import("numpy")?;
        let columns = || self.batches.iter().map(|batch| batch.column(index));
        let missing: usize = columns().map(|column| column.null_count()).sum();
        Ok(match self.schema.field(index).data_type() {
            DataType::UInt32 => {
                let all: Vec<u32> =
                    columns().flat_map(|column| column.as_primitive::<UInt32Type>().values().iter().copied()).collect();
                PyArray1::from_vec(py, all).into_any()
            }
            DataType::UInt64 if missing == 0 => {
                let all: Vec<u64> =
                    columns().flat_map(|column| column.as_primitive::<UInt64Type>().values().iter().copied()).collect();
                PyArray1::from_vec(py, all).into_any()
            }
            DataType::UInt64 => {
                let values = columns().flat_map(|column| column.as_primitive::<UInt64Type>().iter());
                PyArray1::from_vec(py, values.map(|value| value.map_or(f64::NAN, |value| value as f64)).collect())
                    .into_any()
            }
            DataType::Float64 => {
                let values = columns().flat_map(|column| column.as_primitive::<Float64Type>().iter());
                PyArray1::from_vec(py, values.map(|value| value.unwrap_or(f64::NAN)).collect()).into_any()
            }
            DataType::Boolean if missing == 0 => {
                let values = columns().flat_map(|column| column.as_boolean().values().iter());
                PyArray1::from_vec(py, values.collect::<Vec<bool>>()).into_any()
            }
            DataType::Boolean => objects(py, columns().flat_map(|column| column.as_boolean().iter()))?,
            _ => objects(py, columns().flat_map(|column| column.as_string::<i32>().iter()))?,
        })
    }

    /// The table as a `polars.DataFrame`.
    fn to_polars<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("polars")?.call_method1("DataFrame", (slf,))
    }

    /// The table as a `pyarrow.Table`.
    fn to_pyarrow<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("table", (slf,))
    }

    /// The table as a `pandas.DataFrame`; needs pyarrow, too.
    fn to_pandas<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::to_pyarrow(slf)?.call_method0("to_pandas")
    }
}

/// An array of Python objects.
fn objects<'py, T: IntoPyObject<'py>>(py: Python<'py>, values: impl Iterator<Item = T>) -> PyResult<Bound<'py, PyAny>> {
    let object = |value: T| Ok(value.into_pyobject(py).map_err(Into::into)?.into_any().unbind());
    Ok(PyArray1::from_vec(py, values.map(object).collect::<PyResult<Vec<Py<PyAny>>>>()?).into_any())
}
