// Command mca compares the inner loops of the kernels for arm64 with the bound that the arithmetic units set, in the models of
// llvm-mca (set LLVM to the suffix of its programs: they have models of these processors from version 19 on). It cuts the
// loops out of the linked object code.
package main

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc/internal/tools/measure"
)

var processors = []string{"neoverse-n1", "neoverse-v1", "apple-m1"}

// kernels are the loops: the one of its function that has the most instructions counted. What counts towards the bound are
// instructions of the given opcodes, or all vector arithmetic; the loads and stores alone are a bound as well.
var kernels = []struct {
	function string
	opcodes  string // a regular expression, or empty
	elements int    // in a round of the loop; 0 to print cycles a round
}{
	{"gemmNEON_6x16", "fmla", 0},
	{"gemmNEON_4x16", "fmla", 0},
	{"gemmNEON_6x8", "fmla", 0},
	{"gemmDotProd_6x16", "sdot", 0},
	{"gemmS8NEON_2x16", "smull2?|sadalp", 0},
	{"gemmI8MM_6x16", "usmmla", 0},
	{"gemmBF16NEON_4x16", "fmla", 0},
	{"gemmBF16_6x16", "bfdot", 0},
	{"gemmBF16Deep_6x16", "bfmmla", 0},
	{"gemmBlocksDotProd_3x16", "sdot", 0},
	{"depthwiseNEON", "fmla", 0},
	{"attentionNEON_6x16", "fmla", 0},
	{"attentionNEON_8x8", "fmla", 0},
	{"unaryNEON_Exp", "", 16},
	{"unaryNEON_Gelu", "", 16},
	{"unaryNEON_GeluTanh", "", 16},
	{"unaryNEON_Tanh", "", 16},
	{"unaryNEON_Erf", "", 16},
	{"softmaxNEON", "", 16},
	{"softmaxStepNEON", "", 16},
	{"layerNormNEON", "", 16},
}

func main() {
	log.SetFlags(0)
	folder, err := os.MkdirTemp("", "mca")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	binary := filepath.Join(folder, "kernel.test")
	build := exec.Command("go", "test", "-c", "-o", binary, "./backend/cpu/kernel")
	build.Dir, build.Env = measure.Root, append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0")
	measure.Output(build)
	code := disassemble(binary)
	peaks := map[string]float64{}
	for _, cpu := range processors {
		var independent []string
		for i := range 24 {
			independent = append(independent, fmt.Sprintf("fmla v%d.4s, v30.4s, v31.s[0]", i))
		}
		peaks[cpu] = 24 / cycles(cpu, independent)
	}
	fmt.Printf("| loop | counted |")
	for _, cpu := range processors {
		fmt.Printf(" %s: bound, cycles |", cpu)
	}
	fmt.Printf("\n|---|---|%s\n", strings.Repeat("---|", len(processors)))
	for _, k := range kernels {
		body, counted := busiest(code[k.function], k.opcodes)
		per, unit := 1.0, ""
		if k.elements > 0 {
			per, unit = float64(k.elements), " an element"
		}
		fmt.Printf("| %s%s | %d of %d |", k.function, unit, counted, len(body))
		for _, cpu := range processors {
			bound, took := max(float64(counted)/peaks[cpu], cycles(cpu, memoryOnly(body))), cycles(cpu, body)
			fmt.Printf(" %.2f, %.2f (×%.2f) |", bound/per, took/per, took/bound)
		}
		fmt.Println()
	}
}

// instruction is a line of a disassembly.
type instruction struct {
	at     uint64
	text   string
	target uint64 // of a branch
}

// disassemble returns the instructions of each kernel.
func disassemble(binary string) map[string][]instruction {
	start := regexp.MustCompile(`^[0-9a-f]+ <.*/kernel\.(\w+)\.abi0>:$`)
	line := regexp.MustCompile(`^\s*([0-9a-f]+):\s+(.*?)\s*$`)
	branch := regexp.MustCompile(`0x([0-9a-f]+) <.*>`)
	code, name := map[string][]instruction{}, ""
	for text := range strings.Lines(measure.Output(measure.LLVM("llvm-objdump", "-d", "--no-show-raw-insn",
		"--mattr=+v8.6a,+bf16,+i8mm,+dotprod", binary))) {
		text = strings.TrimRight(text, "\n")
		if m := start.FindStringSubmatch(text); m != nil {
			name = m[1]
		} else if text == "" {
			name = ""
		} else if m := line.FindStringSubmatch(text); m != nil && name != "" {
			at, _ := strconv.ParseUint(m[1], 16, 64)
			in := instruction{at: at, text: m[2]}
			if m := branch.FindStringSubmatch(in.text); m != nil {
				in.target, _ = strconv.ParseUint(m[1], 16, 64)
				in.text = branch.ReplaceAllString(in.text, "loop")
			}
			code[name] = append(code[name], in)
		}
	}
	return code
}

var (
	vector = regexp.MustCompile(`^\w+(\.\w+)?\s+v\d`)
	memory = regexp.MustCompile(`^(ld|st|prfm)`)
)

// busiest returns the innermost loop with the most counted instructions.
func busiest(code []instruction, opcodes string) (best []string, counted int) {
	counts := func(text string) bool {
		opcode, _, _ := strings.Cut(text, "\t")
		if opcodes != "" {
			ok, _ := regexp.MatchString("^("+opcodes+")$", opcode)
			return ok
		}
		return vector.MatchString(text) && !memory.MatchString(text)
	}
	index := map[uint64]int{}
	for i, in := range code {
		index[in.at] = i
		start, ok := index[in.target]
		if in.target == 0 || !ok {
			continue
		}
		body, n, inner := []string(nil), 0, true
		for _, x := range code[start : i+1] {
			body = append(body, x.text)
			if counts(x.text) {
				n++
			}
			inner = inner && (x.target == 0 || x.at == in.at)
		}
		if inner && n > counted {
			best, counted = body, n
		}
	}
	if best == nil {
		log.Fatal("a kernel has no such loop")
	}
	return best, counted
}

// memoryOnly is the loads and stores of a loop.
func memoryOnly(body []string) (only []string) {
	for _, text := range body {
		if memory.MatchString(text) {
			only = append(only, text)
		}
	}
	return only
}

var totalCycles = regexp.MustCompile(`Total Cycles:\s+(\d+)`)

// cycles returns those of a round of a loop.
func cycles(cpu string, body []string) float64 {
	const rounds = 1000
	c := measure.LLVM("llvm-mca", "-mtriple=aarch64", "-mcpu="+cpu, "-mattr=+v8.6a,+bf16,+i8mm,+dotprod",
		fmt.Sprintf("-iterations=%d", rounds))
	c.Stdin = strings.NewReader("loop:\n" + strings.Join(body, "\n") + "\n")
	m := totalCycles.FindStringSubmatch(measure.Output(c))
	total, _ := strconv.Atoi(m[1])
	return float64(total) / rounds
}
