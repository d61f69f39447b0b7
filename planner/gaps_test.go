package planner

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGaps plans buffers whose gaps and windows have to be used to reach the size.
func TestGaps(t *testing.T) {
	for name, c := range map[string]struct {
		intervals string
		size      int64
	}{
		"in turns":                  {"a,0,10,2,1-9\nb,5,15,2,6-14\n", 2},
		"in turns, over the edge":   {"a,0,10,2,1-8\nb,5,15,2,9-14\n", 4},
		"two gaps":                  {"a,0,9,4,1-3 5-7\nb,1,3,4,\nc,5,7,4,\n", 4},
		"a window below and above":  {"a,0,10,2,0-5@0:1\nb,0,10,2,5-10@1:2\n", 3},
		"a window in the middle":    {"a,0,9,8,3-6@2:6\nb,3,6,2,\nc,3,6,2,\n", 8},
		"nothing but a gap":         {"a,0,9,8,0-9\nb,0,9,3,\n", 8},
		"a gap between fixed bytes": {"a,0,9,4,2-4\nb,2,4,4,\nc,0,9,4,\n", 8},
		"stairs": {"a,0,108,30,36-72@10:30 72-108@20:30\nb,36,144,50,36-72@20:30 72-108@10:40\nc,84,144,42,114-129@0:28 129-144@0:14\n" +
			"d,84,129,42,99-114@14:42 114-129@28:42\ne,99,144,70,99-114@28:42 114-129@14:56\nf,0,144,30,72-108@0:20 108-144@0:10\n", 144},
	} {
		p, err := ReadCSV(strings.NewReader("id,lower,upper,size,gaps\n" + c.intervals))
		require.NoError(t, err, name)
		plan := solve(t, p, Options{Mode: Optimal, Budget: 20_000_000})
		require.Equal(t, c.size, plan.Committed, name)
		require.NoError(t, checkSlowly(p, plan), name)

		var out bytes.Buffer
		require.NoError(t, plan.WriteCSV(&out, p), name)
		fixed, err := ReadIntervals(&out)
		require.NoError(t, err, name)
		require.Equal(t, plan.Slots, solve(t, fixed, Options{}).Slots, name)
	}
}

// TestReadIntervals reads the same buffers in each form.
func TestReadIntervals(t *testing.T) {
	for file, want := range map[string]string{
		"tflite.txt":  "0 64 0 3 none, 0 32 2 5 none, 1 16 0 7 none",
		"tflm.txt":    "0 64 0 3 none, 0 32 2 5 none, 0 16 0 7 none",
		"xla.txt":     "0 64 2 5 output, 0 16 0 6 input, 0 32 1 3 none, 0 32 3 5 none, 0 8 1 4 none/5, 0 8 3 5 none/5, 0 4 0 6 constant",
		"end.csv":     "0 64 0 3 none, 0 32 2 5 none [{3 5 8 16}]",
		"problem.txt": "0 64 0 3 none, 0 32 2 5 none",
	} {
		f, err := os.Open("testdata/intervals/" + file)
		require.NoError(t, err)
		defer f.Close()
		p, err := ReadIntervals(f)
		require.NoError(t, err, file)
		require.Equal(t, want, summary(p), file)
	}
	for text, want := range map[string]string{
		"BufferAssignment:\nallocation 0: size 4, preallocated-temp:\n": "-live-range.txt",
		"tensor 3: life_span: node [4, 2], size: 64 bytes (0.000 MB).":  "line 1: the lifetime [4, 3) is empty",
		"BufferAssignment:\nallocation 0: size 4, preallocated-temp:\n value: <0 a @0> (size=4,offset=0): f32[1]{0}\n" +
			"HloLiveRange (max 3):\n  BufferLiveRange:\n    a{}:3-1\n": "line 3: the lifetime [3, 2) is empty",
		"id,lower,upper,size,gaps\na,0,3,4,1\n":         `"1" is not a gap: use 5-8, or 5-8@0:64`,
		"id,lower,upper,size,gaps\na,0,3,4,1-2@3\n":     `"1-2@3" is not a gap`,
		"id,lower,upper,size,gaps\na,0,3,4,2-4\n":       "the gap [2, 4) is empty, before the end of another, or outside of the life",
		"id,lower,upper,size,gaps\na,0,9,4,2-4 3-5\n":   "the gap [3, 5) is empty, before the end of another",
		"id,lower,upper,size,gaps\na,0,3,4,1-2@2:5\n":   "the gap [1, 2) leaves the bytes [2, 5) of 4 in use",
		"id,lower,upper,size,gaps,group\na,0,3,4,1-2,1": "a buffer of a group cannot have gaps",
		"id,lower,start,upper,size\na,0,0,3,4\n":        `duplicate column "lower"`,
	} {
		_, err := ReadIntervals(strings.NewReader(text))
		require.ErrorContains(t, err, want, text)
	}
}

func summary(p *Problem) string {
	var list []string
	for _, b := range p.Buffers {
		text := fmt.Sprint(b.Lane.Device, b.Size, b.First, b.Last, b.Boundary)
		if b.Group != 0 {
			text += fmt.Sprint("/", b.Group)
		}
		if len(b.Gaps) > 0 {
			text += fmt.Sprint(" ", b.Gaps)
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}
