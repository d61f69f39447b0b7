package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"
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
		{[]string{"-", ""}, []part{{false, "-"}, {false, ""}}},
		{[]string{"B-A", "Q-A"}, []part{{true, "A"}, {false, "Q-A"}}},
	} {
		m := &Model{Description: &Description{config: config{labels: c.labels}}}
		for i, label := range c.labels {
			begins, kind := m.split(label)
			require.Equal(t, c.want[i], part{begins, kind}, "%q of %q", label, c.labels)
		}
	}
}
