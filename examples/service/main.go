// Command service answers POST /nearest with the texts of a request that are nearest to its query.
//
//	go run ./examples/service MODEL
//	curl 127.0.0.1:8080/nearest -d '{"query": "an animal", "texts": ["a cat", "a stock market"]}'
//
// It shows a handler of one's own. Below /rlxc/ the same program serves the protocols of OpenAI, text-embeddings-inference and others:
// package server is an http.Handler too.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/server"
)

const maxBody = 1 << 20 // bytes of a request

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: service MODEL")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, "127.0.0.1:8080", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve answers requests until ctx ends, and then those that have begun.
func serve(ctx context.Context, address, model string) error {
	h, closeModels, err := handler(ctx, model)
	if err != nil {
		return err
	}
	defer closeModels()
	s := &http.Server{Addr: address, Handler: h, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = s.Shutdown(last)
	})
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler opens the model and returns its routes. closeModels releases the memory.
func handler(ctx context.Context, model string) (h http.Handler, closeModels func(), err error) {
	m, err := pipeline.Open(ctx, model, pipeline.Options{})
	if err != nil {
		return nil, nil, err
	}
	protocols, err := server.New(ctx, []server.Model{{Name: "model", Path: model}}, server.Options{})
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /nearest", func(w http.ResponseWriter, r *http.Request) { nearest(w, r, m) })
	mux.Handle("/rlxc/", http.StripPrefix("/rlxc", protocols))
	return mux, func() { protocols.Close(); m.Close() }, nil
}

// nearest orders the texts of a request. Requests that arrive at the same time share batches: a model may be used by many goroutines.
func nearest(w http.ResponseWriter, r *http.Request, m *pipeline.Model) {
	var q struct {
		Query string   `json:"query"`
		Texts []string `json:"texts"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&q); err != nil || len(q.Texts) == 0 {
		http.Error(w, `want {"query": TEXT, "texts": [TEXT, …]}`, http.StatusBadRequest)
		return
	}
	// The context of the request ends the computation if the client goes away.
	vectors, err := m.Embed(r.Context(), append([]string{q.Query}, q.Texts...), pipeline.EmbedOptions{})
	switch {
	case errors.Is(err, rlxc.ErrMemory):
		http.Error(w, "send fewer or shorter texts", http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	type hit struct {
		Text  string  `json:"text"`
		Score float64 `json:"score"`
	}
	var hits []hit
	for _, h := range pipeline.TopK(vectors[0], vectors[1:], len(q.Texts), m.Similarity()) {
		hits = append(hits, hit{q.Texts[h.Index], float64(h.Score)})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(hits) // the client may have gone away
}
