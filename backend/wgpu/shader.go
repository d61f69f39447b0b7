package wgpu

import (
	"fmt"
	"math"
	"strings"

	"github.com/rlxc/rlxc/internal/native"
)

// A shader is a kernel in the making: WGSL source, the memories that it binds, and the numbers that it reads from the uniform
// buffer. Only structure goes into the source, so that shapes share pipelines; sizes, strides and offsets are parameters.
//
// Binding 0 is the parameters, P; the memories m1, m2, … follow. All memories of a shader are arrays of one WGSL type: an
// arena segment must be bound once only, the one that shows it (two writable bindings of one buffer may be assumed distinct).
// Constants other than plain floats may be of a separate type.
type shader struct {
	name       string
	word       string // element type of the memories: u32, f32 or vec4<f32>
	wordSize   int64
	size       int  // number of invocations of a workgroup
	half       bool // uses float16
	coop       bool // uses cooperative matrices
	checked    bool // the library checks the bounds of every access
	subgroups  bool // the source uses the lane in the subgroup, the subgroup's number and the number of subgroups
	reductions int  // calls of allReduce so far
	shared     strings.Builder
	helpers    []string // functions and constants that body calls, by name in helperFunctions
	body       strings.Builder
	memories   []memory
	kinds      []native.Binding
	params     []uint32
	grown      []int // two segments, or none: where they are one buffer, there is nothing to do
}

// maxParams is the number of 32-bit parameters of a shader: the smallest offset alignment of uniforms that all devices take
// is 256 bytes.
const (
	paramBytes = 256
	maxParams  = paramBytes / 4
)

func newShader(name, word string, size int) *shader {
	return &shader{name: name, word: word, size: size, wordSize: map[string]int64{"u32": 4, "f32": 4, "vec4<f32>": 16}[word]}
}

// lanes is the number of 32-bit elements of a word.
func (s *shader) lanes() int { return int(s.wordSize / 4) }

// A memory is a binding of a shader: a segment of the arena, a piece of a constant, or the reports of a run.
type memory struct {
	segment  int            // segment of package gpu, if constant is nil
	constant *native.Buffer // constant, which is read-only; nil for a segment
	word     string         // element type, if it differs from the shader's word; otherwise empty
}

// bind returns the name of a memory in the source.
func (s *shader) bind(m memory) string {
	for i, old := range s.memories {
		if old == m {
			return fmt.Sprintf("m%d", i+1)
		}
	}
	kind := native.Storage
	if m.constant != nil {
		kind = native.ReadOnly
	}
	s.memories, s.kinds = append(s.memories, m), append(s.kinds, kind)
	return fmt.Sprintf("m%d", len(s.memories))
}

// u returns the expression that reads an unsigned parameter.
func (s *shader) u(v int) string {
	s.params = append(s.params, uint32(v))
	i := len(s.params) - 1
	return fmt.Sprintf("P[%d].%c", i/4, "xyzw"[i%4])
}

// f returns the expression that reads a float parameter.
func (s *shader) f(v float32) string {
	s.params = append(s.params, math.Float32bits(v))
	i := len(s.params) - 1
	return fmt.Sprintf("bitcast<f32>(P[%d].%c)", i/4, "xyzw"[i%4])
}

// put appends a line to the body.
func (s *shader) put(format string, args ...any) {
	fmt.Fprintf(&s.body, format, args...)
	s.body.WriteByte('\n')
}

// share declares workgroup memory.
func (s *shader) share(name, element string, n int) {
	s.declare("var<workgroup> %s: array<%s, %d>;\n", name, element, n)
}

// source returns the whole module.
func (s *shader) source() string {
	var t strings.Builder
	if s.half {
		t.WriteString("enable f16;\n")
	}
	if s.coop {
		t.WriteString("enable wgpu_cooperative_matrix;\n")
	}
	fmt.Fprintf(&t, "@group(0) @binding(0) var<uniform> P: array<vec4<u32>, %d>;\n", maxParams/4)
	for i, k := range s.kinds {
		access, word := "read_write", s.word
		if k == native.ReadOnly {
			access = "read"
		}
		if w := s.memories[i].word; w != "" {
			word = w
		}
		fmt.Fprintf(&t, "@group(0) @binding(%d) var<storage, %s> m%d: array<%s>;\n", i+1, access, i+1, word)
	}
	t.WriteString(s.shared.String())
	for _, h := range withNeeds(s.helpers) {
		t.WriteString(helperFunctions[h].wgsl)
	}
	subgroups := ""
	if s.subgroups { // naga has no line "enable subgroups;" yet
		subgroups = ", @builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) " +
			"subgroups: u32"
	}
	fmt.Fprintf(&t, "@compute @workgroup_size(%d) fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, "+
		"@builtin(local_invocation_index) lid: u32%s) {\n%s}\n", s.size, subgroups, s.body.String())
	return t.String()
}

// declare appends to what is before main.
func (s *shader) declare(format string, args ...any) { fmt.Fprintf(&s.shared, format, args...) }

// function declares a function, of which body puts the lines.
func (s *shader) function(signature string, body func()) {
	before := s.body.String()
	s.body.Reset()
	body()
	s.declare("fn %s {\n%s}\n", signature, s.body.String())
	s.body.Reset()
	s.body.WriteString(before)
}

// use asks for helper functions.
func (s *shader) use(names ...string) { s.helpers = append(s.helpers, names...) }

// maxGroups is the number of workgroups along an axis that every device takes.
const maxGroups = 65535

// spread lays n workgroups out over two axes; linear is the expression of a workgroup's number.
func spread(n int) [3]uint32 {
	x := min(n, maxGroups)
	return [3]uint32{uint32(x), uint32((n + x - 1) / max(x, 1)), 1}
}

const linear = "(wg.y * nwg.x + wg.x)"

// A launch is one dispatch of a shader.
type launch struct {
	shader *shader
	groups [3]uint32
}

// A helper is a piece of WGSL that shaders share, and what it calls.
type helper struct {
	needs []string
	wgsl  string
}

// withNeeds lists helpers with all that they call first, each once.
func withNeeds(names []string) []string {
	var out []string
	seen := map[string]bool{}
	var add func(string)
	add = func(n string) {
		if seen[n] {
			return
		}
		seen[n] = true
		h, ok := helperFunctions[n]
		if !ok {
			panic("wgpu: no helper " + n)
		}
		for _, m := range h.needs {
			add(m)
		}
		out = append(out, n)
	}
	for _, n := range names {
		add(n)
	}
	return out
}
