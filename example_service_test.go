package rlxc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/tensor"
	"github.com/rlxc/rlxc/tokenizer"
)

// An embedder serves vectors of texts. Its requests share a compiled model and wait for one of its sessions.
type embedder struct {
	tok      *tokenizer.Tokenizer
	program  *rlxc.Program
	sessions chan *rlxc.Session
}

// newEmbedder makes n sessions. Each keeps one processor busy: with Threads 1 as many run at a time as there are processors,
// which serves the most requests; one session with all threads would serve a single request the fastest.
func newEmbedder(model *rlxc.Model, tok *tokenizer.Tokenizer, n int) (*embedder, error) {
	program, err := model.Compile(context.Background(), rlxc.CompileOptions{Threads: 1})
	if err != nil {
		return nil, err
	}
	e := &embedder{tok, program, make(chan *rlxc.Session, n)}
	for range n {
		s, err := program.NewSession()
		if err != nil {
			return nil, errors.Join(err, e.close())
		}
		e.sessions <- s
	}
	return e, nil
}

// close gives the memory back, once no request is left.
func (e *embedder) close() error {
	close(e.sessions)
	for s := range e.sessions {
		if err := s.Close(); err != nil {
			return err
		}
	}
	return e.program.Close()
}

func (e *embedder) embed(ctx context.Context, texts []string) ([][]float32, error) {
	batch, err := e.tok.Batch(tokenizer.Texts(texts...), 512)
	if err != nil {
		return nil, err
	}
	var s *rlxc.Session
	select {
	case s = <-e.sessions:
		defer func() { e.sessions <- s }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out, err := s.Run(ctx, rlxc.Tensors{
		"input_ids":      tensor.FromSlice(batch.InputIDs, batch.Rows, batch.Length),
		"attention_mask": tensor.FromSlice(batch.AttentionMask, batch.Rows, batch.Length),
		"token_type_ids": tensor.FromSlice(batch.TokenTypeIDs, batch.Rows, batch.Length),
	})
	if err != nil {
		return nil, err
	}
	return meanVectors(out["last_hidden_state"], batch), nil // which copies: the tensor belongs to the session
}

// ServeHTTP takes a JSON list of texts and answers with a list of vectors.
func (e *embedder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var texts []string
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&texts); err != nil || len(texts) == 0 {
		http.Error(w, "want a JSON list of texts", http.StatusBadRequest)
		return
	}
	vectors, err := e.embed(r.Context(), texts)
	switch {
	case errors.Is(err, rlxc.ErrInput), errors.Is(err, rlxc.ErrMemory):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		json.NewEncoder(w).Encode(vectors)
	}
}

// An HTTP handler with a pool of sessions.
func Example_service() {
	tok, err := tokenizer.Open("tokenizer/testdata/vocab.txt") // the model's tokenizer.json or vocab.txt
	if err != nil {
		log.Fatal(err)
	}
	folder, err := models.FS("bert-tiny")
	if err != nil {
		log.Fatal(err)
	}
	model, err := rlxc.OpenFS(folder, "model.onnx") // or rlxc.Open("model.onnx")
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	e, err := newEmbedder(model, tok, 2) // runtime.GOMAXPROCS(0) in a service
	if err != nil {
		log.Fatal(err)
	}
	defer e.close()

	server := httptest.NewServer(e)
	defer server.Close()
	answer, err := http.Post(server.URL, "application/json", strings.NewReader(`["the quick brown fox", "the fox"]`))
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	var vectors [][]float32
	if err := json.NewDecoder(answer.Body).Decode(&vectors); err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Status, len(vectors), "vectors of", len(vectors[0]))
	// Output: 200 OK 2 vectors of 128
}
