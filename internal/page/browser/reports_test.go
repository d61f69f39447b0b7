package browser

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlanOfMiniLM takes the picture of README.md.
func TestPlanOfMiniLM(t *testing.T) {
	fixtures := os.Getenv("RLXC_FIXTURES")
	if fixtures == "" {
		t.Skip("RLXC_FIXTURES is not set")
	}
	file := filepath.Join(t.TempDir(), "report.html")
	plan := exec.Command(program, "plan", "minilm", "--cpu", "avx2", "--dim", "batch=1", "--dim", "seq=128", "--html", file)
	plan.Dir = fixtures
	out, err := plan.CombinedOutput()
	require.NoError(t, err, "%s", out)
	onScreens(t, "file://"+file, func(b *tab) {
		b.shows("body", "layer.5")
		b.picture("minilm")
	})
}

// TestReports looks at the pages that commands write: a box that is clicked says what it is, and a value lights up.
func TestReports(t *testing.T) {
	for _, report := range []struct {
		name  string
		args  []string
		shows string
		walk  func(b *tab)
	}{
		{"plan", []string{"plan", "bert-tiny", "--dim", "batch=1", "--dim", "seq=128"}, "layer.1", func(b *tab) {
			b.click(".chart [data-zoom='2']")
			b.click(".chart svg svg:has(rect[fill])")
			b.shows(".chart output", "pooler_output matmul f32[1,128]\n512 B at 0")
			require.Positive(b, b.count(".chart .view"))
		}},
		{"profile", []string{"run", "bert-tiny", "--random", "--dim", "batch=1", "--dim", "seq=128", "--profile"}, "layer.1", func(b *tab) {
			b.click(".chart svg svg:has(rect[fill])")
			b.shows(".chart output", " ms, from ")
		}},
		{"passes", []string{"compile", "bert-tiny"}, "Nothing changed", func(b *tab) {
			b.click("details:nth-of-type(3) > summary")
			b.click("details:nth-of-type(3) .diff [data-value]")
			require.Greater(b, b.count(".lit"), 1)
		}},
	} {
		t.Run(report.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "report.html")
			out, err := exec.Command(program, append(report.args, "--html", file)...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			onScreens(t, "file://"+file, func(b *tab) {
				b.shows("body", report.shows)
				report.walk(b)
				b.picture(report.name)
			})
		})
	}
}
