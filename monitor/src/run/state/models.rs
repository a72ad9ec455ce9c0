//! Models: `RUSTFLAGS="--cfg loom" cargo test -p hull-monitor --lib model`.
//!
//! Each model has a thread that waits for its event as long as [`State`] lets it: if a wake-up can be lost, loom finds
//! an execution in which all threads wait, and fails. keel's side is as in `keel/hal/src/ring.rs`.

use super::*;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// An eventfd.
struct Event(Mutex<bool>, Condvar);

impl Event {
    fn new() -> Self {
        Self(Mutex::new(false), Condvar::new())
    }

    /// poll(2).
    fn wait(&self) {
        let mut signalled = self.0.lock().unwrap();
        while !*signalled {
            signalled = self.1.wait(signalled).unwrap();
        }
    }
}

impl Signal for Event {
    fn signal(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_one();
    }
    fn clear(&self) {
        *self.0.lock().unwrap() = false;
    }
}

/// Words of the ring. Loom treats sequentially consistent accesses as acquire and release, so fences are added.
struct Ring {
    submitted: AtomicU32,
    served: AtomicU32,
    completed: AtomicU32,
    deadline: AtomicU64,
    polling: AtomicBool,
    helper_looks: AtomicU64,
    duty_looks: AtomicU64,
    doorbell: Event,
    server: Mutex<()>,
}

impl Ring {
    fn new() -> Self {
        Self {
            submitted: AtomicU32::new(0),
            served: AtomicU32::new(0),
            completed: AtomicU32::new(0),
            deadline: AtomicU64::new(u64::MAX),
            polling: AtomicBool::new(false),
            helper_looks: AtomicU64::new(0),
            duty_looks: AtomicU64::new(u64::MAX),
            doorbell: Event::new(),
            server: Mutex::new(()),
        }
    }

    /// The monitor serves the submissions. Returns how many it has served.
    fn serve(&self) -> u32 {
        let submitted = self.submitted.load(SeqCst);
        self.served.store(submitted, SeqCst);
        submitted
    }

    /// Keel submits a request, and rings unless a helper polls.
    fn submit(&self) {
        let submitted = self.submitted.load(SeqCst);
        self.submitted.store(submitted + 1, SeqCst);
        fence(SeqCst);
        if !self.polling.load(SeqCst) {
            self.doorbell.signal();
        }
    }

    /// keel sets a deadline, and rings unless a check in time is published.
    fn set_deadline(&self, ns: u64) {
        self.deadline.store(ns, SeqCst);
        fence(SeqCst);
        if ns < self.helper_looks.load(SeqCst) && ns < self.duty_looks.load(SeqCst) {
            self.helper_looks.store(0, SeqCst);
            self.doorbell.signal();
        }
    }
}

impl Words for Ring {
    fn has_submission(&self) -> bool {
        self.submitted.load(SeqCst) != self.served.load(SeqCst)
    }
    fn deadline_ns(&self) -> u64 {
        self.deadline.load(SeqCst)
    }
    fn set_polling(&self, on: bool) {
        self.polling.store(on, SeqCst);
    }
    fn set_helper_looks(&self, ns: u64) {
        self.helper_looks.store(ns, SeqCst);
    }
    fn set_duty_looks(&self, ns: u64) {
        self.duty_looks.store(ns, SeqCst);
    }
}

type Model = (State<Event>, Ring);

fn model(cpus: usize, run: impl Fn(Arc<Model>) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // Without a bound a model of three threads takes hours.
    builder.preemption_bound = Some(3);
    builder.check(move || run(Arc::new((State::new((0..cpus).map(|_| Event::new()), Event::new()), Ring::new()))));
}

/// Another thread of the model.
fn spawn<R: 'static>(model: &Arc<Model>, run: impl FnOnce(&Model) -> R + 'static) -> thread::JoinHandle<R> {
    let model = model.clone();
    thread::spawn(move || run(&model))
}

/// As in `helper.rs`: alternates between sleeping and polling until `count` requests are served.
fn help((state, ring): &Model, count: u32) {
    loop {
        if state.begin_sleep(ring, u64::MAX, u64::MAX, || false) {
            ring.doorbell.wait();
        }
        state.end_sleep(ring, &ring.doorbell);
        if ring.serve() == count {
            return;
        }
        ring.set_polling(true);
        if ring.has_submission() && ring.serve() == count {
            return;
        }
        if state.end_polling(ring) && ring.serve() == count {
            return;
        }
    }
}

#[test]
fn model_no_request_is_missed_by_the_helper() {
    model(0, |model| {
        let keel = spawn(&model, |model| {
            model.1.submit();
            model.1.submit();
        });
        help(&model, 2);
        keel.join().unwrap();
    });
}

#[test]
fn model_no_deadline_is_missed_by_the_helper() {
    model(0, |model| {
        let keel = spawn(&model, |model| model.1.set_deadline(5));
        let (state, ring) = &*model;
        loop {
            let seen = ring.deadline_ns();
            if seen == 5 {
                break; // it does not sleep longer
            }
            if state.begin_sleep(ring, seen, seen, || false) {
                ring.doorbell.wait();
            }
            state.end_sleep(ring, &ring.doorbell);
        }
        keel.join().unwrap();
    });
}

/// As in `idle.rs`: until a completion, a deadline, or a permission to re-enter.
fn idle((state, ring): &Model, index: u32) {
    state.begin_idle(index);
    while !state.take_wake(index) {
        let event = state.event(index);
        if state.takes_duty(index) {
            let server = ring.server.lock().unwrap();
            if ring.completed.load(SeqCst) > 0 {
                break;
            }
            match state.begin_wait(ring) {
                None => continue,
                Some(u64::MAX) => {}
                Some(_) => break, // it does not wait longer
            }
            drop(server);
        } else {
            state.leave_to_duty(ring);
        }
        event.wait();
        event.clear();
    }
    state.end_idle(index, ring);
}

/// A thread of the monitor completes a request. Returns whether there was an idle virtual CPU.
fn complete((state, ring): &Model) -> bool {
    {
        let _server = ring.server.lock().unwrap();
        ring.completed.store(1, SeqCst);
    }
    state.tell_idle()
}

#[test]
fn model_no_completion_is_missed_by_an_idle_cpu() {
    model(1, |model| {
        let server = spawn(&model, complete);
        idle(&model, 0);
        server.join().unwrap();
    });
}

/// The one on duty leaves for its own reasons while a completion for the other one arrives.
#[test]
fn model_no_completion_is_missed_when_duty_ends() {
    model(2, |model| {
        let (state, ring) = &*model;
        state.begin_idle(0);
        assert!(state.takes_duty(0));
        let other = spawn(&model, |model| idle(model, 1));
        let server = spawn(&model, complete);
        state.end_idle(0, ring);
        fence(SeqCst);
        if ring.completed.load(SeqCst) > 0 {
            // keel takes it, and wakes the other one.
            state.wake(1);
        }
        server.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn model_no_deadline_is_missed_by_the_cpu_on_duty() {
    model(2, |model| {
        let (state, ring) = &*model;
        state.begin_idle(0);
        assert!(state.takes_duty(0));
        // Another virtual CPU sets a deadline and idles.
        let other = spawn(&model, |model| {
            let (state, ring) = model;
            ring.deadline.store(5, SeqCst);
            state.begin_idle(1);
            if !state.takes_duty(1) {
                state.leave_to_duty(ring);
            }
        });
        loop {
            match state.begin_wait(ring) {
                Some(u64::MAX) => {
                    state.event(0).wait();
                    state.event(0).clear();
                }
                Some(_) => break,
                None => {}
            }
        }
        assert_eq!(ring.duty_looks.load(SeqCst), 5);
        other.join().unwrap();
    });
}

/// A program's deadline: keel does not ring if the one on duty has published an earlier check.
#[test]
fn model_no_deadline_of_a_program_is_missed_by_the_cpu_on_duty() {
    model(1, |model| {
        let (state, ring) = &*model;
        state.begin_idle(0);
        assert!(state.takes_duty(0));
        ring.set_helper_looks(u64::MAX);
        ring.set_duty_looks(4);
        let program = spawn(&model, |model| model.1.set_deadline(5));
        let waits = loop {
            if let Some(deadline) = state.begin_wait(ring) {
                break deadline;
            }
        };
        program.join().unwrap();
        assert!(waits == 5 || *ring.doorbell.0.lock().unwrap(), "nobody looks");
    });
}

#[test]
fn model_permission_to_go_on_is_not_lost() {
    model(1, |model| {
        let waker = spawn(&model, |model| model.0.wake(0));
        idle(&model, 0);
        waker.join().unwrap();
    });
}

/// While no virtual CPU is on duty the helper minds the sockets: it stops as one is, which leaves the duty at that moment.
#[test]
fn model_sockets_are_minded_while_none_is_on_duty() {
    model(1, |shared| {
        let (state, ring) = &*shared;
        state.begin_idle(0);
        assert!(state.takes_duty(0));
        let helper = spawn(&shared, |(state, _)| {
            loop {
                let unattended = !state.has_duty();
                if !state.set_minds_sockets(unattended) {
                    continue;
                }
                if unattended {
                    return;
                }
                state.attend().wait();
                state.attend().clear();
            }
        });
        state.end_idle(0, ring);
        if !state.minds_sockets() {
            state.call_helper();
        }
        helper.join().unwrap();
    });
}
