package server

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // as packages of the program do
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rlxc/rlxc/internal/oippb"
)

// doubling is a compressor that somebody registered. It counts what it unpacks.
type doubling struct{ unpacked int }

func (*doubling) Name() string { return "doubling" }
func (*doubling) Compress(w io.Writer) (io.WriteCloser, error) {
	return struct{ io.WriteCloser }{closer{w}}, nil
}
func (d *doubling) Decompress(r io.Reader) (_ io.Reader, err error) { d.unpacked++; return r, nil }

type closer struct{ io.Writer }

func (closer) Close() error { return nil }

// TestPackedMessagesAreRefused: no compressor that is registered anywhere in the program unpacks a message, with a key or without, and the
// client learns what is accepted.
func TestPackedMessagesAreRefused(t *testing.T) {
	d := &doubling{}
	encoding.RegisterCompressor(d)
	c := dial(t, Options{})
	for _, name := range []string{"gzip", "doubling"} {
		for method, q := range map[string]proto.Message{"ServerLive": &oippb.ServerLiveRequest{}, "ModelInfer": inferRequest(true)} {
			err := c.Invoke(t.Context(), "/"+serviceName+"/"+method, q, &oippb.ServerLiveResponse{}, grpc.UseCompressor(name))
			require.Equal(t, codes.Unimplemented, status.Code(err), "%s: %v", method, err)
			require.ErrorContains(t, err, strconv.Quote(name))
		}
	}
	require.Zero(t, d.unpacked)
	s, _ := start(t, Options{}, served("minilm")...)
	for names, want := range map[string]codes.Code{"gzip": codes.Unimplemented, "identity": codes.OK, "identity,gzip": codes.Unimplemented,
		"zstd": codes.Unimplemented} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/"+serviceName+"/ServerLive", strings.NewReader("\x00\x00\x00\x00\x00"))
		r.ProtoMajor = 2
		r.Header.Set("Content-Type", "application/grpc")
		for name := range strings.SplitSeq(names, ",") {
			r.Header.Add("Grpc-Encoding", name)
		}
		w := httptest.NewRecorder()
		s.GRPC().ServeHTTP(w, r)
		require.Equal(t, strconv.Itoa(int(want)), w.Header().Get("Grpc-Status"), names)
		if want != codes.OK {
			require.Equal(t, "identity", w.Header().Get("Grpc-Accept-Encoding"))
		}
	}
}

// TestPackedBodiesAreNotUnpacked: a body over HTTP is what arrives, whatever the request says of its encoding.
func TestPackedBodiesAreNotUnpacked(t *testing.T) {
	s, _ := start(t, Options{}, served("minilm")...)
	var body strings.Builder
	z := gzip.NewWriter(&body)
	io.WriteString(z, `{"inputs": "a"}`)
	require.NoError(t, z.Close())
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/embed", strings.NewReader(body.String()))
	r.Header.Set("Content-Encoding", "gzip")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	require.Equal(t, http.StatusUnsupportedMediaType, w.Code, w.Body)
	require.Contains(t, w.Body.String(), "Content-Encoding")
	r = httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil)
	r.Header.Set("Accept-Encoding", "gzip, zstd")
	w = httptest.NewRecorder()
	s.ServeHTTP(w, r)
	require.Empty(t, w.Header().Get("Content-Encoding"))
	require.Contains(t, w.Body.String(), "rlxc_requests_total")
}

// smallest returns the encoding of n entries of a field, each as short as one can be, within the fields that path lists. Packed entries are
// numbers of a packed field.
func smallest(path []protoreflect.FieldDescriptor, n int, packed bool) []byte {
	f := path[len(path)-1]
	var data []byte
	if packed {
		size := map[protowire.Type]int{protowire.VarintType: 1, protowire.Fixed32Type: 4, protowire.Fixed64Type: 8}[wireType(f)]
		data = protowire.AppendBytes(protowire.AppendTag(nil, f.Number(), protowire.BytesType), bytes.Repeat([]byte{1}, size*n))
		n = 0
	}
	for i := range n {
		data = protowire.AppendTag(data, f.Number(), wireType(f))
		switch {
		case f.IsMap(): // keys that differ
			key := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), strconv.FormatInt(int64(i), 36))
			data = protowire.AppendBytes(data, key)
		case wireType(f) == protowire.BytesType:
			data = protowire.AppendBytes(data, nil)
		case wireType(f) == protowire.Fixed32Type:
			data = protowire.AppendFixed32(data, 1)
		case wireType(f) == protowire.Fixed64Type:
			data = protowire.AppendFixed64(data, 1)
		default:
			data = protowire.AppendVarint(data, 1)
		}
	}
	for i := len(path) - 2; i >= 0; i-- {
		data = protowire.AppendBytes(protowire.AppendTag(nil, path[i].Number(), protowire.BytesType), data)
	}
	return data
}

func wireType(f protoreflect.FieldDescriptor) protowire.Type {
	switch f.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.DoubleKind:
		return protowire.Fixed64Type
	}
	return protowire.VarintType
}

// repeated calls do with each field of a message that may be there many times, with the fields in which it is.
func repeated(m protoreflect.MessageDescriptor, path []protoreflect.FieldDescriptor, do func(path []protoreflect.FieldDescriptor)) {
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		in := append(path[:len(path):len(path)], f)
		if f.IsList() || f.IsMap() {
			do(in)
		}
		if f.Kind() == protoreflect.MessageKind && !f.IsMap() && len(in) < 4 {
			repeated(f.Message(), in, do)
		}
	}
}

// TestMessagesCostWhatTheyBecome compares the cost of a message with what protobuf allocates, for each field that a message may have many
// times, at any depth, in the encoding that makes most of a byte.
func TestMessagesCostWhatTheyBecome(t *testing.T) {
	fields := 0
	for _, m := range []proto.Message{&oippb.ModelInferRequest{}, &oippb.RepositoryIndexRequest{}} {
		of := m.ProtoReflect().Descriptor()
		repeated(of, nil, func(path []protoreflect.FieldDescriptor) {
			forms := []bool{false}
			if path[len(path)-1].IsPacked() {
				forms = append(forms, true)
			}
			for _, packed := range forms {
				fields++
				t.Run(fmt.Sprintf("%s, packed=%v", path[len(path)-1].FullName(), packed), func(t *testing.T) {
					data := smallest(path, 200_000, packed)
					to := m.ProtoReflect().New().Interface()
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					require.NoError(t, proto.Unmarshal(data, to))
					runtime.ReadMemStats(&after)
					took := int64(after.TotalAlloc - before.TotalAlloc)
					cost := message(data).cost(of)
					t.Logf("%d bytes become %d, %.1f each, and cost %d", len(data), took, float64(took)/float64(len(data)), cost)
					require.LessOrEqual(t, took, cost)
				})
			}
		})
	}
	require.Greater(t, fields, 10)
}
