//! Functions whose names debug info and symbols have in different forms. Nothing here runs.
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;

pub struct Table<T>(pub Vec<T>);

impl<T: Copy> Table<T> {
    #[inline(never)]
    pub fn merge(&mut self, other: &[T]) -> usize {
        self.0.extend_from_slice(other);
        self.0.len()
    }
}

pub trait Work {
    fn go(&self) -> u64;
}

impl Work for u32 {
    #[inline(never)]
    fn go(&self) -> u64 {
        black_box(u64::from(*self)) * 3
    }
}

#[inline(never)]
pub fn generic<T: Work>(work: &T) -> u64 {
    black_box(work.go()) + 1
}

async fn step(x: u64) -> u64 {
    black_box(x) + 1
}

pub async fn fetch(x: u64) -> u64 {
    let y = step(x).await;
    let work: Pin<Box<dyn Future<Output = u64>>> = Box::pin(async move { black_box(step(y).await) * 7 });
    work.await
}

fn main() {
    let mut table = Table(vec![1u32]);
    black_box(table.merge(&[2, 3]));
    black_box(generic(&7u32));
    let add: Box<dyn Fn(u64) -> u64> = Box::new(|x| black_box(x) + 5);
    black_box(add(4));
    let fetching: Pin<Box<dyn Future<Output = u64>>> = Box::pin(fetch(3));
    drop(black_box(fetching));
}
