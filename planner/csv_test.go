package planner

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadCSV(t *testing.T) {
	p, err := ReadCSV(strings.NewReader(`# a comment
id, lower, upper, size, alignment, lane
b10,3,9,4,64,1copy
b2,0,3,4,1,0
10,9,21,4,2,copy
9,0,9,4,0,
`))
	require.NoError(t, err)
	require.Equal(t, []Buffer{
		{ID: 0, Name: "9", Size: 4, First: 0, Last: 9},
		{ID: 1, Name: "10", Size: 4, Align: 2, First: 9, Last: 21, Lane: Lane{Copy: true}},
		{ID: 2, Name: "b10", Size: 4, Align: 64, First: 3, Last: 9, Lane: Lane{Device: 1, Copy: true}},
		{ID: 3, Name: "b2", Size: 4, Align: 1, First: 0, Last: 3},
	}, p.Buffers)
	for i, a := range p.Buffers {
		for _, b := range p.Buffers[i+1:] {
			require.Negative(t, compareIDs(a.Name, b.Name), "%s before %s", a.Name, b.Name)
			require.Positive(t, compareIDs(b.Name, a.Name), "%s after %s", b.Name, a.Name)
		}
	}
}

func TestReadCSVErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                "no header: the first row must be id,lower,upper,size",
		"id,lower,size\n": "the header lacks upper",
		"id,lower,upper,size,color\n": `unknown column "color": use id, lower, upper, size, alignment, offset, gaps, ` +
			"reads, writes, boundary, group, lane",
		"id,lower,upper,size,size\n":              `duplicate column "size"`,
		"id,lower,upper,size\na,0,1,4\na,2,3,4\n": `line 3: id "a" is already on line 2`,
		"id,lower,upper,size\na,0,1\n":            "line 2: wrong number of fields",
		"id,lower,upper,size\na,3,3,4\n": "line 2: the lifetime [3, 3) is empty: first must be " +
			"below last",
		"id,lower,upper,size\na,0,1,-4\n": "line 2: size -4 is negative",
		"id,lower,upper,size\na,0,1,9223372036854775808\n": "line 2: size: 9223372036854775808 does not fit " +
			"63 bits",
		"id,lower,upper,size\na,0,1,9223372036854775807\n": "line 2: size 9223372036854775807 is above the " +
			"limit",
		"id,lower,upper,size\na,0,1,4.5\n":                                            `line 2: size: "4.5" is not a whole number`,
		"id,lower,upper,size\na,,1,4\n":                                               `line 2: lower: "" is not a whole number`,
		"id,lower,upper,size,alignment\na,0,1,4,3\n":                                  "line 2: alignment 3 is not a power of two",
		"id,lower,upper,size,lane\na,0,1,4,compute\nb,0,1,4,dma\n":                    `line 3: lane: unknown lane "dma"`,
		"id,lower,upper,size,lane\na,0,1,4,-1\n":                                      "line 2: device -1 is negative",
		"id,lower,upper,size\na,0,1,\"4\n":                                            "line 2",
		"id,lower,upper,size\na,0,9,2305843009213693951\nb,0,9,2305843009213693951\n": "line 3: the sizes up to here sum to more than",
	} {
		_, err := ReadCSV(strings.NewReader(text))
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzReadIntervals(f *testing.F) {
	f.Add("id,lower,upper,size,alignment,lane\na,0,3,4,8,1copy\nb,1,2,0,1,\n")
	f.Add("id,lower,upper,size,gaps\na,0,9,4,1-3 5-7@1:2\nb,1,6,3,1-2\n")
	f.Add("BufferAssignment:\nallocation 0: size 4, constant:\n value: <0 a @0> (size=4,offset=0): f32[1]{0}\nHloLiveRange (max 3):\n" +
		"  BufferLiveRange:\n    a{}:0-1\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ReadIntervals(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, mode := range Modes() {
			plan, err := Solve(p, Options{Mode: mode, Budget: 10_000})
			if err != nil {
				require.ErrorContains(t, err, "fixed")
				return
			}
			require.NoError(t, Check(p, plan))
		}
	})
}

// FuzzReadFile changes plan files: whatever they hold, reading and checking end with an answer.
func FuzzReadFile(f *testing.F) {
	p := chain(4, 100)
	plan, err := Solve(p, Inference())
	if err != nil {
		f.Fatal(err)
	}
	var out bytes.Buffer
	if err := (&File{Problem: p, Plan: plan}).WriteJSON(&out); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		if file, err := ReadFile(bytes.NewReader(text)); err == nil {
			tenants, fast := checkMemory(file.Problem, file.Plan)
			if fast == nil {
				metricsOf(file.Plan, tenants) // which checkSlowly does not add up
			}
			if file.Problem.Validate() == nil && file.Plan.Options.validate() == nil && len(file.Plan.Slots) == len(file.Problem.Buffers) {
				slow := checkSlowly(file.Problem, file.Plan)
				require.Equal(t, fast == nil, slow == nil, "%v, %v", fast, slow)
			}
		}
	})
}
