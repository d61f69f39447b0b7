package planner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUnplannedByReason: a single buffer is named, several are counted.
func TestUnplannedByReason(t *testing.T) {
	p := &Problem{Buffers: []Buffer{{Name: "a", Size: 1}, {Name: "b", Size: 2}, {Name: "c", Size: 4}, {Name: "d", Size: 8}}}
	plan := &Plan{Unplanned: []Unplanned{{0, "x"}, {1, "y"}, {2, "x"}, {3, "x"}}}
	require.Equal(t, []reasonGroup{{"x", "3 buffers", 3, 13}, {"y", p.Buffers[1].label(), 1, 2}}, plan.unplanned(p))
}
