//go:build gpu

package cuda_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	"github.com/rlxc/rlxc/tensor"
)

// lengthLists are lengths of sequences: log-normal, with these medians and deviations.
var lengthLists = []struct {
	name           string
	median, spread float64
	least, most    int
}{{"queries", 8, 0.5, 3, 32}, {"passages", 80, 0.6, 10, 384}, {"mixed", 30, 1.2, 3, 512}}

// TestTexts prints what leaving padding out brings: tokens that are no padding a second, of batches as they come, with padding, without,
// and of rows that have none from the start; and where the device's time goes. It asserts nothing. RLXC_SPEED names models and precisions
// as for TestSpeed.
func TestTexts(t *testing.T) {
	for _, what := range strings.Split(os.Getenv("RLXC_SPEED"), ",") {
		name, precision, _ := strings.Cut(what, ":")
		if name == "" {
			continue
		}
		m := modeltest.BuiltIn(t, name)
		o := rlxc.CompileOptions{Backend: "cuda", Precision: parsePrecision(t, precision)}
		withPadding := modeltest.Session(t, m, o)
		o.Unpad = true
		without := modeltest.Session(t, m, o)
		o.Profile = true
		profiled := modeltest.Session(t, m, o)
		r, ctx := rand.New(rand.NewPCG(1, 1)), context.Background()
		for _, list := range lengthLists {
			for _, sequences := range []int{32, 128} {
				lengths, starts, tokens := make([]int, sequences), []int{0}, 0
				for i := range lengths {
					lengths[i] = min(max(int(math.Round(list.median*math.Exp(list.spread*r.NormFloat64()))), list.least), list.most)
					tokens += lengths[i]
					starts = append(starts, tokens)
				}
				longest := slices.Max(lengths)
				in := modeltest.BERT(sequences, longest, r)
				rows := rlxc.PackedBatch{Starts: starts, Inputs: rlxc.Tensors{}}
				for name, x := range in {
					if name != "attention_mask" {
						rows.Inputs[name] = tensor.FromSlice(tensor.Of[int64](x)[:tokens], tokens)
					}
				}
				for i := range in["attention_mask"].Len() {
					in["attention_mask"].SetInt64(i, 0)
					if i%longest < lengths[i/longest] {
						in["attention_mask"].SetInt64(i, 1)
					}
				}
				median := func(run func() error) float64 {
					var times []time.Duration
					for begin := time.Now(); len(times) < 11 || time.Since(begin) < 50*time.Millisecond; {
						start := time.Now()
						require.NoError(t, run())
						times = append(times, time.Since(start))
					}
					slices.Sort(times)
					return times[len(times)/2].Seconds() * 1e3
				}
				a := median(func() error { _, err := withPadding.Run(ctx, in); return err })
				b := median(func() error { _, err := without.Run(ctx, in); return err })
				c := median(func() error { _, err := without.RunPacked(ctx, rows); return err })
				fmt.Printf("%s %s %s, %d sequences, the longest %d: %d tokens, %.2f positions a token, padded %.3f ms, without %.3f ms, "+
					"rows %.3f ms, %.0f, %.0f and %.0f tokens/s, rows %.2f times\n", name, precision, list.name, sequences,
					longest, tokens, float64(sequences*longest)/float64(tokens), a, b, c, float64(tokens)/a*1e3, float64(tokens)/b*1e3,
					float64(tokens)/c*1e3, a/c)
				for range 3 {
					_, err := profiled.RunPacked(ctx, rows)
					require.NoError(t, err)
				}
				printProfile(profiled)
			}
		}
	}
}

// printProfile prints the ops that take most of a run.
func printProfile(s *rlxc.Session) {
	byOp := map[string]time.Duration{}
	for _, step := range s.Profile() {
		byOp[step.Op] += step.End - step.Start
	}
	for i, op := range slices.SortedFunc(maps.Keys(byOp), func(a, b string) int { return cmp.Compare(byOp[b], byOp[a]) }) {
		if i < 6 {
			fmt.Printf("    %s %.3f", op, byOp[op].Seconds()*1e3)
		}
	}
	fmt.Println()
}
