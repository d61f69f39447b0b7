package ir

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc/tensor"
)

// Map computes an expression of elementwise ops in one pass over its operands, which broadcast to each other. The result
// is that of the last instruction.
type Map struct{ Expr Expr }

// An Expr is a program without branches: each instruction is an elementwise op on operands of the Map and on results of
// earlier instructions. Quantising and dequantising by one scale for all elements are such ops, too.
type Expr []Instr

// An Instr applies Op. An argument i ≥ 0 is operand i of the Map; −1−j is the result of instruction j.
type Instr struct {
	Op   Op
	Args []int
}

func (Map) Kind() Kind { return KindMap }

// Infer runs the shape rules of the instructions.
func (o Map) Infer(in []*Value) ([]Type, error) {
	types, err := o.Expr.Types(in)
	if err != nil {
		return nil, err
	}
	return types[len(types)-1:], nil
}

// Types returns the type of every instruction's result.
func (e Expr) Types(in []*Value) ([]Type, error) {
	if len(e) == 0 {
		return nil, errors.New("a map without instructions")
	}
	results := make([]Value, len(e))
	types := make([]Type, len(e))
	n := Node{Inputs: make([]*Value, 0, 3)}
	for i, x := range e {
		if x.Op == nil || !isInstruction(x.Op.Kind()) {
			return nil, fmt.Errorf("instruction %d of a map is not elementwise", i)
		}
		n.Op, n.Inputs = x.Op, slices.Grow(n.Inputs[:0], len(x.Args))[:len(x.Args)]
		for k, a := range x.Args {
			switch {
			case a >= 0 && a < len(in):
				n.Inputs[k] = in[a]
			case a < 0 && -1-a < i:
				n.Inputs[k] = &results[-1-a]
			default:
				return nil, fmt.Errorf("instruction %d of a map reads %s, which is not there", i, argText(a))
			}
		}
		t, err := Infer(&n)
		if err != nil {
			return nil, fmt.Errorf("instruction %d of a map: %w", i, err)
		}
		if !x.Op.Kind().Has(Elementwise) && len(n.Inputs[1].Type.Shape) > 0 {
			return nil, fmt.Errorf("instruction %d of a map has scales %v, not one for all", i, n.Inputs[1].Type)
		}
		types[i], results[i].Type = t[0], t[0]
	}
	return types, nil
}

// isInstruction reports whether ops of a kind may be instructions.
func isInstruction(k Kind) bool {
	return k.Has(Elementwise) && k != KindMap || k == KindQuantize || k == KindDequantize
}

func (o Map) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	results := make([]*tensor.Tensor, 0, len(o.Expr))
	for _, x := range o.Expr {
		args := make([]*tensor.Tensor, len(x.Args))
		for k, a := range x.Args {
			if a >= 0 {
				args[k] = in[a]
			} else {
				args[k] = results[-1-a]
			}
		}
		out, err := x.Op.Eval(env, args)
		if err != nil {
			return nil, err
		}
		results = append(results, out[0])
	}
	return results[len(results)-1:], nil
}

// argText prints an argument: in0 is operand 0, x0 the result of instruction 0.
func argText(a int) string {
	if a >= 0 {
		return "in" + strconv.Itoa(a)
	}
	return "x" + strconv.Itoa(-1-a)
}

func parseArg(s string) (int, bool) {
	for prefix, sign := range map[string]int{"in": 1, "x": -1} {
		if digits, ok := strings.CutPrefix(s, prefix); ok {
			if n, err := strconv.Atoi(digits); err == nil && n >= 0 && n < maxTextID {
				if sign > 0 {
					return n, true
				}
				return -1 - n, true
			}
		}
	}
	return 0, false
}

// text prints "[cast(in0) {to=bool}, where(x0, in1, in2)]".
func (e Expr) text() string {
	parts := make([]string, len(e))
	for i, x := range e {
		args := make([]string, len(x.Args))
		for k, a := range x.Args {
			args[k] = argText(a)
		}
		parts[i] = OpName(x.Op) + "(" + strings.Join(args, ", ") + ")"
		if s := Params(x.Op); s != "" {
			parts[i] += " {" + s + "}"
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// expr reads what text prints.
func (p *parser) expr() (e Expr) {
	p.listOf("[", "]", func() {
		at := p.tok.at
		x := Instr{Op: p.op(nil)}
		if !isInstruction(x.Op.Kind()) {
			p.failAt(at, "%s is not an instruction of a map", OpName(x.Op))
		}
		p.listOf("(", ")", func() {
			at := p.tok.at
			a, ok := parseArg(p.take(word, "an argument"))
			if !ok {
				p.failAt(at, "an argument is in0, in1, … or x0, x1, …")
			}
			x.Args = append(x.Args, a)
		})
		if p.skip("{") {
			x.Op = p.params(x.Op)
		}
		e = append(e, x)
	})
	return e
}
