package pipeline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
)

// readRecorded reads what models/scripts/towers.py has recorded of transformers.
func readRecorded(t *testing.T, name string, to any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(imageFolder, name, "transformers.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, to))
}

// requireScores holds scores to those of transformers. Pixels of torchvision differ by up to 1 of 255 from ours (imaging.Processor).
func requireScores(t *testing.T, want, got []Score) {
	t.Helper()
	require.GreaterOrEqual(t, len(got), len(want))
	for i, w := range want {
		require.Equal(t, w.Label, got[i].Label)
		require.InDelta(t, w.Score, got[i].Score, 1e-3, w.Label)
	}
}

func names(v []rlxc.ValueInfo) string { return strings.Join(namesOf(v), ", ") }

// TestDualEncodersShareASpace: towers in two files and in one make the vectors of transformers, and its scores of labels, whose scale is in
// config.json (clip-towers), in the file itself (clip-file), or in the file beside the towers (siglip).
func TestDualEncodersShareASpace(t *testing.T) {
	images := photos(t)
	for _, test := range []struct{ name, text, vision, takes string }{
		{"clip-towers", "onnx/text_model.onnx", "onnx/vision_model.onnx", "input_ids"},
		{"clip-file", "model.onnx", "model.onnx", "input_ids, attention_mask"},
		{"siglip", "onnx/text_model.onnx", "onnx/vision_model.onnx", "input_ids"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var want struct {
				Texts, Images map[string][]float32
				Labels        map[string][]Score
			}
			readRecorded(t, test.name, &want)
			folder := filepath.Join(imageFolder, test.name)
			m, err := Open(t.Context(), folder, Options{})
			require.NoError(t, err)
			defer m.Close()
			require.Equal(t, filepath.Join(folder, filepath.FromSlash(test.text)), m.Description.Model)
			require.Equal(t, test.takes, names(m.Program().Inputs()))
			require.Equal(t, Embedding, m.Task)
			require.NoError(t, m.Try(t.Context()))
			var texts []string
			for text := range want.Texts {
				texts = append(texts, text)
			}
			vectors, err := m.Embed(t.Context(), texts, EmbedOptions{}) // of other lengths in one batch
			require.NoError(t, err)
			for i, v := range vectors {
				require.Greater(t, Cosine.Of(v, want.Texts[texts[i]]), 0.9999, texts[i])
			}
			vision := openImages(t, test.name, Options{})
			require.Equal(t, filepath.Join(folder, filepath.FromSlash(test.vision)), vision.run.Description.Model)
			require.Equal(t, pixelsName, names(vision.Program().Inputs()))
			seen, err := vision.Embed(t.Context(), images, ImageOptions{})
			require.NoError(t, err)
			for i, v := range seen {
				require.Len(t, v, len(vectors[0]))
				require.Greater(t, Cosine.Of(v, want.Images[images[i].Name]), 0.9999, images[i].Name)
			}
			require.True(t, vision.Can(ZeroShot))
			require.False(t, vision.Can(Classifying))
			scores, err := vision.ClassifyZeroShot(t.Context(), images, []string{"cat", "two dogs", "a red car"}, ZeroShotOptions{})
			require.NoError(t, err)
			for i, got := range scores {
				requireScores(t, want.Labels[images[i].Name], got)
			}
		})
	}
}

// TestScaleOfLogitsIsThatOfTheFile: the value with which training began is another one.
func TestScaleOfLogitsIsThatOfTheFile(t *testing.T) {
	for name, want := range map[string][2]float64{"clip-towers": {20, 0}, "clip-file": {30, 0}, "siglip": {4.4816891, -2}} {
		t.Run(name, func(t *testing.T) {
			scale, bias, err := openImages(t, name, Options{}).logitScale(t.Context(), Options{})
			require.NoError(t, err)
			require.InDelta(t, want[0], scale, 1e-4)
			require.InDelta(t, want[1], bias, 1e-4)
		})
	}
}

func TestTowerHasOnlyItsOwnWeights(t *testing.T) {
	folder := imageFolder + "/clip-file"
	m, err := Open(t.Context(), folder, Options{})
	require.NoError(t, err)
	defer m.Close()
	weights := func(p *rlxc.Program, sizes map[string]int) int64 {
		report, err := p.Plan(sizes)
		require.NoError(t, err)
		return report.Weights
	}
	whole, err := m.model.Compile(t.Context(), rlxc.CompileOptions{})
	require.NoError(t, err)
	defer whole.Close()
	text := map[string]int{"text_batch_size": 1, "sequence_length": 9}
	vision := map[string]int{"image_batch_size": 1, "num_channels": 3, "height": 24, "width": 24}
	both := map[string]int{}
	for _, sizes := range []map[string]int{text, vision} {
		for name, n := range sizes {
			both[name] = n
		}
	}
	a, b := weights(m.Program(), text), weights(openImages(t, "clip-file", Options{}).Program(), vision)
	require.LessOrEqual(t, a+b, weights(whole, both))
	require.Positive(t, min(a, b))
}

func TestImageLabelsAreThoseOfTransformers(t *testing.T) {
	var want map[string]map[string][]Score
	readRecorded(t, "classifier", &want)
	images := photos(t)
	for problem, labels := range want {
		t.Run(problem, func(t *testing.T) {
			folder := t.TempDir()
			require.NoError(t, os.CopyFS(folder, os.DirFS(imageFolder+"/classifier")))
			config, err := os.ReadFile(folder + "/config.json")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(folder+"/config.json", []byte(strings.Replace(string(config), "{",
				`{"problem_type":"`+problem+`",`, 1)), 0o600))
			m, err := OpenImages(t.Context(), folder, Options{})
			require.NoError(t, err)
			defer m.Close()
			require.Equal(t, Classifying, m.Task)
			got, err := m.Classify(t.Context(), images, ClassifyOptions{TopK: 3})
			require.NoError(t, err)
			for i, g := range got {
				require.Len(t, g, 3)
				requireScores(t, labels[images[i].Name], g)
			}
			all, err := m.Classify(t.Context(), images[:1], ClassifyOptions{Function: NoFunction})
			require.NoError(t, err)
			require.Len(t, all[0], 5)
		})
	}
}

func TestImageTaskErrors(t *testing.T) {
	m := openImages(t, "classifier", Options{})
	_, err := m.Embed(t.Context(), photos(t), ImageOptions{})
	require.ErrorIs(t, err, ErrTask)
	require.ErrorContains(t, err, "cannot embed images: it returns logits [")
	_, err = m.ClassifyZeroShot(t.Context(), photos(t), []string{"cat"}, ZeroShotOptions{})
	require.ErrorIs(t, err, ErrTask)
	_, err = openImages(t, "clip", Options{}).ClassifyZeroShot(t.Context(), nil, []string{"cat"}, ZeroShotOptions{})
	require.ErrorIs(t, err, ErrTask, "it has no text tower")
	_, err = OpenImages(t.Context(), imageFolder+"/classifier", Options{Pooling: PoolMean})
	require.ErrorIs(t, err, ErrTask)
	require.ErrorContains(t, err, "want an output image_embeds, pooler_output or last_hidden_state")

	m = openImages(t, "clip-file", Options{})
	_, err = m.Classify(t.Context(), photos(t), ClassifyOptions{})
	require.ErrorIs(t, err, ErrTask)
	_, err = m.ClassifyZeroShot(t.Context(), photos(t), nil, ZeroShotOptions{})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = m.ClassifyZeroShot(t.Context(), photos(t), []string{"cat"}, ZeroShotOptions{Template: "a photo"})
	require.ErrorIs(t, err, ErrInvalid)

	folder := t.TempDir() // towers of SigLIP without the file of both
	require.NoError(t, os.CopyFS(folder, os.DirFS(imageFolder+"/siglip")))
	require.NoError(t, os.Remove(folder+"/onnx/model.onnx"))
	towers, err := OpenImages(t.Context(), folder, Options{})
	require.NoError(t, err)
	_, err = towers.ClassifyZeroShot(t.Context(), photos(t), []string{"cat"}, ZeroShotOptions{})
	require.ErrorIs(t, err, ErrTask)
	require.ErrorContains(t, err, "want a model.onnx with an output logits_per_image")
	require.NoError(t, towers.Close())
	_, err = towers.ClassifyZeroShot(t.Context(), photos(t), []string{"cat"}, ZeroShotOptions{})
	require.ErrorIs(t, err, rlxc.ErrClosed)
}

// TestFilesOfTowers: of a repository, one file with both towers is chosen, or else those of the towers.
func TestFilesOfTowers(t *testing.T) {
	towers := []string{"config.json", "onnx/text_model.onnx", "onnx/text_model_int8.onnx", "onnx/vision_model.onnx",
		"onnx/vision_model_int8.onnx", "preprocessor_config.json"}
	require.Equal(t, []string{"config.json", "onnx/text_model_int8.onnx", "onnx/vision_model_int8.onnx", "preprocessor_config.json"},
		Files("int8")(towers))
	require.Equal(t, []string{"config.json", "preprocessor_config.json", "onnx/model.onnx"}, Files("")(append(towers, "onnx/model.onnx")))
}
