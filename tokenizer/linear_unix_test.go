//go:build unix

package tokenizer

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLinear holds that a text of sixteen times the length takes far less than 256 times the processor time: what is linear takes 16 to
// 20 times as much, what goes over a text for each of its words or characters 256 times.
func TestLinear(t *testing.T) {
	const size, factor, most = 1 << 13, 16, 80
	for _, name := range longFamilies {
		tok := openRecorded(t, name)
		for _, unit := range longUnits {
			text := strings.Repeat(unit, factor*size/len(unit))
			time := func(text string, rounds int) float64 {
				begun := processorTime(t)
				for range rounds {
					_, err := tok.Encode(Text(text), 0, Spans())
					require.NoError(t, err)
				}
				return (processorTime(t) - begun) / float64(rounds)
			}
			short, long := math.Inf(1), math.Inf(1)
			for range 25 { // the least counts: other work takes caches away
				short, long = min(short, time(text[:size], 4)), min(long, time(text, 1))
				if long < most*short {
					break
				}
			}
			assert.Less(t, long, most*short, "%s, %q", name, unit)
		}
	}
}
