package planner_test

import (
	"fmt"

	"github.com/rlxc/rlxc/planner"
)

// A device whose memory is addressed in lines of 256 bytes, whose copy engine may still read a buffer for one step after its last
// reader, and which has 2 KiB.
func Example() {
	const lateReads = 1
	p := &planner.Problem{}
	for i, b := range []struct {
		name        string
		size        int64
		first, last int // steps: written in first, read before last
	}{{"image", 900, 0, 2}, {"edges", 500, 1, 3}, {"corners", 500, 3, 5}, {"score", 4, 5, 6}} {
		p.Buffers = append(p.Buffers, planner.Buffer{ID: i, Name: b.name, Size: b.size, First: b.first, Last: b.last + lateReads})
	}
	plan, err := planner.Solve(p, planner.Options{Alignment: 256, Capacity: 2 << 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := planner.Check(p, plan); err != nil { // shares no code with the modes
		fmt.Println(err)
	}
	for i, slot := range plan.Slots {
		fmt.Println(p.Buffers[i].Name, slot.Offset)
	}
	fmt.Println(plan.Committed, "bytes, and no plan has less than", plan.LowerBound)
	// Output:
	// image 0
	// edges 1024
	// corners 0
	// score 512
	// 1536 bytes, and no plan has less than 1536
}
