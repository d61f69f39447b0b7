//go:build gpu

package wholemodels

import (
	"github.com/rlxc/rlxc"
	_ "github.com/rlxc/rlxc/backend/cuda"
)

// With the tag gpu, sequences of sizes run on the NVIDIA device of this machine as well, and no others with -model-sequences=1.
func init() {
	cacheBackends = append(cacheBackends, "cuda")
	sequenceWays = append(sequenceWays[:0:0], sequenceWays...)
	for _, unpad := range []bool{false, true} {
		w := sequenceWays[0]
		w.name, w.options, w.long = "cuda", rlxc.CompileOptions{Backend: "cuda", Unpad: unpad}, true
		if unpad {
			w.name = "cuda, unpadded"
		}
		sequenceWays = append(sequenceWays, w)
	}
}
