package cuda

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
)

// source reads a file of the kernels.
func source(t *testing.T, name string) string {
	data, err := os.ReadFile(filepath.Join("_gen", name))
	require.NoError(t, err)
	return string(data)
}

// TestKernelsAreFresh compares the hash of the sources with that of the sources from which the archives were made. .ci/cuda compiles the
// sources again and compares the archives.
func TestKernelsAreFresh(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("_gen", "*.cu*"))
	require.NoError(t, err)
	slices.Sort(files)
	h := sha256.New()
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		fmt.Fprintf(h, "%s %d\n%s", filepath.Base(f), len(data), data)
	}
	sum, err := kernels.ReadFile("kernels/sources.sum")
	require.NoError(t, err)
	require.Equal(t, hex.EncodeToString(h.Sum(nil))+"\n", string(sum), "run the generator in _gen")
}

// resource is a line of what ptxas says of the kernels.
var resource = regexp.MustCompile(`^(\w+) \w+ sm_(\w+) registers (\d+) spilled (\d+) shared (\d+)$`)

// maySpill are the kernels that keep some bytes of a thread in memory: what a second block on a multiprocessor brings is more.
var maySpill = map[string]string{"product_f32_128x128": "40", "attention_f16": "8", "attention_f16_rows": "4", "attention_f32_rows": "4",
	"flash_f32_128_rows": "40"}

// TestResources holds the kernels to the registers that their blocks can have, and to no spills.
func TestResources(t *testing.T) {
	table, err := kernels.ReadFile("kernels/resources.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(table)) {
		line = strings.TrimSpace(line)
		m := resource.FindStringSubmatch(line)
		require.NotNil(t, m, line)
		text, err := ptxSource(m[1])
		require.NoError(t, err)
		require.Contains(t, text, ".entry "+m[1]+"(")
		code, err := archived(m[1], "cubin")
		require.NoError(t, err)
		require.Equal(t, "\x7fELF", string(code[:4]))
		static, err := strconv.Atoi(m[5])
		require.NoError(t, err)
		for _, c := range wholeTilings {
			if strings.HasSuffix(m[1], strings.TrimPrefix(c.kernel, "qmma_%s")) && strings.HasPrefix(m[1], "qmma") {
				require.True(t, c.shared > usualShared || c.shared+static <= usualShared, line)
			}
		}
		if c := m[1]; strings.HasPrefix(c, "flash") || strings.HasPrefix(c, "attention") {
			require.LessOrEqual(t, static, declaredShared, line)
		}
		if m[4] != "0" {
			require.Equal(t, maySpill[m[1]], m[4], line)
		}
	}
}

// TestTablesNameKernels looks the kernels that the tables name up.
func TestTablesNameKernels(t *testing.T) {
	has := func(name string) {
		t.Helper()
		_, err := ptxSource(name)
		require.NoError(t, err)
	}
	for _, c := range slices.Concat(plain, simt, threefold, shared) {
		has(c.kernel)
	}
	for _, c := range windowTilings {
		has(fmt.Sprintf(c.kernel, "f32"))
		has(fmt.Sprintf(c.kernel, unitTF32))
	}
	for _, c := range wholeTilings {
		has(fmt.Sprintf(c.kernel, "u8"))
		has(fmt.Sprintf(c.kernel, "i8"))
	}
	for _, d := range floats {
		for _, name := range []string{"product_%s_any", "sum_parts_%s", "attention_%s", "attention_%s_rows", "norm_%s", "embed_%s",
			"window_%s"} {
			has(fmt.Sprintf(name, d))
		}
		for _, c := range bitsTilings {
			if c.rows < 128 || d == "f32" {
				has(fmt.Sprintf(c.of(ir.MatMulNBits{Block: 32}, 1, 4).kernel, d))
			}
		}
		has("unpack_bits_" + d)
		has("unpack_bits_" + unitTF32)
		has(fmt.Sprintf("bits_%s_16", d))
		has(fmt.Sprintf("bits_%s_64", d))
		for _, size := range []int{32, 64, 128} {
			for _, kind := range []string{"", "_general", "_rows", "_rows_general"} {
				has(fmt.Sprintf("flash_%s_%d%s", d, size, kind))
				if d != "f32" {
					has(fmt.Sprintf("flash_wgmma_%s_%d%s", d, size, kind))
				}
				if size < 128 {
					has(fmt.Sprintf("flash_%s_%d%s", unitTF32, size, kind))
				}
			}
		}
		if d == "f32" {
			d = unitTF32
		} else {
			has("widen_" + d)
		}
		for _, c := range unitTilings {
			if d == unitTF32 && notTF32[c.kernel] {
				continue
			}
			has(fmt.Sprintf(c.kernel, d))
			has(fmt.Sprintf(c.kernel, d) + "_gelu")
			if !c.mapped {
				has(fmt.Sprintf(c.kernel, d) + "_act")
			}
		}
	}
}

// TestMarks: every kernel says where it waits for those ahead of it.
func TestMarks(t *testing.T) {
	for name := range sources() {
		text, err := ptxSource(name)
		require.NoError(t, err)
		early := earlyMarks.Replace(text)
		require.Contains(t, early, "griddepcontrol.wait;", name)
		require.Contains(t, early, "griddepcontrol.launch_dependents;", name)
		require.Regexp(t, `(?m)^\.target sm_90a?$`, early)
		require.NotContains(t, early, "wait for last")
		require.NotContains(t, noMarks.Replace(text), "start next")
	}
}

// TestInstructionsAreInOrder compares the table of instructions with the kernel's enumeration.
func TestInstructionsAreInOrder(t *testing.T) {
	_, list, _ := strings.Cut(source(t, "each.cu"), "enum Op {")
	list, _, _ = strings.Cut(list, "};")
	var names []string
	for _, name := range strings.Split(list, ",") {
		name, _, _ = strings.Cut(strings.TrimSpace(name), " =")
		if name != "OP_INT" { // a mark, and no instruction
			names = append(names, strings.ToLower(strings.TrimPrefix(name, "OP_")))
		}
	}
	require.Equal(t, names, instructionNames, "run go generate in backend/cuda")
}

// TestElementwiseFunctions: every function of floats that has an instruction is one of the IR's.
func TestElementwiseFunctions(t *testing.T) {
	known := map[string]bool{}
	for fn := ir.NoUnary + 1; fn < ir.NumUnary; fn++ {
		known[ir.OpName(ir.Unary{Fn: fn})] = true
	}
	for fn := ir.NoBinary + 1; fn < ir.NumBinary; fn++ {
		known[ir.OpName(ir.Binary{Fn: fn})] = true
	}
	for _, name := range instructionNames[:instructionNumbers["narrow"]] {
		require.True(t, known[name], name)
	}
	for name := range wholeFunctions {
		require.True(t, known[name], name)
	}
}
