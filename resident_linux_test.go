//go:build !race && !noasm

package rlxc

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/quantize"
)

var (
	residentOf       = flag.String("resident", "", "the model that TestResident runs in this process; it starts itself with it")
	residentPrograms = flag.Int("resident-programs", 1, "how many programs of it there are")
)

// residentSizes go up and down again.
var residentSizes = [][2]int{{1, 512}, {8, 512}, {1, 32}}

// A residentLine is what the process that runs the model found after loading it, and at each of the sizes that it was reported.
type residentLine struct {
	Expected, Resident int64
	Peak               int64 // so far
	Empty              int64 // before the model was opened
}

// TestResident compares the memory of a process that only runs MiniLM, at sizes that go up and down, with what the plans
// estimated before. The model is as its file is, compiled, or quantised.
func TestResident(t *testing.T) {
	if *residentOf != "" {
		runResident(t, *residentOf)
		return
	}
	model, compiled := residentModels(t)
	for _, path := range []string{model, compiled, int4Model(t)} {
		_, _, lines := startResident(t, 1, path, residentSizes...)
		largest := int64(0)
		for i, size := range residentSizes {
			got := lines[i]
			t.Logf("%s %v: expected %d bytes, there are %d", filepath.Base(path), size, got.Expected, got.Resident)
			const garbage = 2e6 // what the heap holds between two collections
			require.InDelta(t, got.Expected, got.Resident, 0.05*float64(got.Expected)+garbage, "%s %v", path, size)
			largest = max(largest, got.Resident)
			require.LessOrEqual(t, got.Peak, largest+8e6, "%s %v: compiling takes no more than running", path, size)
		}
	}
}

// TestProgramsShareWeights: four programs of one model, compiled for other threads and with the times of steps, take what one takes.
func TestProgramsShareWeights(t *testing.T) {
	model, _ := residentModels(t)
	_, one, _ := startResident(t, 1, model)
	_, four, _ := startResident(t, 4, model)
	t.Logf("one program takes %d bytes, four %d", one.Resident-one.Empty, four.Resident-four.Empty)
	require.Less(t, float64(four.Resident), 1.05*float64(one.Resident)+3e6) // three times what a program has besides weights
}

// TestSharedPages: two processes that run one compiled file hold its weights once.
func TestSharedPages(t *testing.T) {
	_, compiled := residentModels(t)
	first, _, _ := startResident(t, 1, compiled, residentSizes...)
	second, _, _ := startResident(t, 1, compiled, residentSizes...)
	for _, process := range []int{first, second} {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", process))
		require.NoError(t, err)
		resident, share := memoryLine(t, status, "Rss"), memoryLine(t, status, "Pss")
		t.Logf("%d bytes are resident, of which this process answers for %d", resident, share)
		require.Less(t, float64(share), 0.65*float64(resident))
	}
}

// TestNoDequantisedWeights: a loaded model takes about as much memory as its file has bytes, so that no weight of 8 or 4 bits is
// there as floats besides, which would be four or eight times as much.
func TestNoDequantisedWeights(t *testing.T) {
	for _, path := range []string{fixtures.Model(t, "minilm-int8-dynamic"), int4Model(t)} {
		file, err := os.Stat(path)
		require.NoError(t, err)
		_, loaded, _ := startResident(t, 1, path)
		ratio := float64(loaded.Resident-loaded.Empty) / float64(file.Size())
		t.Logf("%s: resident after load %.2f of the file", path, ratio)
		require.LessOrEqual(t, ratio, 1.3, path)
	}
}

// int4Model writes MiniLM with 4-bit weights as a quantiser writes it, in large pieces, which page faults map whole from Linux 6.18 on.
func int4Model(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "int4.onnx")
	m, err := Open(fixtures.Model(t, "minilm"))
	require.NoError(t, err)
	defer m.Close()
	small, _, err := m.Quantize(context.Background(), QuantizeOptions{Form: quantize.Int4})
	require.NoError(t, err)
	require.NoError(t, onnx.Save(path, small.(*onnxpb.ModelProto)))
	return path
}

// residentModels are MiniLM and what it is compiled to.
func residentModels(t *testing.T) (model, compiled string) {
	model, compiled = filepath.Join(t.TempDir(), "model.onnx"), filepath.Join(t.TempDir(), "minilm.rlxc")
	inPieces(t, fixtures.Model(t, "minilm"), model)
	m, err := Open(model)
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(context.Background(), CompileOptions{})
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.Save(compiled))
	return model, compiled
}

// inPieces copies a file by 64 KiB at a time: a page fault maps the whole piece in which the page cache holds a page, and how large that
// is depends on who has read or written the file.
func inPieces(t *testing.T, from, to string) {
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	f, err := os.Create(to)
	require.NoError(t, err)
	for piece := range slices.Chunk(data, 64<<10) {
		_, err := f.Write(piece)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
}

// startResident starts a process that loads a model, compiles that many programs of it, runs the last at the sizes, and stays until the
// test ends.
func startResident(t *testing.T, programs int, path string, sizes ...[2]int) (process int, loaded residentLine, lines []residentLine) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "-test.run=^TestResident$", "-resident", path, "-resident-programs", strconv.Itoa(programs))
	cmd.Env = append(os.Environ(), "RLXC_VERIFY=") // the verifier's own memory is not what is predicted
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
	question, answer := json.NewEncoder(in), json.NewDecoder(out)
	require.NoError(t, answer.Decode(&loaded))
	for _, size := range sizes {
		var line residentLine
		require.NoError(t, question.Encode(size))
		require.NoError(t, answer.Decode(&line))
		lines = append(lines, line)
	}
	return cmd.Process.Pid, loaded, lines
}

// runResident prints a line when the model is loaded, and for each size that it reads, and ends when its input does.
func runResident(t *testing.T, path string) {
	answer := func(expected, empty int64) {
		now, peak := memory.Resident()
		require.NoError(t, json.NewEncoder(os.Stdout).Encode(residentLine{Expected: expected, Resident: now, Peak: peak, Empty: empty}))
	}
	empty, _ := memory.Resident()
	m, err := Open(path)
	require.NoError(t, err)
	var p *Program
	for i := range *residentPrograms {
		p, err = m.Compile(context.Background(), CompileOptions{Threads: []int{0, 1}[i%2], Profile: i > 1})
		require.NoError(t, err)
	}
	s, err := p.NewSession()
	require.NoError(t, err)
	answer(0, empty)
	question := json.NewDecoder(os.Stdin)
	for {
		var size [2]int
		if question.Decode(&size) != nil {
			return
		}
		plan, err := p.Plan(map[string]int{"batch": size[0], "seq": size[1]})
		require.NoError(t, err)
		plan.Measure()
		in := encoderInputs(size[0], size[1])
		random := rand.New(rand.NewPCG(1, 2))
		for i := range in["input_ids"].Len() {
			in["input_ids"].SetInt64(i, random.Int64N(30000))
		}
		_, err = s.Run(context.Background(), in)
		require.NoError(t, err)
		answer(plan.Resident, empty)
	}
}

// memoryLine reads a line of a status in /proc.
func memoryLine(t *testing.T, status []byte, what string) int64 {
	found := regexp.MustCompile(`(?m)^` + what + `:\s+(\d+) kB$`).FindSubmatch(status)
	require.NotNil(t, found)
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	require.NoError(t, err)
	return kib << 10
}
