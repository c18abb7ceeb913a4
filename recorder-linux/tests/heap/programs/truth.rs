//! Strings, vectors and maps, in N rounds, with a counter in the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static FREES: AtomicU64 = AtomicU64::new(0);

fn count(bytes: usize) {
    ALLOCATIONS.fetch_add(1, Relaxed);
    BYTES.fetch_add(bytes as u64, Relaxed);
}

// SAFETY: all calls go to the system's allocator as they came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        FREES.fetch_add(1, Relaxed);
        count(size);
        unsafe { System.realloc(block, layout, size) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        FREES.fetch_add(1, Relaxed);
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

#[repr(align(64))]
struct Aligned([u8; 128]);

fn work(rounds: u64) {
    let mut random = 88172645463325252_u64;
    let mut map = HashMap::new();
    for round in 0..rounds {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let text = "abcdefgh".repeat((random % 7) as usize);
        let zeros = vec![0_u64; (random % 50) as usize];
        black_box(Box::new(Aligned([3; 128])).0[5]);
        map.insert(random % 3000, (text, zeros, Box::new([round; 8])));
    }
    black_box(map);
}

fn main() {
    let rounds: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    work(rounds);
    let counts = [&ALLOCATIONS, &BYTES, &FREES].map(|count| count.load(Relaxed));
    println!("{} {} {}", counts[0], counts[1], counts[2]);
}
