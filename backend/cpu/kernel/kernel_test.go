package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// eachLevel runs a test with the kernels of every level that this machine has.
func eachLevel(t *testing.T, test func(t *testing.T, s *Set)) {
	for _, s := range sets() {
		t.Run(s.Level.String(), func(t *testing.T) { test(t, s) })
	}
}

// TestSetsAreComplete finds the kernel that a table or a Set forgets.
func TestSetsAreComplete(t *testing.T) {
	for _, s := range sets() {
		requireFilled(t, s.Level.String(), reflect.ValueOf(s).Elem())
	}
	for level, adds := range variants {
		if len(sets()) > 1 { // there is assembly
			require.NotNil(t, adds, "%s adds nothing to the level below", Level(level))
		}
	}
	for op, row := range unaryRows {
		found, ok := Of(row.fn)
		require.True(t, ok)
		require.Equal(t, UnaryOp(op), found)
	}
}

func requireFilled(t *testing.T, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Tag.Get("optional") == "" {
				requireFilled(t, path+"."+f.Name, v.Field(i))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			requireFilled(t, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Func, reflect.Slice, reflect.Pointer:
		require.False(t, v.IsNil(), "%s is nil", path)
	}
}

func TestSelect(t *testing.T) {
	best, err := Select("")
	require.NoError(t, err)
	require.Equal(t, machineLevel(), best.Level)
	require.Equal(t, machineCaches(), best.caches)
	named, err := Select(machineLevel().String())
	require.NoError(t, err)
	require.Equal(t, named.HasBF16x3() && runtime.NumCPU() <= fewProcessors, best.HasBF16x3())
	generic, err := Select("Generic")
	require.NoError(t, err)
	require.Equal(t, Generic, generic.Level)
	require.Equal(t, defaultCaches, generic.caches, "a named level has the same caches on every machine")
	_, err = Select("sse9")
	require.ErrorContains(t, err, `unknown CPU level "sse9"`)
	for level := machineLevel() + 1; level < numLevels; level++ {
		_, err = Select(level.String())
		require.ErrorContains(t, err, "above what this machine")
	}
}

// canary is around every buffer of a test; no kernel may change it.
const canary = 0x7fa5c35a // a NaN, so that reading it shows as well

// guarded is memory with canaries on both sides, or between pages.
type guarded struct {
	all   []float32 // nil between pages
	inner []float32
}

const canaries = 64

// newGuarded returns n floats, shift elements after a 64-byte boundary, between canaries.
func newGuarded(n, shift int) *guarded {
	raw := make([]float32, n+2*canaries+shift+16)
	skip := (-int(uintptr(unsafe.Pointer(&raw[0])))&63)/4 + shift
	g := &guarded{all: raw[skip:][:n+2*canaries]}
	for i := range g.all {
		g.all[i] = math.Float32frombits(canary)
	}
	g.inner = g.all[canaries : canaries+n : canaries+n]
	return g
}

var operands int // that were made

// operand returns n zeros, alternately before and after a page that cannot be read.
func operand[T any](n int) []T {
	operands++
	size := int(unsafe.Sizeof(*new(T)))
	if bytes := paged(n*size, operands%2 == 0); bytes != nil {
		return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(bytes))), n)
	}
	return make([]T, n)
}

// random returns n guarded floats, equally spread over [-1, 1). Most are before or after a page that cannot be read, the others at any
// distance from a boundary of 64 bytes.
func random(r *rand.Rand, n int) *guarded {
	g := &guarded{}
	if shift := r.IntN(16); shift < 12 {
		g.inner = operand[float32](n)
	} else {
		g = newGuarded(n, shift)
	}
	for i := range g.inner {
		g.inner[i] = r.Float32()*2 - 1
	}
	return g
}

// check fails if a canary is dead.
func (g *guarded) check(t *testing.T, what string) {
	t.Helper()
	for i, v := range g.all {
		if (i < canaries || i >= canaries+len(g.inner)) && math.Float32bits(v) != canary {
			t.Fatalf("%s: wrote %v at element %d of %d", what, v, i-canaries, len(g.inner))
		}
	}
}

// checkGaps fails if anything but the first cols of each row was written.
func (g *guarded) checkGaps(t *testing.T, what string, row, cols int) {
	t.Helper()
	g.check(t, what)
	for i, v := range g.inner {
		if i%row >= cols && math.Float32bits(v) != canary {
			t.Fatalf("%s: wrote %v at row %d column %d, past the %d columns", what, v, i/row, i%row, cols)
		}
	}
}

func newRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }
