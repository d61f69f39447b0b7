package onnx

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// outside is a tensor of three floats in another file; entries are pairs of key and value.
func outside(entries ...string) *onnxpb.TensorProto {
	tp := &onnxpb.TensorProto{Name: "w", DataType: int32(tensor.F32), Dims: []int64{3}, DataLocation: onnxpb.TensorProto_EXTERNAL}
	for i := 0; i < len(entries); i += 2 {
		tp.ExternalData = append(tp.ExternalData, &onnxpb.StringStringEntryProto{Key: entries[i], Value: entries[i+1]})
	}
	return tp
}

// retyped is a tensor of another type and size.
func retyped(tp *onnxpb.TensorProto, dtype int32, size int64) *onnxpb.TensorProto {
	tp.DataType, tp.Dims = dtype, []int64{size}
	return tp
}

func withWeight(tp *onnxpb.TensorProto) *onnxpb.ModelProto {
	g := graph([]string{"x"}, []string{"y"}, add("sum", "x", "w", "y"))
	g.Initializer = []*onnxpb.TensorProto{tp}
	return model(g)
}

// folderWithData is a folder for a model, with one byte and then the floats 1, 2, 3.
func folderWithData(t *testing.T) (dir string) {
	dir = t.TempDir()
	data := append([]byte{0}, tensor.FromSlice([]float32{1, 2, 3}).Bytes()...)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "m", "sub"), 0o755))
	for _, path := range []string{"m/data.bin", "m/sub/data.bin", "secret"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), data, 0o600))
	}
	return dir
}

func TestExternalData(t *testing.T) {
	dir := folderWithData(t)
	path := filepath.Join(dir, "m", "model.onnx")
	require.NoError(t, os.Symlink("data.bin", filepath.Join(dir, "m", "link"))) // links within the folder are fine
	for _, tp := range []*onnxpb.TensorProto{
		outside("location", "data.bin", "offset", "1"),
		outside("location", "data.bin", "offset", "1", "length", "12", "checksum", "wrong"),
		outside("offset", "1", "location", "sub/../sub/data.bin"),
		outside("offset", "1", "location", "link"),
	} {
		m, err := Open(write(t, path, withWeight(tp)))
		require.NoError(t, err)
		w, err := Tensor(m.Proto.Graph.Initializer[0])
		require.NoError(t, err)
		require.Equal(t, []float64{1, 2, 3}, w.Aligned().Float64s())
		file := m.files[1].Bytes()
		require.Equal(t, &file[1], unsafe.SliceData(w.Bytes()), "the tensor must be a view of the mapping")
		require.NoError(t, m.Close())
	}
	data, err := os.ReadFile(filepath.Join(dir, "m", "data.bin"))
	require.NoError(t, err)
	inner, err := Marshal(withWeight(outside("location", "data.bin", "offset", "1")))
	require.NoError(t, err)
	m, err := OpenFS(fstest.MapFS{"a/model.onnx": {Data: inner}, "a/data.bin": {Data: data}}, "a/model.onnx")
	require.NoError(t, err)
	require.Equal(t, data[1:], m.Proto.Graph.Initializer[0].RawData)
	for _, files := range []fstest.MapFS{{}, {"a/data.bin": {Mode: fs.ModeDir}}, {"a/data.bin": {Mode: fs.ModeNamedPipe}}} {
		_, err = OpenFS(files, "a/data.bin")
		require.Error(t, err)
		files["a/model.onnx"] = &fstest.MapFile{Data: inner}
		_, err = OpenFS(files, "a/model.onnx")
		require.ErrorContains(t, err, "data.bin")
	}
}

// In a cache of huggingface_hub the files of a snapshot are links to contents beside it.
func TestExternalDataOfAHubCache(t *testing.T) {
	cache := t.TempDir()
	const snapshot = "snapshots/0123456789abcdef0123456789abcdef01234567/onnx"
	put := func(path string, data []byte) {
		path = filepath.Join(cache, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, data, 0o666))
	}
	link := func(target, path string) {
		path = filepath.Join(cache, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.Symlink(target, path))
	}
	hash := strings.Repeat("ab", 32)
	weights := []byte("twelve bytes")
	model, err := Marshal(withWeight(outside("location", "model.onnx_data")))
	require.NoError(t, err)
	put("models--a--own/blobs/1", model)
	put("models--a--own/blobs/2", weights)
	put("blobs/ab/"+hash, weights)
	for _, c := range []struct{ name, from, target, want string }{
		{"its own content", "models--a--own", "../../../blobs/2", ""},
		{"the shared store", "models--a--shared", "../../../../blobs/ab/" + hash, ""},
		{"another repository", "models--a--other", "../../../../models--a--own/blobs/2", "path escapes"},
		{"outside of the cache", "models--a--outside", filepath.Join(cache, "secret"), "path escapes"},
		{"its own refs", "models--a--refs", "../../../refs/main", "path escapes"},
		{"no snapshot", "elsewhere", "../../../blobs/2", "path escapes"},
	} {
		put("secret", weights)
		put(c.from+"/refs/main", weights)
		put(c.from+"/blobs/1", model)
		put(c.from+"/blobs/2", weights)
		link("../../../blobs/1", c.from+"/"+snapshot+"/model.onnx")
		link(c.target, c.from+"/"+snapshot+"/model.onnx_data")
		m, err := Open(filepath.Join(cache, c.from, snapshot, "model.onnx"))
		if c.want != "" {
			require.ErrorContains(t, err, c.want, c.name)
			continue
		}
		require.NoError(t, err, c.name)
		require.Equal(t, weights, m.Proto.Graph.Initializer[0].RawData, c.name)
		require.NoError(t, m.Close())
	}
}

func TestExternalDataThatIsRefused(t *testing.T) {
	dir := folderWithData(t)
	path := filepath.Join(dir, "m", "model.onnx")
	require.NoError(t, os.Symlink("../secret", filepath.Join(dir, "m", "out")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "secret"), filepath.Join(dir, "m", "absolute")))
	require.NoError(t, os.Symlink("..", filepath.Join(dir, "m", "up")))
	for _, c := range []struct {
		tp   *onnxpb.TensorProto
		want string
	}{
		{outside(), "names no file"},
		{outside("location", ""), "names no file"},
		{outside("location", "../secret"), "only files beneath the model's folder"},
		{outside("location", "sub/../../secret"), "only files beneath the model's folder"},
		{outside("location", filepath.Join(dir, "secret")), "only files beneath the model's folder"},
		{outside("location", "out"), "path escapes from parent"},
		{outside("location", "absolute"), "path escapes from parent"},
		{outside("location", "up/secret"), "path escapes from parent"},
		{outside("location", "data.bin\x00.txt"), `"data.bin\x00.txt": the name has a NUL byte`},
		{outside("location", "sub"), "not a regular file"},
		{outside("location", "absent"), `external file "absent": no such file`},
		{outside("location", "data.bin", "location", "absent"), `external file "absent": no such file`}, // the last one counts
		{outside("location", "data.bin", "offset", "-1"), `offset "-1" is not a number`},
		{outside("location", "data.bin", "length", "twelve"), `length "twelve" is not a number`},
		{outside("location", "data.bin", "offset", "18446744073709551615"), "is not a number"},
		{outside("location", "data.bin", "offset", "9223372036854775807"),
			"12 bytes at offset 9223372036854775807 are requested, but the file has 13"},
		{outside("location", "data.bin", "bytes", "12"), `key "bytes" is not location`},
		{retyped(outside("location", "data.bin"), 8, 3), "strings cannot be external"},
		{retyped(outside("location", "data.bin"), 99, 3), "99"},
		{retyped(outside("location", "data.bin"), 1, -3), "-3"},
		{outside("location", "data.bin", "offset", "2"), "12 bytes at offset 2 are requested, but the file has 13"},
		{outside("location", "data.bin", "offset", "1", "length", "11"), "needs 12 bytes, its length is given as 11"},
	} {
		for form, m := range everyPosition(c.tp) {
			_, err := Open(write(t, path, m))
			require.ErrorIs(t, err, ErrInvalid, form)
			require.ErrorContains(t, err, path+`: tensor "w"`, form)
			require.ErrorContains(t, err, c.want, form)
		}
	}
	_, err := Open(write(t, path, withWeight(outside("location", "absent"))))
	require.ErrorIs(t, err, fs.ErrNotExist)

	// An fs.FS may follow links anywhere, so that none is followed.
	for _, name := range []string{"out", "up/secret", "absolute"} {
		write(t, path, withWeight(outside("location", name)))
		_, err = OpenFS(os.DirFS(filepath.Join(dir, "m")), "model.onnx")
		require.ErrorContains(t, err, "not a regular file", name)
	}
	_, err = New(withWeight(outside("location", "data.bin")), "built")
	require.ErrorContains(t, err, "the folder of its external data is unknown")
}

// everyPosition puts a tensor wherever a model can hold one.
func everyPosition(tp *onnxpb.TensorProto) map[string]*onnxpb.ModelProto {
	ok := func() *onnxpb.GraphProto { return graph([]string{"x"}, []string{"y"}, add("sum", "x", "x", "y")) }
	attribute := func(a *onnxpb.AttributeProto) *onnxpb.GraphProto {
		g := ok()
		g.Node[0].Attribute = append(g.Node[0].Attribute, a)
		return g
	}
	sp := &onnxpb.SparseTensorProto{Values: tp, Indices: tp, Dims: []int64{5}}
	inBody := attribute(body("body", attribute(&onnxpb.AttributeProto{Name: "t", Type: onnxpb.AttributeProto_TENSOR, T: tp})))
	sparseWeight, function, training := ok(), model(ok()), model(ok())
	sparseWeight.SparseInitializer = []*onnxpb.SparseTensorProto{sp}
	function.Functions = []*onnxpb.FunctionProto{{Name: "f", Node: inBody.Node}}
	training.TrainingInfo = []*onnxpb.TrainingInfoProto{{Algorithm: withWeight(tp).Graph}}
	forms := map[string]*onnxpb.ModelProto{
		"initializer": withWeight(tp),
		"sparse":      model(sparseWeight),
		"tensors": model(attribute(&onnxpb.AttributeProto{Name: "t", Type: onnxpb.AttributeProto_TENSORS,
			Tensors: []*onnxpb.TensorProto{tp}})),
		"sparse value": model(attribute(&onnxpb.AttributeProto{Name: "t", Type: onnxpb.AttributeProto_SPARSE_TENSOR, SparseTensor: sp})),
		"sparse values": model(attribute(&onnxpb.AttributeProto{Name: "t", Type: onnxpb.AttributeProto_SPARSE_TENSORS,
			SparseTensors: []*onnxpb.SparseTensorProto{sp}})),
		"body": model(inBody),
		"bodies": model(attribute(&onnxpb.AttributeProto{Name: "g", Type: onnxpb.AttributeProto_GRAPHS,
			Graphs: []*onnxpb.GraphProto{inBody}})),
		"function":       function,
		"training graph": training,
	}
	return forms
}

func TestManyTensorsOfOneFileAreMappedOnce(t *testing.T) {
	dir := folderWithData(t)
	g := graph([]string{"x"}, []string{"y"}, add("sum", "x", "w0", "y"))
	for i := range 100 {
		tp := outside("location", "data.bin", "offset", "1")
		tp.Name = "w" + strconv.Itoa(i)
		g.Initializer = append(g.Initializer, tp)
	}
	m, err := Open(write(t, filepath.Join(dir, "m", "model.onnx"), model(g)))
	require.NoError(t, err)
	defer m.Close()
	require.Len(t, m.files, 2)
}
