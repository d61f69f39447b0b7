package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/tensor"
)

// Admit lets a request of another protocol in, as the server's own routes do: by its key, if it needs one, a place, and the time and memory
// that a request has. The request's body is counted as it comes, twice, for it is kept and read. done gives all back. An error has a
// status: see Status.
func (s *Server) Admit(r *http.Request, open bool) (admitted *http.Request, done func(), err error) {
	pool := s.pool
	if open {
		pool = s.open
	} else if err := s.allowed(r.Header.Get); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.options.Timeout)
	ctx, share, err := pool.Enter(ctx, peerOf(r))
	if err != nil {
		cancel()
		return nil, nil, err
	}
	r = r.WithContext(ctx)
	r.Body = keptBody{share.Reader(r.Body, s.options.MaxBody+framing), r.Body, share}
	return r, func() { share.Leave(); cancel() }, nil
}

// framing is what a protocol may send beside a message.
const framing = 1 << 10

type keptBody struct {
	io.Reader
	io.Closer
	share *memory.Share
}

// Read implements io.Reader.
func (b keptBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if full := b.share.Take(2 * int64(n)); full != nil {
		return 0, full
	}
	return n, err
}

// Take asks for memory for a request that was admitted. It fails with an error that has a status: see Status.
func Take(ctx context.Context, bytes int) error { return memory.Asker(ctx)(int64(bytes)) }

// Infer runs a served model on tensors: for front ends other than HTTP. take is called with each output that is asked for, in order; none
// means all. The tensors are valid until take returns, and the request has the memory to copy them twice. An error has a status: see
// Status.
func (s *Server) Infer(ctx context.Context, model, version string, in rlxc.Tensors, outputs []string,
	take func(name string, t *tensor.Tensor) error) (err error) {
	begun := time.Now()
	defer func() { s.metrics.request("tensors", statusCode(err), time.Since(begun)) }()
	return s.with(ctx, model, version, func(m *opened) error {
		return m.infer(ctx, in, outputs, func(name string, t *tensor.Tensor) error {
			if err := Take(ctx, 2*rawSize(t)); err != nil {
				return err
			}
			return take(name, t)
		})
	})
}

// Signature returns the inputs and outputs of a served model. It fails with status 404 (see Status) if there is no such
// model or version.
func (s *Server) Signature(ctx context.Context, model, version string) (inputs, outputs []rlxc.ValueInfo, err error) {
	err = s.with(ctx, model, version, func(m *opened) error {
		inputs, outputs = m.tensors.program.Inputs(), m.tensors.program.Outputs()
		return nil
	})
	return inputs, outputs, err
}

// with calls do with a model.
func (s *Server) with(ctx context.Context, model, version string, do func(m *opened) error) error {
	if version != "" && version != modelVersion {
		return failf(http.StatusNotFound, "", "there is no version %q: want %s", version, modelVersion)
	}
	e, err := s.find(model, nil)
	if err != nil {
		return err
	}
	e.mend(context.WithoutCancel(ctx), s)
	m, done, err := e.use(ctx)
	if err != nil {
		return err
	}
	defer done()
	err = do(m)
	if changed := m.intact(); changed != nil {
		return errors.Join(err, changed)
	}
	return err
}

// Fault notes a panic of a front end in the log, and returns what clients are told of it. That error has status 500 (see
// Status).
func (s *Server) Fault(panicked any) error {
	s.options.Log.Error("panic", "error", fmt.Sprint(panicked), "stack", string(debug.Stack()))
	return failf(http.StatusInternalServerError, "", "internal error")
}

// Ready reports whether requests should be sent here: all models are whole, and the server does not end.
func (s *Server) Ready() bool { return s.readiness(context.Background()) == nil }

// readiness is why no requests should be sent here. A model whose files were changed, and are whole again, is opened for it.
func (s *Server) readiness(ctx context.Context) error {
	switch {
	case s.draining.Load():
		return failf(http.StatusServiceUnavailable, "", "the server is shutting down")
	case !s.mend(ctx):
		return failf(http.StatusServiceUnavailable, "", "a model's files were changed while they were in use, and cannot be opened")
	}
	return nil
}

// statusCode is the status of HTTP of an error, or of none.
func statusCode(err error) int {
	if err == nil {
		return http.StatusOK
	}
	return failureOf(err).status
}

// Status returns the status of HTTP that an error has, and what of it may leave the machine.
func Status(err error) (status int, text string) {
	f := failureOf(err)
	return f.status, f.text
}
