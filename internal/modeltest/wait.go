package modeltest

import "time"

// Wait returns once holds does. It has no limit of the clock, which a busy machine would pass: what never holds ends by the time limit of
// go test, which prints where every goroutine waits.
func Wait(holds func() bool) {
	for !holds() {
		time.Sleep(time.Millisecond)
	}
}
