package robustness

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// A hostile case: a model file and what it must give.
type hostile struct {
	name  string
	model []byte
	// want is what the child must say: "refused TEXT" with TEXT in the error, whichever stage refuses; "returns TEXT" with
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
	"floats":        floats,
	"lists":         lists,
	"resources":     resources,
	"declarations":  declarations,
	"weight-data":   weightData,
	"trees":         trees,
	"long":          long,
	"edges":         edges,
	"empties":       empties,
	"meanings":      meanings,
	"stored":        stored,
	"convolutions":  convolutions,
	"caches":        caches,
}

// together is how many cases of a category share a child, where they are many and small. Elsewhere each has its own.
var together = map[string]int{"truncated": 32, "overflow": 8, "integers": 32, "attributes": 32, "names": 16, "operands": 16,
	"schemas": 32, "floats": 32,
	"lists": 32, "weight-data": 32, "declarations": 8, "edges": 32, "empties": 16, "meanings": 32, "stored": 16, "convolutions": 16,
	"caches": 16, "structure": 16, "wire": 16, "functions": 8, "trees": 8, "control-flow": 8, "external-data": 8}

// unprintable is what no message may hold: it would reach a terminal.
var unprintable = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f\x{202a}-\x{202e}\x{2066}-\x{2069}]`)

const longestError = 16 << 10

func TestCorpus(t *testing.T) {
	total := 0
	gate := make(chan struct{}, runtime.NumCPU())
	var mu sync.Mutex
	for category, cases := range categories {
		t.Run(category, func(t *testing.T) {
			share := make([]hostile, 0, max(1, together[category])) // of one child
			run := func(t *testing.T) {
				list := share
				share = make([]hostile, 0, cap(share))
				if len(list) == 0 {
					return
				}
				t.Run(list[0].name, func(t *testing.T) { // and those after it
					t.Parallel()
					gate <- struct{}{}
					defer func() { <-gate }()
					check(t, list)
				})
			}
			for _, c := range cases() {
				mu.Lock()
				total++
				mu.Unlock()
				if share = append(share, c); len(share) == cap(share) {
					run(t)
				}
			}
			run(t)
		})
	}
	require.GreaterOrEqual(t, total, 300)
}

// check runs cases in one child.
func check(t *testing.T, cases []hostile) {
	root := t.TempDir()
	outside := filepath.Join(root, "outside")
	require.NoError(t, os.Mkdir(outside, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "secret"), make([]byte, 4096), 0o644))
	var paths []string
	for i, c := range cases {
		dir := filepath.Join(root, fmt.Sprint("model", i))
		require.NoError(t, os.Mkdir(dir, 0o755))
		paths = append(paths, filepath.Join(dir, "model.onnx"))
		require.NoError(t, os.WriteFile(paths[i], c.model, 0o644))
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
	}
	w, err := watchFolder(outside)
	require.NoError(t, err)
	defer w.close()
	reports := spawn(paths)
	require.Empty(t, w.opened(), "files outside the model's folder were opened")
	limit := int64(refusalMemory)
	if slices.ContainsFunc(reports, func(r report) bool { return r.Stage == "done" }) {
		limit = acceptMemory
	}
	assert.Less(t, reports[0].memory, limit, "bytes of memory from %s on", cases[0].name)
	for i, c := range cases {
		reports[i].Error = strings.ReplaceAll(reports[i].Error, root, "") // whose name has words of the case
		c.judge(t, reports[i])
		if reports[i].crash != "" {
			break // and with it the child
		}
	}
}

func (c hostile) judge(t *testing.T, r report) {
	t.Helper()
	verdict, text, _ := strings.Cut(c.want, " ")
	said := fmt.Sprintf("%s: %s: %s%v", c.name, r.Stage, r.Error, r.Outputs)
	require.Empty(t, r.crash, said)
	assert.Empty(t, unprintable.FindString(r.Error), "the error would reach a terminal: %q", r.Error)
	assert.Less(t, len(r.Error), longestError, c.name)
	assert.NotContains(t, r.Error, "internal error", c.name)
	assert.NotContains(t, r.Error, "runtime error", c.name)
	assert.Empty(t, r.Differ, said)
	accepted := r.Stage == "done"
	switch verdict {
	case "refused":
		assert.False(t, accepted, said)
		assert.Contains(t, r.Error, text, said)
	case "returns":
		assert.True(t, accepted, said)
		assert.Contains(t, strings.Join(r.Outputs, " "), text, said)
	case "either":
	default:
		t.Fatalf("want is %q", c.want)
	}
	if !accepted {
		assert.Less(t, r.CPU, refusalTime, said)
	}
}
