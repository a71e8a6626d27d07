//! Tables through Arrow's C data and stream interfaces (arrow.apache.org/docs/format/CDataInterface.html):
//! what pyarrow, polars, pandas and duckdb take over without a copy. Written here since it is three
//! structures; the crates of Arrow would be a hundred times as much.
//!
//! Whatever is lent out holds the columns by an [`Arc`], so that they live as long as anybody reads them.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use lab::tables::{Column, Get, Origin, Series, Values as Given};

/// Most rows of a batch: offsets of text have 32 bits.
const BATCH: usize = 1 << 20;
/// Every column may lack values (`ARROW_FLAG_NULLABLE`).
const NULLABLE: i64 = 2;

/// The values of a column in a batch, as Arrow lays them out.
enum Values {
    Ints(Vec<i64>),
    Reals(Vec<f64>),
    /// A bit each, the lowest first.
    Flags(Vec<u8>),
    /// Where each text begins, and where the last one ends; the texts, one after the other.
    Texts(Vec<i32>, Vec<u8>),
}

/// A column's part in a batch.
struct Cells {
    /// A bit for each row: whether the value is there.
    there: Vec<u8>,
    nulls: i64,
    values: Values,
}

struct Batch {
    rows: usize,
    columns: Vec<Cells>,
}

struct Field {
    name: CString,
    about: String,
    format: &'static CStr,
    metadata: Vec<u8>,
}

/// A table in memory.
pub struct Frame {
    fields: Vec<Field>,
    metadata: Vec<u8>,
    batches: Vec<Batch>,
}

fn bits(of: impl Iterator<Item = bool>, count: usize) -> Vec<u8> {
    let mut bits = vec![0; count.div_ceil(8)];
    of.enumerate().filter(|(_, set)| *set).for_each(|(at, _)| bits[at / 8] |= 1 << (at % 8));
    bits
}

fn bit(bits: &[u8], at: usize) -> bool {
    bits[at / 8] >> (at % 8) & 1 == 1
}

impl Cells {
    fn new<T: Copy>(cells: &[Option<T>], values: Values) -> Cells {
        let there = bits(cells.iter().map(Option::is_some), cells.len());
        let nulls = cells.iter().filter(|cell| cell.is_none()).count() as i64;
        Cells { there, nulls, values }
    }

    fn ints(cells: &[Option<i64>]) -> Cells {
        Cells::new(cells, Values::Ints(cells.iter().map(|cell| cell.unwrap_or_default()).collect()))
    }

    fn reals(cells: &[Option<f64>]) -> Cells {
        Cells::new(cells, Values::Reals(cells.iter().map(|cell| cell.unwrap_or_default()).collect()))
    }

    fn flags(cells: &[Option<bool>]) -> Cells {
        let flags = cells.iter().map(|cell| cell.unwrap_or_default());
        Cells::new(cells, Values::Flags(bits(flags, cells.len())))
    }

    fn texts(cells: &[Option<&str>]) -> Cells {
        let (mut offsets, mut bytes) = (vec![0], Vec::new());
        for cell in cells {
            bytes.extend_from_slice(cell.unwrap_or_default().as_bytes());
            offsets.push(i32::try_from(bytes.len()).expect("a batch has less than 2 GiB of text"));
        }
        Cells::new(cells, Values::Texts(offsets, bytes))
    }

    /// What Arrow calls the column's buffers.
    fn buffers(&self) -> Vec<*const c_void> {
        let there = self.there.as_ptr().cast();
        match &self.values {
            Values::Ints(values) => vec![there, values.as_ptr().cast()],
            Values::Reals(values) => vec![there, values.as_ptr().cast()],
            Values::Flags(values) => vec![there, values.as_ptr().cast()],
            Values::Texts(offsets, bytes) => vec![there, offsets.as_ptr().cast(), bytes.as_ptr().cast()],
        }
    }
}

/// Pairs as the interface encodes metadata: their number, then each with its lengths, in the machine's order.
fn encoded<'a>(pairs: impl ExactSizeIterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut bytes = (pairs.len() as i32).to_ne_bytes().to_vec();
    for (key, value) in pairs {
        for text in [key, value] {
            bytes.extend_from_slice(&(text.len() as i32).to_ne_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    bytes
}

impl Field {
    fn new(name: &str, about: &str, format: &'static CStr) -> Field {
        let metadata = encoded([("about", about)].into_iter());
        let name = CString::new(name).expect("no column's name holds a zero");
        Field { name, about: about.to_owned(), format, metadata }
    }
}

fn origin_metadata(origin: &Origin) -> Vec<u8> {
    encoded(origin.iter().map(|(key, value)| (key.as_str(), value.as_str())))
}

/// The table of `rows` with what `columns` read from them.
pub fn of_rows<R>(rows: &[R], columns: &[Column<R>], origin: &Origin) -> Frame {
    let format = |get: &Get<R>| match get {
        Get::Int(_) => c"l",
        Get::Real(_) => c"g",
        Get::Flag(_) => c"b",
        Get::Text(_) => c"u",
    };
    let fields = columns.iter().map(|column| Field::new(column.name, column.about, format(&column.get)));
    let cells = |rows: &[R], column: &Column<R>| match column.get {
        Get::Int(get) => Cells::ints(&rows.iter().map(get).collect::<Vec<_>>()),
        Get::Real(get) => Cells::reals(&rows.iter().map(get).collect::<Vec<_>>()),
        Get::Flag(get) => Cells::flags(&rows.iter().map(get).collect::<Vec<_>>()),
        Get::Text(get) => Cells::texts(&rows.iter().map(|row| get(row)).collect::<Vec<_>>()),
    };
    let batch = |rows: &[R]| Batch {
        rows: rows.len(),
        columns: columns.iter().map(|column| cells(rows, column)).collect(),
    };
    Frame {
        fields: fields.collect(),
        metadata: origin_metadata(origin),
        batches: rows.chunks(BATCH).map(batch).collect(),
    }
}

/// The table of columns whose names are known only when the program runs; of at most a million rows.
pub fn of_series(columns: &[Series], origin: &Origin) -> Frame {
    let cells = |column: &Series| match &column.values {
        Given::Int(values) => (c"l", Cells::ints(values)),
        Given::Real(values) => (c"g", Cells::reals(values)),
        Given::Text(values) => (c"u", Cells::texts(&values.iter().map(Option::as_deref).collect::<Vec<_>>())),
    };
    let (formats, cells): (Vec<_>, Vec<_>) = columns.iter().map(cells).unzip();
    let fields = columns.iter().zip(formats);
    Frame {
        fields: fields.map(|(column, format)| Field::new(&column.name, &column.about, format)).collect(),
        metadata: origin_metadata(origin),
        batches: vec![Batch {
            rows: columns.first().map_or(0, |column| column.values.len()),
            columns: cells,
        }],
    }
}

impl Frame {
    /// Each column's name and what it holds.
    pub fn columns(&self) -> Vec<(String, String)> {
        let name = |field: &Field| field.name.to_string_lossy().into_owned();
        self.fields.iter().map(|field| (name(field), field.about.clone())).collect()
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.batches.iter().map(|batch| batch.rows).sum()
    }

    /// The place of the column called `name`.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name.as_bytes() == name.as_bytes())
    }

    fn cells(&self, column: usize) -> impl Iterator<Item = (usize, &Cells)> {
        self.batches.iter().map(move |batch| (batch.rows, &batch.columns[column]))
    }

    /// The texts of a column; nothing if it holds no text.
    pub fn texts(&self, column: usize) -> Option<Vec<Option<&str>>> {
        let mut all = Vec::new();
        for (rows, cells) in self.cells(column) {
            let Values::Texts(offsets, bytes) = &cells.values else { return None };
            let text = |row: usize| {
                let (from, to) = (offsets[row] as usize, offsets[row + 1] as usize);
                str::from_utf8(&bytes[from..to]).expect("it was text before")
            };
            all.extend((0..rows).map(|row| bit(&cells.there, row).then(|| text(row))));
        }
        (self.fields[column].format == c"u").then_some(all)
    }

    /// The values of a column without text, eight bytes each (of a flag: one), and for each row a byte that
    /// says whether it is there.
    pub fn numbers(&self, column: usize) -> (&'static str, Vec<u8>, Vec<u8>) {
        let (mut values, mut there) = (Vec::new(), Vec::new());
        for (rows, cells) in self.cells(column) {
            match &cells.values {
                Values::Ints(ints) => values.extend(ints.iter().flat_map(|value| value.to_ne_bytes())),
                Values::Reals(reals) => values.extend(reals.iter().flat_map(|value| value.to_ne_bytes())),
                Values::Flags(flags) => values.extend((0..rows).map(|row| u8::from(bit(flags, row)))),
                Values::Texts(..) => {}
            }
            there.extend((0..rows).map(|row| u8::from(bit(&cells.there, row))));
        }
        let kind = match self.fields[column].format.to_bytes() {
            b"l" => "int",
            b"g" => "real",
            _ => "flag",
        };
        (kind, values, there)
    }
}

/// `struct ArrowSchema`.
#[repr(C)]
pub struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

/// `struct ArrowArray`.
#[repr(C)]
pub struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

/// `struct ArrowArrayStream`.
#[repr(C)]
pub struct ArrowArrayStream {
    get_schema: unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int,
    get_next: unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int,
    get_last_error: unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

/// What a schema, an array or a stream keeps alive: the columns, its parts and its lists of pointers.
struct Owner<Part> {
    frame: Arc<Frame>,
    children: Vec<*mut Part>,
    buffers: Vec<*const c_void>,
    next: usize,
}

impl<Part> Owner<Part> {
    fn new(frame: &Arc<Frame>, children: Vec<Part>, buffers: Vec<*const c_void>) -> Box<Owner<Part>> {
        let children = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        Box::new(Owner { frame: frame.clone(), children, buffers, next: 0 })
    }
}

// SAFETY: what the pointers lead to is never changed and lives by the `Arc` in `private_data`, which any
// thread may let go.
unsafe impl Send for ArrowSchema {}
// SAFETY: as above; `next` belongs to whoever holds the stream.
unsafe impl Send for ArrowArrayStream {}

/// A consumer that takes one over leaves a copy without `release` behind.
macro_rules! released_on_drop {
    ($name:ident, $release:ident) => {
        impl Drop for $name {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: it is ours and was not released yet.
                    unsafe { release(self) }
                }
            }
        }

        unsafe extern "C" fn $release(of: *mut $name) {
            // SAFETY: the interface says that this is called once, on what was made here.
            let owner = unsafe {
                (*of).release = None;
                Box::from_raw((*of).private_data.cast::<Owner<$name>>())
            };
            // SAFETY: the children were boxed when it was made; those that were moved out are empty by now.
            owner.children.iter().for_each(|&child| drop(unsafe { Box::from_raw(child) }));
        }
    };
}
released_on_drop!(ArrowSchema, release_schema);
released_on_drop!(ArrowArray, release_array);
released_on_drop!(ArrowArrayStream, release_stream);

fn schema_of(
    frame: &Arc<Frame>,
    (name, format): (&CStr, &'static CStr),
    metadata: &[u8],
    children: Vec<ArrowSchema>,
) -> ArrowSchema {
    // The table itself is always there.
    let flags = if children.is_empty() { NULLABLE } else { 0 };
    let mut owner = Owner::new(frame, children, Vec::new());
    ArrowSchema {
        format: format.as_ptr(),
        name: name.as_ptr(),
        metadata: metadata.as_ptr().cast(),
        flags,
        n_children: owner.children.len() as i64,
        children: owner.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_schema),
        private_data: Box::into_raw(owner).cast(),
    }
}

/// The table's columns and where it comes from.
pub fn schema(frame: &Arc<Frame>) -> ArrowSchema {
    let field = |field: &Field| schema_of(frame, (&field.name, field.format), &field.metadata, Vec::new());
    schema_of(frame, (c"", c"+s"), &frame.metadata, frame.fields.iter().map(field).collect())
}

fn array_of(
    frame: &Arc<Frame>,
    (rows, nulls): (usize, i64),
    buffers: Vec<*const c_void>,
    children: Vec<ArrowArray>,
) -> ArrowArray {
    let mut owner = Owner::new(frame, children, buffers);
    ArrowArray {
        length: rows as i64,
        null_count: nulls,
        offset: 0,
        n_buffers: owner.buffers.len() as i64,
        n_children: owner.children.len() as i64,
        buffers: owner.buffers.as_mut_ptr(),
        children: owner.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_array),
        private_data: Box::into_raw(owner).cast(),
    }
}

fn batch_of(frame: &Arc<Frame>, batch: &Batch) -> ArrowArray {
    let column = |cells: &Cells| array_of(frame, (batch.rows, cells.nulls), cells.buffers(), Vec::new());
    // Of a batch only the bits could be missing, and no row is.
    array_of(frame, (batch.rows, 0), vec![ptr::null()], batch.columns.iter().map(column).collect())
}

/// The table, batch by batch.
pub fn stream(frame: &Arc<Frame>) -> ArrowArrayStream {
    ArrowArrayStream {
        get_schema,
        get_next,
        get_last_error,
        release: Some(release_stream),
        private_data: Box::into_raw(Owner::<ArrowArrayStream>::new(frame, Vec::new(), Vec::new())).cast(),
    }
}

/// The owner of a stream that was not released.
///
/// # Safety
/// `of` is such a stream, and nobody else uses it meanwhile.
unsafe fn owner<'a>(of: *mut ArrowArrayStream) -> &'a mut Owner<ArrowArrayStream> {
    // SAFETY: `stream` put it there.
    unsafe { &mut *(*of).private_data.cast() }
}

unsafe extern "C" fn get_schema(of: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the interface says that `of` is a stream made here and that `out` may be written over.
    unsafe { out.write(schema(&owner(of).frame)) };
    0
}

unsafe extern "C" fn get_next(of: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: as above.
    let owner = unsafe { owner(of) };
    let next = match owner.frame.batches.get(owner.next) {
        Some(batch) => batch_of(&owner.frame, batch),
        None => ENDED,
    };
    owner.next += 1;
    // SAFETY: as above.
    unsafe { out.write(next) };
    0
}

unsafe extern "C" fn get_last_error(_: *mut ArrowArrayStream) -> *const c_char {
    ptr::null()
}

/// What says that there are no more batches: nothing to release.
const ENDED: ArrowArray = ArrowArray {
    length: 0,
    null_count: 0,
    offset: 0,
    n_buffers: 0,
    n_children: 0,
    buffers: ptr::null_mut(),
    children: ptr::null_mut(),
    dictionary: ptr::null_mut(),
    release: None,
    private_data: ptr::null_mut(),
};
