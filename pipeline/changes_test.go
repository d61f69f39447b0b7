package pipeline

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/tokenizer"
)

var update = flag.Bool("update", false, "write testdata/changes.txt anew")

// more are fields that the files of testdata lack.
var more = map[string]string{
	"colbert/sentence_bert_config.json": `{"query_length": 16, "document_length": 20, "do_lower_case": true,
		"query_expansion": {"strategy": "min", "attend": true, "token": "[MASK]", "length": 9}}`,
	"dense/2_Dense/config.json": `{"module_input_name": "sentence_embedding", "use_residual": false}`,
	"classify/config.json": `{"problem_type": "single_label_classification", "function_to_apply": "softmax", "num_labels": 3,
		"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}, "n_positions": 30}`,
	"prompts/config_sentence_transformers.json": `{"model_type": "SentenceTransformer", "default_prompt_name": "query"}`,
}

var decimals = regexp.MustCompile(`-?\d+\.\d+(e[-+]\d+)?`)

// TestChangedConfigurations: models whose files differ in one value are refused with the same words, or are described and answer in the
// same way, as recorded. After a change: go test ./pipeline -run TestChangedConfigurations -update
func TestChangedConfigurations(t *testing.T) {
	t.Setenv("RLXC_VERIFY", "") // other tests prove plans
	var names []string
	for model, files := range map[string]string{
		"minilm":   "modules.json 1_Pooling/config.json sentence_bert_config.json tokenizer_config.json",
		"prompts":  "config_sentence_transformers.json",
		"dense":    "modules.json 2_Dense/config.json 3_LayerNorm/config.json",
		"colbert":  "config_sentence_transformers.json sentence_bert_config.json 1_Dense/config.json 2_MultiVectorMask/config.json",
		"splade":   "modules.json 1_SpladePooling/config.json",
		"classify": "config.json", "gliner": "gliner_config.json",
	} {
		for file := range strings.FieldsSeq(files) {
			names = append(names, model+"/"+file)
		}
	}
	slices.Sort(names)
	modeltest.Changed(t, "testdata/changes.txt", *update, names, func(name string) ([]byte, func([]byte) string) {
		model, _, _ := strings.Cut(name, "/")
		folder := copyModel(t, model)
		file := filepath.Join(filepath.Dir(folder), name)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if more[name] != "" {
			var all map[string]any // to which more is added
			require.NoError(t, json.Unmarshal(text, &all))
			require.NoError(t, json.Unmarshal([]byte(more[name]), &all))
			text, err = json.Marshal(all)
			require.NoError(t, err)
		}
		return text, func(changed []byte) string {
			require.NoError(t, os.WriteFile(file, changed, 0o666))
			return decimals.ReplaceAllStringFunc(strings.ReplaceAll(describeAll(t, folder), folder, ""), func(x string) string {
				v, err := strconv.ParseFloat(x, 64)
				require.NoError(t, err)
				return fmt.Sprintf("%.2g", v)
			})
		}
	})
}

// describeAll says what a model is, and what it makes of a text.
func describeAll(t *testing.T, folder string) string {
	m, err := Open(t.Context(), folder, Options{Sessions: 1, Compile: rlxc.CompileOptions{CPU: "generic", Threads: 1, Level: rlxc.O1}})
	if err != nil {
		return err.Error()
	}
	defer m.Close()
	ctx, one := t.Context(), []string{"A cat, sat."}
	var b strings.Builder
	say := func(v any, err error) { fmt.Fprintln(&b, v, err) }
	fmt.Fprintln(&b, m.Found, m.Task, m.MaxLength, m.Labels(), m.Prompts(), m.Pooling(), m.Architecture())
	say(m.TokenCount(ctx, one[0]))
	vectors, err := m.Embed(ctx, one, EmbedOptions{})
	for _, v := range vectors {
		say(v[:min(len(v), 4)], nil)
	}
	say(nil, err)
	for _, side := range []Side{Query, Document} {
		tokens, err := m.EmbedTokens(ctx, one, EmbedOptions{Side: side})
		for _, rows := range tokens {
			for _, v := range rows {
				say(v[:min(len(v), 2)], nil)
			}
		}
		say(m.SidePrompt(side), err)
	}
	sparse, err := m.EmbedSparse(ctx, one, EmbedOptions{})
	for _, v := range sparse {
		say(v.Indices, nil)
		say(m.TopWords(v, 3), nil)
	}
	say(nil, err)
	say(m.Classify(ctx, []Pair{{First: one[0]}}, ClassifyOptions{}))
	say(m.Rerank(ctx, "what?", one, RerankOptions{}))
	say(m.Tag(ctx, one, TagOptions{}))
	say(m.TagZeroShot(ctx, one, []string{"animal"}, TagZeroShotOptions{Threshold: 0.2}))
	say(m.Answer(ctx, []Question{{Question: "who?", Context: one[0]}}, AnswerOptions{}))
	say(m.Fill(ctx, []string{"a [MASK]"}, FillOptions{TopK: 2}))
	say(m.Encode(ctx, []tokenizer.Input{tokenizer.Text(one[0])}, 0))
	return b.String()
}
