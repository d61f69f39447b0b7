package wgpu_test

import (
	"testing"

	"github.com/rlxc/rlxc/internal/modeltest"
)

func TestDeviceTensors(t *testing.T) {
	needLibrary(t)
	for _, backend := range []string{"cpu", "wgpu"} {
		t.Run(backend, func(t *testing.T) { modeltest.DeviceTensors(t, backend) })
	}
}

func TestDeviceTensorsBetweenBackends(t *testing.T) {
	needLibrary(t)
	modeltest.DeviceTensorsBetween(t, "wgpu", "cpu")
}

func TestResultsAsInputs(t *testing.T) {
	needLibrary(t)
	for _, backend := range []string{"cpu", "wgpu"} {
		t.Run(backend, func(t *testing.T) { modeltest.ResultsAsInputs(t, backend) })
	}
}

func TestUnpadCut(t *testing.T) {
	needLibrary(t)
	for _, backend := range []string{"cpu", "wgpu"} {
		t.Run(backend, func(t *testing.T) { modeltest.UnpadCut(t, backend) })
	}
}

func TestDecoderCache(t *testing.T) {
	needLibrary(t)
	for _, backend := range []string{"cpu", "wgpu"} {
		t.Run(backend, func(t *testing.T) { modeltest.DecoderCache(t, backend) })
	}
}
