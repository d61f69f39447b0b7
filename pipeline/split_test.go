package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tokenizer"
)

// TestSplitLabels divides labels of every form: a prefix has a dash after it.
func TestSplitLabels(t *testing.T) {
	type part struct {
		begins bool
		kind   string
	}
	for _, c := range []struct {
		labels []string
		want   []part
	}{
		{[]string{"B-PER", "I-PER", "O", "B", "I"}, []part{{true, "PER"}, {false, "PER"}, {false, "O"}, {false, "B"}, {false, "I"}}},
		{[]string{"U-PER", "L-PER", "B-X-Y"}, []part{{true, "PER"}, {false, "PER"}, {true, "X-Y"}}},
		{[]string{"S-A", "E-A", "O"}, []part{{true, "A"}, {false, "A"}, {false, "O"}}},
		{[]string{"b-per", "i-per", "o"}, []part{{true, "per"}, {false, "per"}, {false, "o"}}},
		{[]string{"s-a", "e-a", "u-b"}, []part{{true, "a"}, {false, "a"}, {true, "b"}}},
		{[]string{"-", ""}, []part{{false, "-"}, {false, ""}}},
		{[]string{"B-A", "Q-A"}, []part{{true, "A"}, {false, "Q-A"}}},
	} {
		m := &Model{Description: &Description{config: config{labels: c.labels}}}
		for i, label := range c.labels {
			begins, kind, _ := m.split(label)
			require.Equal(t, c.want[i], part{begins, kind}, "%q of %q", label, c.labels)
		}
	}
}

// TestActivations holds functions of Dense modules to PyTorch's values.
func TestActivations(t *testing.T) {
	for name, want := range map[string][3]float64{ // at -1.5, 0.5 and 30
		"Softplus": {0.20141328, 0.97407698, 30}, "ELU": {-0.77686984, 0.5, 30}, "Mish": {-0.29809974, 0.37524524, 30},
		"Hardtanh": {-1, 0.5, 1},
	} {
		for i, x := range []float64{-1.5, 0.5, 30} {
			l := &dense{in: 1, out: 1, weight: []float32{1}, activation: activations[name]}
			require.InDelta(t, want[i], built(t, l, float32(x))[0], 1e-7, "%s of %v", name, x)
		}
	}
}

// TestEntitiesEnd holds where entities of BIOES labels end: a single or last token joins no end.
func TestEntitiesEnd(t *testing.T) {
	labels := []string{"O", "B-A", "I-A", "E-A", "S-A", "L-A"}
	m := &Model{Description: &Description{config: config{labels: labels}}}
	for _, row := range []struct {
		name   string
		labels []int
		want   []string
	}{
		{"begin to end", []int{1, 2, 3}, []string{"abc"}},
		{"single before end", []int{4, 3}, []string{"a", "b"}},
		{"last before end", []int{1, 5, 3}, []string{"ab", "c"}},
		{"end of a word's tokens", []int{1, 3, 3}, []string{"abc"}},
		{"two singles", []int{4, 4}, []string{"a", "b"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var pieces []piece
			for i, label := range row.labels {
				p := piece{scores: make([]float64, len(labels)), bytes: tokenizer.Span{Start: i, End: i + 1}}
				p.scores[label] = 1
				pieces = append(pieces, p)
			}
			var got []string
			for _, e := range m.entities("abc", pieces, AggregateSimple, []string{"O"}) {
				got = append(got, e.Text)
			}
			require.Equal(t, row.want, got)
		})
	}
}
