//! Congestion controllers written in Python: a class with `on_feedback(report) -> Decision | None`,
//! registered under a name for this process.
//!
//! Where such a controller raises, the run ends with its exception and traceback: the exception is kept
//! beside the thread that runs ([`trouble`]), whoever watches the run takes it and stops, and until then the
//! last decision holds.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cc::{Acked, Decision as Wanted, Lost, OptionError, Options};
use lab::scenario::controller_name;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyType};
use units::{Bytes, Rate, Span, Time};

use crate::errors::{guarded, refused};

thread_local! {
    static TROUBLE: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// What a controller raised in this thread, once.
pub fn trouble() -> Option<PyErr> {
    TROUBLE.take()
}

/// Names of observed quantities that a process may use.
const MOST_NAMES: usize = 256;

/// A class, and the names of its options.
type Class = (Py<PyType>, Vec<String>);

/// The classes by the names of their controllers.
static CLASSES: Mutex<BTreeMap<String, Class>> = Mutex::new(BTreeMap::new());

fn classes() -> MutexGuard<'static, BTreeMap<String, Class>> {
    CLASSES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether `cc`, options aside, is a class of this process.
pub fn is_class(cc: &str) -> bool {
    classes().contains_key(controller_name(cc))
}

/// Registers a class as the controller `name` of this process. `options` are those it takes, each with a line
/// about it.
#[pyfunction]
pub fn register_controller(
    name: String,
    class: Bound<'_, PyType>,
    summary: String,
    options: Vec<(String, String)>,
) -> PyResult<()> {
    guarded(|| {
        let keys = options.iter().map(|(key, _)| key.clone()).collect();
        let rows: Vec<(&'static str, &'static str)> =
            options.into_iter().map(|(key, about)| (kept(key), kept(about))).collect();
        let entry = cc::Entry {
            name: kept(name.clone()),
            summary: kept(summary),
            needs_frames: false,
            options: rows.leak(),
            page: "",
            build,
            receiver: None,
        };
        cc::register(entry).map_err(refused)?;
        classes().insert(name, (class.unbind(), keys));
        Ok(())
    })
}

/// Registered once and for the life of the process.
fn kept(text: String) -> &'static str {
    text.leak()
}

fn build(options: &Options, setup: &cc::Setup) -> Result<Box<dyn cc::Controller>, OptionError> {
    Python::attach(|py| made(py, options, setup)).map_err(|error| {
        let what = error.to_string();
        TROUBLE.set(Some(error));
        OptionError::Unmade { controller: options.name.clone(), what }
    })
}

fn made(py: Python<'_>, options: &Options, setup: &cc::Setup) -> PyResult<Box<dyn cc::Controller>> {
    let given = PyDict::new(py);
    let class = {
        let classes = classes();
        let (class, keys) = classes.get(&options.name).expect("it was registered with its class");
        for key in keys {
            if let Some(value) = options.text(key) {
                given.set_item(key, value)?;
            }
        }
        class.clone_ref(py)
    };
    let object = class.bind(py).call((Setup(*setup),), Some(&given))?;
    let has = Has::of(&object)?;
    let mut decision =
        Wanted { pacing: Some(setup.initial), media: Some(setup.initial), ..Wanted::default() };
    if object.hasattr("first")? {
        take(&object.call_method0("first")?, &mut decision)?;
    }
    let timer = if has.on_timer { timer_of(&object)? } else { None };
    Ok(Box::new(Controller { object: object.unbind(), decision, has, timer, broken: Cell::new(false) }))
}

/// Takes over what a method returned: `None` leaves things as they are.
fn take(returned: &Bound<'_, PyAny>, decision: &mut Wanted) -> PyResult<()> {
    if returned.is_none() {
        return Ok(());
    }
    match returned.cast::<Decision>() {
        Ok(wanted) => *decision = wanted.get().0,
        Err(_) => {
            let what = returned.get_type().name()?;
            return Err(PyTypeError::new_err(format!("a controller returns a Decision or None, not {what}")));
        }
    }
    Ok(())
}

struct Controller {
    object: Py<PyAny>,
    decision: Wanted,
    has: Has,
    /// When its timer is due, as it said after it was last asked.
    timer: Option<Time>,
    /// It raised: nothing is asked of it any more.
    broken: Cell<bool>,
}

/// What a class has beyond what it must have.
#[derive(Clone, Copy)]
struct Has {
    on_sent: bool,
    on_mtu: bool,
    on_timer: bool,
    observed: bool,
}

impl Has {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Has> {
        Ok(Has {
            on_sent: object.hasattr("on_sent")?,
            on_mtu: object.hasattr("on_mtu")?,
            on_timer: object.hasattr("on_timer")?,
            observed: object.hasattr("observed")?,
        })
    }
}

impl Controller {
    /// Calls a method, and takes over the decision that it returns and the timer that it leaves.
    fn ask(&mut self, call: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>) {
        if self.broken.get() {
            return;
        }
        let (mut decision, mut timer) = (self.decision, None);
        let asked = Python::attach(|py| {
            let object = self.object.bind(py);
            take(&call(object)?, &mut decision)?;
            if self.has.on_timer {
                timer = timer_of(object)?;
            }
            Ok(())
        });
        match asked {
            Ok(()) => (self.decision, self.timer) = (decision, timer),
            Err(error) => self.break_with(error),
        }
    }

    fn break_with(&self, error: PyErr) {
        self.broken.set(true);
        TROUBLE.set(Some(error));
    }
}

/// The attribute `timer_ns`: none if it is not there.
fn timer_of(object: &Bound<'_, PyAny>) -> PyResult<Option<Time>> {
    let Some(value) = object.getattr_opt("timer_ns")?.filter(|value| !value.is_none()) else {
        return Ok(None);
    };
    let wrong = || {
        let what = format!("timer_ns is {value}; it is a time in ns by the clock of now_ns, an int, or None");
        PyTypeError::new_err(what)
    };
    value.extract().map(|at| Some(Time::from_nanos(at))).map_err(|_| wrong())
}

/// The attribute `observed`, told to `sink`.
fn tell(object: &Bound<'_, PyAny>, sink: &mut dyn FnMut(&'static str, f64)) -> PyResult<()> {
    for (name, value) in object.getattr("observed")?.extract::<BTreeMap<String, f64>>()? {
        sink(interned(name)?, value);
    }
    Ok(())
}

/// A name that lives as long as the process, once.
fn interned(name: String) -> PyResult<&'static str> {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name.as_str()) {
        return Ok(known);
    }
    if names.len() >= MOST_NAMES {
        return Err(PyValueError::new_err(format!(
            "observed: `{name}` is name {} in this process; an entry is a quantity, not an event",
            MOST_NAMES + 1
        )));
    }
    let name = kept(name);
    names.insert(name);
    Ok(name)
}

impl cc::Controller for Controller {
    fn on_sent(&mut self, sent: &cc::Sent) {
        if self.has.on_sent {
            let told = (sent.now.as_nanos(), sent.packet, sent.size, sent.in_flight.get());
            self.ask(|object| object.call_method1("on_sent", told));
        }
    }

    fn on_feedback(&mut self, report: &cc::Report<'_>) {
        self.ask(|object| {
            let report = Bound::new(object.py(), Report::of(report))?;
            object.call_method1("on_feedback", (report,))
        });
    }

    fn on_mtu(&mut self, mtu: u32) {
        if self.has.on_mtu {
            self.ask(|object| object.call_method1("on_mtu", (mtu,)));
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.ask(|object| object.call_method1("on_timer", (now.as_nanos(),)));
        if let Some(timer) = self.timer.filter(|timer| *timer <= now || self.broken.get()) {
            // It would be due again at once, for ever.
            self.timer = None;
            if !self.broken.get() {
                self.break_with(PyValueError::new_err(format!(
                    "timer_ns is {} after on_timer at {}; set it to a later time, or to None",
                    timer.as_nanos(),
                    now.as_nanos()
                )));
            }
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.timer
    }

    fn decision(&self) -> Wanted {
        self.decision
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        if self.has.observed
            && !self.broken.get()
            && let Err(error) = Python::attach(|py| tell(self.object.bind(py), sink))
        {
            self.break_with(error);
        }
    }
}

/// What a controller is told before it starts.
#[pyclass(frozen, module = "framewire._framewire")]
pub struct Setup(cc::Setup);

#[pymethods]
impl Setup {
    #[getter]
    fn mtu(&self) -> u32 {
        self.0.mtu
    }
    #[getter]
    fn initial_bps(&self) -> u64 {
        self.0.initial.as_bps()
    }
    #[getter]
    fn min_bps(&self) -> u64 {
        self.0.min.as_bps()
    }
    #[getter]
    fn max_bps(&self) -> u64 {
        self.0.max.as_bps()
    }
    #[getter]
    fn frame_interval_ns(&self) -> i64 {
        self.0.frame_interval.as_nanos()
    }
    #[getter]
    fn seed(&self) -> u64 {
        self.0.seed
    }
}

/// What a controller wants.
#[pyclass(frozen, module = "framewire._framewire")]
pub struct Decision(Wanted);

#[pymethods]
impl Decision {
    #[new]
    #[pyo3(signature = (*, window = None, pacing_bps = None, media_bps = None, burst = 0, bulk_at_pacing = false))]
    fn new(
        window: Option<f64>,
        pacing_bps: Option<f64>,
        media_bps: Option<f64>,
        burst: u64,
        bulk_at_pacing: bool,
    ) -> PyResult<Decision> {
        let window = positive("window", window, "bytes")?.map(Bytes::new);
        let pacing = positive("pacing_bps", pacing_bps, "bit/s")?.map(Rate::from_bps);
        let media = positive("media_bps", media_bps, "bit/s")?.map(Rate::from_bps);
        let burst = Bytes::new(burst);
        Ok(Decision(Wanted { window, pacing, media, burst, bulk_at_pacing, ..Wanted::default() }))
    }
    #[getter]
    fn window(&self) -> Option<u64> {
        self.0.window.map(Bytes::get)
    }
    #[getter]
    fn pacing_bps(&self) -> Option<u64> {
        self.0.pacing.map(Rate::as_bps)
    }
    #[getter]
    fn media_bps(&self) -> Option<u64> {
        self.0.media.map(Rate::as_bps)
    }
    #[getter]
    fn burst(&self) -> u64 {
        self.0.burst.get()
    }
    #[getter]
    fn bulk_at_pacing(&self) -> bool {
        self.0.bulk_at_pacing
    }
    fn __repr__(&self) -> String {
        let said = |value: Option<u64>| value.map_or("None".to_owned(), |value| value.to_string());
        format!(
            "Decision(window={}, pacing_bps={}, media_bps={})",
            said(self.window()),
            said(self.pacing_bps()),
            said(self.media_bps())
        )
    }
}

/// A rate or window, rounded; none is no limit.
fn positive(field: &str, value: Option<f64>, unit: &str) -> PyResult<Option<u64>> {
    let Some(value) = value else { return Ok(None) };
    // Above this, whole numbers have no exact floating-point value.
    if !(1.0..=9e15).contains(&value) {
        return Err(PyValueError::new_err(format!(
            "{field} is {value}; it must be a number of {unit} from 1 on, or None for no limit"
        )));
    }
    Ok(Some(value.round() as u64))
}

/// What one feedback packet settled. It owns what it tells, so that it may be kept.
#[pyclass(frozen, module = "framewire._framewire")]
pub struct Report {
    now: Time,
    acked: Vec<u8>,
    lost: Vec<u8>,
    counts: (usize, usize),
    acked_bytes: u64,
    lost_bytes: u64,
    in_flight: u64,
    limited: bool,
    latest_rtt: Option<Span>,
    srtt: Span,
    rttvar: Span,
    min_rtt: Span,
    ce_marks: u32,
    persistent_congestion: bool,
    spurious: Vec<u64>,
    delivered: u64,
    lost_in_all: u64,
}

/// A row of `Report.acked`, as [`ROW`] describes it.
fn acked_row(packet: &Acked) -> [u8; 32] {
    let arrived = packet.arrived_at.map_or(i64::MIN, |at| at.as_nanos());
    row(packet.packet, packet.sent_at, arrived, packet.size, packet.ecn as u32)
}

fn lost_row(packet: &Lost) -> [u8; 32] {
    row(packet.packet, packet.sent_at, i64::MIN, packet.size, 0)
}

fn row(packet: u64, sent: Time, arrived: i64, size: u32, ecn: u32) -> [u8; 32] {
    let mut row = [0; 32];
    row[..8].copy_from_slice(&packet.to_ne_bytes());
    row[8..16].copy_from_slice(&(sent.as_nanos() as i64).to_ne_bytes());
    row[16..24].copy_from_slice(&arrived.to_ne_bytes());
    row[24..28].copy_from_slice(&size.to_ne_bytes());
    row[28..].copy_from_slice(&ecn.to_ne_bytes());
    row
}

/// The columns of a row, for numpy.
const ROW: [(&str, &str); 5] =
    [("packet", "u8"), ("sent_ns", "i8"), ("arrived_ns", "i8"), ("size", "u4"), ("ecn", "u4")];

/// `numpy.frombuffer` and the type of a row.
static NUMPY: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();

fn array<'py>(py: Python<'py>, rows: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let (from_buffer, of_row) = NUMPY.get_or_try_init(py, || {
        let numpy = py.import("numpy")?;
        let columns = ROW.to_vec().into_pyobject(py)?;
        Ok::<_, PyErr>((
            numpy.getattr("frombuffer")?.unbind(),
            numpy.call_method1("dtype", (columns,))?.unbind(),
        ))
    })?;
    from_buffer.bind(py).call1((PyBytes::new(py, rows), of_row))
}

impl Report {
    fn of(report: &cc::Report<'_>) -> Report {
        Report {
            now: report.now,
            acked: report.acked.iter().flat_map(acked_row).collect(),
            lost: report.lost.iter().flat_map(lost_row).collect(),
            counts: (report.acked.len(), report.lost.len()),
            acked_bytes: report.acked.iter().map(|packet| u64::from(packet.size)).sum(),
            lost_bytes: report.lost.iter().map(|packet| u64::from(packet.size)).sum(),
            in_flight: report.in_flight.get(),
            limited: report.limited,
            latest_rtt: report.latest_rtt,
            srtt: report.srtt,
            rttvar: report.rttvar,
            min_rtt: report.min_rtt,
            ce_marks: report.ce_marks,
            persistent_congestion: report.persistent_congestion,
            spurious: report.spurious.to_vec(),
            delivered: report.delivered,
            lost_in_all: report.lost_bytes,
        }
    }
}

#[pymethods]
impl Report {
    #[getter]
    fn acked<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        array(py, &self.acked)
    }
    #[getter]
    fn lost<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        array(py, &self.lost)
    }
    #[getter]
    fn now_ns(&self) -> u64 {
        self.now.as_nanos()
    }
    #[getter]
    fn acked_packets(&self) -> usize {
        self.counts.0
    }
    #[getter]
    fn lost_packets(&self) -> usize {
        self.counts.1
    }
    #[getter]
    fn acked_bytes(&self) -> u64 {
        self.acked_bytes
    }
    #[getter]
    fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }
    #[getter]
    fn in_flight(&self) -> u64 {
        self.in_flight
    }
    #[getter]
    fn limited(&self) -> bool {
        self.limited
    }
    #[getter]
    fn latest_rtt_ns(&self) -> Option<i64> {
        self.latest_rtt.map(Span::as_nanos)
    }
    #[getter]
    fn srtt_ns(&self) -> i64 {
        self.srtt.as_nanos()
    }
    #[getter]
    fn rttvar_ns(&self) -> i64 {
        self.rttvar.as_nanos()
    }
    #[getter]
    fn min_rtt_ns(&self) -> i64 {
        self.min_rtt.as_nanos()
    }
    #[getter]
    fn ce_marks(&self) -> u32 {
        self.ce_marks
    }
    #[getter]
    fn persistent_congestion(&self) -> bool {
        self.persistent_congestion
    }
    #[getter]
    fn spurious(&self) -> Vec<u64> {
        self.spurious.clone()
    }
    #[getter]
    fn delivered(&self) -> u64 {
        self.delivered
    }
    #[getter]
    fn lost_in_all(&self) -> u64 {
        self.lost_in_all
    }
}
