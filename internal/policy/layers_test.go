package policy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"iter"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layers orders the files of a package that is too closely knit for separate packages: a file uses only what files of the lines above
// its own declare.
var layers = map[string][]string{
	"backend/cpu": {
		// where operands are, and what a step is
		"machine share",
		"processor",
		"operand",
		"nest step",
		// what the kernels of several ops have in common
		"half loops quant_values unpack",
		"elementwise weights",
		"stored",
		// the kernels, an op or a family of ops in each file
		"matmul_pack matmul_packed quant_pack recurrent_cells",
		"attention_mask conv embedding gather matmul movement norm quant quant_add quant_operands reduce_loops",
		"attention_packed fused quant_attention quant_conv quant_embedding quant_matmul quant_nbits quant_norm recurrent_plan reduce " +
			"scatter",
		"attention chain recurrent_float recurrent_pack",
		"quant_recurrent recurrent_stored",
		others,
		// the table of kernels, and the device
		"table",
		"cpu",
		"prepare program",
		"carry",
	},
}

// others is the layer of the files that have no line: kernels that no other kernel uses, above the table.
const others = "*"

// TestLayers type-checks each package without its imports, which is enough to know what its own files declare.
func TestLayers(t *testing.T) {
	t.Chdir(root)
	for folder, lines := range layers {
		layer := map[string]int{}
		for i, line := range lines {
			for name := range strings.FieldsSeq(line) {
				layer[name] = i
			}
		}
		paths, err := filepath.Glob(folder + "/*.go")
		require.NoError(t, err)
		fset := token.NewFileSet()
		nameOf := func(p token.Pos) string { return strings.TrimSuffix(filepath.Base(fset.Position(p).Filename), ".go") }
		require.Contains(t, layer, others)
		unseen := maps.Clone(layer)
		delete(unseen, others)
		var files []*ast.File
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			name := nameOf(f.Pos())
			if _, listed := layer[name]; !listed {
				layer[name] = layer[others]
			}
			delete(unseen, name)
			files = append(files, f)
		}
		require.Empty(t, unseen, "the table of layers has files of %s that are not there", folder)
		checked := 0
		for id, o := range uses(folder, fset, files) {
			checked++
			if from, to := nameOf(id.Pos()), nameOf(o.Pos()); from != to && layer[to] >= layer[from] {
				t.Errorf("%s uses %s of %s.go, which is not above it in the table of layers", fset.Position(id.Pos()), o.Name(), to)
			}
		}
		require.Greater(t, checked, 1000, "too few uses were found in %s", folder)
	}
}

// uses yields the identifiers in files that mean what one of them declares: at the top, or as a method.
func uses(folder string, fset *token.FileSet, files []*ast.File) iter.Seq2[*ast.Ident, types.Object] {
	info := types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: noImports{}, Error: func(error) {}}
	pkg, _ := config.Check(folder, fset, files, &info)
	return func(yield func(*ast.Ident, types.Object) bool) {
		for _, f := range files {
			selected := map[*ast.Ident]bool{}
			for n := range ast.Preorder(f) {
				if s, ok := n.(*ast.SelectorExpr); ok {
					selected[s.Sel] = true
				}
				id, ok := n.(*ast.Ident)
				if !ok || info.Defs[id] != nil {
					continue
				}
				o := info.Uses[id]
				if o == nil && !selected[id] { // the checker skips the elements of literals whose type is imported
					o = pkg.Scope().Lookup(id.Name)
				}
				if o == nil || o.Pkg() != pkg {
					continue
				}
				fn, ok := o.(*types.Func)
				if (o.Parent() == pkg.Scope() || ok && fn.Signature().Recv() != nil) && !yield(id, o) {
					return
				}
			}
		}
	}
}

// noImports leaves imported packages unknown.
type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) {
	return nil, fmt.Errorf("%s is not loaded", path)
}
