package wgpu

import (
	"log"
	"os"
	"testing"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/native"
)

// SetFirstSubmit changes the number of dispatches that are submitted alone, and returns the old one.
func SetFirstSubmit(n int) int {
	old := firstSubmit
	firstSubmit = n
	return old
}

// openAlone opens a Device with a separate accelerator, whose adapter has less than the machine's.
func openAlone(o backend.Options, lessen ...func(*native.Adapter)) (*Device, error) {
	lib, err := native.Open("")
	if err != nil {
		return nil, err
	}
	adapters := lib.Adapters()
	a, err := native.Choose(adapters, o.Device)
	if err != nil {
		releaseAdapters(adapters)
		return nil, err
	}
	for _, f := range lessen {
		f(a)
	}
	x, err := newAccelerator(lib, adapters, a)
	if err != nil {
		return nil, err
	}
	return x.device(o)
}

// TestMain holds an accelerator, so that tests share the pipelines that they have in common.
func TestMain(m *testing.M) {
	if os.Getenv(native.EnvLibrary) != "" {
		if _, err := Open(backend.Options{}); err != nil {
			log.Fatal(err)
		}
	}
	m.Run()
}

// Open is exported to tests: others find the backend by its name.
var Open = openDevice

// WeightBytes is the size of the weights on all accelerators in bytes.
func WeightBytes() (bytes int64) {
	accelerators.Lock()
	defer accelerators.Unlock()
	for _, x := range accelerators.by {
		x.mu.Lock()
		for _, w := range x.weights {
			for _, b := range w.pieces {
				bytes += b.Size
			}
		}
		x.mu.Unlock()
	}
	return bytes
}
