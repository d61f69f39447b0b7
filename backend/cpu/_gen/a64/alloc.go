package a64

import (
	"cmp"
	"fmt"
	"slices"
)

// The registers that a leaf function may use. R18 belongs to the platform, R27 to Go's assembler, R28 to R30 to the runtime.
var (
	generalRegs = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23, 24, 25, 26}
	vectorRegs  = func() (all []int) {
		for i := range 32 {
			all = append(all, i)
		}
		return all
	}()
)

// interval is the stretch of code, first to last instruction, over which a register is needed.
type interval struct {
	reg         Reg
	first, last int
}

// allocate returns the number of each virtual register. What is live follows from positions in the text alone: from the first mention
// of a register to its last, and to the end of each loop that it enters from before. So a value must not be carried from one
// round of a loop to the next in a register that is first mentioned inside.
func allocate(name string, code []inst) (map[Reg]int, error) {
	all := intervals(code)
	numbers, free := map[Reg]int{}, map[bool][]int{false: slices.Clone(generalRegs), true: slices.Clone(vectorRegs)}
	var live []interval
	for _, next := range all {
		live = slices.DeleteFunc(live, func(old interval) bool {
			done := old.last < next.first || old.last == next.first && old.first < old.last
			if done {
				free[old.reg.vector] = append(free[old.reg.vector], numbers[old.reg])
			}
			return done
		})
		pool := free[next.reg.vector]
		if len(pool) == 0 {
			return nil, fmt.Errorf("%s needs more registers than there are at instruction %d of %d", name, next.first, len(code))
		}
		numbers[next.reg], free[next.reg.vector] = pool[0], pool[1:]
		live = append(live, next)
	}
	return numbers, nil
}

func intervals(code []inst) []interval {
	at, labels := map[Reg]*interval{}, map[string]int{}
	for i, in := range code {
		if in.label != "" {
			labels[in.label] = i
		}
		for _, r := range in.regs {
			if at[r] == nil {
				at[r] = &interval{r, i, i}
			}
			at[r].last = i
		}
	}
	for changed := true; changed; {
		changed = false
		for end, in := range code {
			start, ok := labels[in.target]
			if !ok || in.target == "" || start > end {
				continue
			}
			for _, x := range at {
				if x.first < start && start <= x.last && x.last < end {
					x.last, changed = end, true
				}
			}
		}
	}
	all := make([]interval, 0, len(at))
	for _, x := range at {
		all = append(all, *x)
	}
	slices.SortFunc(all, func(a, b interval) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.reg.id, b.reg.id), cmp.Compare(kind(a.reg), kind(b.reg)))
	})
	return all
}

func kind(r Reg) int {
	if r.vector {
		return 1
	}
	return 0
}
