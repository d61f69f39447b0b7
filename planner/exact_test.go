package planner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExactComparesWhereOrdersEnd: b0 and b3 below b1 leave room for b6 at 32, so that the arena ends at 35. An order that the search tries
// before places b5 on b1, where it ends at 39, and fills the section of b6 no higher. The later order must be continued all the same.
func TestExactComparesWhereOrdersEnd(t *testing.T) {
	p := &Problem{Buffers: []Buffer{
		{ID: 0, Name: "b0", Size: 8, Align: 4, First: 5, Last: 11},
		{ID: 1, Name: "b1", Size: 12, Align: 4, First: 6, Last: 9},
		{ID: 2, Name: "b3", Size: 9, Align: 4, First: 7, Last: 8},
		{ID: 3, Name: "b4", Size: 8, Align: 4, First: 2, Last: 7, Fixed: true, Offset: 8},
		{ID: 4, Name: "b5", Size: 7, Align: 4, First: 8, Last: 12},
		{ID: 5, Name: "b6", Size: 3, Align: 8, First: 5, Last: 8},
	}}
	for _, mode := range []Mode{Auto, Optimal} {
		t.Run(mode.String(), func(t *testing.T) {
			plan, err := Solve(p, Options{Mode: mode})
			require.NoError(t, err)
			require.EqualValues(t, 35, plan.Committed)
		})
	}
}
