package server

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/pipeline"
)

// imageModels lists models of images of testdata.
func imageModels(names ...string) []Model {
	list := make([]Model, len(names))
	for i, name := range names {
		list[i] = Model{Name: name, Path: filepath.Join(testdata, "images", name)}
	}
	return list
}

// photo is a file of testdata.
func photo(t *testing.T, i int) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(testdata, "images", fmt.Sprintf("photo%d.png", i)))
	require.NoError(t, err)
	return data
}

// photoURL is a photo as a data URL.
func photoURL(t *testing.T, i int) string {
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(photo(t, i))
}

// sendFile sends a body with a content type.
func sendFile(t *testing.T, url, kind string, body []byte) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", url, bytes.NewReader(body))
	require.NoError(t, err)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	a, err := client.Do(r)
	require.NoError(t, err)
	defer a.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(a.Body)
	require.NoError(t, err)
	return a.StatusCode, b.String()
}

// imageLibrary makes vectors of photos 0 and 1 as a program without HTTP does.
func imageLibrary(t *testing.T, name string) [][]float32 {
	t.Helper()
	m, err := pipeline.OpenImages(t.Context(), filepath.Join(testdata, "images", name), pipeline.Options{})
	require.NoError(t, err)
	vectors, err := m.Embed(t.Context(), []pipeline.Image{{Data: photo(t, 0)}, {Data: photo(t, 1)}}, pipeline.ImageOptions{})
	require.NoError(t, err)
	require.NoError(t, m.Close())
	return vectors
}

// TestImagesInEveryProtocol sends the same photos as each protocol's clients send them, and compares vectors with the library's.
func TestImagesInEveryProtocol(t *testing.T) {
	_, h := start(t, Options{}, append(served("minilm"), imageModels("vit")...)...)
	want := imageLibrary(t, "vit")
	first, second := photoURL(t, 0), photoURL(t, 1)
	plain := strings.TrimPrefix(second, "data:image/png;base64,")
	unpadded := strings.TrimRight(plain, "=")
	forURLs := strings.NewReplacer("+", "-", "/", "_").Replace(plain)
	both := fmt.Sprintf(`[%q, %q]`, first, second)
	for name, body := range map[string]string{
		"infinity":          `{"modality": "image", "input": ` + both + `}`,
		"Jina":              fmt.Sprintf(`{"input": [{"image": %q}, {"image": %q}]}`, first, plain),
		"named":             `{"model": "vit", "modality": "image", "input": ` + both + `}`,
		"without padding":   fmt.Sprintf(`{"modality": "image", "input": [%q, %q]}`, first, unpadded),
		"in URLs' alphabet": fmt.Sprintf(`{"modality": "image", "input": [%q, %q]}`, first, forURLs),
		"as a query":        `{"modality": "image", "input_type": "query", "input": ` + both + `}`,
		"in lines":          fmt.Sprintf(`{"modality": "image", "input": [%q, "%s\r\n%s"]}`, first, plain[:76], plain[76:]),
		"of an unstated type": fmt.Sprintf(`{"modality": "image", "input": [%q, %q]}`, first,
			"DATA:application/octet-stream;base64,"+plain),
		"with null beside":     `{"modality": "image", "dimensions": null, "input": ` + both + `}`,
		"of a type with words": fmt.Sprintf(`{"modality": "image", "input": [%q, %q]}`, first, "data:image/png;name=a.png;base64,"+plain),
	} {
		t.Run(name, func(t *testing.T) {
			var a struct {
				Data []struct {
					Index     int
					Embedding []float32
				}
				Model string
			}
			ask(t, "POST", h.URL+"/v1/embeddings", body, &a)
			require.Equal(t, "vit", a.Model)
			require.Len(t, a.Data, 2)
			near(t, want, [][]float32{a.Data[0].Embedding, a.Data[1].Embedding})
		})
	}
	for name, body := range map[string]string{
		"images": `{"input_type": "image", "embedding_types": ["float"], "images": ` + both + `}`,
		"inputs": fmt.Sprintf(`{"inputs": [{"content": [{"type": "image_url", "image_url": {"url": %q}}]},
			{"content": [{"type": "image_url", "image_url": {"url": %q}}]}]}`, first, second),
	} {
		t.Run("Cohere's "+name, func(t *testing.T) {
			var a struct {
				Embeddings struct{ Float [][]float32 }
				Texts      []string
				Meta       struct {
					Billed struct{ Images int } `json:"billed_units"`
				}
			}
			ask(t, "POST", h.URL+"/v2/embed", body, &a)
			near(t, want, a.Embeddings.Float)
			require.Empty(t, a.Texts)
			require.Equal(t, 2, a.Meta.Billed.Images)
		})
	}
	const path = "/pipeline/image-feature-extraction"
	var vectors [][]float32
	ask(t, "POST", h.URL+path, `{"inputs": `+both+`}`, &vectors)
	near(t, want, vectors)
	_, alone := ask(t, "POST", h.URL+path, fmt.Sprintf(`{"inputs": %q}`, first), &vectors)
	near(t, want[:1], vectors)
	for _, kind := range []string{"image/png", "image/jpeg", "application/octet-stream", "application/x-www-form-urlencoded", ""} {
		for _, path := range []string{path, "/models/vit"} {
			status, text := sendFile(t, h.URL+path, kind, photo(t, 0))
			require.Equal(t, 200, status, "%s: %s", kind, text)
			require.Equal(t, alone, text, kind)
		}
	}
	ask(t, "POST", h.URL+"/v1/embeddings", `{"input": "a cat"}`, nil)
	var dims struct {
		Data []struct{ Embedding []float32 }
	}
	ask(t, "POST", h.URL+"/v1/embeddings", `{"modality": "image", "dimensions": 5, "input": `+both+`}`, &dims)
	short := want[0][:5]
	pipeline.Normalize(short)
	near(t, [][]float32{short}, [][]float32{dims.Data[0].Embedding})
}

// TestBadImagesAreOneError holds requests that are wrong to one error of 4xx, which names the image and what is wrong.
func TestBadImagesAreOneError(t *testing.T) {
	_, h := start(t, Options{MaxTexts: 40}, append(served("minilm"), imageModels("vit")...)...)
	good, text := photoURL(t, 0), base64.StdEncoding.EncodeToString([]byte("no image"))
	cut := good[:len(good)/2&^3]
	for name, x := range map[string]struct {
		path, body string
		status     int
		want       string
	}{
		"truncated base64": {"/v1/embeddings", fmt.Sprintf(`{"modality": "image", "input": [%q, %q]}`, good, cut), 400,
			`field \"input\": image 1: damaged or unsupported PNG image`},
		"broken base64": {"/v1/embeddings", fmt.Sprintf(`{"modality": "image", "input": [%q, %q]}`, good, good+"!"), 400,
			`field \"input\": image 1: want a data URL, base64, or a URL: illegal base64 data`},
		"a data URL of text": {"/v1/embeddings", `{"modality": "image", "input": "data:text/plain;base64,` + text + `"}`, 400,
			`field \"input\": image 0: the data URL is \"text/plain\", and not an image`},
		"a data URL without base64": {"/v1/embeddings", `{"modality": "image", "input": "data:image/svg+xml,<svg/>"}`, 400,
			`image 0: the data URL has no base64`},
		"a data URL alone": {"/v1/embeddings", `{"modality": "image", "input": "data:"}`, 400, `image 0: the data URL has no base64`},
		"text in base64":   {"/v1/embeddings", `{"modality": "image", "input": "` + text + `"}`, 400, `image 0: not an image that`},
		"nothing":          {"/v1/embeddings", `{"modality": "image", "input": ""}`, 400, `image 0: not an image that can be read`},
		"no images":        {"/v1/embeddings", `{"modality": "image", "input": []}`, 400, `want at least one`},
		"token ids":        {"/v1/embeddings", `{"modality": "image", "input": [[5, 6]]}`, 400, `input 0 is a list of token ids`},
		"too many": {"/v1/embeddings", `{"modality": "image", "input": [""` + strings.Repeat(`, ""`, 9999) + `]}`, 413,
			`has more elements than the maximum of 40`},
		"another modality": {"/v1/embeddings", `{"modality": "audio", "input": ["a"]}`, 400, `want text or image, not \"audio\"`},
		"text for a model of images": {"/v1/embeddings", `{"model": "vit", "input": ["a"]}`, 400,
			`the model \"vit\" takes images and no texts`},
		"image for a model of texts": {"/v1/embeddings", `{"model": "minilm", "modality": "image", "input": "` + good + `"}`, 400,
			`the model \"minilm\" takes texts and no images`},
		"both, for a model of images": {"/v1/embeddings", `{"model": "vit", "input": ["a", {"image": "` + good + `"}]}`, 400,
			`the model \"vit\" takes images and no texts`},
		"both, for no model": {"/v1/embeddings", `{"input": ["a", {"image": "` + good + `"}]}`, 400, `no served model can do this`},
		"text and image in one": {"/v1/embeddings", `{"input": [{"text": "a", "image": "b"}]}`, 400,
			`field \"input[0]\": want an object with either \"text\" or \"image\"`},
		"neither":          {"/v1/embeddings", `{"input": ["a", {}]}`, 400, `field \"input[1]\": want an object with either`},
		"an unknown field": {"/v1/embeddings", `{"input": ["a", {"video": "b"}]}`, 400, `\"input[1].video\"`},
		"a prompt": {"/v1/embeddings", `{"modality": "image", "input_type": "x", "input": "` + good + `"}`, 400,
			`prompts go before texts`},
		"a prefix": {"/v1/embeddings", `{"modality": "image", "prefix": "x", "input": "` + good + `"}`, 400, `images alone`},
		"too many dimensions": {"/v1/embeddings", `{"modality": "image", "dimensions": 999, "input": "` + good + `"}`, 400,
			`999 are requested`},
		"a URL": {"/v1/embeddings", `{"modality": "image", "input": "http://127.0.0.1/a.png"}`, 400,
			`image 0: the server does not fetch URLs of \"127.0.0.1\": send the image as a data URL or base64, or start the server with ` +
				`--allow-image-urls 127.0.0.1`},
		"a URL of a file": {"/v1/embeddings", `{"modality": "image", "input": "file:///etc/passwd"}`, 400, `want a URL of http or https`},
		"a path":          {"/v1/embeddings", `{"modality": "image", "input": "/etc/passwd"}`, 400, `image 0`},
		"Cohere's texts and images": {"/v2/embed", `{"texts": ["a"], "images": ["` + good + `"]}`, 422,
			`want exactly one of texts, images and inputs`},
		"Cohere's fused input": {"/v2/embed", `{"inputs": [{"content": [{"type": "text", "text": "a"},
			{"type": "image_url", "image_url": {"url": "` + good + `"}}]}]}`, 422, `want texts or one image`},
		"Cohere's text without it": {"/v2/embed", `{"inputs": [{"content": [{"type": "text"}]}]}`, 422, `has the field \"text\" alone`},
		"Cohere's bad image": {"/v2/embed", `{"images": ["` + good + `", "` + text + `"]}`, 422,
			`field \"images\": image 1: not an image that can be read`},
		"Hugging Face's bad image": {"/pipeline/image-feature-extraction", `{"inputs": ["` + good + `", "` + text + `"]}`, 422,
			`field \"inputs\": image 1: not an image`},
		"Hugging Face's other model": {"/models/minilm/pipeline/image-feature-extraction", `{"inputs": "` + good + `"}`, 422,
			`takes texts and no images`},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := ask(t, "POST", h.URL+x.path, x.body, nil)
			require.Equal(t, x.status, status, text)
			require.Contains(t, text, x.want)
		})
	}
	for name, x := range map[string]struct {
		path, kind, body string
		status           int
		want             string
	}{
		"an image for a route of texts": {"/embed", "image/png", "\x89PNG", 415, "this route takes JSON"},
		"text as an image":              {"/pipeline/image-feature-extraction", "image/png", "{}", 422, "the image: not an image that"},
		"a file that is no image":       {"/pipeline/image-feature-extraction", "", "hello", 422, "the image: not an image that"},
		"a file as JSON":                {"/pipeline/image-feature-extraction", "application/json", "\x89PNG", 400, "the body is no JSON"},
		"an empty body":                 {"/pipeline/image-feature-extraction", "", "", 422, `field \"inputs\" is missing`},
		"an empty image":                {"/pipeline/image-feature-extraction", "image/png", "", 422, `field \"inputs\" is missing`},
		"an image for a model of texts": {"/models/minilm", "image/png", "\x89PNG", 415, "this route takes JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := sendFile(t, h.URL+x.path, x.kind, []byte(x.body))
			require.Equal(t, x.status, status, text)
			require.Contains(t, text, x.want)
		})
	}
	ask(t, "POST", h.URL+"/v1/embeddings", `{"modality": "image", "input": "`+good+`"}`, nil)
}

// TestImagesWaitForMemory sends more images at once than the server may decode at a time: all are answered, and the requests never hold
// more than they may.
func TestImagesWaitForMemory(t *testing.T) {
	const most = 16 << 20
	s, h := start(t, Options{MaxHeld: most}, imageModels("vit")...)
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewNRGBA(image.Rect(0, 0, 600, 600)))) // 3.6 MB to decode
	source := base64.StdEncoding.EncodeToString(b.Bytes())
	body := fmt.Sprintf(`{"modality": "image", "input": [%q%s]}`, source, strings.Repeat(fmt.Sprintf(", %q", source), 3))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if status, text := ask(t, "POST", h.URL+"/v1/embeddings", body, nil); status != 200 {
				t.Errorf("%d: %s", status, text)
			}
		})
	}
	ended := make(chan bool)
	go func() { all.Wait(); close(ended) }()
	for open := true; open; {
		held, _ := s.pool.Held()
		require.LessOrEqual(t, held, int64(most))
		select {
		case <-ended:
			open = false
		default:
			runtime.Gosched()
		}
	}
	var large bytes.Buffer
	require.NoError(t, png.Encode(&large, image.NewGray(image.Rect(0, 0, 1500, 1500))))
	status, text := sendFile(t, h.URL+"/pipeline/image-feature-extraction", "image/png", large.Bytes())
	require.Equal(t, 413, status)
	require.Contains(t, text, "the image: the request needs more memory than one request may use: scale it down")
	quiet(t, s, runtime.NumGoroutine())
}

// TestTextsAndImagesInOneSpace sends texts and images of a dual encoder in one request, and compares its vectors and labels with the
// library's.
func TestTextsAndImagesInOneSpace(t *testing.T) {
	for _, name := range []string{"clip-towers", "clip-file"} {
		t.Run(name, func(t *testing.T) {
			s, h := start(t, Options{}, imageModels(name)...)
			text, err := pipeline.Open(t.Context(), filepath.Join(testdata, "images", name), pipeline.Options{})
			require.NoError(t, err)
			defer text.Close()
			texts, err := text.Embed(t.Context(), []string{"a cat", "a dog"}, pipeline.EmbedOptions{})
			require.NoError(t, err)
			images := imageLibrary(t, name)
			var a struct {
				Data []struct{ Embedding []float32 }
			}
			ask(t, "POST", h.URL+"/v1/embeddings", fmt.Sprintf(`{"input": [{"image": %q}, {"text": "a cat"}, {"image": %q}, "a dog"]}`,
				photoURL(t, 0), photoURL(t, 1)), &a)
			var vectors [][]float32
			for _, d := range a.Data {
				vectors = append(vectors, d.Embedding)
			}
			near(t, [][]float32{images[0], texts[0], images[1], texts[1]}, vectors)
			ask(t, "POST", h.URL+"/v1/embeddings", `{"input": ["a cat", "a dog"]}`, &a)
			near(t, texts, [][]float32{a.Data[0].Embedding, a.Data[1].Embedding})
			status, body := ask(t, "POST", h.URL+"/v1/embeddings", fmt.Sprintf(`{"input": ["a", {"image": %q}, {"image": "AAAA"}]}`,
				photoURL(t, 0)), nil)
			require.Equal(t, 400, status)
			require.Contains(t, body, "image 2: not an image", "the index is that of the input")

			m, err := pipeline.OpenImages(t.Context(), filepath.Join(testdata, "images", name), pipeline.Options{})
			require.NoError(t, err)
			defer m.Close()
			labels := []string{"cat", "dog", "bank"}
			want, err := m.ClassifyZeroShot(t.Context(), []pipeline.Image{{Data: photo(t, 0)}}, labels, pipeline.ZeroShotOptions{})
			require.NoError(t, err)
			for _, path := range []string{"/pipeline/zero-shot-image-classification", "/models/" + name} {
				var scores []pipeline.Score
				ask(t, "POST", h.URL+path, fmt.Sprintf(`{"inputs": %q, "parameters": {"candidate_labels": ["cat", "dog", "bank"]}}`,
					photoURL(t, 0)), &scores)
				require.Len(t, scores, 3)
				for i, x := range want[0] {
					require.Equal(t, x.Label, scores[i].Label)
					require.InDelta(t, x.Score, scores[i].Score, 1e-4)
				}
			}
			require.Equal(t, []pipeline.Task{"embed", "image embed", "image classify zero-shot"}, s.models[0].current().capabilities())
		})
	}
}

// TestImageTasks compares the answers of routes with the library's, for a file as the body and for a list.
func TestImageTasks(t *testing.T) {
	_, h := start(t, Options{}, imageModels("classifier", "detr")...)
	images := []pipeline.Image{{Data: photo(t, 0)}, {Data: photo(t, 1)}}
	both := fmt.Sprintf(`{"inputs": [%q, %q], "parameters": `, photoURL(t, 0), photoURL(t, 1))
	open := func(name string) *pipeline.ImageModel {
		m, err := pipeline.OpenImages(t.Context(), filepath.Join(testdata, "images", name), pipeline.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		return m
	}
	want, err := open("classifier").Classify(t.Context(), images, pipeline.ClassifyOptions{TopK: 2})
	require.NoError(t, err)
	var labels [][]pipeline.Score
	ask(t, "POST", h.URL+"/pipeline/image-classification", both+`{"top_k": 2}}`, &labels)
	require.Len(t, labels, 2)
	for i := range want {
		require.Len(t, labels[i], 2)
		for k := range want[i] {
			require.Equal(t, want[i][k].Label, labels[i][k].Label)
			require.InDelta(t, want[i][k].Score, labels[i][k].Score, 1e-5)
		}
	}
	status, text := sendFile(t, h.URL+"/models/classifier", "image/png", photo(t, 0))
	require.Equal(t, 200, status, text)
	var one []pipeline.Score
	require.NoError(t, json.Unmarshal([]byte(text), &one))
	require.Equal(t, want[0][0].Label, one[0].Label)

	const threshold = 0.01 // the weights are random
	found, err := open("detr").Detect(t.Context(), images, pipeline.DetectOptions{Threshold: threshold})
	require.NoError(t, err)
	var objects [][]hfObject
	ask(t, "POST", h.URL+"/pipeline/object-detection", both+`{"threshold": 0.01}}`, &objects)
	require.Len(t, objects, 2)
	for i := range found {
		require.NotEmpty(t, found[i])
		require.Len(t, objects[i], len(found[i]))
		for k, d := range found[i] {
			x := objects[i][k]
			require.Equal(t, d.Label, x.Label)
			require.InDelta(t, d.Score, x.Score, 1e-5)
			for j, at := range []int{x.Box.X0, x.Box.Y0, x.Box.X1, x.Box.Y1} {
				require.InDelta(t, d.Box[j], at, 0.6)
			}
		}
	}
	status, text = sendFile(t, h.URL+"/models/detr", "", photo(t, 0))
	require.Equal(t, 200, status, text)
	require.Equal(t, "[", text[:1])
	var served struct {
		Data []struct{ Capabilities []string }
	}
	ask(t, "GET", h.URL+"/v1/models", "", &served)
	require.Equal(t, []string{"image classify"}, served.Data[0].Capabilities)
	require.Equal(t, []string{"image detect"}, served.Data[1].Capabilities)
}
