package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/oippb"
	"github.com/rlxc/rlxc/tensor"
)

// dial serves a model and returns a connection to it.
func dial(t *testing.T, o Options) *grpc.ClientConn {
	s, err := New(t.Context(), []Model{{Name: "minilm", Path: "../pipeline/testdata/minilm"}}, o)
	require.NoError(t, err)
	h := httptest.NewUnstartedServer(s.GRPC())
	h.Config.Protocols = new(http.Protocols)
	h.Config.Protocols.SetUnencryptedHTTP2(true)
	h.Start()
	c, err := grpc.NewClient(h.Listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Close()
		h.Close()
		require.NoError(t, s.Close())
	})
	return c
}

func invoke[A any](t *testing.T, ctx context.Context, c *grpc.ClientConn, name string, q proto.Message) (*A, error) {
	a := new(A)
	return a, c.Invoke(ctx, "/"+serviceName+"/"+name, q, a)
}

// request is two rows of tokens.
func inferRequest(raw bool) *oippb.ModelInferRequest {
	q := &oippb.ModelInferRequest{ModelName: "minilm", Id: "x"}
	for name, values := range map[string][]int64{"input_ids": {5, 6, 7, 8}, "attention_mask": {1, 1, 1, 1},
		"token_type_ids": {0, 0, 0, 0}} {
		x := &oippb.ModelInferRequest_InferInputTensor{Name: name, Datatype: "INT64", Shape: []int64{2, 2}}
		if raw {
			q.RawInputContents = append(q.RawInputContents, tensor.FromSlice(values).Bytes())
		} else {
			x.Contents = &oippb.InferTensorContents{Int64Contents: values}
		}
		q.Inputs = append(q.Inputs, x)
	}
	return q
}

func TestGRPC(t *testing.T) {
	c := dial(t, Options{Version: "7.8"})
	m, err := rlxc.Open("../pipeline/testdata/minilm/onnx/model.onnx")
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(t.Context(), rlxc.CompileOptions{})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	in := rlxc.Tensors{}
	for _, x := range inferRequest(false).GetInputs() {
		in[x.GetName()] = tensor.FromSlice(x.GetContents().GetInt64Contents(), 2, 2)
	}
	want, err := s.Run(t.Context(), in)
	require.NoError(t, err)
	for _, raw := range []bool{false, true} {
		a, err := invoke[oippb.ModelInferResponse](t, t.Context(), c, "ModelInfer", inferRequest(raw))
		require.NoError(t, err)
		require.Equal(t, []string{"x", "minilm", "1"}, []string{a.GetId(), a.GetModelName(), a.GetModelVersion()})
		require.Len(t, a.GetOutputs(), len(want))
		for i, o := range a.GetOutputs() {
			require.Equal(t, "FP32", o.GetDatatype())
			require.Equal(t, wide(want[o.GetName()].Shape()), o.GetShape())
			require.Equal(t, want[o.GetName()].Bytes(), a.GetRawOutputContents()[i])
		}
	}
	meta, err := invoke[oippb.ModelMetadataResponse](t, t.Context(), c, "ModelMetadata", &oippb.ModelMetadataRequest{Name: "minilm"})
	require.NoError(t, err)
	require.Equal(t, []int64{-1, -1}, meta.GetInputs()[0].GetShape())
	require.Equal(t, "INT64", meta.GetInputs()[0].GetDatatype())
	require.Len(t, meta.GetOutputs(), len(want))
	require.Equal(t, []string{"minilm", platform, "1"}, []string{meta.GetName(), meta.GetPlatform(), meta.GetVersions()[0]})
	ready, err := invoke[oippb.ModelReadyResponse](t, t.Context(), c, "ModelReady", &oippb.ModelReadyRequest{Name: "minilm", Version: "1"})
	require.NoError(t, err)
	require.True(t, ready.GetReady())
	live, err := invoke[oippb.ServerLiveResponse](t, t.Context(), c, "ServerLive", &oippb.ServerLiveRequest{})
	require.NoError(t, err)
	require.True(t, live.GetLive())
	up, err := invoke[oippb.ServerReadyResponse](t, t.Context(), c, "ServerReady", &oippb.ServerReadyRequest{})
	require.NoError(t, err)
	require.True(t, up.GetReady())
	about, err := invoke[oippb.ServerMetadataResponse](t, t.Context(), c, "ServerMetadata", &oippb.ServerMetadataRequest{})
	require.NoError(t, err)
	require.Equal(t, "rlxc 7.8", about.GetName()+" "+about.GetVersion())

	config, err := invoke[oippb.ModelConfigResponse](t, t.Context(), c, "ModelConfig", &oippb.ModelConfigRequest{Name: "minilm"})
	require.NoError(t, err)
	require.Equal(t, "INT64", tritonTypes[config.GetConfig().GetInput()[0].GetDataType()])
	require.Equal(t, []int64{-1, -1, 32}, config.GetConfig().GetOutput()[0].GetDims())
	index, err := invoke[oippb.RepositoryIndexResponse](t, t.Context(), c, "RepositoryIndex", &oippb.RepositoryIndexRequest{Ready: true})
	require.NoError(t, err)
	require.Equal(t, "READY", index.GetModels()[0].GetState())
	all, err := invoke[oippb.ModelStatisticsResponse](t, t.Context(), c, "ModelStatistics", &oippb.ModelStatisticsRequest{})
	require.NoError(t, err)
	statistics := all.GetModelStats()[0]
	require.EqualValues(t, 2, statistics.GetInferenceCount())
	require.EqualValues(t, 2, statistics.GetInferenceStats().GetSuccess().GetCount())
	require.Positive(t, statistics.GetInferenceStats().GetComputeInfer().GetNs())
	require.Positive(t, statistics.GetLastInference())

	for code, spoil := range map[codes.Code][]func(*oippb.ModelInferRequest){
		codes.NotFound: {func(q *oippb.ModelInferRequest) { q.ModelName = "none" },
			func(q *oippb.ModelInferRequest) { q.ModelVersion = "2" }},
		codes.InvalidArgument: {
			func(q *oippb.ModelInferRequest) { q.Inputs = q.Inputs[1:] },
			func(q *oippb.ModelInferRequest) { q.Inputs[0].Datatype = "FP16" },
			func(q *oippb.ModelInferRequest) { q.Inputs[0].Datatype = "FP32" },
			func(q *oippb.ModelInferRequest) { q.Inputs[0].Shape = []int64{-2, -2} },
			func(q *oippb.ModelInferRequest) { q.Inputs[0].Shape = []int64{1 << 62, 1 << 62, 4} },
			func(q *oippb.ModelInferRequest) { q.Inputs[0].Name = q.Inputs[1].GetName() },
			func(q *oippb.ModelInferRequest) { q.RawInputContents = [][]byte{{1}} },
			func(q *oippb.ModelInferRequest) { q.RawInputContents = [][]byte{{1}, {2}, {3}} },
			func(q *oippb.ModelInferRequest) { q.RawInputContents = inferRequest(true).RawInputContents[1:] },
			func(q *oippb.ModelInferRequest) {
				q.RawInputContents = append(inferRequest(true).RawInputContents, make([]byte, 32))
			},
			func(q *oippb.ModelInferRequest) {
				q.Outputs = []*oippb.ModelInferRequest_InferRequestedOutputTensor{{Name: "none"}}
			},
		},
	} {
		for i, change := range spoil {
			q := inferRequest(false)
			change(q)
			_, err := invoke[oippb.ModelInferResponse](t, t.Context(), c, "ModelInfer", q)
			require.Equal(t, code, status.Code(err), "%d: %v", i, err)
			require.NotEmpty(t, status.Convert(err).Message())
		}
	}
}

// TestContents: tensors of every type as typed contents and as bytes, and those that are neither.
func TestContents(t *testing.T) {
	type all = oippb.InferTensorContents
	for datatype, c := range map[string]struct {
		contents *all
		want     *tensor.Tensor
	}{
		"BOOL":   {&all{BoolContents: []bool{true, false}}, tensor.FromSlice([]bool{true, false})},
		"INT8":   {&all{IntContents: []int32{-128, 127}}, tensor.FromSlice([]int8{-128, 127})},
		"INT16":  {&all{IntContents: []int32{-1, 300}}, tensor.FromSlice([]int16{-1, 300})},
		"INT32":  {&all{IntContents: []int32{-1, 1 << 30}}, tensor.FromSlice([]int32{-1, 1 << 30})},
		"INT64":  {&all{Int64Contents: []int64{-1, 1 << 40}}, tensor.FromSlice([]int64{-1, 1 << 40})},
		"UINT8":  {&all{UintContents: []uint32{0, 255}}, tensor.FromSlice([]uint8{0, 255})},
		"UINT16": {&all{UintContents: []uint32{0, 300}}, tensor.FromSlice([]uint16{0, 300})},
		"UINT32": {&all{UintContents: []uint32{0, 1 << 31}}, tensor.FromSlice([]uint32{0, 1 << 31})},
		"UINT64": {&all{Uint64Contents: []uint64{0, 1 << 63}}, tensor.FromSlice([]uint64{0, 1 << 63})},
		"FP32":   {&all{Fp32Contents: []float32{1, 2}}, tensor.FromSlice([]float32{1, 2})},
		"FP64":   {&all{Fp64Contents: []float64{1, 2}}, tensor.FromSlice([]float64{1, 2})},
		"BYTES":  {&all{BytesContents: [][]byte{[]byte("a"), []byte("é")}}, tensor.FromStrings([]string{"a", "é"}, 2)},
	} {
		for _, shape := range [][]int{{2}, {2, 1}} {
			in, err := newInput("x", datatype, shape)
			require.NoError(t, err, datatype)
			typed, err := in.contents(c.contents)
			require.NoError(t, err, datatype)
			raw, err := in.raw(nil, rawTensor(c.want))
			require.NoError(t, err, datatype)
			w := httptest.NewRecorder()
			require.NoError(t, writeJSON(t.Context(), w, 200, elements{c.want}))
			written, err := tensor.ParseJSON(w.Body.Bytes(), c.want.DType())
			require.NoError(t, err, datatype)
			for _, got := range []*tensor.Tensor{typed, raw, written.Reshape(shape...)} {
				require.Equal(t, c.want.Reshape(shape...).String(), got.String())
				require.Equal(t, c.want.Bytes(), got.Bytes())
				require.Equal(t, c.want.Strings(), got.Strings())
			}
		}
		w := httptest.NewRecorder()
		e := &encoder{ctx: t.Context(), to: w, status: 200}
		require.NoError(t, e.end(e.raw(c.want)))
		require.Equal(t, rawTensor(c.want), w.Body.Bytes())
		require.Len(t, w.Body.Bytes(), rawSize(c.want))
		for says, bad := range map[string]struct {
			datatype string
			shape    []int
		}{
			"unknown datatype \"TEXT\"":              {"TEXT", []int{2}},
			"the shape [-2 -1] has a negative size":  {datatype, []int{-2, -1}},
			"is larger than memory":                  {datatype, []int{1 << 40, 1 << 40}},
			"the shape [3] has 3 elements, but the ": {datatype, []int{3}},
			"datatype FP16 ":                         {"FP16", []int{2}},
		} {
			in, err := newInput("x", bad.datatype, bad.shape)
			if err != nil {
				require.ErrorContains(t, err, says)
				continue
			}
			_, err = in.contents(c.contents)
			require.ErrorContains(t, err, says)
			if _, err = in.raw(nil, rawTensor(c.want)); bad.datatype == datatype {
				require.ErrorContains(t, err, "the shape [3]")
			}
		}
	}
}

// TestCost of messages: bytes, numbers, messages in messages, fields that are not known, and what is cut off.
func TestCost(t *testing.T) {
	field := func(number protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
	}
	raw, name := field(7, make([]byte, 100)), field(1, make([]byte, 9))
	number := protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), 1)
	for _, c := range []struct {
		data []byte
		cost int64
	}{{nil, 0}, {raw, 256 + 200}, {name, 256 + 18}, {slices.Concat(name, raw, name), 3*256 + 200 + 36},
		{append(name, raw[:50]...), 256 + 18},
		{append(name, 0xff), 256 + 18}, {[]byte{0xff}, 0}, {field(5, slices.Concat(name, field(3, make([]byte, 5)), number, number)),
			3*256 + 18 + 24*5 + 2*64}, {field(99, make([]byte, 9)), 256 + 4*10}} {
		require.Equal(t, c.cost, message(c.data).cost((&oippb.ModelInferRequest{}).ProtoReflect().Descriptor()))
	}
}

// TestErrorsOfCallsAreShort holds errors of calls to 100 bytes of what the client sent, in whichever part of the call that is, and their
// messages to ASCII that clients decode. Metadata that no method reads is no error.
func TestErrorsOfCallsAreShort(t *testing.T) {
	s, _ := start(t, Options{}, served("minilm")...)
	long := strings.Repeat("é%41", 2000)
	live := "/" + serviceName + "/ServerLive"
	for name, c := range map[string]struct {
		method, path string
		header       [2]string
		http, grpc   int // statuses
	}{
		"method of HTTP":    {strings.Repeat("x", 8000), live, [2]string{}, 405, -1},
		"service":           {"POST", "/" + long, [2]string{}, 200, int(codes.Unimplemented)},
		"method of gRPC":    {"POST", "/" + serviceName + "/" + long, [2]string{}, 200, int(codes.Unimplemented)},
		"path of a method":  {"POST", live + "/", [2]string{}, 200, int(codes.Unimplemented)},
		"content type":      {"POST", live, [2]string{"Content-Type", "text/" + long}, 415, -1},
		"timeout":           {"POST", live, [2]string{"Grpc-Timeout", long}, 400, -1},
		"encoding":          {"POST", live, [2]string{"Grpc-Encoding", long}, 200, int(codes.Unimplemented)},
		"metadata":          {"POST", live, [2]string{"X", long}, 200, 0},
		"metadata in bytes": {"POST", live, [2]string{"X-Bin", long}, 200, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), "POST", live, strings.NewReader("\x00\x00\x00\x00\x00"))
			r.ProtoMajor, r.Method, r.URL.Path = 2, c.method, c.path
			r.Header.Set("Content-Type", "application/grpc")
			if c.header[0] != "" {
				r.Header.Set(c.header[0], c.header[1])
			}
			w := httptest.NewRecorder()
			s.GRPC().ServeHTTP(w, r)
			require.Equal(t, c.http, w.Code, "%.500s", w.Body)
			message := w.Header().Get("Grpc-Message")
			require.Less(t, w.Body.Len()+len(message), 800, "%.900s %.900s", w.Body, message)
			if c.grpc >= 0 {
				require.Equal(t, strconv.Itoa(c.grpc), w.Result().Header.Get("Grpc-Status")+w.Result().Trailer.Get("Grpc-Status"), message)
			}
			require.NotRegexp(t, `[^ -~]`, message)
			decoded, err := url.PathUnescape(message)
			require.NoError(t, err)
			named := slices.Contains([]string{"service", "method of gRPC", "encoding"}, name)
			require.Equal(t, named, strings.Contains(decoded, "é%41é"), decoded)
		})
	}
}

func TestGRPCKey(t *testing.T) {
	c := dial(t, Options{Keys: []string{"secret"}})
	_, err := invoke[oippb.ModelInferResponse](t, t.Context(), c, "ModelInfer", inferRequest(true))
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	require.Contains(t, status.Convert(err).Message(), "key")
	_, err = invoke[oippb.ServerReadyResponse](t, t.Context(), c, "ServerReady", &oippb.ServerReadyRequest{})
	require.NoError(t, err)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer secret")
	_, err = invoke[oippb.ModelInferResponse](t, ctx, c, "ModelInfer", inferRequest(true))
	require.NoError(t, err)
}
