//! How many threads ran at each moment, estimated from samples whose truth is known.

use std::path::Path;

use profile::data::{Data, Samples, Thread, WeightUnit};
use profile::read::{ReadLimits, whole};
use profile::view::parallelism::{
    NoParallelism, RunningInterval, RunningNumber, SerialPart, WALL_TIME, running_numbers,
};
use profile::view::select::{Filter, select};

use crate::diff_chance::Random;

/// A thread with a sample of 1 ms at each of these times.
fn thread(name: &str, times_ms: &[f64]) -> Thread {
    Thread {
        name: name.to_owned(),
        pid: "1".to_owned(),
        tid: name.to_owned(),
        samples: Samples {
            time_ms: times_ms.to_vec(),
            stack: vec![u32::MAX; times_ms.len()],
            ..Samples::default()
        },
        ..Thread::default()
    }
}

fn data(threads: Vec<Thread>, length_ms: f64) -> Data {
    Data {
        interval_ms: 1.0,
        duration_ms: Some(length_ms),
        threads,
        ..Data::default()
    }
}

fn each_ms(from: u32, to: u32) -> Vec<f64> {
    (from + 1..=to).map(f64::from).collect()
}

fn interval(start_ms: f64, end_ms: f64, running: u32) -> RunningInterval {
    RunningInterval {
        start_ms,
        end_ms,
        running,
        ready: 0,
    }
}

/// Wall time by number of running threads, ms.
fn walls_ms(data: &Data, from_ms: f64, to_ms: f64) -> Vec<f64> {
    let walls_ms = data.parallelism().unwrap().wall_ms(from_ms, to_ms);
    walls_ms.into_iter().map(|[ms, _]| ms).collect()
}

#[test]
fn a_sample_stands_for_the_time_before_it() {
    let data = data(vec![thread("a", &each_ms(0, 10)), thread("b", &each_ms(4, 8))], 12.0);
    let parallelism = data.parallelism().unwrap();
    let expected = [
        interval(0.0, 4.0, 1),
        interval(4.0, 8.0, 2),
        interval(8.0, 10.0, 1),
        interval(10.0, 12.0, 0),
    ];
    assert_eq!(parallelism.intervals, expected);
    // The first sample of `b` came after a pause.
    assert!((parallelism.guessed - 1.0 / 14.0).abs() < 1e-9);
    assert_eq!(walls_ms(&data, 3.0, 11.0), [1.0, 3.0, 4.0]);
}

#[test]
fn jitter_is_no_pause_and_the_time_of_samples_stays() {
    // 3 % off, and once a pause.
    let times_ms = [1.0, 2.03, 3.0, 3.97, 5.0, 105.0, 106.0];
    let parallelism = data(vec![thread("a", &times_ms)], 106.0).parallelism().unwrap();
    assert_eq!(
        parallelism.intervals,
        [
            interval(0.0, 5.0, 1),
            interval(5.0, 104.0, 0),
            interval(104.0, 106.0, 1)
        ]
    );
    // Each run of 1 ms is followed by a pause of 0.3 ms: what is lent is taken off.
    let times_ms: Vec<f64> = (1..=1000).map(|sample| f64::from(sample) * 1.3).collect();
    let walls_ms = walls_ms(&data(vec![thread("a", &times_ms)], 1300.0), 0.0, 1300.0);
    assert!((walls_ms[1] - 1000.0).abs() <= 1.0, "{walls_ms:?}");
}

/// Threads that run and wait by chance. A sample comes after each ms of a thread's CPU time.
fn generated(random: &mut Random) -> (Data, f64) {
    let threads = 1 + random.exponential(4.0) as usize;
    let (mut all, mut cpu_ms, mut end_ms) = (Vec::new(), 0.0, 0.0f64);
    for number in 0..threads {
        let (mut now_ms, mut rest_ms, mut times_ms) = (random.exponential(20.0), 0.0, Vec::new());
        for _ in 0..20 {
            let run_ms = random.exponential(5.0);
            let mut sampled_ms = 1.0 - rest_ms;
            while sampled_ms <= run_ms {
                times_ms.push(now_ms + sampled_ms);
                sampled_ms += 1.0;
            }
            rest_ms = (rest_ms + run_ms).fract();
            cpu_ms += run_ms;
            now_ms += run_ms + random.exponential(3.0);
        }
        end_ms = end_ms.max(now_ms);
        all.push(thread(&number.to_string(), &times_ms));
    }
    (data(all, end_ms), cpu_ms)
}

#[test]
fn latency_weights_add_up_to_the_time_in_which_any_thread_ran() {
    let mut random = Random(40);
    for _ in 0..200 {
        let (mut data, cpu_ms) = generated(&mut random);
        let (number, length_ms) = (data.threads.len() as f64, data.duration_ms.unwrap());
        let walls_ms = walls_ms(&data, 0.0, f64::INFINITY);
        let running_ms: f64 = (0u32..).zip(&walls_ms).map(|(number, ms)| f64::from(number) * ms).sum();
        assert!((walls_ms.iter().sum::<f64>() - length_ms).abs() < 1e-6);
        // Less than one sample of each thread has not come yet.
        assert!(
            (running_ms - cpu_ms).abs() <= 1.5 * number,
            "{running_ms} of {cpu_ms} ms in {number} threads"
        );
        let any_ms: f64 = walls_ms[1..].iter().sum();
        data.weigh_by_latency().unwrap();
        let selection = select(&data, &Filter::default()).unwrap();
        assert!(
            (selection.total.weight - any_ms).abs() < 1e-6,
            "{} {any_ms}",
            selection.total.weight
        );
        assert_eq!(
            (data.unit, data.counted_name()),
            (WeightUnit::Milliseconds, Some(WALL_TIME))
        );
    }
}

#[test]
fn the_parts_of_functions_are_the_wall_time_of_each_number() {
    let mut random = Random(41);
    let (data, _) = generated(&mut random);
    let parallelism = data.parallelism().unwrap();
    let selection = select(&data, &Filter::default()).unwrap();
    for RunningNumber {
        running,
        wall_ms,
        functions,
        ..
    } in running_numbers(&selection, &parallelism)
    {
        let sum: f64 = functions.iter().map(|(_, cost)| cost.weight).sum();
        let expected = if running == 0 { 0.0 } else { wall_ms };
        assert!((sum - expected).abs() < 1e-6, "{running}: {sum} {wall_ms}");
    }
}

#[test]
fn the_serial_part_bounds_what_more_cpus_can_do() {
    // Of 100 ms of work so much is serial; the rest runs on two CPUs.
    for (serial_ms, at_most) in [(0, None), (10, Some(5.5)), (50, Some(1.5))] {
        let end = serial_ms + (100 - serial_ms) / 2;
        let threads = vec![thread("a", &each_ms(0, end)), thread("b", &each_ms(serial_ms, end))];
        let data = data(threads, f64::from(end));
        let selection = select(&data, &Filter::default()).unwrap();
        let numbers = running_numbers(&selection, &data.parallelism().unwrap());
        let serial = SerialPart::new(&numbers).unwrap();
        assert!(
            (serial.share_of_work - f64::from(serial_ms) / 100.0).abs() < 1e-9,
            "{serial:?}"
        );
        assert_eq!(serial.at_most_faster.map(|times| (times * 1e6).round() / 1e6), at_most);
    }
}

#[test]
fn what_has_no_times_or_counts_no_time_is_refused() {
    let counts = Data {
        unit: WeightUnit::Counts,
        threads: vec![Thread {
            unit: WeightUnit::Counts,
            ..thread("a", &[1.0])
        }],
        ..data(Vec::new(), 1.0)
    };
    assert_eq!(counts.parallelism(), Err(NoParallelism::NotTime));
    let summed = Data {
        is_summed: true,
        ..data(vec![thread("a", &[0.0, 0.0])], 1.0)
    };
    assert_eq!(summed.parallelism(), Err(NoParallelism::NoTimes));
    assert_eq!(
        data(Vec::new(), 1.0).parallelism().unwrap().intervals,
        [interval(0.0, 1.0, 0)]
    );
}

/// samply 0.13.1 recorded `split` of the tests, a program of one thread.
#[test]
fn a_file_of_samply_has_the_estimate() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/samply-0.13.1.json.gz");
    let data = whole(&path, ReadLimits::default()).unwrap();
    let walls_ms = walls_ms(&data, 0.0, f64::INFINITY);
    let cpu_ms = select(&data, &Filter::default()).unwrap().total.weight * data.interval_ms;
    assert_eq!(walls_ms.len(), 2);
    assert!(
        (walls_ms[1] - cpu_ms).abs() < 0.02 * cpu_ms,
        "{walls_ms:?} of {cpu_ms} ms"
    );
}
