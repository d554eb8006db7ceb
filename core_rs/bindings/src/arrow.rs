//! Tables across the border by the Arrow `PyCapsule` protocol: numeric columns only, no copies of Python objects.

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, Field, Schema};
use engine::error::Error;
use engine::table::{Column, Table as EngineTable};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::to_py;

const STREAM: &CStr = c"arrow_array_stream";

/// A table that Python frames read through `__arrow_c_stream__`.
#[pyclass(module = "planner._core", frozen)]
pub struct Table {
    batch: RecordBatch,
}

impl Table {
    /// Wrap an engine table.
    pub fn new(table: EngineTable) -> PyResult<Self> {
        let mut fields = Vec::new();
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for (name, column) in table.columns {
            let is_nullable = matches!(column, Column::MaybeU64(_));
            let array: ArrayRef = match column {
                Column::U16(v) => Arc::new(UInt16Array::from(v)),
                Column::U32(v) => Arc::new(UInt32Array::from(v)),
                Column::U64(v) => Arc::new(UInt64Array::from(v)),
                Column::I64(v) => Arc::new(Int64Array::from(v)),
                Column::F64(v) => Arc::new(Float64Array::from(v)),
                Column::MaybeU64(v) => Arc::new(UInt64Array::from(v)),
            };
            fields.push(Field::new(name, array.data_type().clone(), is_nullable));
            arrays.push(array);
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
            .map_err(|e| to_py(&Error::input("table", format!("bug: {e}"))))?;
        Ok(Self { batch })
    }
}

#[pymethods]
impl Table {
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema); // the protocol lets a producer ignore it
        let reader = RecordBatchIterator::new(vec![Ok(self.batch.clone())], self.batch.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
    }
}

/// Columns of a Python table, by name.
pub struct Columns {
    batches: Vec<RecordBatch>,
    schema: Arc<Schema>,
}

impl Columns {
    /// Read any object with `__arrow_c_stream__`, whatever its chunks and offsets.
    pub fn read(table: &Bound<'_, PyAny>) -> PyResult<Self> {
        let refuse = |what: String| to_py(&Error::input("table", what));
        let capsule = table
            .call_method0("__arrow_c_stream__")
            .map_err(|_| refuse("expected a table with __arrow_c_stream__ (polars, pyarrow)".into()))?;
        let capsule = capsule.cast::<PyCapsule>().map_err(|_| refuse("__arrow_c_stream__ gave no capsule".into()))?;
        let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
        // SAFETY: the capsule's name says that it holds an ArrowArrayStream, which `from_raw` moves out, leaving a
        // released one behind, so the capsule's destructor finds nothing to free. The lock is held throughout.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
        let reader = RecordBatchStreamReader::try_new(stream).map_err(|e| refuse(e.to_string()))?;
        let schema = reader.schema();
        let batches = reader.collect::<Result<Vec<_>, _>>().map_err(|e| refuse(e.to_string()))?;
        Ok(Self { batches, schema })
    }

    pub fn has(&self, name: &str) -> bool {
        self.schema.column_with_name(name).is_some()
    }

    /// Names of the columns, in their order.
    pub fn names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// A column of 32-bit or 64-bit counts.
    pub fn counts(&self, name: &str) -> PyResult<Vec<u64>> {
        match self.schema.column_with_name(name).map(|(_, field)| field.data_type()) {
            Some(DataType::UInt32) => Ok(self.u32(name)?.into_iter().map(u64::from).collect()),
            _ => self.u64(name),
        }
    }

    fn column<A: Array + Clone + 'static, T>(
        &self,
        name: &str,
        expected: &DataType,
        values: impl Fn(&A) -> Vec<T>,
    ) -> PyResult<Vec<T>> {
        let refuse = |what: String| to_py(&Error::input(format!("column '{name}'"), what));
        let (at, field) = self.schema.column_with_name(name).ok_or_else(|| refuse("is missing".into()))?;
        if field.data_type() != expected {
            return Err(refuse(format!("expected {expected}, got {}", field.data_type())));
        }
        let mut all = Vec::with_capacity(self.batches.iter().map(RecordBatch::num_rows).sum());
        for batch in &self.batches {
            let array = batch.column(at);
            if array.null_count() > 0 {
                return Err(refuse(format!("has {} nulls", array.null_count())));
            }
            let typed = array.as_any().downcast_ref::<A>().ok_or_else(|| refuse(format!("expected {expected}")))?;
            all.extend(values(typed));
        }
        Ok(all)
    }

    pub fn u16(&self, name: &str) -> PyResult<Vec<u16>> {
        self.column(name, &DataType::UInt16, |a: &UInt16Array| a.values().to_vec())
    }

    pub fn u32(&self, name: &str) -> PyResult<Vec<u32>> {
        self.column(name, &DataType::UInt32, |a: &UInt32Array| a.values().to_vec())
    }

    pub fn f64(&self, name: &str) -> PyResult<Vec<f64>> {
        self.column(name, &DataType::Float64, |a: &Float64Array| a.values().to_vec())
    }

    /// Empty where there is no such column.
    pub fn f64_if(&self, name: &str) -> PyResult<Vec<f64>> {
        if self.has(name) {
            self.f64(name)
        } else {
            Ok(Vec::new())
        }
    }

    pub fn u64(&self, name: &str) -> PyResult<Vec<u64>> {
        self.column(name, &DataType::UInt64, |a: &UInt64Array| a.values().to_vec())
    }

    /// The same without a copy where the table comes in one piece.
    pub fn u64_shared(&self, name: &str) -> PyResult<ScalarBuffer<u64>> {
        if let [batch] = &self.batches[..] {
            let array = batch.column_by_name(name).and_then(|array| array.as_any().downcast_ref::<UInt64Array>());
            if let Some(array) = array.filter(|array| array.null_count() == 0) {
                return Ok(array.values().clone());
            }
        }
        Ok(self.u64(name)?.into())
    }

    /// Empty where there is no such column.
    pub fn u64_if(&self, name: &str) -> PyResult<Vec<u64>> {
        if self.has(name) {
            self.u64(name)
        } else {
            Ok(Vec::new())
        }
    }
}
