package lower

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// Every equation is computed once by nested loops over all labels, and once as it is lowered.
func TestEinsum(t *testing.T) {
	sizes := map[rune]int{'a': 2, 'b': 3, 'c': 4, 'd': 2, 'e': 5}
	for _, equation := range []string{
		"ab,bc->ac", "ab,cb->ca", "abc,acd->abd", "abc,abd->acbd", "abc->cab", "ab->", "ab->b", "ab,ab->ab", "ab,ab->",
		"a,b->ab", "ab,b,bc->c", "ab,cd,bd->ca", "aad->d", "ada->ad", "abc,b->ac", "ab,bc", "ba", "ebcd,ead->ebca", " a b -> b a",
	} {
		t.Run(equation, func(t *testing.T) {
			left, right, explicit := strings.Cut(strings.ReplaceAll(equation, " ", ""), "->")
			if !explicit {
				right = map[string]string{"ab,bc": "ac", "ba": "ab"}[left]
			}
			s, named := &sketch{}, &sketch{}
			args := []any{&onnxpb.AttributeProto{Name: "equation", Type: onnxpb.AttributeProto_STRING, S: []byte(equation)}}
			namedArgs := slices.Clone(args)
			var operands []*tensor.Tensor
			terms := strings.Split(left, ",")
			for k, labels := range terms {
				x := tensor.New(tensor.F32, shapeOf(labels, sizes)...)
				for i := range x.Len() {
					x.SetFloat64(i, float64((i*7+k*3)%11-5))
				}
				var dims, names []any
				for i, n := range x.Shape() {
					dims, names = append(dims, n), append(names, fmt.Sprint("axis", k, i))
				}
				operands = append(operands, x)
				args = append(args, s.input(fmt.Sprint("x", k), tensor.F32, dims...))
				namedArgs = append(namedArgs, named.input(fmt.Sprint("x", k), tensor.F32, names...))
			}
			want := einsum(terms, right, operands, sizes)
			check := func(g *ir.Graph, err error) {
				require.NoError(t, err)
				got, err := ir.Interpret(g, operands)
				require.NoError(t, err)
				require.Equal(t, want.Shape(), got[0].Shape())
				require.Equal(t, want.Float64s(), got[0].Float64s())
			}
			check(s.lower(13, s.node("Einsum", args...)))
			check(named.lower(13, named.node("Einsum", namedArgs...)))
		})
	}
}

// A diagonal of axes that differ is an error of the run, if that alone knows their sizes.
func TestEinsumDiagonal(t *testing.T) {
	s := &sketch{}
	equation := &onnxpb.AttributeProto{Name: "equation", Type: onnxpb.AttributeProto_STRING, S: []byte("ii->i")}
	g, err := s.lower(13, s.node("Einsum", equation, s.input("x", tensor.F32, "n", "k")))
	require.NoError(t, err)
	_, err = ir.Interpret(g, []*tensor.Tensor{tensor.New(tensor.F32, 2, 3)})
	require.ErrorContains(t, err, "the diagonal of f32[2,3]")
}

func shapeOf(labels string, sizes map[rune]int) tensor.Shape {
	s := tensor.Shape{}
	for _, l := range labels {
		s = append(s, sizes[l])
	}
	return s
}

func einsum(terms []string, out string, operands []*tensor.Tensor, sizes map[rune]int) *tensor.Tensor {
	var labels []rune
	for l := range sizes {
		if strings.ContainsRune(strings.Join(terms, ""), l) {
			labels = append(labels, l)
		}
	}
	y := tensor.New(tensor.F32, shapeOf(out, sizes)...)
	at := map[rune]int{}
	place := func(labels string) int {
		p := 0
		for _, l := range labels {
			p = p*sizes[l] + at[l]
		}
		return p
	}
	var loop func(k int)
	loop = func(k int) {
		if k < len(labels) {
			for at[labels[k]] = range sizes[labels[k]] {
				loop(k + 1)
			}
			return
		}
		p := 1.0
		for i, term := range terms {
			p *= operands[i].Float64(place(term))
		}
		y.SetFloat64(place(out), y.Float64(place(out))+p)
	}
	loop(0)
	return y
}

func TestEinsumKeepsSymbols(t *testing.T) {
	equation := func(e string) *onnxpb.AttributeProto {
		return &onnxpb.AttributeProto{Name: "equation", Type: onnxpb.AttributeProto_STRING, S: []byte(e)}
	}
	for _, c := range []struct{ equation, want string }{
		{"bhld,lrd->bhlr", "f32[batch,12,seq,seq]"},
		{"...d,lrd->...r", "f32[batch,12,seq,seq]"},
		{"b...d,...zd->...", "f32[12,seq]"},
		{"bhl,lrd->b", "\"bhl\" for f32[batch,12,seq,64]"},
		{"bhld->b", "for 1 operands, there are 2"},
		{"bhld,lrd->bq", "label 'q' of the result"},
		{"bhl1,lrd->b", "label '1'"},
	} {
		s := &sketch{}
		q, p := s.input("q", tensor.F32, "batch", 12, "seq", 64), s.input("p", tensor.F32, "seq", "seq", 64)
		g, err := s.lower(13, s.node("Einsum", q, p, equation(c.equation)))
		if !strings.HasPrefix(c.want, "f32") {
			require.ErrorContains(t, err, c.want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, g.Outputs[0].Type.String())
	}
}
