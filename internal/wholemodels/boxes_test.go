package wholemodels

import (
	"archive/zip"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/tensor"
)

// boxModels are models of each kind, and their largest sizes. Those without a line in exports are fixtures.
var boxModels = []struct {
	name string
	most map[string]int
}{
	{"bert-tiny", nil}, {"distilbert", nil}, {"bert-tiny-fp16", nil}, // encoders
	{"bert-tiny-int8-dynamic", nil}, {"bert-tiny-int8-qdq", nil}, {"bert-tiny-int4", nil}, // quantised
	{"deberta-legacy-17", nil}, {"modernbert-legacy-17", nil},
	{"gpt2-dynamo-23", map[string]int{"batch": 4, "seq": 8, "past": 24}}, // decoders
	{"llama-legacy-17", map[string]int{"batch": 4, "seq": 8, "past": 24}},
	{"resnet-legacy-17", map[string]int{"batch": 4, "8_height": 8, "8_width": 8}}, // convolutions
	{"vit-legacy-17", map[string]int{"batch": 12}},
}

var boxRuns = flag.Int("box-runs", 50, "how many times TestBoxesOfModels runs a model; above 50 in batches of up to 32, without proofs")

// TestBoxesOfModels runs models at random sizes. Their arenas are those of plans for these sizes alone, or little more, and their plans
// are few.
func TestBoxesOfModels(t *testing.T) {
	t.Chdir(root)
	for _, x := range boxModels {
		t.Run(x.name, func(t *testing.T) {
			var folder fs.FS
			if _, ok := exports[x.name]; ok {
				z, err := zip.OpenReader(filepath.Join("testdata/exports", x.name+".zip"))
				require.NoError(t, err)
				defer z.Close()
				folder = z
			} else {
				folder = os.DirFS(fixtures.Dir(t, x.name))
			}
			m, err := rlxc.OpenFS(folder, "model.onnx")
			require.NoError(t, err)
			defer m.Close()
			p, err := m.Compile(context.Background(), rlxc.CompileOptions{Threads: 1, Verify: *boxRuns <= 50})
			require.NoError(t, err)
			defer p.Close()
			alone, err := m.Compile(context.Background(), rlxc.CompileOptions{Threads: 1})
			require.NoError(t, err)
			defer alone.Close()
			s, err := inside.Program(p).NewSession()
			require.NoError(t, err)
			defer s.Close()
			most := x.most
			if most == nil {
				most = map[string]int{"batch": 4, "seq": 64}
			}
			if most = maps.Clone(most); *boxRuns > 50 {
				most["batch"] = 32
			}
			rnd, seen, worst := rand.New(rand.NewPCG(39, 3)), map[string]bool{}, 1.0
			var news []time.Duration // by which the first run at a size took longer than another
			for range *boxRuns {
				sizes, inputs := map[string]int{}, map[string]*tensor.Tensor{}
				for _, name := range slices.Sorted(maps.Keys(most)) {
					sizes[name] = 1 + rnd.IntN(most[name])
				}
				sizes["total"] = sizes["past"] + sizes["seq"]
				sizes["s53"] = sizes["total"]
				used := map[string]int{}
				for _, in := range p.Inputs() {
					var shape []int
					for _, d := range in.Shape {
						n, err := strconv.Atoi(d)
						if err != nil {
							if name, err := strconv.Unquote(d); err == nil {
								d = name
							}
							n = sizes[d]
							used[d] = n
						}
						shape = append(shape, n)
					}
					inputs[in.Name] = tensor.New(in.DType, shape...)
					if strings.Contains(in.Name, "mask") {
						for i := range inputs[in.Name].Len() {
							inputs[in.Name].SetInt64(i, 1)
						}
					}
				}
				run := func() time.Duration {
					start := time.Now()
					_, err := s.Run(context.Background(), inputs)
					require.NoError(t, err, "%v", used)
					return time.Since(start)
				}
				first := run()
				if size := fmt.Sprint(used); !seen[size] {
					seen[size] = true
					news = append(news, first-min(run(), run()))
				}
				if len(seen) > 50 {
					continue
				}
				got := s.ArenaBytes()
				r, err := alone.Plan(used)
				require.NoError(t, err)
				own := r.Plan.Committed
				for _, stage := range r.Stages {
					own += stage.Plan.Committed
				}
				if more := got - own; more > 4096 {
					worst = max(worst, float64(got)/float64(own))
				}
			}
			stats, before := p.CacheStats(), alone.CacheStats()
			slices.Sort(news)
			t.Logf("%d sizes: %d plans made, %d kept, %d bytes, where a plan a size takes %d; the first run at a size takes %v more; "+
				"arena at most %.4f of a plan of that size, beyond a page", len(seen), stats.Planned, stats.Plans, stats.Bytes,
				before.Bytes/int64(before.Plans)*int64(len(seen)), news[len(news)/2], worst)
			require.LessOrEqual(t, worst, 1.01)
		})
	}
}
