package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/tensor"
)

// Infer runs a served model on tensors: for front ends other than HTTP. take is called with each output that is asked for, in order; none
// means all. The tensors are valid until take returns. An error has a status: see Status.
func (s *Server) Infer(ctx context.Context, model, version string, in rlxc.Tensors, outputs []string, take func(name string, t *tensor.Tensor) error) (err error) {
	begun := time.Now()
	defer func() { s.metrics.request("tensors", statusCode(err), time.Since(begun)) }()
	select {
	case s.requests <- struct{}{}:
		defer func() { <-s.requests }()
	default:
		return failf(http.StatusTooManyRequests, "", "the server answers as many requests as it may: try again later")
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	return s.with(ctx, model, version, func(m *opened) error { return m.infer(ctx, in, outputs, take) })
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

// Ready reports whether requests should be sent here.
func (s *Server) Ready() bool { return !s.draining.Load() }

// CheckKey checks an API key. An error has a status: see Status.
func (s *Server) CheckKey(key string) error {
	if len(s.options.Keys) == 0 {
		return nil
	}
	return s.checkKey(key)
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
