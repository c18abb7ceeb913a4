// Goroutines that make Go's runtime work on its own stacks: they allocate, wait for each other, and ask for the time.
// usage: runtime_go CPU_MS
package main

import (
	"os"
	"strconv"
	"sync"
	"time"
)

var kept [64][]byte

//go:noinline
func allocate(n int) {
	for i := 0; i < n; i++ {
		kept[i%len(kept)] = make([]byte, 1000+i%3000)
	}
}

//go:noinline
func handOver(from, to chan int, end time.Time) {
	for value := range from {
		if time.Now().After(end) {
			close(to)
			return
		}
		allocate(value)
		to <- value
	}
}

func main() {
	ms, _ := strconv.Atoi(os.Args[1])
	end := time.Now().Add(time.Duration(ms) * time.Millisecond)
	var wait sync.WaitGroup
	for i := 0; i < 4; i++ {
		ping, pong := make(chan int), make(chan int)
		wait.Add(2)
		go func() { defer wait.Done(); handOver(ping, pong, end) }()
		go func() { defer wait.Done(); handOver(pong, ping, end) }()
		ping <- 50
	}
	wait.Wait()
}
