package liveness

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
)

// hosts lets results take over operands that die at their step, and puts parts of what a Concat joins into its result. It returns, by
// buffer, the one whose memory it is in, which is itself for most, and the first and the last position of all that is there.
func (l *lives) hosts() (host []int32, first, last []int) {
	host, first, last = make([]int32, len(l.values)), make([]int, len(l.values)), slices.Clone(l.last)
	for b := range host {
		host[b] = int32(b)
		if w := l.writer[b]; w >= 0 {
			first[b] = l.at[w]
		}
	}
	strided := map[int32]bool{} // buffers over which nothing row-major can be written
	busy := slices.Clone(l.busy)
	for s, w := range l.parts {
		b := l.Writes[s][0]
		host[b], strided[b] = w.b, true
		first[w.b], last[w.b], busy[w.b] = min(first[w.b], first[b]), max(last[w.b], last[b]), max(busy[w.b], busy[b])
	}
	until := slices.Clone(last)
	for i, s := range l.order {
		out := l.Writes[s]
		dies := func(b int32) bool { return until[b] == i && busy[b] < i && !strided[b] }
		if _, ok := l.parts[s]; ok {
			continue
		}
		b := int32(-1)
		if k := slices.IndexFunc(l.Over[s], dies); k >= 0 {
			b = l.Over[s][k]
		} else if w, ok := l.within[s]; ok && dies(w.b) {
			b, strided[out[0]] = w.b, true
		}
		if b >= 0 {
			host[out[0]] = host[b]
			last[host[b]] = max(last[host[b]], last[out[0]])
		}
	}
	return host, first, last
}

// state writes the planning problem into r: inputs, then each step's results and scratch.
func (l *lives) state(r *Result) {
	host, first, last := l.hosts()
	levels := l.levels(host)
	r.Buffers = slices.Repeat([]int{-1}, len(l.buffer))
	r.Scratch = make([][]int, len(l.order))
	r.Problem.Buffers = make([]planner.Buffer, 0, len(l.values)+len(l.order))
	add := func(b planner.Buffer) int {
		b.ID = len(r.Problem.Buffers)
		r.Problem.Buffers = append(r.Problem.Buffers, b)
		return b.ID
	}
	value := func(b int32, first int, boundary planner.Boundary, kind string) planner.Buffer {
		v := l.values[b]
		return planner.Buffer{
			Name: l.name(b), Kind: kind, Detail: v.Type.String(), Boundary: boundary,
			Size: l.sizes[b], Elements: int64(v.Type.Shape.Elements().Int()), DType: uint8(v.Type.DType),
			First: first, Last: max(last[b], first) + 1, LastLevel: levels[b],
		}
	}
	boundary := func(b int32, otherwise planner.Boundary) planner.Boundary {
		if l.separate[b] {
			return planner.DeviceTensor
		}
		return otherwise
	}
	for b := range l.g.Inputs {
		r.Buffers[l.values[b].ID] = add(value(int32(b), 0, boundary(int32(b), planner.Input), "input"))
	}
	for i, s := range l.order {
		n := l.Steps[s]
		for _, b := range l.Writes[s] {
			if b = host[b]; first[b] != i || r.Buffers[l.values[b].ID] >= 0 {
				continue
			}
			kind := l.values[b].Def.Op.Kind()
			made := value(b, i, planner.None, kind.String())
			made.Level = l.level[s]
			made.Lane.Copy = kind == ir.KindCopy || kind == ir.KindActCopy
			r.Buffers[l.values[b].ID] = add(made)
		}
		for _, size := range l.scratch[s] {
			r.Scratch[i] = append(r.Scratch[i], add(planner.Buffer{
				Name: "scratch of " + n.Label(), Kind: "scratch", Size: size, First: i, Last: i + 1, Level: l.level[s],
				LastLevel: l.level[s],
			}))
		}
	}
	for s, w := range l.parts {
		made := &r.Problem.Buffers[r.Buffers[l.values[w.b].ID]]
		made.Level = min(made.Level, l.level[s])
	}
	for _, v := range l.g.Outputs {
		b := host[l.of(v)]
		r.Problem.Buffers[r.Buffers[l.values[b].ID]].Boundary = boundary(b, planner.Output)
	}
}

// levels returns, by buffer, the deepest level of the steps that use what is in its memory. Steps of one level may run in any
// order, so that what is held beyond its readers is held from all levels up to there.
func (l *lives) levels(host []int32) []int {
	deepest := make([]int, len(l.values))
	reach := func(b int32, level int) { deepest[host[b]] = max(deepest[host[b]], level) }
	read := slices.Repeat([]int{-1}, len(l.values)) // by buffer: its last reader among the steps
	top := make([]int, len(l.order)+1)              // by position: the deepest level up to there
	for i, s := range l.order {
		for _, b := range l.reads[s] {
			reach(b, l.level[s])
			read[b] = i
		}
		for _, b := range l.Writes[s] {
			reach(b, l.level[s])
		}
		top[i] = max(top[max(i-1, 0)], l.level[s])
	}
	top[len(l.order)] = len(l.order) + 1
	for b, last := range l.last {
		if last > read[b] {
			reach(int32(b), top[last])
		}
	}
	return deepest
}

// name is what reports and errors call a buffer.
func (m *Memory) name(b int32) string {
	v := m.values[b]
	if v.Name == "" && v.Def != nil {
		return v.Def.Label()
	}
	return v.Name
}
