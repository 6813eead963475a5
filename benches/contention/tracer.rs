//! Stops the threads of a process at each atomic instruction, and counts the cache lines
//! that pass between them for these: the counters of locks, queues, references and
//! metrics. A processor's counters tell the same, and of plain reads and writes too, but
//! most virtual machines have none.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register,
    UsedMemory,
};
use nix::libc::user_regs_struct;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::lines::Lines;

/// The threads run freely in this phase.
pub const FREE: usize = 0;
/// The instruction that stops a thread.
const STOP: u8 = 0xcc;
/// How often it is looked for new threads while all run freely.
const LOOKS_EVERY: Duration = Duration::from_millis(1);
/// The part of a stack that is searched for callers.
const STACK_BYTES: usize = 4096;

/// An instruction, and a line that it asked another core for.
pub type Passed = HashMap<(u64, u64), usize>;

#[derive(Default)]
pub struct Phase {
    /// Atomic instructions.
    pub atomics: usize,
    pub passed: Passed,
}

/// The counts of all phases.
pub struct Seen {
    pub phases: Vec<Phase>,
    /// The callers of an instruction, the innermost first, when it was first seen with a
    /// line.
    pub callers: HashMap<(u64, u64), Vec<u64>>,
}

pub struct Tracer {
    wanted: Arc<AtomicUsize>,
    current: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Tracer {
    /// Traces all threads of the process, which runs the code in `text`.
    pub fn start(process: u32, text: Range<u64>, phases: usize) -> Self {
        let (wanted, current) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let ends = Arc::<AtomicBool>::default();
        let shared = (wanted.clone(), current.clone(), ends.clone());
        // The kernel lets only the thread that attached trace another.
        let thread = std::thread::spawn(move || {
            let (wanted, current, ends) = shared;
            let mut run = Run::begin(process, text, phases);
            while !ends.load(Relaxed) {
                run.enter(wanted.load(Relaxed));
                current.store(run.phase, Relaxed);
                run.turn();
            }
            run.seen
        });
        Self {
            wanted,
            current,
            ends,
            thread,
        }
    }

    /// Returns when all threads are in this phase.
    pub async fn enter(&self, phase: usize) {
        self.wanted.store(phase, Relaxed);
        self.thread.thread().unpark();
        while self.current.load(Relaxed) != phase {
            assert!(!self.thread.is_finished(), "the tracer has ended");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub async fn end(self) -> Seen {
        self.enter(FREE).await;
        self.ends.store(true, Relaxed);
        // The kernel lets the threads go when the one that traces them ends.
        self.thread.join().expect("the tracer")
    }
}

struct Run {
    memory: File,
    text: Range<u64>,
    /// For each thread, the instruction that it runs alone.
    threads: HashMap<Pid, Option<u64>>,
    atomics: HashMap<u64, Atomic>,
    lines: Lines,
    phase: usize,
    seen: Seen,
}

struct Atomic {
    first_byte: u8,
    used: Rc<[UsedMemory]>,
}

impl Run {
    fn begin(process: u32, text: Range<u64>, phases: usize) -> Self {
        let path = format!("/proc/{process}/mem");
        let memory = OpenOptions::new().read(true).write(true).open(path);
        let memory = memory.expect("the memory");
        let mut run = Self {
            atomics: atomics(&memory, &text),
            memory,
            text,
            threads: HashMap::new(),
            lines: Lines::default(),
            phase: FREE,
            seen: Seen {
                phases: (0..phases).map(|_| Phase::default()).collect(),
                callers: HashMap::new(),
            },
        };
        for task in std::fs::read_dir(format!("/proc/{process}/task")).expect("threads") {
            let name = task.expect("a thread").file_name();
            let id = name.to_str().and_then(|name| name.parse().ok());
            let id = Pid::from_raw(id.expect("a number"));
            // A thread that it starts would end the process if nobody traced it.
            ptrace::seize(id, Options::PTRACE_O_TRACECLONE).expect("a thread to trace");
            run.threads.insert(id, None);
        }
        run
    }

    /// Returns the instruction that the thread runs alone. The thread may be new.
    fn steps_over(&mut self, id: Pid) -> &mut Option<u64> {
        self.threads.entry(id).or_default()
    }

    fn wait(flags: WaitPidFlag) -> WaitStatus {
        // Not for the children of this process.
        let flags = flags | WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        waitpid(None, Some(flags)).expect("threads that are traced")
    }

    fn enter(&mut self, phase: usize) {
        if self.phase == phase {
            return;
        }
        let mut running: Vec<Pid> = self.threads.keys().copied().collect();
        running.retain(|id| ptrace::interrupt(*id).is_ok());
        let mut stopped = Vec::new();
        while !running.is_empty() {
            let status = Self::wait(WaitPidFlag::empty());
            let id = status.pid().expect("a thread");
            running.retain(|other| *other != id);
            match status {
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => {
                    self.threads.remove(&id);
                    continue;
                }
                // It stopped at the instruction, or just after it.
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                    self.threads.insert(id, None);
                    self.go_back(id);
                }
                _ => {
                    self.steps_over(id);
                }
            }
            stopped.push(id);
        }
        self.write_all(phase != FREE);
        self.phase = phase;
        for id in stopped {
            ptrace::cont(id, None).expect("a thread to let go");
        }
    }

    /// Writes that each atomic instruction stops its thread, or what was there before.
    fn write_all(&self, stops: bool) {
        for (at, atomic) in &self.atomics {
            self.write(*at, if stops { STOP } else { atomic.first_byte });
        }
    }

    fn write(&self, at: u64, byte: u8) {
        let written = self.memory.write_at(&[byte], at);
        assert_eq!(written.expect("memory to write to"), 1);
    }

    /// Lets a thread that has stopped run its instruction next. Returns where that is.
    fn go_back(&self, id: Pid) -> Option<(u64, user_regs_struct)> {
        let mut registers = ptrace::getregs(id).expect("registers");
        let at = registers.rip - 1;
        if !self.atomics.contains_key(&at) {
            return None;
        }
        registers.rip = at;
        ptrace::setregs(id, registers).expect("registers");
        Some((at, registers))
    }

    /// Waits a moment for a thread that stops, and lets it go on.
    fn turn(&mut self) {
        let status = match Self::wait(WaitPidFlag::WNOHANG) {
            WaitStatus::StillAlive if self.phase == FREE => {
                return std::thread::park_timeout(LOOKS_EVERY);
            }
            WaitStatus::StillAlive => return std::thread::yield_now(),
            status => status,
        };
        let id = status.pid().expect("a thread");
        let signal = match status {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                let steps_over = self.steps_over(id).take();
                if let Some((at, registers)) = self.go_back(id) {
                    // Another thread that stepped over the same one may have been faster.
                    if steps_over.is_none() {
                        self.look(id, at, &registers);
                    }
                    self.write(at, self.atomics[&at].first_byte);
                    *self.steps_over(id) = Some(at);
                    ptrace::step(id, None).expect("a step");
                    return;
                }
                if let Some(at) = steps_over
                    && self.phase != FREE
                {
                    self.write(at, STOP);
                }
                None
            }
            WaitStatus::Stopped(_, signal) => Some(signal),
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => {
                self.threads.remove(&id);
                return;
            }
            _ => {
                self.steps_over(id);
                None
            }
        };
        ptrace::cont(id, signal).expect("a thread to let go");
    }

    fn look(&mut self, id: Pid, at: u64, registers: &user_regs_struct) {
        let used = self.atomics[&at].used.clone();
        self.seen.phases[self.phase].atomics += 1;
        for used in used.iter() {
            let address = used.virtual_address(0, |register, _, _| value(register, registers));
            let Some(address) = address else {
                continue;
            };
            let bytes = used.memory_size().size() as u64;
            for line in Lines::of(address, bytes) {
                if self.lines.passes(line, id.as_raw()) {
                    let passed = &mut self.seen.phases[self.phase].passed;
                    *passed.entry((at, line)).or_default() += 1;
                    if !self.seen.callers.contains_key(&(at, line)) {
                        let callers = self.callers(registers.rsp);
                        self.seen.callers.insert((at, line), callers);
                    }
                }
            }
        }
    }

    /// Returns what looks like calls on the stack.
    fn callers(&self, stack: u64) -> Vec<u64> {
        let mut bytes = [0; STACK_BYTES];
        let read = self.memory.read_at(&mut bytes, stack).unwrap_or(0);
        let words = bytes[..read].chunks_exact(8);
        let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let is_call = |at: &u64| {
            let mut before = [0; 7];
            let known = self.text.contains(at) && self.memory.read_at(&mut before, at - 7).is_ok();
            // `call` to an offset, to a register, or to an address in memory.
            known
                && (before[2] == 0xe8
                    || before[5] == 0xff
                    || before[4] == 0xff
                    || before[1] == 0xff)
        };
        words.filter(is_call).map(|at| at - 1).collect()
    }
}

/// Finds the atomic instructions.
fn atomics(memory: &File, text: &Range<u64>) -> HashMap<u64, Atomic> {
    let length = usize::try_from(text.end - text.start).expect("a length");
    let mut code = vec![0; length];
    memory
        .read_exact_at(&mut code, text.start)
        .expect("the code");
    let mut factory = InstructionInfoFactory::new();
    let mut found = HashMap::new();
    let mut decoder = Decoder::with_ip(64, &code, text.start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        let from = decoder.position();
        decoder.decode_out(&mut instruction);
        if !instruction.is_invalid() && is_atomic(&instruction) {
            let used = factory.info(&instruction).used_memory().into();
            let first_byte = code[from];
            found.insert(instruction.ip(), Atomic { first_byte, used });
        }
    }
    found
}

fn is_atomic(instruction: &Instruction) -> bool {
    let mut operands = 0..instruction.op_count();
    let is_of_memory = operands.any(|n| instruction.op_kind(n) == OpKind::Memory);
    let is_xchg = instruction.mnemonic() == Mnemonic::Xchg;
    is_of_memory && (instruction.has_lock_prefix() || is_xchg)
}

fn value(register: Register, registers: &user_regs_struct) -> Option<u64> {
    let whole = match register.full_register() {
        Register::RAX => registers.rax,
        Register::RBX => registers.rbx,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::RBP => registers.rbp,
        Register::RSP => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        Register::RIP => registers.rip,
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        other if other.is_segment_register() => 0,
        _ => return None,
    };
    Some(match register.size() {
        4 => whole & u64::from(u32::MAX),
        _ => whole,
    })
}
