package planner

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
)

// ReadIntervals reads a problem and detects its format: JSON (ReadProblem), CSV (ReadCSV), a dump of TensorFlow Lite's arenas
// (DumpArenaInfo, and PrintMemoryPlan on microcontrollers), or XLA's buffer assignment with its live ranges (--xla_dump_to). XLA may
// write these into two files, which are read one after the other.
//
// An arena of TensorFlow Lite is a device. Offsets in dumps are ignored, because the problem is to find better ones. Values that XLA
// computes one at a time in the same memory are a group. ReadIntervals fails with the error of r, or with an error that names the invalid
// line.
func ReadIntervals(r io.Reader) (*Problem, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")):
		return ReadProblem(bytes.NewReader(data))
	case bytes.Contains(data, []byte("BufferAssignment:")):
		return readXLA(string(data))
	}
	for _, line := range tfliteLines {
		if line.Match(data) {
			return readTFLite(string(data), line)
		}
	}
	return ReadCSV(bytes.NewReader(data))
}

// tfliteLines are the lines of a buffer: its number, size, and first and last node.
var tfliteLines = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^tensor (?P<id>\d+): life_span: node \[(?P<first>-?\d+), (?P<last>-?\d+)\], size: +(?P<size>\d+) bytes`),
	regexp.MustCompile(`(?m)^. \(id=(?P<id>\d+)\): size=(?P<size>\d+), offset=.*, first_used=(?P<first>-?\d+) last_used=(?P<last>-?\d+)`),
}

func readTFLite(text string, buffer *regexp.Regexp) (*Problem, error) {
	p := &Problem{}
	lane, arenas := Lane{}, 0
	number := 0
	for line := range strings.Lines(text) {
		number++
		if strings.HasPrefix(line, "=== Beginning of ") {
			lane.Device = arenas
			arenas++
		}
		m := buffer.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		b := Buffer{ID: len(p.Buffers), Name: "tensor " + m[buffer.SubexpIndex("id")], Lane: lane}
		err := errors.Join(parseStep(m[buffer.SubexpIndex("first")], &b.First), parseStep(m[buffer.SubexpIndex("last")], &b.Last),
			parseBytes(m[buffer.SubexpIndex("size")], &b.Size))
		b.Last++
		if err == nil {
			err = b.validate()
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		p.Buffers = append(p.Buffers, b)
	}
	return p, p.Validate()
}

var (
	xlaAllocation = regexp.MustCompile(`^allocation (\d+): .*?size \d+, (.*):$`)
	xlaValue      = regexp.MustCompile(`^ +value: <\d+ (\S+) @\d+> \(size=(\d+),offset=(\d+)\)`)
	xlaLife       = regexp.MustCompile(`(?m)^ +(\S+\{[\d,]*\}):(\d+)-(\d+)\r?$`)
	xlaSchedule   = regexp.MustCompile(`(?m)^HloLiveRange \(max (\d+)\):`)
)

// xlaBoundaries maps words in the description of an allocation to its boundary. The first row whose word occurs counts.
var xlaBoundaries = []struct {
	word     string
	boundary Boundary
}{{"parameter ", Input}, {"constant", Constant}, {"maybe-live-out", Output}, {"", None}}

// readXLA reads the values of all allocations but those of threads. A value without a live range lives for the whole run.
func readXLA(text string) (*Problem, error) {
	assignment, ranges, found := strings.Cut(text, "BufferLiveRange:")
	schedule := xlaSchedule.FindStringSubmatch(text)
	if !found || schedule == nil {
		return nil, errors.New("the buffer assignment has no live ranges: read *-live-range.txt, which XLA writes next to it, after it")
	}
	lives := map[string][]string{}
	for _, m := range xlaLife.FindAllStringSubmatch(ranges, -1) {
		lives[m[1]] = m[2:]
	}
	p, homes := &Problem{}, map[string][]int{}
	number, allocation, kind, boundary := 0, "", "", None
	for line := range strings.Lines(assignment) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if m := xlaAllocation.FindStringSubmatch(line); m != nil {
			allocation, kind = m[1], m[2]
			for _, row := range xlaBoundaries {
				if boundary = row.boundary; strings.Contains(kind, row.word) {
					break
				}
			}
		}
		m := xlaValue.FindStringSubmatch(line)
		if m == nil || strings.Contains(kind, "thread-local") {
			continue
		}
		b := Buffer{ID: len(p.Buffers), Name: m[1], Boundary: boundary}
		life := []string{"0", schedule[1]}
		for _, name := range []string{m[1], m[1] + "{}"} {
			if known, ok := lives[name]; ok {
				life = known
			}
		}
		err := errors.Join(parseBytes(m[2], &b.Size), parseStep(life[0], &b.First), parseStep(life[1], &b.Last))
		b.Last++
		if err == nil {
			err = b.validate()
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		home := allocation + " " + m[3]
		homes[home] = append(homes[home], b.ID)
		p.Buffers = append(p.Buffers, b)
	}
	for _, home := range slices.Sorted(maps.Keys(homes)) {
		p.groupOverlapping(homes[home])
	}
	return p, p.Validate()
}

// groupOverlapping makes a group of each run of buffers whose lives overlap.
func (p *Problem) groupOverlapping(buffers []int) {
	slices.SortStableFunc(buffers, func(i, j int) int { return cmp.Compare(p.Buffers[i].First, p.Buffers[j].First) })
	first, last := 0, math.MinInt // of the run
	for _, i := range buffers {
		b := &p.Buffers[i]
		if b.First >= last {
			first, last = i, b.Last
			continue
		}
		last = max(last, b.Last)
		p.Buffers[first].Group, b.Group = first+1, first+1
	}
}
