// Command clients runs OpenAI's client for Go: see clients.sh.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math"
	"net/http"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() {
	log.SetFlags(0)
	f, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var texts []string
	var want [][]float64
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Text      string
			Embedding []float64
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			log.Fatal(err)
		}
		texts, want = append(texts, line.Text), append(want, line.Embedding)
	}
	client := openai.NewClient(option.WithBaseURL(os.Getenv("SERVED_URL")+"/v1"), option.WithAPIKey("secret"))
	answer, err := client.Embeddings.New(context.Background(), openai.EmbeddingNewParams{Model: "minilm",
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: texts}})
	if err != nil {
		log.Fatal(err)
	}
	if len(answer.Data) != len(want) {
		log.Fatalf("%d vectors for %d texts", len(answer.Data), len(want))
	}
	for i, d := range answer.Data {
		for k, x := range d.Embedding {
			if !(math.Abs(x-want[i][k]) < 1e-5) {
				log.Fatalf("vector %d differs", i)
			}
		}
	}
	_, err = client.Embeddings.New(context.Background(), openai.EmbeddingNewParams{Model: "none",
		Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("a")}})
	var status *openai.Error
	if !errors.As(err, &status) || status.StatusCode != http.StatusNotFound {
		log.Fatalf("a model that is not there: %v", err)
	}
	fmt.Println("ok openai for Go")
}
