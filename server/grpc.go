package server

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/internal/oippb"
	"github.com/rlxc/rlxc/tensor"
)

// serviceName is the name that clients call.
const serviceName = "inference.GRPCInferenceService"

// GRPC answers calls of the Open Inference Protocol, version 2, over HTTP/2, with the keys and limits of the server. As for other
// requests, a call first needs a valid key, then room among the concurrent requests, and then memory for its bytes as they arrive.
func (s *Server) GRPC() http.Handler {
	g := grpc.NewServer(grpc.ForceServerCodecV2(codec{}), grpc.MaxRecvMsgSize(int(min(s.options.MaxBody, math.MaxInt32))),
		grpc.MaxSendMsgSize(math.MaxInt32))
	g.RegisterService(&service, s)
	call := func(w http.ResponseWriter, r *http.Request) {
		if err := s.foreign(r); err != nil {
			refuse(w, err)
			return
		}
		admitted, done, err := s.admit(r, keyless[path.Base(r.URL.Path)])
		if err != nil {
			w.Header().Set("Grpc-Accept-Encoding", encoding.Identity)
			refuse(w, err)
			return
		}
		defer done()
		if method := strings.TrimPrefix(r.URL.Path, "/"+serviceName+"/"); !slices.ContainsFunc(service.Methods,
			func(m grpc.MethodDesc) bool { return m.MethodName == method }) {
			refuse(w, status.Errorf(codes.Unimplemented, "unknown method %.100q", r.URL.Path))
			return
		}
		g.ServeHTTP(w, withoutMetadata(admitted))
		if err := context.Cause(admitted.Context()); err != nil && w.Header().Get("Content-Type") == "" {
			refuse(w, err) // grpc answers nothing where a call ends before its message
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.bounded(w, r, call) })
}

// withoutMetadata returns a call without metadata: with only the headers that grpc reads. No method reads metadata, but grpc decodes
// metadata and repeats malformed values in errors. A header that is longer than an error may be is malformed, and stays so when it is cut.
func withoutMetadata(r *http.Request) *http.Request {
	to := r.WithContext(r.Context())
	to.Method, to.Header = shorten(r.Method).(string), http.Header{}
	for _, name := range []string{"Content-Type", "Te", "Grpc-Timeout"} {
		if value := r.Header.Get(name); value != "" {
			to.Header.Set(name, shorten(value).(string))
		}
	}
	return to
}

// refuse answers a call that is not let in. Its message is not read.
func refuse(w http.ResponseWriter, err error) {
	s := status.Convert(statusOf(err))
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Grpc-Status", strconv.Itoa(int(s.Code())))
	w.Header().Set("Grpc-Message", percentEncoded(s.Message()))
	w.WriteHeader(http.StatusOK)
}

// percentEncoded returns a message as a header holds it in gRPC: "%" and bytes that are not printable ASCII are %XX
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, "Status-Message").
func percentEncoded(message string) string {
	var out []byte
	for _, c := range []byte(message) {
		if c < ' ' || c > '~' || c == '%' {
			out = fmt.Appendf(out, "%%%02X", c)
		} else {
			out = append(out, c)
		}
	}
	return string(out)
}

// keyless are the methods that need no key.
var keyless = map[string]bool{"ServerLive": true, "ServerReady": true}

// service is what protoc-gen-go-grpc would write, as a table.
var service = grpc.ServiceDesc{ServiceName: serviceName, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
	method("ServerLive", func(*Server, context.Context, *oippb.ServerLiveRequest) (*oippb.ServerLiveResponse, error) {
		return &oippb.ServerLiveResponse{Live: true}, nil
	}),
	method("ServerReady", func(s *Server, _ context.Context, _ *oippb.ServerReadyRequest) (*oippb.ServerReadyResponse, error) {
		return &oippb.ServerReadyResponse{Ready: s.Ready()}, nil
	}),
	method("ModelReady", (*Server).grpcReady),
	method("ServerMetadata", func(s *Server, _ context.Context, _ *oippb.ServerMetadataRequest) (*oippb.ServerMetadataResponse, error) {
		return &oippb.ServerMetadataResponse{Name: "rlxc", Version: s.options.Version}, nil
	}),
	method("ModelMetadata", (*Server).grpcModel),
	method("ModelConfig", (*Server).grpcConfig),
	method("RepositoryIndex", (*Server).grpcIndex),
	method("ModelStatistics", (*Server).grpcStats),
	method("ModelInfer", (*Server).grpcInfer),
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
	perObject = 256 // bytes that a message, a string, bytes, or an entry of a map takes beside its content, in a list that grows
	perNumber = 64  // bytes of a number that is not packed: a list of numbers of 8 bytes, which grows by a quarter, takes up to 50 for each
	perPacked = 24  // bytes that a byte of packed numbers becomes: varints of one byte are numbers of eight, in a list that grows
)

// cost is about how many bytes a message becomes when it is unmarshalled. TestMessagesCostWhatTheyBecome compares it with protobuf's
// allocations. It does not overflow: a message has at most 2 GiB.
func (m message) cost(of protoreflect.MessageDescriptor) (all int64) {
	for data := []byte(m); len(data) > 0; {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			break
		}
		size := protowire.ConsumeFieldValue(number, kind, data[n:])
		if size < 0 {
			break
		}
		f := of.Fields().ByNumber(number)
		content, _ := protowire.ConsumeBytes(data[n:])
		switch {
		case f == nil: // kept as it is, in a list that grows
			all += perObject + 4*int64(size)
		case kind != protowire.BytesType:
			all += perNumber
		case f.Message() != nil:
			all += perObject + message(content).cost(f.Message())
		case f.Kind() == protoreflect.BytesKind || f.Kind() == protoreflect.StringKind:
			all += perObject + 2*int64(len(content)) // what the request makes of it is as long
		default:
			all += perObject + perPacked*int64(len(content))
		}
		data = data[n+size:]
	}
	return all
}

// method is a row of the table.
func method[Q, A any](name string, do func(s *Server, ctx context.Context, q *Q) (A, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, read func(any) error,
		_ grpc.UnaryServerInterceptor) (answer any, err error) {
		s, q := srv.(*Server), new(Q)
		defer func(before bool) {
			debug.SetPanicOnFault(before)
			if fault := recover(); fault != nil { // which grpc lets end the process
				s.options.Log.Error("panic", "error", fmt.Sprint(fault), "stack", string(debug.Stack()))
				answer, err = nil, failf(http.StatusInternalServerError, "", "internal error")
			}
			err = statusOf(err)
		}(debug.SetPanicOnFault(true))
		var m message
		if err := read(&m); err != nil {
			return nil, err
		}
		to := any(q).(proto.Message)
		if err := memory.Asker(ctx)(m.cost(to.ProtoReflect().Descriptor())); err != nil {
			return nil, err
		}
		if proto.Unmarshal(m, to) != nil {
			return nil, status.Error(codes.InvalidArgument, "the message is not one of "+name)
		}
		return do(s, ctx, q)
	}}
}

// statusCodes are gRPC's for those of HTTP (https://grpc.io/docs/guides/status-codes).
var statusCodes = map[int]codes.Code{http.StatusBadRequest: codes.InvalidArgument, http.StatusUnprocessableEntity: codes.InvalidArgument,
	http.StatusUnauthorized: codes.Unauthenticated, http.StatusForbidden: codes.PermissionDenied, http.StatusNotFound: codes.NotFound,
	http.StatusRequestEntityTooLarge: codes.InvalidArgument,
	http.StatusTooManyRequests:       codes.ResourceExhausted, http.StatusServiceUnavailable: codes.Unavailable,
	http.StatusGatewayTimeout:      codes.DeadlineExceeded,
	http.StatusInternalServerError: codes.Internal}

func statusOf(err error) error {
	if _, ok := status.FromError(err); ok { // or none
		return err
	}
	f := failureOf(err)
	if c, ok := statusCodes[f.status]; ok {
		return status.Error(c, f.text)
	}
	return status.Error(codes.Canceled, f.text)
}

func (s *Server) grpcReady(ctx context.Context, q *oippb.ModelReadyRequest) (*oippb.ModelReadyResponse, error) {
	err := s.with(ctx, q.GetName(), q.GetVersion(), func(*opened) error { return nil })
	return &oippb.ModelReadyResponse{Ready: err == nil}, err
}

func (s *Server) grpcModel(ctx context.Context, q *oippb.ModelMetadataRequest) (a *oippb.ModelMetadataResponse, err error) {
	tensors := func(infos []rlxc.ValueInfo) (out []*oippb.ModelMetadataResponse_TensorMetadata) {
		for _, v := range infos {
			out = append(out, &oippb.ModelMetadataResponse_TensorMetadata{Name: v.Name, Datatype: datatypes[v.DType],
				Shape: wide(sizes(v))})
		}
		return out
	}
	err = s.with(ctx, q.GetName(), q.GetVersion(), func(m *opened) error {
		p := m.tensors.program
		a = &oippb.ModelMetadataResponse{Name: q.GetName(), Versions: []string{modelVersion}, Platform: platform,
			Inputs: tensors(p.Inputs()), Outputs: tensors(p.Outputs())}
		return nil
	})
	return a, err
}

func wide(shape []int) []int64 {
	out := make([]int64, len(shape))
	for i, n := range shape {
		out[i] = int64(n)
	}
	return out
}

func (s *Server) grpcInfer(ctx context.Context, q *oippb.ModelInferRequest) (a *oippb.ModelInferResponse, err error) {
	begun := time.Now()
	defer func() { s.metrics.request("tensors", statusCode(err), time.Since(begun)) }()
	in := rlxc.Tensors{}
	raw := q.GetRawInputContents()
	if len(raw) > 0 && len(raw) != len(q.GetInputs()) {
		return nil, status.Errorf(codes.InvalidArgument, "raw_input_contents has %d elements, but inputs has %d", len(raw),
			len(q.GetInputs()))
	}
	for i, declared := range q.GetInputs() {
		if in[declared.GetName()] != nil {
			return nil, status.Errorf(codes.InvalidArgument, "input %.100q is given twice", declared.GetName())
		}
		x, err := grpcInput(declared)
		if err != nil {
			return nil, err
		}
		c := declared.GetContents()
		switch {
		case len(raw) == 0:
			in[x.name], err = x.contents(c)
		case proto.Size(c) > 0:
			err = x.wrong("it has both contents and raw_input_contents: want one of them")
		default:
			in[x.name], err = x.raw(memory.ShareOf(ctx), raw[i])
		}
		if err != nil {
			return nil, err
		}
	}
	var names []string
	for _, o := range q.GetOutputs() {
		names = append(names, o.GetName())
	}
	a = &oippb.ModelInferResponse{ModelName: q.GetModelName(), ModelVersion: modelVersion, Id: q.GetId()}
	return a, s.with(ctx, q.GetModelName(), q.GetModelVersion(), func(m *opened) error {
		return m.infer(ctx, in, names, func(name string, t *tensor.Tensor) error {
			if err := memory.Asker(ctx)(2 * int64(rawSize(t))); err != nil {
				return err
			}
			a.Outputs = append(a.Outputs, &oippb.ModelInferResponse_InferOutputTensor{Name: name, Datatype: datatypes[t.DType()],
				Shape: wide(t.Shape())})
			a.RawOutputContents = append(a.RawOutputContents, rawTensor(t))
			return nil
		})
	})
}

// with calls do with a model.
func (s *Server) with(ctx context.Context, model, version string, do func(m *opened) error) error {
	if version != "" && version != modelVersion {
		return failf(http.StatusNotFound, "", "unknown version %q: want %s", version, modelVersion)
	}
	e, err := s.find(model, ofTexts)
	if err != nil {
		return err
	}
	m, done, err := e.use(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	return do(m)
}

// grpcInput checks what a call declares of an input. Sizes are int64 in the protocol.
func grpcInput(q *oippb.ModelInferRequest_InferInputTensor) (input, error) {
	shape := make([]int, len(q.GetShape()))
	for i, n := range q.GetShape() {
		if shape[i] = int(n); int64(shape[i]) != n {
			return input{}, invalid("inputs."+q.GetName(), "%d is too large a size", n)
		}
	}
	return newInput(q.GetName(), q.GetDatatype(), shape)
}

// A contentsField is a field of InferTensorContents. It holds the elements of some types.
type contentsField struct {
	name string
	of   []tensor.DType
	len  func(c *oippb.InferTensorContents) int
	read func(c *oippb.InferTensorContents) *tensor.Tensor // a vector
}

// contentsOf makes a row of the table of fields.
func contentsOf[T tensor.Element](name string, list func(c *oippb.InferTensorContents) []T, of ...tensor.DType) contentsField {
	return contentsField{name, of, func(c *oippb.InferTensorContents) int { return len(list(c)) },
		func(c *oippb.InferTensorContents) *tensor.Tensor { return tensor.FromSlice(list(c)) }}
}

var contentsFields = []contentsField{
	contentsOf("bool_contents", (*oippb.InferTensorContents).GetBoolContents, tensor.Bool),
	contentsOf("int_contents", (*oippb.InferTensorContents).GetIntContents, tensor.I8, tensor.I16, tensor.I32),
	contentsOf("int64_contents", (*oippb.InferTensorContents).GetInt64Contents, tensor.I64),
	contentsOf("uint_contents", (*oippb.InferTensorContents).GetUintContents, tensor.U8, tensor.U16, tensor.U32),
	contentsOf("uint64_contents", (*oippb.InferTensorContents).GetUint64Contents, tensor.U64),
	contentsOf("fp32_contents", (*oippb.InferTensorContents).GetFp32Contents, tensor.F32),
	contentsOf("fp64_contents", (*oippb.InferTensorContents).GetFp64Contents, tensor.F64),
	{"bytes_contents", []tensor.DType{tensor.String}, func(c *oippb.InferTensorContents) int { return len(c.GetBytesContents()) },
		func(c *oippb.InferTensorContents) *tensor.Tensor {
			t := tensor.New(tensor.String, len(c.GetBytesContents()))
			for i, b := range c.GetBytesContents() {
				t.Strings()[i] = string(b)
			}
			return t
		}},
}

// contents makes a tensor of the typed contents of an input, which are in the field of its type alone.
func (x *input) contents(c *oippb.InferTensorContents) (out *tensor.Tensor, err error) {
	for _, f := range contentsFields {
		if slices.Contains(f.of, x.dtype) {
			if out, err = x.of(f.read(c)); err != nil {
				return nil, err
			}
		} else if f.len(c) > 0 {
			return nil, x.wrong("datatype %s does not belong in %s", ours(datatypes[x.dtype]), ours(f.name))
		}
	}
	if out == nil {
		return nil, x.wrong("datatype %s has no contents: use raw_input_contents", ours(datatypes[x.dtype]))
	}
	return out, nil
}

// admit lets a call in, as routes let requests in: by its key, if it needs one, a slot, and the time and memory that a request has. Its
// body is counted as it comes, twice, for it is stored and read. A compressed message is refused, because grpc would unpack it without
// counting: packages elsewhere in the program register compressors. done gives all back.
func (s *Server) admit(r *http.Request, open bool) (admitted *http.Request, done func(), err error) {
	pool := s.pool
	if open {
		pool = s.open
	} else if err := s.allowed(r.Header.Get); err != nil {
		return nil, nil, err
	}
	for _, e := range r.Header.Values("Grpc-Encoding") {
		if e != encoding.Identity {
			return nil, nil, status.Errorf(codes.Unimplemented, "grpc-encoding %.100q is not supported: send messages uncompressed", e)
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.options.Timeout)
	ctx, share, err := pool.Enter(ctx, s.peerOf(r))
	if err != nil {
		cancel()
		return nil, nil, err
	}
	r = r.WithContext(ctx)
	r.Body = countedBody{share.Reader(r.Body, s.options.MaxBody+framing), r.Body, share}
	return r, func() { share.Leave(); cancel() }, nil
}

// framing is what a protocol may send beside a message.
const framing = 1 << 10

type countedBody struct {
	io.Reader
	io.Closer
	share *memory.Share
}

// Read implements io.Reader.
func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if full := b.share.Take(2 * int64(n)); full != nil {
		return 0, full
	}
	return n, err
}
