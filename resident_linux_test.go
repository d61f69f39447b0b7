//go:build !race && !noasm

package rlxc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

var residentOf = flag.String("resident", "", "the model that TestResident runs in this process; it starts itself with it")

// residentSizes go up and down again.
var residentSizes = [][2]int{{1, 512}, {8, 512}, {1, 32}}

// A residentLine is what the process that runs the model found at one of the sizes.
type residentLine struct {
	Expected, Resident int64
	Peak               int64 // so far
}

// TestResident compares the memory of a process that only runs MiniLM, at sizes that go up and down, with what the plans
// said before.
func TestResident(t *testing.T) {
	if *residentOf != "" {
		runResident(t, *residentOf)
		return
	}
	dir := os.Getenv("RLXC_FIXTURES")
	if dir == "" {
		t.Skip("RLXC_FIXTURES is not set")
	}
	model := filepath.Join(dir, "minilm", "model.onnx")
	compiled := filepath.Join(t.TempDir(), "minilm.rlxc")
	m, err := Open(model)
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(CompileOptions{})
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.Save(compiled))
	for _, path := range []string{model, compiled} {
		self, err := os.Executable()
		require.NoError(t, err)
		out, err := exec.Command(self, "-test.run=^TestResident$", "-resident", path).Output()
		require.NoError(t, err, "%s", out)
		lines, largest := bufio.NewScanner(bytes.NewReader(out)), int64(0)
		for _, size := range residentSizes {
			require.True(t, lines.Scan(), "%s", out)
			var got residentLine
			require.NoError(t, json.Unmarshal(lines.Bytes(), &got))
			t.Logf("%s %v: expected %d bytes, there are %d", filepath.Base(path), size, got.Expected, got.Resident)
			require.InDelta(t, got.Expected, got.Resident, 0.05*float64(got.Expected)+8e6, "%s %v", path, size)
			largest = max(largest, got.Resident)
			require.LessOrEqual(t, got.Peak, largest+8e6, "%s %v: compiling takes no more than running", path, size)
		}
	}
}

// runResident prints a line for each size.
func runResident(t *testing.T, path string) {
	m, err := Open(path)
	require.NoError(t, err)
	p, err := m.Compile(CompileOptions{})
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	for _, size := range residentSizes {
		plan, err := p.Plan(map[string]int{"batch": size[0], "seq": size[1]})
		require.NoError(t, err)
		in := encoderInputs(size[0], size[1])
		for i := range in["input_ids"].Len() {
			in["input_ids"].SetInt64(i, int64(i*7919%30000))
		}
		_, err = s.Run(context.Background(), in)
		require.NoError(t, err)
		line, err := json.Marshal(residentLine{plan.Resident, residentMemory(t, "VmRSS"), residentMemory(t, "VmHWM")})
		require.NoError(t, err)
		fmt.Println(string(line))
	}
}

// residentMemory is the memory of this process: VmRSS now, or VmHWM at its highest.
func residentMemory(t *testing.T, what string) int64 {
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^` + what + `:\s+(\d+) kB$`).FindSubmatch(status)
	require.NotNil(t, found)
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	require.NoError(t, err)
	return kib << 10
}
