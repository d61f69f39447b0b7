package server

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/internal/oippb"
)

// FuzzCalls sends any message to any method: what is wrong is the message, and the server is there afterwards.
func FuzzCalls(f *testing.F) {
	s, err := New(f.Context(), []Model{{Name: "minilm", Path: "../pipeline/testdata/minilm"}}, Options{})
	require.NoError(f, err)
	f.Cleanup(func() { s.Close() })
	for i := range service.Methods {
		for _, q := range []proto.Message{inferRequest(true), inferRequest(false), &oippb.ModelMetadataRequest{Name: "minilm"}} {
			data, err := proto.Marshal(q)
			require.NoError(f, err)
			f.Add(uint8(i), data)
		}
	}
	f.Fuzz(func(t *testing.T, method uint8, data []byte) {
		m := service.Methods[int(method)%len(service.Methods)]
		_, err := m.Handler(s, t.Context(), func(q any) error {
			*q.(*message) = data
			return nil
		}, nil)
		switch status.Code(err) {
		case codes.OK, codes.InvalidArgument, codes.NotFound:
		default:
			t.Fatalf("%s: %v", m.MethodName, err)
		}
	})
}

// A panic in a method is an answer, and the process lives on.
func TestGRPCFault(t *testing.T) {
	s, err := New(t.Context(), []Model{{Name: "minilm", Path: "../pipeline/testdata/minilm"}}, Options{})
	require.NoError(t, err)
	defer s.Close()
	m := method("Broken", func(*Server, context.Context, *oippb.ServerLiveRequest) (*oippb.ServerLiveResponse, error) {
		panic("a fault of this server")
	})
	_, err = m.Handler(s, t.Context(), func(any) error { return nil }, nil)
	require.Equal(t, codes.Internal, status.Code(err))
	require.NotContains(t, err.Error(), "a fault")
}
