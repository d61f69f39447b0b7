package server

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/rlxc/rlxc/pipeline"
)

// ollamaOptions are fields that all requests for vectors may have.
type ollamaOptions struct {
	Options   ignored `json:"options"`
	KeepAlive ignored `json:"keep_alive"`
}

type ollamaEmbedRequest struct {
	Model      string  `json:"model"`
	Input      inputs  `json:"input" required:"yes"`
	Truncate   cutting `json:"truncate"`
	Dimensions *int    `json:"dimensions" least:"1"`
	Prefix     *string `json:"prefix"`
	ollamaOptions
}

type ollamaEmbeddings struct {
	Model      string      `json:"model"`
	Embeddings [][]float32 `json:"embeddings"`
	Total      int64       `json:"total_duration"` // nanoseconds
	Load       int64       `json:"load_duration"`
	Tokens     int         `json:"prompt_eval_count"`
}

func (c *call) ollamaEmbed(q *ollamaEmbedRequest) (a ollamaEmbeddings, err error) {
	begun, yes := time.Now(), true // as Ollama does
	vectors, err := c.vectors(embedding{model: q.Model, field: "input", in: q.Input, prefix: q.Prefix,
		cut: q.Truncate.of("input", ""), dimensions: q.Dimensions, normalize: &yes})
	if err != nil {
		return a, err
	}
	return ollamaEmbeddings{Model: q.Model, Embeddings: vectors, Total: int64(time.Since(begun)), Tokens: c.record.usage.Tokens}, nil
}

type ollamaPromptRequest struct {
	Model  string  `json:"model"`
	Prompt *string `json:"prompt" required:"yes"`
	ollamaOptions
}

type ollamaVector struct {
	Embedding []float32 `json:"embedding"`
}

// ollamaEmbedOne is the route before /api/embed.
func (c *call) ollamaEmbedOne(q *ollamaPromptRequest) (a ollamaVector, err error) {
	vectors, err := c.vectors(embedding{model: q.Model, field: "prompt", in: inputs{texts: []string{*q.Prompt}}})
	if err != nil {
		return a, err
	}
	return ollamaVector{vectors[0]}, nil
}

type ollamaDetails struct {
	Parent       string   `json:"parent_model"`
	Format       string   `json:"format"`
	Family       string   `json:"family"`
	Families     []string `json:"families"`
	Parameters   string   `json:"parameter_size"`
	Quantization string   `json:"quantization_level"`
}

// An ollamaModel is one of a list. Its digest is that of its files' names, sizes and times: it changes when they do.
type ollamaModel struct {
	Name     string        `json:"name"`
	Model    string        `json:"model"`
	Modified string        `json:"modified_at,omitempty" schema:"time"`
	Expires  string        `json:"expires_at,omitempty" schema:"time"` // of those that are loaded
	Size     int64         `json:"size"`
	VRAM     *int64        `json:"size_vram,omitempty"`
	Digest   string        `json:"digest"`
	Length   int           `json:"context_length,omitempty"`
	Details  ollamaDetails `json:"details"`
}

type ollamaModels struct {
	Models []ollamaModel `json:"models"`
}

// ollamaModel describes what is open.
func (m *opened) ollamaModel(name string) ollamaModel {
	a := ollamaModel{Name: name + latestTag, Model: name + latestTag}
	digest := sha256.New()
	for _, s := range m.stamps {
		when := s.Info.ModTime().UTC().Format(time.RFC3339)
		a.Modified = max(a.Modified, when)
		a.Size += s.Info.Size()
		fmt.Fprintln(digest, s.Info.Name(), s.Info.Size(), when)
	}
	a.Digest = fmt.Sprintf("%x", digest.Sum(nil))
	a.Details = ollamaDetails{Format: "onnx", Families: []string{}}
	if m.text != nil {
		a.Details.Family = m.text.Architecture()
		a.Details.Families = []string{a.Details.Family}
	}
	return a
}

// ollamaModels describes all models.
func (c *call) ollamaModels(describe func(m *opened, a *ollamaModel)) (a ollamaModels) {
	a.Models = []ollamaModel{}
	for _, e := range c.server.models {
		if m := e.current(); m != nil {
			x := m.ollamaModel(e.Name)
			describe(m, &x)
			a.Models = append(a.Models, x)
		}
	}
	return a
}

func (c *call) ollamaTags() (ollamaModels, error) {
	return c.ollamaModels(func(*opened, *ollamaModel) {}), nil
}

// forever is how long models stay loaded.
const forever = 100 * 365 * 24 * time.Hour

func (c *call) ollamaRunning() (ollamaModels, error) {
	return c.ollamaModels(func(m *opened, a *ollamaModel) {
		a.Modified, a.Expires, a.VRAM = "", c.server.begun.Add(forever).UTC().Format(time.RFC3339), new(int64)
		if m.text != nil {
			a.Length = m.text.MaxLength
		}
	}), nil
}

type ollamaShowRequest struct {
	Model   string  `json:"model"`
	Name    string  `json:"name"` // of clients before there was model
	Verbose ignored `json:"verbose"`
}

type ollamaShown struct {
	Modelfile    string         `json:"modelfile"`
	Parameters   string         `json:"parameters"`
	Template     string         `json:"template"`
	Modified     string         `json:"modified_at,omitempty" schema:"time"`
	Details      ollamaDetails  `json:"details"`
	Info         map[string]any `json:"model_info"`
	Capabilities []string       `json:"capabilities"`
}

func (c *call) ollamaShow(q *ollamaShowRequest) (a ollamaShown, err error) {
	e, m, err := c.open(q.Model+q.Name, ofTexts)
	if err != nil {
		return a, err
	}
	x := m.ollamaModel(e.Name)
	a = ollamaShown{Modified: x.Modified, Details: x.Details, Info: map[string]any{}, Capabilities: []string{}}
	if m.text != nil {
		a.Info["general.architecture"], a.Info[x.Details.Family+".context_length"] = x.Details.Family, m.text.MaxLength
	}
	if m.text != nil && m.text.Task == pipeline.Embedding {
		a.Capabilities = append(a.Capabilities, "embedding")
	}
	return a, nil
}

type ollamaVersion struct {
	Version string `json:"version"`
}

func (c *call) ollamaVersion() (ollamaVersion, error) {
	return ollamaVersion{c.server.options.Version}, nil
}
