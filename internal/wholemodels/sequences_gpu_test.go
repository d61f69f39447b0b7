//go:build gpu

package wholemodels

import (
	"github.com/rlxc/rlxc"
	_ "github.com/rlxc/rlxc/backend/cuda"
)

// With the tag gpu, sequences of sizes run on the NVIDIA device of this machine as well, if -model-sequences is above 1.
func init() {
	cacheBackends = append(cacheBackends, "cuda")
	sequenceWays = append(sequenceWays,
		sequenceWay{"cuda", rlxc.CompileOptions{Backend: "cuda"}, true},
		sequenceWay{"cuda, unpadded", rlxc.CompileOptions{Backend: "cuda", Unpad: true}, true})
}
