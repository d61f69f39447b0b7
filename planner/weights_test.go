package planner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// program is a chain with parameters that live from start to end.
func program(params map[string]int64) *Problem {
	p := chain(4, 100)
	for _, name := range []string{"a.w", "b.w", "c.w"} {
		if size := params[name]; size > 0 {
			p.Buffers = append(p.Buffers, Buffer{ID: len(p.Buffers), Name: name, Content: name, Size: size, Last: 5, Boundary: Param})
		}
	}
	return p
}

func TestSharedWeights(t *testing.T) {
	encoder, classifier := program(map[string]int64{"b.w": 300, "a.w": 100}), program(map[string]int64{"c.w": 10, "a.w": 100})
	w, err := NewSharedWeightLayout(Activations(), encoder, classifier)
	require.NoError(t, err)
	require.Equal(t, &SharedWeightLayout{Size: 512, Programs: 2, Slots: []WeightSlot{
		{Content: "a.w", Name: "a.w", Size: 100, Programs: []int{0, 1}},
		{Content: "b.w", Name: "b.w", Offset: 128, Size: 300, Programs: []int{0}},
		{Content: "c.w", Name: "c.w", Offset: 448, Size: 10, Programs: []int{1}},
	}}, w)
	for _, p := range []*Problem{encoder, classifier} {
		plan := solve(t, p, Activations())
		require.NotEmpty(t, plan.Unplanned)
		committed := plan.Committed
		require.NoError(t, w.Apply(p, plan))
		require.NoError(t, Check(p, plan))
		require.NoError(t, checkSlowly(p, plan))
		require.Empty(t, plan.Unplanned)
		require.Equal(t, committed, plan.Committed, "the segment is not the plan's")
		require.Equal(t, Arena{Size: 512, Weights: true}, plan.Arenas[plan.Slots[4].Arena])
	}
	require.NoError(t, w.Apply(program(nil), solve(t, program(nil), Activations())))
	elsewhere := program(map[string]int64{"a.w": 100, "b.w": 300})
	for i := range elsewhere.Buffers {
		elsewhere.Buffers[i].Lane.Device = 1
	}
	plan := solve(t, elsewhere, Activations())
	require.NoError(t, w.Apply(elsewhere, plan))
	require.Equal(t, Arena{Lane: Lane{Device: 1}, Size: 512, Weights: true}, plan.Arenas[plan.Slots[4].Arena])
	elsewhere.Buffers[5].Lane.Device = 2
	require.ErrorContains(t, w.Apply(elsewhere, solve(t, elsewhere, Activations())), "is on device 2, others on device 1")

	_, err = NewSharedWeightLayout(Activations(), encoder, program(map[string]int64{"a.w": 99}))
	require.EqualError(t, err, "program 1: parameter a.w needs 99 bytes, the shared weights hold 100 of its content")
	other := program(map[string]int64{"a.w": 99})
	require.ErrorContains(t, w.Apply(other, solve(t, other, Activations())), "parameter a.w needs 99 bytes, the shared weights hold 100")
	require.ErrorContains(t, w.Apply(encoder, solve(t, encoder, Inference())), "without AllocateParams")
	require.ErrorContains(t, (&SharedWeightLayout{}).Apply(encoder, solve(t, encoder, Activations())),
		`lack the content "a.w" of parameter a.w`)
}

// TestUnnamedWeights: names say nothing of what parameters hold, and contents do.
func TestUnnamedWeights(t *testing.T) {
	one, two := program(map[string]int64{"a.w": 100, "b.w": 100}), program(map[string]int64{"c.w": 100})
	for _, b := range []*Buffer{&one.Buffers[4], &one.Buffers[5], &two.Buffers[4]} {
		b.Name = "" // as a constant that a fusion made
	}
	two.Buffers[4].Content = "b.w"
	w, err := NewSharedWeightLayout(Activations(), one, two)
	require.NoError(t, err)
	require.Len(t, w.Slots, 2)
	plan := solve(t, two, Activations())
	require.NoError(t, w.Apply(two, plan))
	require.EqualValues(t, 128, plan.Slots[4].Offset)

	two.Buffers[4].Content = ""
	_, err = NewSharedWeightLayout(Activations(), one, two)
	require.ErrorContains(t, err, `program 1: parameter "" has no content`)
	forward := solve(t, two, Inference())
	_, err = FromForward(two, forward)
	require.ErrorContains(t, err, `parameter "" has no content`)
}

func TestBackwardTakesTheForwardOffsets(t *testing.T) {
	forward := program(map[string]int64{"a.w": 100, "b.w": 300})
	plan := solve(t, forward, Inference())
	w, err := FromForward(forward, plan)
	require.NoError(t, err)
	backward := program(map[string]int64{"b.w": 300, "a.w": 100})
	back := solve(t, backward, BackwardActivationsOnly())
	require.Less(t, back.Committed, plan.Committed)
	require.NoError(t, w.Apply(backward, back))
	require.NoError(t, Check(backward, back))
	for i := range forward.Buffers {
		for j := range backward.Buffers {
			if b := forward.Buffers[i]; b.Boundary == Param && b.Name == backward.Buffers[j].Name {
				require.Equal(t, plan.Slots[i].Offset, back.Slots[j].Offset)
			}
		}
	}
	_, err = FromForward(forward, solve(t, forward, Activations()))
	require.ErrorContains(t, err, "plan it with AllocateParams")
}

// TestExtendKeepsTheForwardOffsets: a backward program has what both halves read where the forward plan has it. A weight in another form is
// after the forward arena.
func TestExtendKeepsTheForwardOffsets(t *testing.T) {
	forward := program(map[string]int64{"a.w": 100, "b.w": 300})
	plan := solve(t, forward, Inference())
	backward := program(map[string]int64{"a.w": 100, "b.w": 320})
	back := &backward.Buffers[5]
	back.Content, back.Form = "b.w transposed", "panel16"
	w, err := FromForward(forward, plan)
	require.NoError(t, err)
	before, ok := w.Slot("a.w")
	require.True(t, ok)
	require.NoError(t, w.Extend(Inference(), backward))
	require.Equal(t, 2, w.Programs)
	both, _ := w.Slot("a.w")
	require.Equal(t, []int{0, 1}, both.Programs)
	require.Equal(t, before.Offset, both.Offset)
	own, _ := w.Slot("b.w transposed")
	require.Equal(t, "panel16", own.Form)
	require.Equal(t, []int{1}, own.Programs)
	require.GreaterOrEqual(t, own.Offset, plan.Committed)
	activations := solve(t, backward, BackwardActivationsOnly())
	require.NoError(t, w.Apply(backward, activations))
	require.NoError(t, Check(backward, activations))
	require.NoError(t, checkSlowly(backward, activations))
}
