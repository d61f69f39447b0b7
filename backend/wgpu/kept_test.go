package wgpu_test

import (
	"testing"

	"github.com/rlxc/rlxc/internal/modeltest"
)

func TestKept(t *testing.T) {
	needLibrary(t)
	for _, backend := range []string{"cpu", "wgpu"} {
		t.Run(backend, func(t *testing.T) { modeltest.Kept(t, backend) })
	}
}

func TestKeptBetweenBackends(t *testing.T) {
	needLibrary(t)
	modeltest.KeptBetween(t, "wgpu", "cpu")
}

func TestResultsAsInputs(t *testing.T) {
	needLibrary(t)
	for _, backend := range []string{"cpu", "wgpu"} {
		t.Run(backend, func(t *testing.T) { modeltest.ResultsAsInputs(t, backend) })
	}
}

func TestKeptDecoder(t *testing.T) {
	needLibrary(t)
	for _, backend := range []string{"cpu", "wgpu"} {
		t.Run(backend, func(t *testing.T) { modeltest.KeptDecoder(t, backend) })
	}
}
