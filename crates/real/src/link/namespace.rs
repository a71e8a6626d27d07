//! A network namespace of one's own: a thread that lives in it and does what is to be done there.
//!
//! Linux keeps the network namespace per thread (namespaces(7)), so that one process stands on both sides of
//! its link. A command that the thread starts lives in the namespace; it is killed when that thread ends,
//! however it ends (`PR_SET_PDEATHSIG`, which hangs on the thread and not on the process).

use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use super::error::LinkError;

type Task = Box<dyn FnOnce() + Send>;

/// A namespace; its thread ends with it.
pub(crate) struct Namespace {
    tasks: Option<mpsc::Sender<Task>>,
    thread: Option<JoinHandle<()>>,
}

impl Namespace {
    /// A new namespace, empty but for a loopback device, in which packets are forwarded (for links inside
    /// it).
    pub fn new() -> Result<Namespace, LinkError> {
        let (tasks, todo) = mpsc::channel::<Task>();
        let (done, outcome) = mpsc::channel();
        let live = move || {
            let outcome = leave();
            let left = outcome.is_ok();
            // Whoever asked is waiting for the answer.
            let _ = done.send(outcome);
            if left {
                todo.into_iter().for_each(|task| task());
            }
        };
        let thread = thread::Builder::new().name("namespace".to_owned()).spawn(live);
        let thread = thread.map_err(|source| LinkError::System { what: "start a thread", source })?;
        outcome.recv().expect("the thread answers before it ends")?;
        Ok(Namespace { tasks: Some(tasks), thread: Some(thread) })
    }

    /// Does `work` inside and waits for its result.
    pub fn within<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> R {
        let (done, outcome) = mpsc::channel();
        let task = move || {
            let _ = done.send(work());
        };
        let tasks = self.tasks.as_ref().expect("taken only when dropped");
        tasks.send(Box::new(task)).expect("the thread lives as long as the namespace");
        outcome.recv().expect("what is done inside does not panic")
    }

    /// The file of /proc that stands for it, as long as this lives.
    pub fn file(&self) -> String {
        // SAFETY: only reads.
        let thread = self.within(|| unsafe { libc::gettid() });
        format!("/proc/{}/task/{thread}/ns/net", std::process::id())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.tasks.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there has been seen by whoever asked for the work.
            let _ = thread.join();
        }
    }
}

/// Takes the calling thread into a new namespace.
fn leave() -> Result<(), LinkError> {
    // SAFETY: changes a property of this thread only.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let error = io::Error::last_os_error();
        return Err(match error.raw_os_error() {
            Some(libc::EINVAL) => LinkError::NoNamespaces,
            _ => LinkError::new("make a network namespace", error),
        });
    }
    super::tun::raise_loopback().map_err(|source| LinkError::new("raise the loopback device", source))?;
    // Only links inside this one need forwarding; where /proc/sys is read-only, as in some containers, they
    // can't be reached. New devices begin without, for a device that forwards IPv6 while it still has
    // multicast joins the group of all routers, with packets nobody sent.
    for (file, text) in
        [("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1"), ("ipv6/conf/default/forwarding", "0")]
    {
        let _ = std::fs::write(format!("/proc/sys/net/{file}"), text);
    }
    Ok(())
}
