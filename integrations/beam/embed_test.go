package rlxcbeam

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"

	"github.com/rlxc/rlxc/pipeline"
)

const folder = "../../pipeline/testdata/minilm"

// TestMain runs pipelines on Prism, in this process.
func TestMain(m *testing.M) { ptest.MainWithDefault(m, "prism") }

var _ = prism.Execute

func init() {
	register.Function1x2(number)
	register.Function2x1(check)
}

// textOf is one of many texts.
func textOf(i int) string { return strings.Repeat("a cat ", i%13) + fmt.Sprint("sits on mat ", i%101) }

func number(i int) (string, string) { return fmt.Sprint(i), textOf(i) }

// check compares a vector with what package pipeline makes of its text alone.
func check(id string, v []float32) string {
	var i int
	fmt.Sscan(id, &i)
	m, err := open(Options{Model: folder, Batch: -1})
	if err != nil {
		return err.Error()
	}
	want, err := m.Embed(context.Background(), []string{textOf(i)}, pipeline.EmbedOptions{})
	if err != nil {
		return err.Error()
	}
	if c := pipeline.Cosine.Of(v, want[0]); len(v) != len(want[0]) || c < 0.99999 {
		return fmt.Sprintf("%s: cosine %v", id, c)
	}
	return "ok"
}

// Every text has its vector, once, whatever bundles and batches it came in.
func TestEmbed(t *testing.T) {
	const rows = 3000
	numbers := make([]int, rows)
	for i := range numbers {
		numbers[i] = i
	}
	p, s := beam.NewPipelineWithRoot()
	vectors := Embed(s, Options{Model: folder, Batch: 256}, beam.ParDo(s, number, beam.CreateList(s, numbers)))
	passert.Count(s, vectors, "vectors", rows)
	passert.Count(s, beam.DropValue(s, vectors), "ids", rows)
	passert.EqualsList(s, beam.ParDo(s, check, vectors), func() []string {
		all := make([]string, rows)
		for i := range all {
			all[i] = "ok"
		}
		return all
	}())
	ptest.RunAndValidate(t, p)
}

// A model that cannot be opened fails the pipeline with its name.
func TestNoModel(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	Embed(s, Options{Model: "nothing/here/at/all"}, beam.ParDo(s, number, beam.Create(s, 1)))
	if err := ptest.Run(p); err == nil || !strings.Contains(err.Error(), "nothing/here/at/all") {
		t.Fatal(err)
	}
}
