//go:build !race && !noasm

package rlxc

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
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
	model, compiled := residentModels(t)
	for _, path := range []string{model, compiled} {
		_, lines := startResident(t, path)
		largest := int64(0)
		for i, size := range residentSizes {
			got := lines[i]
			t.Logf("%s %v: expected %d bytes, there are %d", filepath.Base(path), size, got.Expected, got.Resident)
			require.InDelta(t, got.Expected, got.Resident, 0.05*float64(got.Expected)+8e6, "%s %v", path, size)
			largest = max(largest, got.Resident)
			require.LessOrEqual(t, got.Peak, largest+8e6, "%s %v: compiling takes no more than running", path, size)
		}
	}
}

// TestSharedPages: two processes that run one compiled file hold its weights once.
func TestSharedPages(t *testing.T) {
	_, compiled := residentModels(t)
	first, _ := startResident(t, compiled)
	second, _ := startResident(t, compiled)
	for _, process := range []int{first, second} {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", process))
		require.NoError(t, err)
		resident, share := memoryLine(t, status, "Rss"), memoryLine(t, status, "Pss")
		t.Logf("%d bytes are resident, of which this process answers for %d", resident, share)
		require.Less(t, float64(share), 0.65*float64(resident))
	}
}

// residentModels are MiniLM and what it is compiled to.
func residentModels(t *testing.T) (model, compiled string) {
	dir := os.Getenv("RLXC_FIXTURES")
	if dir == "" {
		t.Skip("RLXC_FIXTURES is not set")
	}
	model, compiled = filepath.Join(dir, "minilm", "model.onnx"), filepath.Join(t.TempDir(), "minilm.rlxc")
	m, err := Open(model)
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(CompileOptions{})
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.Save(compiled))
	return model, compiled
}

// startResident starts a process that runs a model at all sizes, and stays until the test ends.
func startResident(t *testing.T, path string) (process int, lines []residentLine) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "-test.run=^TestResident$", "-resident", path)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		out.Close()
		cmd.Wait()
	})
	answer := json.NewDecoder(out)
	for range residentSizes {
		var line residentLine
		require.NoError(t, answer.Decode(&line))
		lines = append(lines, line)
	}
	return cmd.Process.Pid, lines
}

// runResident prints a line for each size, and ends when its input does.
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
		random := rand.New(rand.NewPCG(1, 2))
		for i := range in["input_ids"].Len() {
			in["input_ids"].SetInt64(i, random.Int64N(30000))
		}
		_, err = s.Run(context.Background(), in)
		require.NoError(t, err)
		line, err := json.Marshal(residentLine{plan.Resident, residentMemory(t, "VmRSS"), residentMemory(t, "VmHWM")})
		require.NoError(t, err)
		fmt.Println(string(line))
	}
	io.Copy(io.Discard, os.Stdin)
}

// residentMemory is the memory of this process: VmRSS now, or VmHWM at its highest.
func residentMemory(t *testing.T, what string) int64 {
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	return memoryLine(t, status, what)
}

// memoryLine reads a line of a status in /proc.
func memoryLine(t *testing.T, status []byte, what string) int64 {
	found := regexp.MustCompile(`(?m)^` + what + `:\s+(\d+) kB$`).FindSubmatch(status)
	require.NotNil(t, found)
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	require.NoError(t, err)
	return kib << 10
}
