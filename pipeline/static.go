package pipeline

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
	"github.com/rlxc/rlxc/tokenizer"
)

// A static is a model of static embeddings: a table with a vector for each token. The vector of a text is the mean of the vectors of its
// tokens. model2vec and sentence-transformers (StaticEmbedding) store the table as safetensors, without ONNX. Open makes an ONNX model of
// it in memory, whose weights are bytes of the file, so that all else is as with other models:
//
//	input_ids [batch,sequence] ─ Gather ─► token_embeddings [batch,sequence,size]
//
// A table with a reduced vocabulary (model2vec, vocabulary_quantization) has fewer vectors than there are tokens. Its tensor "mapping" has
// the number of each token's vector, and "weights" a factor for each token.
type static struct {
	tensor string // name of the table in the file
	// model2vec is true for a table of that package: unknown tokens have no vector, and long texts are truncated.
	model2vec bool
	// unknown is the id of the unknown token of model2vec; −1 if it counts or there is none.
	unknown int64
	// characters is the number of characters of a text that model2vec reads; 0 for all.
	characters int
}

// staticFile is the name of the file of a table.
const staticFile = "model.safetensors"

// staticModel is the name of the model that is made of a table.
const staticModel = "static-embeddings.onnx"

// staticModule is the end of the type of the module in modules.json.
const staticModule = "StaticEmbedding"

// findStatic returns the path of a table in a model's folder, relative and with slashes; found is false for other models.
func findStatic(system files.System, dir string) (file string, found bool, err error) {
	var list []moduleEntry
	if _, err := readJSON(system, dir, "modules.json", &list); err != nil {
		return "", false, err
	}
	for _, entry := range list {
		if strings.HasSuffix(entry.Type, "."+staticModule) && filepath.IsLocal(filepath.Join(filepath.FromSlash(entry.Path), staticFile)) {
			return filepath.ToSlash(filepath.Join(entry.Path, staticFile)), true, nil
		}
	}
	var c config
	_, err = readJSON(system, dir, "config.json", &c)
	return staticFile, c.ModelType == "model2vec" && system.IsFile(filepath.Join(dir, staticFile)), err
}

// staticFolder returns the folder of the model whose table is a file; "" for any other file.
func staticFolder(system files.System, file string) string {
	for dir, n := filepath.Dir(file), 0; n < 2; dir, n = filepath.Dir(dir), n+1 { // its folder, or the one around 0_StaticEmbedding
		table, found, err := findStatic(system, dir)
		if err == nil && found && filepath.Join(dir, filepath.FromSlash(table)) == filepath.Clean(file) {
			return dir
		}
	}
	return ""
}

// mayBeStatic reports whether a repository with these files may be a model of static embeddings: modules.json names no module that has a
// folder with files, but for the table. Other models of sentence-transformers have at least a pooling.
func mayBeStatic(paths []string) bool {
	return slices.Contains(paths, "modules.json") && !slices.ContainsFunc(paths, func(p string) bool {
		return moduleFolder(path.Dir(p)) && !strings.HasSuffix(path.Dir(p), "_"+staticModule)
	})
}

// newStatic reads the header of a table.
func newStatic(system files.System, file string) (*static, error) {
	table, err := openSafetensors(system, file)
	if err != nil {
		return nil, err
	}
	defer table.Close()
	s := &static{unknown: -1, tensor: "embedding.weight"}
	if _, s.model2vec = table.header["embeddings"]; s.model2vec {
		s.tensor = "embeddings"
	}
	return s, nil
}

// findStaticLength finds how many tokens of a text count; sentence-transformers takes all.
func (d *Description) findStaticLength() {
	switch {
	case !d.static.model2vec:
	case d.config.MaxLength != nil:
		d.MaxLength = *d.config.MaxLength
		d.note("length", "config.json", "%d tokens", d.MaxLength)
	default:
		d.MaxLength = model2vecLength
		d.note("length", "the default of model2vec", "%d tokens", d.MaxLength)
	}
}

// readStatic reads the module of a table. What it makes of the vectors of tokens is their mean.
func readStatic(d *Description, m *module) error {
	if d.static == nil {
		return fmt.Errorf("%s: the module %s is a table of vectors, but %s is a model", filepath.Join(d.Dir, "modules.json"), m.kind,
			d.Model)
	}
	*m = module{kind: "Pooling", path: m.path, where: "modules.json", what: "static embeddings: the mean of the tokens' vectors",
		pooling: pooling{[]Pooling{PoolMean}, true}}
	return nil
}

// model2vecLength is the number of tokens that model2vec reads of a text if config.json has no max_length.
const model2vecLength = 512

// open makes the model of a table for a tokenizer.
func (s *static) open(d *Description, tok *tokenizer.Tokenizer) (*rlxc.Model, error) {
	table, err := openSafetensors(d.models, d.Model)
	if err != nil {
		return nil, err
	}
	defer table.Close()
	g := &onnxpb.GraphProto{Name: "static embeddings", Input: []*onnxpb.ValueInfoProto{
		valueInfo(idsName, onnxpb.TensorProto_INT64, symbol("batch"), symbol("sequence"))}}
	node := func(op, out string, attributes []*onnxpb.AttributeProto, in ...string) string {
		g.Node = append(g.Node, &onnxpb.NodeProto{OpType: op, Name: out, Input: in, Output: []string{out}, Attribute: attributes})
		return out
	}
	weight := func(name string, rank int) (tensor.Shape, error) {
		t, err := table.find(name)
		if err != nil {
			return nil, err
		}
		if len(t.shape) != rank {
			return nil, fmt.Errorf("%s: tensor %q has the shape %v: want %d axes", d.Model, name, t.shape, rank)
		}
		g.Initializer = append(g.Initializer, table.external(name, t))
		return t.shape, nil
	}
	shape, err := weight(s.tensor, 2)
	if err != nil {
		return nil, err
	}
	float := []*onnxpb.AttributeProto{{Name: "to", Type: onnxpb.AttributeProto_INT, I: int64(onnxpb.TensorProto_FLOAT)}}
	tokens, ids := shape[0], idsName
	if _, ok := table.header["mapping"]; ok {
		mapped, err := weight("mapping", 1)
		if err != nil {
			return nil, err
		}
		tokens, ids = mapped[0], node("Gather", "row", nil, "mapping", idsName)
	}
	vectors := node("Cast", "vector", float, node("Gather", "stored", nil, s.tensor, ids))
	if _, ok := table.header["weights"]; ok {
		factors, err := weight("weights", 1)
		if err != nil {
			return nil, err
		}
		tokens = min(tokens, factors[0])
		g.Initializer = append(g.Initializer, &onnxpb.TensorProto{Name: "last axis", Dims: []int64{1},
			DataType: int32(onnxpb.TensorProto_INT64), Int64Data: []int64{-1}})
		factor := node("Cast", "factor", float, node("Gather", "stored factor", nil, "weights", idsName))
		vectors = node("Mul", "weighted", nil, vectors, node("Unsqueeze", "factor of a vector", nil, factor, "last axis"))
	}
	if tok.Size() > tokens {
		return nil, fmt.Errorf("%s has ids up to %d, but %s has vectors for %d: it is not this model's tokenizer", d.Tokenizer,
			tok.Size()-1, d.Model, tokens)
	}
	node("Identity", "token_embeddings", nil, vectors)
	g.Output = []*onnxpb.ValueInfoProto{valueInfo("token_embeddings", onnxpb.TensorProto_FLOAT, symbol("batch"), symbol("sequence"),
		&onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(shape[1])}})}
	model, err := proto.Marshal(&onnxpb.ModelProto{IrVersion: 8, Graph: g, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}}})
	if err != nil {
		return nil, err
	}
	if s.model2vec {
		s.follow(d, tok)
	}
	file := d.Model
	if d.models.FS == nil { // a snapshot of the hub has links to its contents
		if file, err = filepath.EvalSymlinks(file); err != nil {
			return nil, err
		}
	}
	return rlxc.OpenFS(&staticFS{model, d.models, file}, staticModel)
}

// follow notes what model2vec does with texts: which tokens have no vector, and where it truncates.
func (s *static) follow(d *Description, tok *tokenizer.Tokenizer) {
	if _, id, ok := tok.Role("unk"); ok {
		s.unknown = id
	}
	if d.MaxLength == 0 {
		return
	}
	lengths := make([]int, 0, tok.Size())
	for id := range tok.Size() {
		if token, ok := tok.Token(int64(id)); ok {
			lengths = append(lengths, utf8.RuneCountInString(token))
		}
	}
	if len(lengths) == 0 {
		return
	}
	slices.Sort(lengths)
	s.characters = d.MaxLength * ((lengths[(len(lengths)-1)/2] + lengths[len(lengths)/2]) / 2) // the median, rounded down
}

// shorten returns the characters of a text that count.
func (s *static) shorten(text string) string {
	if s.characters == 0 || len(text) <= s.characters {
		return text
	}
	n := 0
	for at := range text {
		if n == s.characters {
			return text[:at]
		}
		n++
	}
	return text
}

// known removes the unknown tokens of an encoding.
func (s *static) known(e *tokenizer.Encoding) {
	if s.unknown < 0 || !slices.Contains(e.InputIDs, s.unknown) {
		return
	}
	e.InputIDs = slices.DeleteFunc(slices.Clone(e.InputIDs), func(id int64) bool { return id == s.unknown })
	e.TokenTypeIDs, e.AttentionMask = e.TokenTypeIDs[:len(e.InputIDs)], e.AttentionMask[:len(e.InputIDs)]
}

func symbol(name string) *onnxpb.TensorShapeProto_Dimension {
	return &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: name}}
}

// valueInfo describes an input or an output.
func valueInfo(name string, of onnxpb.TensorProto_DataType, shape ...*onnxpb.TensorShapeProto_Dimension) *onnxpb.ValueInfoProto {
	return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(of), Shape: &onnxpb.TensorShapeProto{Dim: shape}}}}}
}

// onnxTypes are the numbers that ONNX has for types of tensors in safetensors.
var onnxTypes = map[tensor.DType]onnxpb.TensorProto_DataType{tensor.F32: onnxpb.TensorProto_FLOAT, tensor.F16: onnxpb.TensorProto_FLOAT16,
	tensor.BF16: onnxpb.TensorProto_BFLOAT16, tensor.F64: onnxpb.TensorProto_DOUBLE, tensor.I8: onnxpb.TensorProto_INT8,
	tensor.I32: onnxpb.TensorProto_INT32, tensor.I64: onnxpb.TensorProto_INT64}

// external returns the initializer whose content is a tensor of the file.
func (s *safetensors) external(name string, t stored) *onnxpb.TensorProto {
	begin := uint64(len(s.Bytes())-len(s.data)) + t.begin
	x := &onnxpb.TensorProto{Name: name, DataType: int32(onnxTypes[t.dtype]), DataLocation: onnxpb.TensorProto_EXTERNAL,
		ExternalData: []*onnxpb.StringStringEntryProto{{Key: "location", Value: staticFile}, {Key: "offset", Value: fmt.Sprint(begin)},
			{Key: "length", Value: fmt.Sprint(t.end - t.begin)}}}
	for _, n := range t.shape {
		x.Dims = append(x.Dims, int64(n))
	}
	return x
}

// A staticFS has two files: the model that was made of a table, and the table.
type staticFS struct {
	model  []byte
	system files.System
	table  string // path of the table in system
}

// Open implements fs.FS.
func (f *staticFS) Open(name string) (fs.File, error) {
	if name == staticModel {
		return &memoryFile{*bytes.NewReader(f.model)}, nil
	}
	return f.system.Open(f.table)
}

// A memoryFile is a file of bytes in memory, and its description.
type memoryFile struct{ bytes.Reader }

func (f *memoryFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *memoryFile) Close() error               { return nil }
func (f *memoryFile) Name() string               { return staticModel }
func (f *memoryFile) Mode() fs.FileMode          { return 0o444 }
func (f *memoryFile) ModTime() time.Time         { return time.Time{} }
func (f *memoryFile) IsDir() bool                { return false }
func (f *memoryFile) Sys() any                   { return nil }
