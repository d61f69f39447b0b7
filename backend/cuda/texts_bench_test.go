//go:build gpu

package cuda_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/modeltest"
)

// textLists are lengths of texts: log-normal, with these medians and deviations.
var textLists = []struct {
	name           string
	median, spread float64
	least, most    int
}{{"queries", 8, 0.5, 3, 32}, {"passages", 80, 0.6, 10, 384}, {"mixed", 30, 1.2, 3, 512}}

// TestTexts prints what leaving padding out brings: tokens that are no padding a second, of batches as they come, with padding and without; it
// asserts nothing. RLXC_SPEED names models and precisions as for TestSpeed.
func TestTexts(t *testing.T) {
	for _, what := range strings.Split(os.Getenv("RLXC_SPEED"), ",") {
		name, precision, _ := strings.Cut(what, ":")
		if name == "" {
			continue
		}
		m := modeltest.BuiltIn(t, name)
		var sessions []*rlxc.Session
		for _, unpad := range []bool{false, true} {
			sessions = append(sessions, modeltest.Session(t, m, rlxc.CompileOptions{Backend: "cuda", Precision: parsePrecision(t, precision), Unpad: unpad}))
		}
		r := rand.New(rand.NewPCG(1, 1))
		for _, list := range textLists {
			for _, texts := range []int{32, 128} {
				var batches []rlxc.Tensors
				tokens, places := 0, 0
				for range 2 {
					lengths := make([]int, texts)
					for i := range lengths {
						lengths[i] = min(max(int(math.Round(list.median*math.Exp(list.spread*r.NormFloat64()))), list.least), list.most)
						tokens += lengths[i]
					}
					longest := slices.Max(lengths)
					places += texts * longest
					in := modeltest.BERT(texts, longest, r)
					for i := range in["attention_mask"].Len() {
						in["attention_mask"].SetInt64(i, 0)
						if i%longest < lengths[i/longest] {
							in["attention_mask"].SetInt64(i, 1)
						}
					}
					batches = append(batches, in)
				}
				var total [2]time.Duration
				for i, s := range sessions {
					for _, in := range batches {
						var times []time.Duration
						for begin := time.Now(); len(times) < 15 || time.Since(begin) < 60*time.Millisecond; {
							start := time.Now()
							_, err := s.Run(context.Background(), in)
							require.NoError(t, err)
							times = append(times, time.Since(start))
						}
						slices.Sort(times)
						total[i] += times[len(times)/2]
					}
				}
				fmt.Printf("%s %s %s, %d texts: %d tokens, %.2f places a token, padded %.3f ms, without %.3f ms, %.0f and %.0f tokens/s, %.2f times\n", name, precision, list.name, texts, tokens/2,
					float64(places)/float64(tokens), total[0].Seconds()*500, total[1].Seconds()*500, float64(tokens)/total[0].Seconds(), float64(tokens)/total[1].Seconds(), float64(total[0])/float64(total[1]))
			}
		}
	}
}
