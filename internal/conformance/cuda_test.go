//go:build gpu

package conformance

// Where there is an NVIDIA device: go test -tags gpu ./conformance -run TestNodes/cuda
func init() { backends = append(backends, "cuda") }
