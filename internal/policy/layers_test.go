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
// its own declare, and what upward lists. Files in braces are one home, and use each other.
var layers = map[string][]string{
	"backend/cpu": {
		// where operands are, and what a step is
		"machine share",
		"{processor operand nest step}",
		"tile",
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
	"internal/bind": {
		"bound",
		"{plan alike}",
		"phases",
	},
	"internal/engine": {
		"errors describe profile batch ports",
		"tap growing",
		"stage",
		"packing",
		// bind: plans of the stages, and their bindings
		"{plans cache bind box check resident}",
		"others plain optimal slicing",
		"slicecost",
		// compile
		"{program pages returning}",
		// run: sessions, frames and device tensors
		"device_tensor",
		"{session frame boxes iobinding packed packed_errors slices}",
		"decoder_cache",
	},
	"pipeline": {
		"vectors",
		"{description modules head static safetensors}", // what a folder holds
		"{engine layout packed prefix schedule}",        // batches
		"{pipeline serving outputs towers}",             // the model
		// the tasks
		"embed",
		"{classify tokenvectors judge}",
		"{images detect zeroshot}",
		"tag chunks",
		"answer fill gliner",
	},
	"server": {
		"tensors",
		"{errors encode scan body fields}", // text
		"{server models intact metrics observe origin peer page debug fetch}", // the server itself
		"{routes openapi images embed cohere tei vllm infinity tasks ollama oip oip_tensor oip_manage grpc}",
	},
}

// others is the layer of the files that have no line: kernels that no other kernel uses, above the table.
const others = "*"

// upward lists, by package, a file, a colon and the files that it uses although they are not above it in layers. A new row needs a reason
// why none of both files can be moved.
var upward = map[string][]string{
	"internal/engine": {"ports: growing"},
	"pipeline": {
		"description: embed gliner pipeline serving", "engine: pipeline serving", "layout: gliner pipeline serving", "modules: pipeline",
		"pipeline: gliner judge", "safetensors: pipeline", "schedule: pipeline serving", "serving: classify", "static: layout",
		"vectors: pipeline",
	},
	"server": {"body: openapi", "fields: openapi", "encode: observe", "origin: oip", "server: routes"},
}

// TestLayers type-checks each package without its imports, which is enough to know what its own files declare.
func TestLayers(t *testing.T) {
	t.Chdir(root)
	for folder, lines := range layers {
		layer, home := map[string]int{}, map[string]int{} // home is only of files in braces, which number their homes from 1 on
		for i, line := range lines {
			isHome := strings.HasPrefix(line, "{")
			for name := range strings.FieldsSeq(strings.Trim(line, "{}")) {
				layer[name] = i
				if isHome {
					home[name] = i + 1
				}
			}
		}
		excepted := map[[2]string]bool{} // whether the exception is used
		for _, row := range upward[folder] {
			from, list, _ := strings.Cut(row, ":")
			for to := range strings.FieldsSeq(list) {
				excepted[[2]string{from, to}] = false
			}
		}
		paths, err := filepath.Glob(folder + "/*.go")
		require.NoError(t, err)
		fset := token.NewFileSet()
		nameOf := func(p token.Pos) string { return strings.TrimSuffix(filepath.Base(fset.Position(p).Filename), ".go") }
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
				require.Contains(t, layer, others, "%s.go of %s is not in the table of layers", name, folder)
				layer[name] = layer[others]
			}
			delete(unseen, name)
			files = append(files, f)
		}
		require.Empty(t, unseen, "the table of layers has files of %s that are not there", folder)
		checked := 0
		for id, o := range uses(folder, fset, files) {
			checked++
			from, to := nameOf(id.Pos()), nameOf(o.Pos())
			if from == to || layer[to] < layer[from] || home[from] > 0 && home[from] == home[to] {
				continue
			}
			edge := [2]string{from, to}
			if _, ok := excepted[edge]; !ok {
				t.Errorf("%s uses %s of %s.go, which is not above it in the table of layers", fset.Position(id.Pos()), o.Name(), to)
			}
			excepted[edge] = true
		}
		for edge, used := range excepted {
			require.True(t, used, "%s: %s.go uses %s.go no more, or is below it: remove it from upward", folder, edge[0], edge[1])
		}
		require.Greater(t, checked, 50, "too few uses were found in %s", folder)
	}
}

// uses yields the identifiers in files that mean what one of them declares: at the top, or as a method.
func uses(folder string, fset *token.FileSet, files []*ast.File) iter.Seq2[*ast.Ident, types.Object] {
	info := types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: noImports{}, Error: func(error) {}}
	pkg, _ := config.Check(folder, fset, files, &info)
	return func(yield func(*ast.Ident, types.Object) bool) {
		for _, f := range files {
			selected := map[*ast.Ident]bool{} // fields, methods and names of packages
			for n := range ast.Preorder(f) {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					selected[n.Sel] = true
				case *ast.KeyValueExpr:
					if key, ok := n.Key.(*ast.Ident); ok {
						selected[key] = true
					}
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
