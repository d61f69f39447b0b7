package server_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/rlxc/rlxc/server"
)

// A server is an http.Handler, here in a server of package httptest.
func Example() {
	models := []server.Model{{Name: "minilm", Path: "../pipeline/testdata/minilm"}} // or an id of the hub
	s, err := server.New(context.Background(), models, server.Options{MaxTexts: 100})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	web := httptest.NewServer(s) // or http.ListenAndServe("127.0.0.1:8080", s)
	defer web.Close()

	answer, err := http.Post(web.URL+"/v1/embeddings", "application/json", strings.NewReader(`{"input": ["a text", "another"]}`))
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	fmt.Println(s.Names(), answer.Status)
	// Output: [minilm] 200 OK
}
