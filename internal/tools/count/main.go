// Command count has QEMU count the instructions of one run of models for arm64, and compares the vector instructions on floats with
// the least that the products need. `go run ./count CPU FOLDER…`, with the folders of models whose free dimensions are batch and
// seq, needs qemu-aarch64, the C library for arm64, a compiler of C for the plugin, and llvm-mc.
package main

import (
	"cmp"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc/internal/tools/measure"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: go run ./count CPU FOLDER… (a processor of QEMU, such as cortex-a72 or max, and models)")
	}
	folder, err := os.MkdirTemp("", "count")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	c := counter{cpu: os.Args[1], plugin: filepath.Join(folder, "count.so"), rlxc: filepath.Join(folder, "rlxc"),
		out: filepath.Join(folder, "counts")}
	measure.Output(exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", c.plugin, "count/plugin/count.c"))
	build := exec.Command("go", "build", "-o", c.rlxc, "./cmd/rlxc")
	build.Dir, build.Env = measure.Root, append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0")
	measure.Output(build)
	fmt.Println("| model, 1×128 | multiply-adds / 4 | on floats: multiply-adds | others | all | ratio | other arithmetic of vectors | " +
		"loads and stores of vectors | all instructions |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for _, model := range os.Args[2:] {
		c.report(model)
	}
}

type counter struct{ cpu, plugin, rlxc, out string }

// report prints the row of a model.
func (c *counter) report(model string) {
	// What a run with --profile does more than one without is a second run (and the table of its times).
	once, twice := c.counts(model), c.counts(model, "--profile")
	for word, n := range once {
		twice[word] -= n
	}
	maps.DeleteFunc(twice, func(_ uint32, n int64) bool { return n <= 0 })
	of := classify(twice)
	var all int64
	for _, n := range of {
		all += n
	}
	least, floats := float64(c.flops(model))/2/4, of[multiplyAdd]+of[float]
	fmt.Printf("| %s | %.2f M | %.2f M | %.2f M | %.2f M | %.2f | %.2f M | %.2f M | %.2f M |\n", filepath.Base(model), least/1e6,
		millions(of[multiplyAdd]), millions(of[float]),
		millions(floats), float64(floats)/least, millions(of[vector]), millions(of[memory]), millions(all))
}

func millions(n int64) float64 { return float64(n) / 1e6 }

func (c *counter) run(model string, flags ...string) *exec.Cmd {
	args := append([]string{"-cpu", c.cpu, "-plugin", c.plugin + ",out=" + c.out, c.rlxc, "run", model, "--random", "--dim", "batch=1",
		"--dim", "seq=128", "--threads", "1"}, flags...)
	command := exec.Command("qemu-aarch64", args...)
	command.Env = append([]string{"QEMU_LD_PREFIX=/usr/aarch64-linux-gnu"}, os.Environ()...) // Debian's, if none is set
	return command
}

// counts runs a model and returns how often each instruction word was executed.
func (c *counter) counts(model string, flags ...string) map[uint32]int64 {
	measure.Output(c.run(model, flags...))
	text, err := os.ReadFile(c.out)
	if err != nil {
		log.Fatal(err)
	}
	counts := map[uint32]int64{}
	for line := range strings.Lines(string(text)) {
		var word uint32
		var n int64
		if _, err := fmt.Sscanf(line, "%x %d", &word, &n); err != nil {
			log.Fatalf("%s: %q: %v", c.out, line, err)
		}
		counts[word] = n
	}
	return counts
}

// flops is the number of multiplications and additions in the products of a run, as the limit counts them.
func (c *counter) flops(model string) int {
	text, _ := c.run(model, "--max-flops", "1").CombinedOutput()
	m := regexp.MustCompile(`need (\d+) operations`).FindSubmatch(text)
	if m == nil {
		log.Fatalf("%s: no number of operations in %q", model, text)
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}

// The kinds of instructions.
const (
	other       = iota
	multiplyAdd // of four floats
	float       // other arithmetic of four floats
	vector      // any other instruction on vector registers
	memory      // loads and stores of them
	kinds
)

// classify adds up counts by kinds of instructions of a disassembler.
func classify(counts map[uint32]int64) (of [kinds]int64) {
	words := slices.SortedFunc(maps.Keys(counts), cmp.Compare)
	var in strings.Builder
	for _, w := range words {
		fmt.Fprintf(&in, "0x%02x 0x%02x 0x%02x 0x%02x\n", w&255, w>>8&255, w>>16&255, w>>24)
	}
	mc := measure.LLVM("llvm-mc", "-disassemble", "-triple=aarch64", "-mattr=+v8.6a,+bf16,+i8mm,+dotprod,+aes,+sha2")
	mc.Stdin = strings.NewReader(in.String())
	var lines []string
	for line := range strings.Lines(measure.Output(mc)) {
		if line = strings.TrimSpace(line); line != "" && line != ".text" {
			lines = append(lines, line)
		}
	}
	if len(lines) != len(words) {
		log.Fatalf("%d instructions, of which llvm-mc knows %d", len(words), len(lines))
	}
	for i, line := range lines {
		of[kind(line)] += counts[words[i]]
	}
	return of
}

var (
	isMemory = regexp.MustCompile(`^(ld|st)\S*\s+(\{ )?[vqds]\d`)
	isFMLA   = regexp.MustCompile(`^fml[as]\s+v\d+\.4s`)
	isFloat  = regexp.MustCompile(`^([fs]cvt|f)\S*\s+v\d+\.4s`)
	isVector = regexp.MustCompile(`\bv\d+\.`)
)

func kind(line string) int {
	switch {
	case isMemory.MatchString(line):
		return memory
	case isFMLA.MatchString(line):
		return multiplyAdd
	case isFloat.MatchString(line):
		return float
	case isVector.MatchString(line):
		return vector
	}
	return other
}
