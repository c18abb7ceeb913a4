// As split.go, and writes what Go's own profiler says of it: a CPU profile with labels of a goroutine, and a heap profile in which
// two functions hold 3 MiB and 1 MiB.
// usage: pprof_go CPU_MS CPU_PROFILE HEAP_PROFILE
package main

import (
	"context"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"syscall"
)

var sink uint64
var held [][]byte

func xorshift(seed uint64, rounds uint64) uint64 {
	x := seed | 1
	for i := uint64(0); i < rounds; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

//go:noinline
func sixty(unit uint64) { sink += xorshift(0x60, 6*unit) }

//go:noinline
func thirty(unit uint64) { sink += xorshift(0x30, 3*unit) }

//go:noinline
func ten(unit uint64) { sink += xorshift(0x10, unit) }

//go:noinline
func threeMegabytes() {
	for i := 0; i < 3; i++ {
		held = append(held, make([]byte, 1<<20))
	}
}

//go:noinline
func oneMegabyte() { held = append(held, make([]byte, 1<<20)) }

func cpuTime() int64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// On a busy machine, a second on the wall may have few samples.
func work(ms int) {
	chance := uint64(88172645463325252)
	for end := cpuTime() + int64(ms)*1000000; cpuTime() < end; {
		chance = chance*6364136223846793005 + 1442695040888963407
		unit := 4000 + (chance>>32)%32000
		sixty(unit)
		thirty(unit)
		ten(unit)
	}
}

func main() {
	runtime.MemProfileRate = 1
	ms, _ := strconv.Atoi(os.Args[1])
	cpu, err := os.Create(os.Args[2])
	if err != nil {
		panic(err)
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		panic(err)
	}
	pprof.Do(context.Background(), pprof.Labels("request", "1"), func(context.Context) { work(ms) })
	pprof.StopCPUProfile()
	cpu.Close()
	threeMegabytes()
	oneMegabyte()
	heap, err := os.Create(os.Args[3])
	if err != nil {
		panic(err)
	}
	runtime.GC()
	if err := pprof.WriteHeapProfile(heap); err != nil {
		panic(err)
	}
	heap.Close()
	runtime.KeepAlive(held)
}
