package wgpu

import (
	"testing"

	"github.com/rlxc/rlxc/internal/backendtest"
)

func TestGivesBack(t *testing.T) { backendtest.GivesBack(t, open(t, 0)) }

func TestHostMemory(t *testing.T) { backendtest.HostMemory(t, open(t, 0)) }
