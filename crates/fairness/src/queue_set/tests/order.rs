//! The order in which requests execute, compared with that of kube-apiserver's
//! queue sets: both go through the same thousands of pseudo-random steps.

use std::time::Duration;

use super::{of_flow, queues, seats, set};
use crate::clock::Time;
use crate::queue_set::config::Queuing;
use crate::queue_set::request::RequestId;
use crate::queue_set::{QueueSet, Started};
use crate::tests::support::Lcg;
use crate::width::Width;

/// The state of kube-apiserver's queue set after a number of steps with a seed: a
/// hash of the requests that executed after each step, the refused requests, the
/// waiting ones, the seats in use and the progress meter. The figures come from the
/// package queueset of k8s.io/apiserver v0.37.1 with a clock set by hand.
const FIGURES: &[(u64, usize, u64, usize, usize, usize, u64)] = &[
    (1, 1_000, 0x2bdc_1635_dfec_4fe5, 98, 97, 8, 54_607_140),
    (1, 2_000, 0xbac8_22d0_5b40_23aa, 279, 131, 6, 89_492_848),
    (1, 3_000, 0xe3fe_9af4_6352_4d15, 390, 194, 13, 151_580_345),
    (1, 4_000, 0x0699_0660_579a_d4bf, 610, 254, 2, 168_691_448),
    (1, 5_000, 0xf163_cdb3_9b86_64e7, 794, 421, 4, 181_713_666),
    (1, 6_000, 0xde9c_358f_302a_ba09, 1_230, 182, 8, 217_173_995),
    (2, 1_000, 0xd61e_aabd_a9ce_1b14, 154, 61, 10, 57_931_058),
    (2, 2_000, 0x2a39_996f_9750_e7e2, 292, 186, 4, 92_731_055),
    (2, 3_000, 0x2c0f_2619_0de0_d2fc, 429, 198, 15, 151_358_437),
    (2, 4_000, 0xc980_4c12_6b84_1e61, 683, 244, 4, 168_558_430),
    (2, 5_000, 0x7ecb_f1fd_45da_771f, 871, 300, 4, 186_736_199),
    (2, 6_000, 0x9061_49c4_091b_5076, 1_307, 103, 6, 215_742_555),
    (3, 1_000, 0x96a9_adf4_1891_365f, 88, 57, 9, 51_728_563),
    (3, 2_000, 0x1897_2019_f4f1_4772, 177, 240, 2, 90_814_277),
    (3, 3_000, 0x662e_c7c3_9c26_ca5d, 285, 291, 14, 143_897_609),
    (3, 4_000, 0x4d29_5803_7a6e_ee81, 523, 334, 3, 161_573_155),
    (3, 5_000, 0x7bc4_bc50_ff37_a18d, 763, 400, 4, 176_692_421),
    (3, 6_000, 0x051d_f525_e380_c597, 1_197, 161, 8, 210_195_374),
    (4, 1_000, 0xf8b8_ae99_89fd_56e8, 107, 89, 8, 57_311_898),
    (4, 2_000, 0x4cad_b613_af59_4afa, 223, 251, 6, 91_340_466),
    (4, 3_000, 0xc5be_05af_0492_d178, 345, 310, 14, 156_528_561),
    (4, 4_000, 0x69bd_63dc_e823_d057, 587, 358, 2, 172_044_114),
    (4, 5_000, 0x64f0_b640_4bba_f1dc, 792, 421, 2, 189_421_882),
    (4, 6_000, 0xf736_fc3c_481c_ba49, 1_195, 178, 7, 222_086_964),
];

/// FNV-1a.
struct Sum(u64);

impl Sum {
    fn add(&mut self, number: usize) {
        for byte in (number as u64).to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

struct Run {
    set: QueueSet,
    random: Lcg,
    now: Time,
    /// The requests that wait or execute, oldest first, with their numbers.
    live: Vec<(usize, RequestId)>,
    started: usize,
    rejected: usize,
}

impl Run {
    fn is_executing(&self, id: RequestId) -> bool {
        self.set.requests.get(id).unwrap().started.is_some()
    }

    /// Chooses one of the executing requests, or one of the waiting ones.
    fn choose(&mut self, executing: bool) -> Option<usize> {
        let live = self.live.iter().enumerate();
        let some: Vec<usize> = live
            .filter(|(_, (_, id))| self.is_executing(*id) == executing)
            .map(|(at, _)| at)
            .collect();
        if some.is_empty() {
            return None;
        }
        let chosen = self.random.below(some.len() as u64);
        some.get(chosen as usize).copied()
    }

    fn start(&mut self) {
        let mut flow = self.random.below(12);
        if flow > 5 {
            flow = 0;
        }
        let mut initial_seats = 1 + self.random.below(3);
        if self.random.below(40) == 0 {
            initial_seats = 12;
        }
        let final_seats = self.random.below(6);
        let mut additional_latency = Duration::ZERO;
        if self.random.below(4) == 0 {
            let ms = Duration::from_millis(1 + self.random.below(5));
            // No two requests end at the same time.
            additional_latency = ms + Duration::from_nanos(self.started as u64 * 100);
        }
        let width = Width {
            initial_seats,
            final_seats,
            additional_latency,
        };
        let class = of_flow((flow + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        match self.set.start(self.now, &class, width) {
            Started::Executing(id) | Started::Waiting(id, _) => self.live.push((self.started, id)),
            Started::Rejected(_) => self.rejected += 1,
        }
        self.started += 1;
    }

    fn step(&mut self) {
        match self.random.below(20) {
            ..10 => self.start(),
            10..16 => {
                if let Some(at) = self.choose(true) {
                    let (_, id) = self.live.remove(at);
                    self.set.finish(self.now, id);
                }
            }
            16 => {
                if let Some(at) = self.choose(false) {
                    let (_, id) = self.live.remove(at);
                    assert!(self.set.leave(self.now, id));
                }
            }
            _ => {
                let target = self.now.after(Duration::from_millis(self.random.below(6)));
                while let Some(due) = self.set.next_due().filter(|due| *due <= target) {
                    self.set.advance(due);
                }
                self.set.take_granted();
                self.now = target;
            }
        }
    }
}

#[test]
fn requests_execute_in_kube_apiservers_order() {
    for seed in 1..=4 {
        let mut run = Run {
            set: set(queues(8, 3, 5), 10),
            random: Lcg(seed),
            now: Time(0),
            live: Vec::new(),
            started: 0,
            rejected: 0,
        };
        let mut sum = Sum(0xcbf2_9ce4_8422_2325);
        for step in 0..6000 {
            let configuration = match step {
                1000 => Some((queues(8, 3, 5), 6)),
                2000 => Some((queues(12, 3, 5), 15)),
                3000 => Some((queues(12, 3, 5), 4)),
                5000 => Some((Queuing::Reject, 8)),
                _ => None,
            };
            if let Some((queuing, limit)) = configuration {
                run.set.configure(run.now, queuing, seats(limit));
            }
            run.step();
            if step % 16 == 0 {
                run.set.check();
            }
            let executing = run.live.iter().filter(|(_, id)| run.is_executing(*id));
            executing.for_each(|(number, _)| sum.add(*number));
            sum.add(run.set.waiting_requests);
            sum.add(run.set.seats_in_use);
            let set = &run.set;
            let found = (
                seed,
                step + 1,
                sum.0,
                run.rejected,
                set.waiting_requests,
                set.seats_in_use,
                set.r.0,
            );
            if (step + 1) % 1000 == 0 {
                let expected = FIGURES.iter().find(|f| (f.0, f.1) == (seed, step + 1));
                assert_eq!(Some(&found), expected);
            }
        }
    }
}
