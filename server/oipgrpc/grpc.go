// Package oipgrpc answers the Open Inference Protocol, version 2, over gRPC, with the models of a server.
package oipgrpc

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"path"
	"runtime/debug"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/server"
	"github.com/rlxc/rlxc/server/oipgrpc/oippb"
	"github.com/rlxc/rlxc/tensor"
)

// serviceName is the name that clients call.
const serviceName = "inference.GRPCInferenceService"

// service is what methods are called on.
type service struct {
	server  *server.Server
	version string
}

// Handler answers calls over HTTP/2, with the keys and bounds of a server. version is that of the program. A call is settled as any other
// request: its key, a place, and then, as they come, its bytes.
func Handler(s *server.Server, version string) http.Handler {
	g := grpc.NewServer(grpc.ForceServerCodecV2(codec{}), grpc.MaxRecvMsgSize(math.MaxInt32), grpc.MaxSendMsgSize(math.MaxInt32))
	g.RegisterService(&description, &service{s, version})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admitted, done, err := s.Admit(r, open[path.Base(r.URL.Path)])
		if err != nil {
			refuse(w, err)
			return
		}
		defer done()
		g.ServeHTTP(w, admitted)
	})
}

// refuse answers a call that is not let in. Its message is not read.
func refuse(w http.ResponseWriter, err error) {
	s := status.Convert(statusOf(err))
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Grpc-Status", strconv.Itoa(int(s.Code())))
	w.Header().Set("Grpc-Message", s.Message())
	w.WriteHeader(http.StatusOK)
}

// open are the methods that need no key.
var open = map[string]bool{"ServerLive": true, "ServerReady": true}

// description is what protoc-gen-go-grpc would write, as a table.
var description = grpc.ServiceDesc{ServiceName: serviceName, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
	method("ServerLive", func(*service, context.Context, *oippb.ServerLiveRequest) (*oippb.ServerLiveResponse, error) {
		return &oippb.ServerLiveResponse{Live: true}, nil
	}),
	method("ServerReady", func(s *service, _ context.Context, _ *oippb.ServerReadyRequest) (*oippb.ServerReadyResponse, error) {
		return &oippb.ServerReadyResponse{Ready: s.server.Ready()}, nil
	}),
	method("ModelReady", (*service).modelReady),
	method("ServerMetadata", func(s *service, _ context.Context, _ *oippb.ServerMetadataRequest) (*oippb.ServerMetadataResponse, error) {
		return &oippb.ServerMetadataResponse{Name: "rlxc", Version: s.version}, nil
	}),
	method("ModelMetadata", (*service).metadata),
	method("ModelInfer", (*service).infer),
}}

// A message is one as it came.
type message []byte

// codec hands messages on as they came: what is made of one has to be asked for first.
type codec struct{}

// Name implements encoding.CodecV2.
func (codec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	data, err := proto.Marshal(v.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(data)}, err
}

// Unmarshal implements encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*message) = data.Materialize()
	return nil
}

const (
	rawField       = 7   // raw_input_contents, whose bytes are copied once
	bytesPerByte   = 24  // what a byte of anything else may come to: numbers of one byte, and strings of none
	bytesPerObject = 256 // and a field
)

// cost is about what a message comes to.
func (m message) cost() int {
	all := 0
	for data := []byte(m); len(data) > 0; {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			break
		}
		size := protowire.ConsumeFieldValue(number, kind, data[n:])
		if size < 0 {
			break
		}
		each := bytesPerByte
		if number == rawField {
			each = 2
		}
		all += each*size + bytesPerObject
		data = data[n+size:]
	}
	return all
}

// method is a row of the table.
func method[Q, A any](name string, do func(s *service, ctx context.Context, q *Q) (A, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, read func(any) error,
		_ grpc.UnaryServerInterceptor) (answer any, err error) {
		s, q := srv.(*service), new(Q)
		defer func(before bool) {
			debug.SetPanicOnFault(before)
			if fault := recover(); fault != nil { // which grpc lets end the process
				answer, err = nil, s.server.Fault(fault)
			}
			err = statusOf(err)
		}(debug.SetPanicOnFault(true))
		var m message
		if err := read(&m); err != nil {
			return nil, err
		}
		if err := server.Take(ctx, m.cost()); err != nil {
			return nil, err
		}
		if proto.Unmarshal(m, any(q).(proto.Message)) != nil {
			return nil, status.Error(codes.InvalidArgument, "the message is not one of "+name)
		}
		return do(s, ctx, q)
	}}
}

// statusCodes are gRPC's for those of HTTP (https://grpc.io/docs/guides/status-codes).
var statusCodes = map[int]codes.Code{http.StatusBadRequest: codes.InvalidArgument, http.StatusUnprocessableEntity: codes.InvalidArgument,
	http.StatusUnauthorized: codes.Unauthenticated, http.StatusNotFound: codes.NotFound,
	http.StatusRequestEntityTooLarge: codes.InvalidArgument,
	http.StatusTooManyRequests:       codes.ResourceExhausted, http.StatusServiceUnavailable: codes.Unavailable,
	http.StatusGatewayTimeout:      codes.DeadlineExceeded,
	http.StatusInternalServerError: codes.Internal}

func statusOf(err error) error {
	if _, ok := status.FromError(err); ok { // or none
		return err
	}
	code, text := server.Status(err)
	if c, ok := statusCodes[code]; ok {
		return status.Error(c, text)
	}
	return status.Error(codes.Canceled, text)
}

func (s *service) modelReady(ctx context.Context, q *oippb.ModelReadyRequest) (*oippb.ModelReadyResponse, error) {
	_, _, err := s.server.Signature(ctx, q.GetName(), q.GetVersion())
	return &oippb.ModelReadyResponse{Ready: err == nil}, err
}

func (s *service) metadata(ctx context.Context, q *oippb.ModelMetadataRequest) (*oippb.ModelMetadataResponse, error) {
	inputs, outputs, err := s.server.Signature(ctx, q.GetName(), q.GetVersion())
	if err != nil {
		return nil, err
	}
	tensors := func(infos []rlxc.ValueInfo) []*oippb.ModelMetadataResponse_TensorMetadata {
		out := make([]*oippb.ModelMetadataResponse_TensorMetadata, len(infos))
		for i, v := range infos {
			out[i] = &oippb.ModelMetadataResponse_TensorMetadata{Name: v.Name, Datatype: server.Datatypes[v.DType],
				Shape: wide(server.Sizes(v))}
		}
		return out
	}
	return &oippb.ModelMetadataResponse{Name: q.GetName(), Versions: []string{"1"}, Platform: "onnx_onnxv1", Inputs: tensors(inputs),
		Outputs: tensors(outputs)}, nil
}

func wide(shape []int) []int64 {
	out := make([]int64, len(shape))
	for i, n := range shape {
		out[i] = int64(n)
	}
	return out
}

func (s *service) infer(ctx context.Context, q *oippb.ModelInferRequest) (*oippb.ModelInferResponse, error) {
	in := rlxc.Tensors{}
	raw := q.GetRawInputContents()
	if len(raw) > 0 && len(raw) != len(q.GetInputs()) {
		return nil, status.Errorf(codes.InvalidArgument, "raw_input_contents has %d elements, and inputs %d", len(raw), len(q.GetInputs()))
	}
	for i, x := range q.GetInputs() {
		if in[x.GetName()] != nil {
			return nil, status.Errorf(codes.InvalidArgument, "there are two inputs %.100q", x.GetName())
		}
		shape := make([]int, len(x.GetShape()))
		for k, n := range x.GetShape() {
			shape[k] = int(n)
		}
		var t *tensor.Tensor
		var err error
		if len(raw) > 0 {
			t, err = server.ReadRawTensor(x.GetName(), x.GetDatatype(), shape, raw[i])
		} else {
			t, err = contents(x, shape)
		}
		if err != nil {
			return nil, err
		}
		in[x.GetName()] = t
	}
	var names []string
	for _, o := range q.GetOutputs() {
		names = append(names, o.GetName())
	}
	a := &oippb.ModelInferResponse{ModelName: q.GetModelName(), ModelVersion: "1", Id: q.GetId()}
	err := s.server.Infer(ctx, q.GetModelName(), q.GetModelVersion(), in, names, func(name string, t *tensor.Tensor) error {
		a.Outputs = append(a.Outputs, &oippb.ModelInferResponse_InferOutputTensor{Name: name, Datatype: server.Datatypes[t.DType()],
			Shape: wide(t.Shape())})
		a.RawOutputContents = append(a.RawOutputContents, append([]byte{}, server.RawTensor(t)...))
		return nil
	})
	return a, err
}

// contents makes a tensor of the typed contents of an input.
func contents(x *oippb.ModelInferRequest_InferInputTensor, shape []int) (*tensor.Tensor, error) {
	c := x.GetContents()
	lists := map[string]struct {
		n   int
		set func(t *tensor.Tensor, i int)
	}{
		"BOOL": {len(c.GetBoolContents()), func(t *tensor.Tensor, i int) {
			if c.GetBoolContents()[i] {
				t.SetInt64(i, 1)
			}
		}},
		"INT32":  {len(c.GetIntContents()), func(t *tensor.Tensor, i int) { t.SetInt64(i, int64(c.GetIntContents()[i])) }},
		"INT64":  {len(c.GetInt64Contents()), func(t *tensor.Tensor, i int) { t.SetInt64(i, c.GetInt64Contents()[i]) }},
		"UINT32": {len(c.GetUintContents()), func(t *tensor.Tensor, i int) { t.SetInt64(i, int64(c.GetUintContents()[i])) }},
		"UINT64": {len(c.GetUint64Contents()), func(t *tensor.Tensor, i int) { tensor.Of[uint64](t)[i] = c.GetUint64Contents()[i] }},
		"FP32":   {len(c.GetFp32Contents()), func(t *tensor.Tensor, i int) { tensor.Of[float32](t)[i] = c.GetFp32Contents()[i] }},
		"FP64":   {len(c.GetFp64Contents()), func(t *tensor.Tensor, i int) { t.SetFloat64(i, c.GetFp64Contents()[i]) }},
		"BYTES":  {len(c.GetBytesContents()), func(t *tensor.Tensor, i int) { t.Strings()[i] = string(c.GetBytesContents()[i]) }},
	}
	for small, as := range map[string]string{"INT8": "INT32", "INT16": "INT32", "UINT8": "UINT32", "UINT16": "UINT32"} {
		lists[small] = lists[as]
	}
	list, ok := lists[x.GetDatatype()]
	if !ok {
		return nil, status.Errorf(codes.InvalidArgument, "input %.100q: datatype %.100q has no contents: use raw_input_contents",
			x.GetName(), x.GetDatatype())
	}
	d := dtypes[x.GetDatatype()]
	for _, size := range shape {
		if size < 0 {
			return nil, mismatch(x, shape, list.n)
		}
	}
	n, err := tensor.Shape(shape).CheckElements(d)
	if err != nil || n != list.n {
		return nil, mismatch(x, shape, list.n)
	}
	t := tensor.New(d, shape...)
	for i := range n {
		list.set(t, i)
	}
	return t, nil
}

// dtypes are element types by their names.
var dtypes = func() map[string]tensor.DType {
	out := map[string]tensor.DType{}
	for d, name := range server.Datatypes {
		out[name] = d
	}
	return out
}()

func mismatch(x *oippb.ModelInferRequest_InferInputTensor, shape []int, n int) error {
	return status.Error(codes.InvalidArgument, fmt.Sprintf("input %.100q: the contents have %d elements, and the shape is %v",
		x.GetName(), n, shape[:min(len(shape), 16)]))
}
