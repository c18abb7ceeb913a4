// As split.c: 60 % of the CPU time in sixty, 30 % in thirty, 10 % in ten, on one thread.
// usage: split_go CPU_MS
package main

import (
	"os"
	"strconv"
	"time"
)

var sink uint64

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

func main() {
	ms, _ := strconv.Atoi(os.Args[1])
	chance := uint64(88172645463325252)
	for end := time.Now().Add(time.Duration(ms) * time.Millisecond); time.Now().Before(end); {
		chance = chance*6364136223846793005 + 1442695040888963407
		unit := 4000 + (chance>>32)%32000
		sixty(unit)
		thirty(unit)
		ten(unit)
	}
}
