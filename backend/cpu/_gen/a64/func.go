// Package a64 writes functions for arm64 in Go's assembly. Registers are virtual until the function is printed. Go's assembler
// knows the scalar instructions; it lacks half of the vector ones, so all of these are written as WORDs after a comment
// in ARM's syntax, which a test compares with what a disassembler makes of the words.
package a64

import (
	"fmt"
	"slices"
	"strings"
)

// Reg is a virtual register.
type Reg struct {
	vector bool
	id     int
}

// inst is an instruction or a label.
type inst struct {
	label  string
	target string // of a branch
	format string // with a verb for each register: %s in Go's syntax, %d in ARM's
	regs   []Reg
	word   bool
	bits   uint32
	places []uint32 // as in Op
}

// param is a parameter or result of a function, as asmdecl of go vet names it.
type param struct {
	name, kind string
	offset     int
}

// Func is a leaf function.
type Func struct {
	Name, Doc string

	signature string
	params    map[string]param
	argBytes  int
	frame     int
	head      []inst // before the code: what is loaded once
	code      []inst
	to        *[]inst // where instructions go: code, if nil
	vectors   int
	generals  int
	labels    map[string]int
	pool      *Pool
	poolAt    *Reg
	constants map[[4]uint32]Reg
	order     [][4]uint32 // of the constants
}

// NewFunc starts a function with a signature such as "func(a *float32, rows, cols int)". Constants go to the pool.
func NewFunc(name, signature, doc string, pool *Pool) *Func {
	f := &Func{Name: name, Doc: doc, signature: signature, params: map[string]param{}, labels: map[string]int{}, pool: pool,
		constants: map[[4]uint32]Reg{}}
	inside := strings.TrimSuffix(strings.TrimPrefix(signature, "func("), ")")
	kind, fields := "", strings.Split(inside, ", ")
	if inside == "" {
		fields = nil
	}
	kinds := make([]string, len(fields))
	for i := len(fields) - 1; i >= 0; i-- { // a name without a type has that of the next
		name, own, typed := strings.Cut(fields[i], " ")
		if typed {
			kind = own
		}
		fields[i], kinds[i] = name, kind
	}
	for i, name := range fields {
		size := 8
		switch kinds[i] {
		case "float32", "int32", "uint32":
			size = 4
		}
		f.argBytes = (f.argBytes + size - 1) / size * size
		f.params[name] = param{name, kinds[i], f.argBytes}
		f.argBytes += size
	}
	f.argBytes = (f.argBytes + 7) / 8 * 8
	return f
}

// Vec returns a fresh vector register.
func (f *Func) Vec() Reg {
	f.vectors++
	return Reg{true, f.vectors}
}

// Vecs returns n fresh vector registers.
func (f *Func) Vecs(n int) []Reg {
	regs := make([]Reg, n)
	for i := range regs {
		regs[i] = f.Vec()
	}
	return regs
}

// Int returns a fresh general register.
func (f *Func) Int() Reg {
	f.generals++
	return Reg{false, f.generals}
}

func (f *Func) emit(i inst) {
	if f.to == nil {
		f.to = &f.code
	}
	*f.to = append(*f.to, i)
}

// into has what emit writes go to another list.
func (f *Func) into(list *[]inst, emit func()) {
	before := f.to
	f.to = list
	emit()
	f.to = before
}

// Once puts what emit writes before all code of the function, so that loops find its registers filled.
func (f *Func) Once(emit func()) { f.into(&f.head, emit) }

// Interleave writes n pieces of code that do not depend on each other, the first instruction of each, then the second of each: the
// window of a processor that reorders instructions then holds several chains of dependent ones. What a piece writes by first
// is before all of them.
func (f *Func) Interleave(n int, piece func(i int, first func(emit func()))) {
	var before []inst
	pieces := make([][]inst, n)
	for i := range pieces {
		f.into(&pieces[i], func() { piece(i, func(emit func()) { f.into(&before, emit) }) })
	}
	for _, in := range before {
		f.emit(in)
	}
	for i := range slices.MaxFunc(pieces, func(a, b []inst) int { return len(a) - len(b) }) {
		for _, p := range pieces {
			if i < len(p) {
				f.emit(p[i])
			}
		}
	}
}

// Go writes an instruction in the syntax of Go's assembler, with a %s for each register.
func (f *Func) Go(format string, regs ...Reg) { f.emit(inst{format: format, regs: regs}) }

// Do writes a vector instruction, its registers in ARM's order.
func (f *Func) Do(op Op, regs ...Reg) {
	if len(regs) != len(op.places) {
		panic(fmt.Sprintf("%s: %d registers for %q", f.Name, len(regs), op.text))
	}
	f.emit(inst{format: op.text, regs: regs, word: true, bits: op.bits, places: op.places})
}

// Label marks a position. Unique returns a name that no other label has.
func (f *Func) Label(name string) { f.emit(inst{label: name}) }

// Unique returns a label's name that the function does not have yet.
func (f *Func) Unique(name string) string {
	f.labels[name]++
	if n := f.labels[name]; n > 1 {
		return fmt.Sprintf("%s%d", name, n)
	}
	return name
}

// Branch jumps to a label: opcode is one of Go's (B, BEQ, CBZ, TBZ $1, …), regs its operands.
func (f *Func) Branch(opcode, label string, regs ...Reg) {
	f.emit(inst{format: opcode + strings.Repeat(" %s,", len(regs)), regs: regs, target: label})
}

// Ret returns.
func (f *Func) Ret() { f.Go("RET") }

func (f *Func) slot(name string) string {
	p, ok := f.params[name]
	if !ok {
		panic(f.Name + " has no parameter " + name)
	}
	return fmt.Sprintf("%s+%d(FP)", p.name, p.offset)
}

// Param loads a parameter: an integer or pointer into a general register, a float into the first lane of a vector.
func (f *Func) Param(name string) Reg {
	slot := f.slot(name)
	if f.params[name].kind == "float32" {
		r := f.Vec()
		f.Go("FMOVS "+slot+", %s", r)
		return r
	}
	r := f.Int()
	opcode := map[string]string{"int32": "MOVW", "uint32": "MOVWU"}[f.params[name].kind]
	if opcode == "" {
		opcode = "MOVD"
	}
	f.Go(opcode+" "+slot+", %s", r)
	return r
}

// SetParam stores into a parameter of 8 bytes.
func (f *Func) SetParam(name string, r Reg) { f.Go("MOVD %s, "+f.slot(name), r) }

// Buffer reserves bytes of the stack and returns their address. A function has one buffer at most.
func (f *Func) Buffer(bytes int) Reg {
	f.frame = bytes
	r := f.Int()
	f.Go(fmt.Sprintf("MOVD $buffer-%d(SP), %%s", bytes), r)
	return r
}

// Constant returns a register that holds words in all lanes, and that is never changed. It is loaded once, or before each use if
// registers are short.
func (f *Func) Constant(words [4]uint32) Reg {
	r, ok := f.constants[words]
	if !ok {
		f.Once(func() { r = f.FreshConstant(words) })
		f.constants[words], f.order = r, append(f.order, words)
	}
	return r
}

// FreshConstant loads words into a fresh register, here.
func (f *Func) FreshConstant(words [4]uint32) Reg {
	at := f.pool.offset(words)
	if f.poolAt == nil {
		r := f.Int()
		f.Once(func() { f.Go("MOVD $"+f.pool.symbol()+"(SB), %s", r) })
		f.poolAt = &r
	}
	r := f.Vec()
	f.Do(LDRQ(at), r, *f.poolAt)
	return r
}

// Pool is the constants of a file, of 16 bytes each.
type Pool struct {
	Name  string
	words [][4]uint32
}

func (p *Pool) symbol() string { return "constants_" + p.Name + "<>" }

func (p *Pool) offset(words [4]uint32) int {
	for i, w := range p.words {
		if w == words {
			return 16 * i
		}
	}
	p.words = append(p.words, words)
	return 16 * (len(p.words) - 1)
}
