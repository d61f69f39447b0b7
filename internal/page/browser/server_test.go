package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// tries are a model of each task, and what the page shows of its answer.
var tries = []struct {
	model, task, shows string
	element            string // that the answer has
	least, most        int    // of it
}{
	{"rerank", "rerank", "cat", ".bar", 4, 4},
	{"colbert", "embed multi-vector", "cat", ".bar", 4, 4},
	{"classify", "classify", "", ".bar", 3, 3},
	{"nli", "classify zero-shot", "complaint", ".bar", 3, 3},
	{"splade", "embed sparse", "the heaviest first", ".bar", 20, 20},
	{"splade", "fill", "Mask 1", ".bar", 5, 5},
	{"tensors", "tensors", "last_hidden_state: FP32 [1, 1, 32]", "pre", 1, 1},
	{"ner", "tag", "spans", "mark", 2, 60},
	{"gliner", "tag zero-shot", "span", "mark", 0, 60},
	{"qa", "answer", "ANSWER", "mark", 1, 1},
	{"minilm", "embed", "Cosines of vectors of 32 numbers", ".matrix td", 16, 16},
}

// TestServer tries each task, looks at what runs, and runs a line that the page offers.
func TestServer(t *testing.T) {
	tensors := filepath.Join(t.TempDir(), "model.onnx") // alone, without a tokenizer
	data, err := os.ReadFile(models + "minilm/onnx/model.onnx")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(tensors, data, 0o600))
	args := []string{"tensors=" + tensors, "idle=" + models + "classify"}
	for _, name := range []string{"minilm", "classify", "rerank", "nli", "ner", "gliner", "qa", "splade", "colbert"} {
		args = append(args, models+name)
	}
	onScreens(t, serve(t, args...), func(b *tab) {
		b.shows("#now", "colbert")
		for _, try := range tries {
			b.click(fmt.Sprintf(`#models [data-model=%q][data-task=%q]`, try.model, try.task))
			for evaluate[string](b, `document.querySelector("#question textarea").value`) == "" { // that of tensors comes later
				time.Sleep(50 * time.Millisecond)
			}
			b.click("#question button")
			b.shows("#answer", "Answered in")
			b.shows("#answer", try.shows)
			n := b.count("#answer " + try.element)
			require.True(b, try.least <= n && n <= try.most, "%d of %s of %s", n, try.element, try.task)
		}
		b.do(chromedp.ScrollIntoView(chromedp.CSS("header")))
		b.picture("serve")
		b.do(chromedp.SetValue(chromedp.CSS("#question textarea"), " "))
		b.click("#question button")
		b.shows("#answer .wrong", "is empty")

		row := func(model string) string {
			return fmt.Sprintf(`Array.from(document.querySelectorAll("#now tbody tr")).find(r => r.querySelector("b").innerText === %q)`,
				model)
		}
		idle := evaluate[[]string](b, `Array.from(`+row("idle")+`.cells).slice(1).map(c => c.textContent)`)
		last := len(idle) - 1
		require.Equal(b, []string{"–"}, slices.Compact(idle[:last]), "a model that ran nothing has no numbers")
		require.Regexp(b, `^\d+(\.\d)?.[MG]iB$`, idle[last], "but the limit of its runs")
		require.Regexp(b, `^\d+(\.\d)?.KiB$`, evaluate[string](b, row("minilm")+`.querySelector("[data-label=Weights]").innerText`))

		b.click("#routes details:has([data-path='/pipeline/question-answering']) > summary")
		b.click("#routes [data-path='/pipeline/question-answering'] > summary")
		b.shows("#routes [data-path='/pipeline/question-answering'] pre", "curl http://127.0.0.1")
		b.click("#routes [data-path='/pipeline/question-answering'] button")
		b.shows("#routes [data-path='/pipeline/question-answering'] button", "Copied")
		out, err := exec.Command("bash", "-c", evaluate[string](b, `document.querySelector("#routes pre").textContent`)).Output()
		require.NoError(b, err)
		require.Contains(b, string(out), `"answer":`)
	})
}

// TestPhotos tries each task of images with a photo.
func TestPhotos(t *testing.T) {
	const images = models + "images/"
	photo, err := filepath.Abs(images + "photo0.png")
	require.NoError(t, err)
	onScreens(t, serve(t, images+"vit", images+"classifier", images+"clip-towers", images+"detr"), func(b *tab) {
		b.shows("#now", "detr")
		for _, try := range []struct{ model, task, shows, element string }{
			{"vit", "image embed", "numbers, norm", "pre"}, {"classifier", "image classify", "", ".bar"},
			{"clip-towers", "image classify zero-shot", "dog", ".bar"}, {"detr", "image detect", "object", "canvas"},
		} {
			b.click(fmt.Sprintf(`#models [data-model=%q][data-task=%q]`, try.model, try.task))
			b.do(chromedp.SetUploadFiles(chromedp.CSS("#question [name=photo]"), []string{photo}))
			b.click("#question button")
			b.shows("#answer", "Answered in")
			b.shows("#answer", try.shows)
			require.Positive(b, b.count("#answer "+try.element), try.task)
		}
	})
}

// TestKey asks for the key of a server that has one.
func TestKey(t *testing.T) {
	onScreens(t, serve(t, "--api-key", "secret", models+"minilm"), func(b *tab) {
		b.shows("#login", "need an API key")
		b.do(chromedp.SendKeys(chromedp.CSS("#login input"), "guess"))
		b.click("#login button")
		b.shows("#login", "refuses this key")
		b.do(chromedp.SendKeys(chromedp.CSS("#login input"), "secret"))
		b.click("#login button")
		b.shows("#now", "minilm") // until then the page moves under a click
		b.click("#question button")
		b.shows("#answer", "Answered in")
		b.click("#routes details:has([data-path='/embed']) > summary")
		b.click("#routes [data-path='/embed'] > summary")
		b.shows("#routes [data-path='/embed'] pre", `"Authorization: Bearer $API_KEY"`)
		kept := evaluate[string](b, `document.cookie + Object.values(localStorage) + Object.values(sessionStorage)`)
		require.Empty(b, kept, "the key is in memory alone")
	})
}
