package robustness

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// A hostile case: a model file and what it must give.
type hostile struct {
	name  string
	model []byte
	// want is what the child must say: "refused TEXT" with TEXT in the error, whichever stage refuses; "gives TEXT" with
	// TEXT in the outputs; "either" where the file is accepted or refused, but in good order.
	want   string
	inputs map[string][]int64
	// files are written beside the model, before prepare.
	files   map[string][]byte
	prepare func(dir, outside string) error
}

// of makes a case of a model that was built.
func of(name, want string, m *onnxpb.ModelProto) hostile {
	return hostile{name: name, model: encode(m), want: want}
}

// categories are the parts of the corpus.
var categories = map[string]func() []hostile{
	"truncated":     truncated,
	"wire":          wire,
	"overflow":      overflow,
	"allocation":    allocation,
	"integers":      integerCorners,
	"attributes":    attributes,
	"structure":     structure,
	"functions":     functions,
	"control-flow":  controlFlow,
	"names":         hostileNames,
	"external-data": externalData,
	"operands":      operands,
	"large":         large,
	"schemas":       schemas,
	"resources":     resources,
	"declarations":  declarations,
	"weight-data":   weightData,
}

// unprintable is what no message may hold: it would reach a terminal.
var unprintable = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f\x{202a}-\x{202e}\x{2066}-\x{2069}]`)

const longestError = 16 << 10

func TestCorpus(t *testing.T) {
	total := 0
	gate := make(chan struct{}, runtime.NumCPU())
	var mu sync.Mutex
	for category, cases := range categories {
		t.Run(category, func(t *testing.T) {
			for _, c := range cases() {
				mu.Lock()
				total++
				mu.Unlock()
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					gate <- struct{}{}
					defer func() { <-gate }()
					c.check(t)
				})
			}
		})
	}
	require.GreaterOrEqual(t, total, 300)
}

func (c hostile) check(t *testing.T) {
	root := t.TempDir()
	dir, outside := filepath.Join(root, "model"), filepath.Join(root, "outside")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.Mkdir(outside, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "secret"), make([]byte, 4096), 0o644))
	path := filepath.Join(dir, "model.onnx")
	require.NoError(t, os.WriteFile(path, c.model, 0o644))
	for name, data := range c.files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	if c.inputs != nil {
		data, err := json.Marshal(c.inputs)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "inputs.json"), data, 0o644))
	}
	if c.prepare != nil {
		require.NoError(t, c.prepare(dir, outside))
	}
	w, err := watchFolder(outside)
	require.NoError(t, err)
	defer w.close()
	r := spawn(path)
	require.Empty(t, w.opened(), "files outside the model's folder were opened")
	require.Empty(t, r.crash)
	require.Empty(t, unprintable.FindString(r.Error), "the error would reach a terminal: %q", r.Error)
	require.Less(t, len(r.Error), longestError)
	require.NotContains(t, r.Error, "internal error")
	require.NotContains(t, r.Error, "runtime error")
	require.Empty(t, r.Differ)
	verdict, text, _ := strings.Cut(c.want, " ")
	said := fmt.Sprintf("%s: %s%v", r.Stage, r.Error, r.Outputs)
	accepted := r.Stage == "done"
	switch verdict {
	case "refused":
		require.False(t, accepted, said)
		require.Contains(t, r.Error, text, said)
	case "gives":
		require.True(t, accepted, said)
		require.Contains(t, strings.Join(r.Outputs, " "), text)
	case "either":
	default:
		t.Fatalf("want is %q", c.want)
	}
	if accepted {
		require.Less(t, r.memory, int64(acceptMemory))
		return
	}
	require.Less(t, r.memory, int64(refusalMemory), said)
	require.Less(t, r.cpu, refusalTime, said)
}
