package planner

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// chain is n buffers of size bytes, each read by the writer of the next.
func chain(n int, size int64) *Problem {
	p := &Problem{}
	for i := range n {
		p.Buffers = append(p.Buffers, Buffer{ID: i, Name: string(rune('a' + i%26)), Size: size, First: i, Last: i + 2})
	}
	return p
}

func solve(t testing.TB, p *Problem, o Options) *Plan {
	t.Helper()
	plan, err := Solve(p, o)
	require.NoError(t, err)
	require.NoError(t, Check(p, plan))
	return plan
}

func TestChainSharesMemory(t *testing.T) {
	want := map[Mode]int64{Disabled: 102400, Remap: 2048, TLSF: 2048, BestFit: 2048, Optimal: 2048, Auto: 2048}
	for _, mode := range Modes() {
		plan := solve(t, chain(100, 1024), Options{Mode: mode, Alignment: 64})
		require.Equal(t, want[mode], plan.Committed, mode)
		require.EqualValues(t, 2048, plan.LowerBound, mode)
		plan = solve(t, chain(100, 1024), Options{Mode: mode, ArenaNoReuse: true})
		require.EqualValues(t, 102400, plan.Committed, mode)
	}
}

func TestModeNames(t *testing.T) {
	for text, want := range map[string]Mode{
		"": Auto, "auto": Auto, "0": Disabled, "off": Disabled, "none": Disabled, "disabled": Disabled,
		"remap": Remap, "pool": Remap, "arena": TLSF, "best-fit": BestFit, "optimal": Optimal,
	} {
		got, err := ParseMode(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for m := range numModes {
		require.NotNil(t, modes[m].place, m)
		got, err := ParseMode(m.String())
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	_, err := ParseMode("bestfit")
	for _, name := range []string{"bestfit", "disabled", "remap", "arena", "best-fit", "optimal", "auto"} {
		require.ErrorContains(t, err, name)
	}
}

func TestFromEnv(t *testing.T) {
	t.Setenv(EnvMode, "pool")
	t.Setenv(EnvNoReuse, "1")
	o, err := FromEnv(Activations())
	require.NoError(t, err)
	require.Equal(t, Remap, o.Mode)
	require.True(t, o.ArenaNoReuse)
	t.Setenv(EnvNoReuse, "")
	t.Setenv(EnvNoReuseSource, "true")
	o, err = FromEnv(Options{})
	require.NoError(t, err)
	require.True(t, o.ArenaNoReuse)
	t.Setenv(EnvNoReuse, "yes")
	_, err = FromEnv(o)
	require.ErrorContains(t, err, EnvNoReuse)
	t.Setenv(EnvMode, "best")
	_, err = FromEnv(o)
	require.ErrorContains(t, err, EnvMode)
}

func TestImpossibleCapacityNamesTheBuffers(t *testing.T) {
	plan, err := Solve(chain(3, 100), Options{Capacity: 150})
	require.Nil(t, plan)
	var ce *CapacityError
	require.True(t, errors.As(err, &ce))
	require.True(t, ce.Impossible)
	require.EqualValues(t, 200, ce.Need)
	require.Equal(t, []string{"a", "b"}, ce.Buffers)
	require.Equal(t, 1, ce.Step)
	for capacity := range int64(4) { // 0 is none
		plan, err = Solve(chain(3, 1), Options{Capacity: capacity})
		require.Equal(t, capacity == 1, plan == nil && errors.As(err, &ce) && ce.Impossible, "%d", capacity)
	}
}

func TestTextReport(t *testing.T) {
	p := chain(3, 100)
	p.Buffers = append(p.Buffers, Buffer{ID: 3, Name: "w", Size: 7, First: 0, Last: 4, Boundary: Param})
	p.Extensions = []Extension{{Name: "packed-qkv", Policy: "exact", Buffers: []string{"a"}, PeakGrowth: 12}}
	p.Views = []View{{Name: "b twice", Buffer: 1, Size: 100}, {Name: "a's end", Buffer: 0, Offset: 60, Size: 40}}
	p.Steps = []string{"matmul x", "add y", "add z"}
	var out bytes.Buffer
	require.NoError(t, solve(t, p, Options{Mode: BestFit}).WriteText(&out, p))
	require.Equal(t, `# arena_size=200 total_unshared=300 saved=100
# offset	size	node
0	100	a
60	40	a's end, in a
0	100	c
100	100	b
100	100	b twice, in b
# mode=best-fit lower_bound=200 ratio=1.0000
# logical=300 rounded=300 peak=200 committed=200 padding=0 reused=100
# step 0 matmul x
# step 1 add y
# step 2 add z
# extension packed-qkv (exact): 1 buffers, peak +12 bytes
#	a
# not planned: w (7 bytes): parameters have their own segment
`, out.String())
}

// TestFileStages: a file's other stages are read with it; those that have no plan are left out, and errors say which one is wrong.
func TestFileStages(t *testing.T) {
	p := chain(5, 100)
	whole, err := json.Marshal(&File{Problem: p, Plan: solve(t, p, Activations())})
	require.NoError(t, err)
	stages := func(list string) string {
		return strings.TrimSuffix(string(whole), "}") + `,"stages":[` + list + "]}"
	}
	f, err := ReadFile(strings.NewReader(stages(`{"unknown": "the size k"},` + string(whole))))
	require.NoError(t, err)
	require.Len(t, f.Stages, 1)
	require.Equal(t, f.Plan, f.Stages[0].Plan)
	_, err = ReadFile(strings.NewReader(stages(`{"problem": null}`)))
	require.ErrorContains(t, err, "stage 1: not a plan file")
	_, err = ReadFile(strings.NewReader(stages("\n" + strings.Replace(string(whole), `"id":1`, `"id":0`, 1))))
	require.ErrorContains(t, err, "stage 1: line 2: ")
	_, err = ReadFile(strings.NewReader(strings.TrimSuffix(string(whole), "}") + `,"stages":7}`))
	require.ErrorContains(t, err, "not a plan file: line 1: ")
}

func TestFileRoundTrip(t *testing.T) {
	p := chain(5, 100)
	p.Buffers[1].Boundary, p.Buffers[2].Lane = Output, Lane{Device: 1, Copy: true}
	plan := solve(t, p, Activations())
	var out bytes.Buffer
	require.NoError(t, (&File{Problem: p, Plan: plan}).WriteJSON(&out))
	f, err := ReadFile(bytes.NewReader(out.Bytes()))
	require.NoError(t, err)
	require.Equal(t, &File{Problem: p, Plan: plan}, f)
	require.NoError(t, Check(f.Problem, f.Plan))
	_, err = ReadFile(bytes.NewReader(out.Bytes()[:out.Len()/2]))
	require.ErrorContains(t, err, "not a plan file")
	beside, err := ReadFile(strings.NewReader(`{"more": [{"problem": 1}], ` + out.String()[1:]))
	require.NoError(t, err)
	require.Equal(t, f, beside)
}

func TestPictureShowsEveryBufferAndEscapesNames(t *testing.T) {
	p := chain(5, 100)
	p.Buffers[1].Name, p.Buffers[1].Kind, p.Buffers[1].Detail = "<script>", "MatMul", "f32[5,5]"
	p.Buffers[4].Boundary = Param
	p.Steps = []string{"a /layer.0/a", "b /layer.0/b", "c /layer.1/c", "d /layer.1/d"}
	p.Views = []View{{Name: "half", Kind: "reshape", Buffer: 1, Offset: 50, Size: 50, First: 2, Last: 3}}
	var out bytes.Buffer
	require.NoError(t, solve(t, p, Activations()).WriteHTML(&out, p, "a plan"))
	text := out.String()
	box := regexp.MustCompile(`(?s)<svg x="(.*?)%" y="(.*?)" width="(.*?)%" height="(.*?)" class="(.*?)"><title>(.*?)</title>`)
	boxes := box.FindAllStringSubmatch(text, -1)
	at := map[string][]string{}
	for _, b := range boxes {
		name, _, _ := strings.Cut(b[6], " ")
		at[name+b[5]] = b[1:5]
	}
	require.Equal(t, []string{"33.3333", "0.00", "33.3333", "20.00"}, at["layer.1\nsteps"])
	// The drawing of the arena's 256 bytes has 420 points from the top of 146 on.
	require.Equal(t, []string{"16.6667", "191.94", "33.3333", "164.06"}, at["&lt;script&gt;"])
	require.Equal(t, []string{"33.3333", "191.94", "16.6667", "82.03"}, at["holdsview"])
	require.Contains(t, text, "&lt;script&gt; MatMul f32[5,5]\n100 B at 128\nsteps 1 (")
	require.Contains(t, text, "\nholds half reshape , 50 B at 178")
	require.Len(t, boxes, 2+4+1, "layers, buffers and a view")
	require.NotContains(t, text, "<script>MatMul")
	require.Regexp(t, `<rect [^>]* fill="hsl\(\d+ 55% \d+%\)"/>`, text)
	require.Contains(t, text, "Not planned: e (100 B): parameters have their own segment")
	require.Contains(t, text, "lower bound 256 B")
	require.Equal(t, 1, strings.Count(text, "<polyline"))
	require.NotContains(t, text, "://", "self-contained")
}

func TestManyBlocksThatLiveToTheEnd(t *testing.T) {
	var inputs, outputs Problem
	for i := range 60_000 { // their pairs are 1.8 billion
		inputs.Buffers = append(inputs.Buffers, Buffer{ID: i, Size: int64(1 + i%1000), First: 0, Last: i + 1})
		outputs.Buffers = append(outputs.Buffers, Buffer{ID: i, Size: int64(1 + i%1000), First: i, Last: 60_001})
	}
	inputs.Buffers = append(inputs.Buffers, Buffer{ID: 60_000, Size: 1 << 20, First: 50_000, Last: 60_000})
	outputs.Buffers = append(outputs.Buffers, Buffer{ID: 60_000, Size: 1 << 10, First: 0, Last: 50_000})
	for _, p := range []*Problem{&inputs, &outputs} {
		for _, mode := range []Mode{Auto, BestFit} {
			plan := solve(t, p, Options{Mode: mode, Alignment: 64})
			require.LessOrEqual(t, float64(plan.Committed), 1.05*float64(plan.LowerBound))
		}
	}
}

// TestStairs: what is looked at is charged, so that 50,000 blocks that overlap their neighbours take no more than the budget.
func TestStairs(t *testing.T) {
	for _, life := range []int{2, 3, 200, 25_000} {
		p := &Problem{}
		for i := range 50_000 {
			p.Buffers = append(p.Buffers, Buffer{ID: i, Size: int64(1 + i*7919%1000), First: i, Last: i + life})
		}
		plan := solve(t, p, Options{Mode: Auto, Alignment: 64, Budget: 1e8})
		require.LessOrEqual(t, plan.Work, int64(1.1e8), "%d steps each", life)
	}
}

// TestPlanFileErrorsNameTheLine: whatever is wrong with a plan file is said with its line.
func TestPlanFileErrorsNameTheLine(t *testing.T) {
	const good = `{
 "problem": {
  "steps": ["a"],
  "buffers": [
   {"id": 0, "name": "x", "size": 4, "first": 0, "last": 1},

   {"id": 1, "name": "y", "size": 4, "first": 0, "last": 2}
  ]
 },
 "plan": {"slots": []}
}`
	_, err := ReadFile(strings.NewReader(good))
	require.NoError(t, err)
	for _, c := range []struct{ old, put, want string }{
		{`"id": 1`, `"id": 0`, `line 7: buffer 0 (y): a duplicate id`},
		{`"last": 1`, `"last": 0`, `line 5: buffer 0 (x): the lifetime [0, 0) is empty`},
		{`"last": 2`, `"last": -7`, `line 7: buffer 1 (y): the lifetime [0, -7) is empty`},
		{`"size": 4, "first": 0, "last": 2`, `"size": 9223372036854775807, "first": 0, "last": 2`,
			`line 7: buffer 1 (y): size 9223372036854775807 is above`},
		{`"size": 4, "first": 0, "last": 2`, `"size": 9223372036854775808, "first": 0, "last": 2`, `line 7: json: cannot unmarshal number`},
		{`"last": 2`, `"last": 2, "lane": {"device": -1}`, `line 7: buffer 1 (y): device -1 is negative`},
		{`"last": 2`, `"last": 2, "fixed": true, "offset": -4`, `line 7: buffer 1 (y): fixed offset -4`},
		{`"last": 2`, `"last": 2, "level": -1`, `line 7: buffer 1 (y): level -1 is negative`},
		{`"last": 2`, `"last": 2, "group": 3, "lane": {"copy": true}}, {"id": 2, "name": "z", "size": 4, "first": 0, "last": 1, "group": 3`,
			`line 7: buffer 2 (z): buffer 1 (y) of the same group 3 is on another lane`},
		{`"last": 2`, `"last": 2, "fixed": true, "offset": 2}, {"id": 2, "name": "z", "size": 4, "first": 0, "last": 1, "fixed": true`,
			`line 7: buffer 1 (y): it is fixed in the same memory as buffer 2 (z), and both live at the same time`},
		{`"id": 1`, `"id" 1`, `line 7: invalid character '1' after object key`},
		{`"steps": ["a"],`, `"steps": ["a"], "stops": 1,`, `unknown field "stops"`},
		{`"plan": {"slots": []}`, `"plan": {"slots": 1}`, `line 10: json: cannot unmarshal number`},
		{`"plan": {"slots": []}`, `"plans": {}`, `it needs a problem and a plan`},
		{good, `[]`, `line 1: [ instead of {`},
		{good, ``, `line 1: EOF`},
	} {
		text := strings.Replace(good, c.old, c.put, 1)
		_, err := ReadFile(strings.NewReader(text))
		require.ErrorContains(t, err, c.want, text)
	}
}

// TestFamilies holds combs, whose teeth are short lives between long ones, and dense problems, where hundreds live at a time, to what a
// search of some seconds reaches.
func TestFamilies(t *testing.T) {
	comb := func(rnd *rand.Rand, i int) Buffer {
		b := Buffer{First: i, Last: i + 1, Size: 64 << rnd.IntN(12)}
		if i%2 == 0 {
			b.Last = i + 50 + rnd.IntN(400)
		}
		return b
	}
	dense := func(rnd *rand.Rand, _ int) Buffer {
		first := rnd.IntN(1000)
		return Buffer{First: first, Last: first + 1 + rnd.IntN(200), Size: 1 + rnd.Int64N(1<<16)}
	}
	for name, c := range map[string]struct {
		count  int
		ratio  float64
		buffer func(rnd *rand.Rand, i int) Buffer
	}{
		"comb":       {300, 1, comb},
		"large comb": {1000, 1.005, comb},
		"comb of few long teeth": {5000, 1, func(rnd *rand.Rand, i int) Buffer {
			b := Buffer{First: i, Last: i + 2, Size: 1 + rnd.Int64N(1<<20)}
			if i%10 == 0 {
				b.Last = i + 1000
			}
			return b
		}},
		"dense":        {1000, 1, dense},
		"large, dense": {2000, 1.005, dense},
	} {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(c.count), 1))
			p := &Problem{}
			for i := range c.count {
				b := c.buffer(rnd, i)
				b.ID = i
				p.Buffers = append(p.Buffers, b)
			}
			require.LessOrEqual(t, solve(t, p, Options{Mode: Optimal, Budget: 300_000_000}).Ratio(), c.ratio)
		})
	}
}

// TestCrowds: where thousands live at a time, the heuristics look at most at so much for each block, and the search ends with its budget.
func TestCrowds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(38, 5))
	p := &Problem{}
	for i := range 12_000 {
		first := rnd.IntN(80)
		p.Buffers = append(p.Buffers, Buffer{ID: i, First: first, Last: first + 1 + rnd.IntN(80), Size: 1 + rnd.Int64N(1<<16)})
	}
	count := int64(len(p.Buffers))
	require.LessOrEqual(t, solve(t, p, Options{Budget: 1}).Work, 2*(tryPerBlock+heuristicsPerBlock)*count)
	require.LessOrEqual(t, solve(t, p, Options{}).Work, autoBudgetPerBlock*count)
}
