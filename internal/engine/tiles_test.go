package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/internal/frontend"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/tensor"
)

// BenchmarkTiles runs MiniLM's layout by turns with and without results over queries and tiles of feed-forward layers. It prints arenas,
// and the ratio of the fastest runs.
func BenchmarkTiles(b *testing.B) {
	c, ok := models.Lookup("minilm-like")
	require.True(b, ok)
	proto, err := models.Build(c)
	require.NoError(b, err)
	for _, threads := range []int{1, 2} {
		for _, size := range [][2]int{{1, 32}, {1, 128}, {1, 512}, {8, 128}, {32, 128}} {
			b.Run(fmt.Sprintf("%dx%d/%d threads", size[0], size[1], threads), func(b *testing.B) {
				sessions, least, arenas := [2]*engine.Session{}, [2]time.Duration{}, [2]int64{}
				for i := range sessions {
					src, err := frontend.FromProto(proto, "minilm-like", nil)
					require.NoError(b, err)
					defer src.Close()
					p, err := engine.Compile(context.Background(), src, src.Graph, options.Compile{Threads: threads})
					require.NoError(b, err)
					defer p.Close()
					if i == 1 {
						p.Plainly()
					}
					sessions[i], err = p.NewSession()
					require.NoError(b, err)
					defer sessions[i].Close()
				}
				in := map[string]*tensor.Tensor{}
				for _, name := range []string{"input_ids", "attention_mask", "token_type_ids"} {
					in[name] = tensor.New(tensor.I64, size[0], size[1])
					for k := range in[name].Len() {
						in[name].SetInt64(k, 1)
					}
				}
				for b.Loop() {
					for i, s := range sessions {
						start := time.Now()
						_, err := s.Run(context.Background(), in)
						require.NoError(b, err)
						if took := time.Since(start); least[i] == 0 || took < least[i] {
							least[i] = took
						}
						arenas[i] = s.ArenaBytes()
					}
				}
				b.ReportMetric(float64(arenas[1]), "B-before")
				b.ReportMetric(float64(arenas[0]), "B-after")
				b.ReportMetric(float64(least[0])/float64(least[1]), "after/before")
			})
		}
	}
}
