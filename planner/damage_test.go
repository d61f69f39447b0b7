package planner

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// unclaimed are the fields that claim nothing, or that may name another proof of the same bound.
var unclaimed = []string{"plan.work", "bounds.step", "bounds.buffers"}

// TestDamagedFields damages every field of a plan and of its bounds in turn: what the file claims is checked, not believed.
func TestDamagedFields(t *testing.T) {
	p := layered(40, 1)
	for i := range p.Buffers {
		p.Buffers[i].Align, p.Buffers[i].Group = 64, []int{0, i/2 + 1}[i%4/2]
	}
	p.Buffers = append(p.Buffers, Buffer{ID: 101, Name: "w", Size: 64, Last: 2, Boundary: Param},
		Buffer{ID: 102, Name: "x", Size: 64, Last: 2, Boundary: Input},
		Buffer{ID: 103, Name: "y", Size: 640, Last: 2, Lane: Lane{Device: 1}})
	for name, o := range map[string]Options{
		"aligned":  {Alignment: 64, AllocateInputs: true},
		"guarded":  {Alignment: 256, AllocateInputs: true, TailGuard: true, Mode: BestFit},
		"segments": {Alignment: 64, Segment: 1 << 12, AllocateInputs: true},
		"disabled": {Mode: Disabled, AllocateInputs: true},
	} {
		plan := solve(t, p, o)
		bounds, err := Bounds(p, plan.Options)
		require.NoError(t, err)
		file := &File{Problem: p, Plan: plan, Bounds: bounds}
		require.NoError(t, file.Check())
		var text bytes.Buffer
		require.NoError(t, file.WriteJSON(&text))
		var root map[string]any
		require.NoError(t, json.Unmarshal(text.Bytes(), &root))
		tried := 0
		try := func(path string) {
			data, err := json.Marshal(root)
			require.NoError(t, err)
			f, err := ReadFile(bytes.NewReader(data))
			if err == nil {
				err = f.Check()
			}
			if tried++; err == nil {
				require.Contains(t, unclaimed, path, name)
			}
		}
		var damage func(x any, path string, set func(any))
		damage = func(x any, path string, set func(any)) {
			switch x := x.(type) {
			case map[string]any:
				for name, v := range x {
					damage(v, path+"."+name, func(v any) { x[name] = v })
				}
			case []any:
				for i, v := range x {
					damage(v, path, func(v any) { x[i] = v })
				}
				set(x[1:])
				try(path + "[1:]")
				set(append(slices.Clone(x), x[0]))
				try(path + "+1")
			case float64:
				for _, v := range []float64{x + 1, x - 1, -x - 1, 1 << 62} {
					set(v)
					try(path)
				}
			case string:
				set(x + ".")
				try(path)
			case bool:
				set(!x)
				try(path)
			}
			set(x)
		}
		for _, part := range []string{"plan", "bounds"} {
			damage(root[part], part, func(v any) { root[part] = v })
		}
		require.Greater(t, tried, 500)
	}
}
