package liveness

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/ir"
)

// Policy is how far lifetimes are extended.
type Policy uint8

// The policies.
const (
	Exact Policy = iota // to the last step that the target says still reads
	ToEnd               // whole chains of producers, to the end of the program
	Off                 // not at all: right only where nothing reads late
)

var policyNames = []string{Exact: "exact", ToEnd: "to-end", Off: "off"}

// Policies lists the names of all policies, the default first.
func Policies() []string { return slices.Clone(policyNames) }

// ParsePolicy returns the policy with a name.
func ParsePolicy(name string) (Policy, error) {
	if i := slices.Index(policyNames, name); i >= 0 {
		return Policy(i), nil
	}
	return 0, fmt.Errorf("unknown liveness policy %q: use one of %s", name, strings.Join(policyNames, ", "))
}

// String is the policy's name.
func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return fmt.Sprintf("Policy(%d)", p)
}

// Options are the readers of buffers beyond the steps of the graph.
type Options struct {
	Policy Policy
	// PinOutputAncestors keeps everything that the outputs depend on until the end, for executors that run steps out of order. Nothing
	// shares memory with it.
	PinOutputAncestors bool
	// DeviceTensors are inputs and outputs that should be outside of the arena, in memory that lasts between runs. Memory.IsDeviceTensor
	// reports which of them can be.
	DeviceTensors []*ir.Value
	// RowMajor makes all results row-major, so that none is in a part of another buffer.
	RowMajor bool
}
