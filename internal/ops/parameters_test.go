package ops_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestEveryParameterHasText holds that every field of every op, in the IR and here, prints and parses.
func TestEveryParameterHasText(t *testing.T) {
	for _, row := range ir.Defs() {
		op := row.Op
		v := reflect.New(reflect.TypeOf(op)).Elem()
		v.Set(reflect.ValueOf(op))
		for _, field := range reflect.VisibleFields(v.Type()) {
			if tag := field.Tag.Get("ir"); tag != "-" && tag != "name" && field.IsExported() && !field.Anonymous {
				fill(t, v.FieldByIndex(field.Index))
			}
		}
		full := v.Interface().(ir.Op)
		back, err := ir.ParseParams(op, ir.Params(full))
		require.NoError(t, err, "%v", row.Name)
		require.Equal(t, full, back, "%v", row.Name)
	}
}

func fill(t *testing.T, v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *ir.Dim:
		*x = ir.Sym("s")
		return
	case *ir.Attrs:
		*x = ir.Attrs{{Name: "a", Value: int64(1)}}
		return
	case *ir.Expr:
		*x = ir.Expr{{Op: ir.Cast{To: tensor.F32}, Args: []int{0}}, {Op: ir.Binary{Fn: ir.Mul}, Args: []int{-1, 1}}}
		return
	case *ir.UnaryFn: // a product's
		*x = ir.Gelu
		return
	case *ir.Op:
		*x = ir.Transpose{Perm: []int{1, 0}}
		return
	case *[]ir.Op:
		*x = []ir.Op{ir.Transpose{Perm: []int{1, 0}}, ir.MatMul{Alpha: 2}}
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(-3)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(0.5)
	case reflect.String:
		v.SetString("a word")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0))
	default:
		t.Fatalf("no text for a field of type %v", v.Type())
	}
}
