package conformance

import (
	"os"

	_ "github.com/rlxc/rlxc/backend/wgpu" // run where RLXC_WGPU names its library
)

func init() {
	if os.Getenv("RLXC_WGPU") != "" {
		backends = append(backends, "wgpu")
	}
}
