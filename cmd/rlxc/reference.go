package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/internal/onnxruntime"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// A testCase is the inputs of one run: recorded in a data set, or made up at some sizes.
type testCase struct {
	set    string
	dims   map[string]int
	inputs rlxc.Tensors
}

func (k testCase) name() string {
	if k.set != "" {
		return strings.TrimPrefix(k.set, "test_")
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(k.dims)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, k.dims[name]))
	}
	return strings.Join(parts, " ")
}

// loadTested loads what is validated.
func (v *validation) loadTested(ctx context.Context, src *source, taps bool) (engine, error) {
	if v.Backend == onnxRuntime {
		return v.load(ctx, src)
	}
	return v.loadOwn(ctx, src, taps)
}

// cases gathers the inputs: recorded ones where there are any and no --shapes, else made-up ones.
func (v *validation) cases(src *source, e engine) ([]testCase, error) {
	var cases []testCase
	if len(v.shapes) == 0 {
		sets, err := models.Sets(src.folder)
		if err != nil {
			return nil, err
		}
		for _, set := range sets {
			in, err := recordedInputs(src, e, set)
			if err != nil {
				return nil, err
			}
			cases = append(cases, testCase{set: set, inputs: in})
		}
		if len(cases) > 0 {
			return cases, nil
		}
	}
	if v.against == "" {
		if len(v.shapes) > 0 {
			return nil, usagef("--shapes requires --against %s: generated inputs have no recorded outputs", options.Join(references))
		}
		return nil, fmt.Errorf("%s has no recorded outputs (folders test_data_set_*): compare with an engine, --against %s",
			src.name, strings.Join(references, " or --against "))
	}
	free := freeDims(e.Inputs())
	if len(v.shapes) == 0 && len(free) == 2 {
		v.shapes.Set(defaultShapes)
	}
	bindings, err := v.shapes.bindings(free)
	if err != nil {
		return nil, err
	}
	maker, err := newMaker(src, e)
	if err != nil {
		return nil, err
	}
	for _, b := range bindings {
		in, err := maker.random(b)
		if err != nil {
			return nil, err
		}
		cases = append(cases, testCase{dims: b, inputs: in})
	}
	return cases, nil
}

// recordedInputs reads the inputs of a set. If a set gives an input with a default, its files say which by the names in them. Without such
// names, they are the inputs that have no default, in the model's order.
func recordedInputs(src *source, e engine, set string) (rlxc.Tensors, error) {
	var names []string
	for _, v := range e.Inputs() {
		if !v.Default {
			names = append(names, v.Name)
		}
	}
	if all := namesOf(e.Inputs()); len(all) > len(names) {
		if given, err := recordedNames(src.folder, set); err != nil {
			return nil, err
		} else if !slices.ContainsFunc(given, func(name string) bool { return !slices.Contains(all, name) }) {
			names = given
		}
	}
	return models.ReadSet(src.folder, set, "input", declaredIn(e, (*onnxpb.GraphProto).GetInput, names))
}

// recordedNames returns the names in the files input_0.pb, input_1.pb, … of a set, which hold tensors.
func recordedNames(folder fs.FS, set string) (names []string, err error) {
	for {
		data, err := fs.ReadFile(folder, path.Join(set, fmt.Sprintf("input_%d.pb", len(names))))
		if errors.Is(err, fs.ErrNotExist) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		v, err := onnx.ParseValue(data, nil)
		if err != nil {
			return nil, err
		}
		names = append(names, v.Name)
	}
}

// recordedGiven returns the names of the inputs in all sets.
func recordedGiven(folder fs.FS) ([]string, error) {
	sets, err := models.Sets(folder)
	var all []string
	for _, set := range sets {
		names, err := recordedNames(folder, set)
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	return all, err
}

// references are what --against takes.
var references = []string{onnxRuntime, evaluation}

// evaluation names the plain implementation of the operators on the command line.
const evaluation = "eval"

// A runner computes a model's outputs until it is closed.
type runner interface {
	Run(context.Context, rlxc.Tensors) (rlxc.Tensors, error)
	Close() error
}

// A reference computes the expected results.
type reference struct {
	name    string
	outputs []string // names of the model's outputs
	taps    []string // intermediate values that both sides have, in the order of the tested program

	recorded *source // where outputs are read, if they are
	declared []*onnxpb.ValueInfoProto
	live     runner
	// optimised opens the reference engine again, with its optimisations. It is nil unless the reference is onnxruntime.
	optimised func() (*ortEngine, error)
	// unrounded opens the engine again, with the model that unrounded makes of the reference's. It is nil for recorded outputs. The engine
	// is nil if that model has no pairs.
	unrounded func() (runner, error)
	close     func() error
}

// loadReferenceOf gets the reference ready. With taps, it returns the intermediate values that the tested program returns, as far
// as it knows them.
func (v *validation) loadReferenceOf(src *source, e engine, taps bool) (*reference, error) {
	r := &reference{close: func() error { return nil }}
	r.outputs = namesOf(e.Outputs())
	var tapped []rlxc.ValueInfo
	if o, ok := e.(*own); ok {
		r.outputs = namesOf(o.model.Outputs())
		tapped = o.program.Outputs()[len(r.outputs):]
	}
	refSrc := src
	if v.referencePath != "" {
		var err error
		if refSrc, err = find(v.referencePath); err != nil {
			return nil, err
		}
	}
	switch v.against {
	case onnxRuntime:
		return r, v.loadLive(r, refSrc, tapped)
	case evaluation:
		r.name = evaluation
		r.unrounded = func() (runner, error) { return unroundedOracle(refSrc) }
		return r, r.loadOracle(refSrc, tapped)
	}
	if v.referencePath != "" {
		return nil, usagef("--reference requires --against")
	}
	r.name, r.recorded = "recorded outputs", src
	r.declared = declaredIn(e, (*onnxpb.GraphProto).GetOutput, r.outputs)
	if taps {
		return r, r.loadOracle(src, tapped)
	}
	return r, nil
}

// loadOracle prepares the plain implementation of the model's operators.
func (r *reference) loadOracle(src *source, tapped []rlxc.ValueInfo) error {
	m, err := src.open()
	if err != nil {
		return err
	}
	if inside.Proto(m) == nil {
		m.Close()
		return usagef("%s is a compiled file: add the .onnx file that it was made from, --against eval --reference FILE", src.name)
	}
	g, err := inside.Model(m)
	if err != nil {
		m.Close()
		return err
	}
	r.live, r.taps, r.close = &oracle{g, m}, tapGraph(g, tapped), m.Close
	return nil
}

// unroundedOracle opens the plain implementation of the model that unrounded makes, or nil if that has no pairs.
func unroundedOracle(src *source) (runner, error) {
	m, err := src.open()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	p := unrounded(inside.Proto(m))
	if p == nil {
		return nil, nil
	}
	if m, err = rlxc.FromProto(p, src.name); err != nil {
		return nil, err
	}
	g, err := inside.Model(m)
	return &oracle{g, m}, err
}

// loadLive loads the model into onnxruntime.
func (v *validation) loadLive(r *reference, src *source, tapped []rlxc.ValueInfo) error {
	var taps []onnxruntime.Tap
	if len(tapped) > 0 {
		m, err := src.openFile()
		if err != nil {
			return err
		}
		known := nodeOutputs(m.Proto.Graph)
		m.Close()
		for _, info := range tapped {
			if known[info.Name] {
				taps = append(taps, onnxruntime.Tap{Name: info.Name, DType: info.DType})
				r.taps = append(r.taps, info.Name)
			}
		}
	}
	ref, err := v.loadReference(src, onnxruntime.None, taps)
	if err != nil {
		return err
	}
	r.name, r.live = onnxRuntime+" "+ref.Version(), ref
	r.close = ref.Close
	r.optimised = func() (*ortEngine, error) { return v.loadReference(src, onnxruntime.All, nil) }
	r.unrounded = func() (runner, error) {
		m, err := src.openFile()
		if err != nil {
			return nil, err
		}
		defer m.Close()
		if m.Proto = unrounded(m.Proto); m.Proto == nil {
			return nil, nil
		}
		s, err := onnxruntime.New(m, v.referenceOptions(src, onnxruntime.None, nil))
		return &ortEngine{s}, err
	}
	return nil
}

// worth returns how far onnxruntime, with its optimisations, is from its unoptimised results of all cases: the farthest by output. It
// returns nothing if another reference is used, or if onnxruntime cannot run the model with optimisations.
func (r *reference) worth(ctx context.Context, cases []testCase, want []rlxc.Tensors, tol tolerance) map[string]difference {
	if r.optimised == nil {
		return nil
	}
	e, err := r.optimised()
	if err != nil {
		return nil
	}
	defer e.Close()
	farthest := map[string]difference{}
	for i, k := range cases {
		out, err := e.Run(ctx, k.inputs)
		if err != nil {
			return nil
		}
		for _, name := range r.outputs {
			d := compare(name, out[name], want[i][name], tol)
			if most, ok := farthest[name]; ok {
				d.MaxAbs, d.Cosine, d.Outside = max(d.MaxAbs, most.MaxAbs), min(d.Cosine, most.Cosine), max(d.Outside, most.Outside)
			}
			farthest[name] = d
		}
	}
	return farthest
}

// run returns what is expected of a case.
func (r *reference) run(ctx context.Context, k testCase) (rlxc.Tensors, error) {
	want := rlxc.Tensors{}
	if r.live != nil {
		out, err := r.live.Run(ctx, k.inputs)
		if err != nil {
			return nil, err
		}
		maps.Copy(want, out)
	}
	if r.recorded != nil {
		out, err := models.ReadSet(r.recorded.folder, k.set, "output", r.declared)
		if err != nil {
			return nil, err
		}
		maps.Copy(want, out)
	}
	return want, nil
}

// tapGraph makes the named values outputs of a graph and lists those that it has.
func tapGraph(g *ir.Graph, tapped []rlxc.ValueInfo) []string {
	values := map[string]*ir.Value{}
	for _, n := range g.Nodes {
		for _, v := range n.Outputs {
			if values[v.Name] == nil {
				values[v.Name] = v
			}
		}
	}
	var names []string
	for _, info := range tapped {
		if v := values[info.Name]; v != nil {
			g.Outputs, g.OutputNames = append(g.Outputs, v), append(g.OutputNames, info.Name)
			names = append(names, info.Name)
		}
	}
	return names
}

// declaredIn is what the model says of the named values in one of its lists: files do not distinguish a sequence from a tensor.
func declaredIn(e engine, list func(*onnxpb.GraphProto) []*onnxpb.ValueInfoProto, names []string) []*onnxpb.ValueInfoProto {
	out := models.Named(names)
	if o, ok := e.(*own); ok {
		for _, info := range list(inside.Proto(o.model).GetGraph()) {
			if i := slices.Index(names, info.Name); i >= 0 {
				out[i] = info
			}
		}
	}
	return out
}

func nodeOutputs(g *onnxpb.GraphProto) map[string]bool {
	out := map[string]bool{}
	for _, n := range g.Node {
		for _, name := range n.Output {
			out[name] = true
		}
	}
	return out
}

func namesOf(infos []rlxc.ValueInfo) []string {
	out := make([]string, len(infos))
	for i, v := range infos {
		out[i] = v.Name
	}
	return out
}
