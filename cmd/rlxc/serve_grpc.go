package main

import (
	"context"
	"crypto/tls"
	"math"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/rlxc/rlxc/server"
	"github.com/rlxc/rlxc/server/oipgrpc"
)

// mostCalls is how many calls of gRPC are under way at a time, those whose messages still come among them: each may hold --max-body bytes.
const mostCalls = 64

// tensors answers the Open Inference Protocol over gRPC.
func (s *serving) tensors(handler *server.Server, o server.Options, secure *tls.Config) end {
	options := []grpc.ServerOption{grpc.MaxRecvMsgSize(int(s.maxBody)), grpc.MaxSendMsgSize(math.MaxInt32), grpc.MaxConcurrentStreams(mostCalls),
		grpc.ConnectionTimeout(s.read), grpc.InTapHandle(admit(mostCalls, s.read+o.Timeout)),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 10 * time.Minute, Time: time.Minute})}
	if secure != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secure)))
	}
	g := grpc.NewServer(options...)
	oipgrpc.Register(g, handler, o.Version)
	return end{g.Serve, func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, g.Stop)
		defer stop()
		g.GracefulStop()
		return ctx.Err()
	}}
}

// admit bounds how many calls are under way, on all connections together, and how long each takes, with the coming of its message.
func admit(most int64, within time.Duration) tap.ServerInHandle {
	var calls atomic.Int64
	return func(ctx context.Context, _ *tap.Info) (context.Context, error) {
		if calls.Add(1) > most {
			calls.Add(-1)
			return nil, status.Error(codes.ResourceExhausted, "the server answers as many calls as it may: try again later")
		}
		ctx, cancel := context.WithTimeout(ctx, within)
		context.AfterFunc(ctx, func() {
			cancel()
			calls.Add(-1)
		})
		return ctx, nil
	}
}
