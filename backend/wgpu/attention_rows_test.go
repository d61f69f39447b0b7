package wgpu

import (
	"fmt"
	"testing"
)

// TestAttentionByRows holds attention within texts to Eval: texts in the middle of a block of queries and over several, without tokens, with a
// first query that is no key, and tokens of no text; with bounds, bias and mask by position.
func TestAttentionByRows(t *testing.T) {
	d := open(t, 0)
	const rows = "const %9: i32[6,4] = [0, 4, 1, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 9, 5, 9, 9, 50, 9, 50, 50, 50, 50, 50]"
	for name, heads := range map[string]string{
		"whole vectors": "%0 \"x\": f32[1,50+s,3,8]", "parts of vectors": "%0 \"x\": f32[1,50+s,3,7]",
	} {
		for what, body := range map[string]string{
			"plain":  "%1 = attention(%0, %0, %0, _, %9) {scale=0.3}",
			"causal": "%1 = attention(%0, %0, %0, _, %9, %6) {scale=0.3, causal=true}",
			"window": "%1 = attention(%0, %0, %0, _, %9, %6) {scale=0.3, window=3}",
			"bias":   "%2 = slice(%8) {starts=[0,0,0], sizes=[3,s+50,s+50], steps=[1,1,1]} %1 = attention(%0, %0, %0, %2, %9, %6) {scale=0.3}",
			"keys":   "%2 = slice(%8) {starts=[0,0,0], sizes=[3,1,s+50], steps=[1,1,1]} %1 = attention(%0, %0, %0, %2, %9, %6) {scale=0.3}",
			"mask":   "%2: bool[3,s+50,s+50] = cast(%8) {to=bool} %1 = attention(%0, %0, %0, %2, %9, %6) {scale=0.3, window=9}",
		} {
			if heads[len(heads)-2] == '7' && what != "plain" && what != "bias" {
				continue // the same as with whole vectors
			}
			if what != "plain" {
				body = `%5: i64[s+50] = range() {start=0, step=1, len=s+50, dtype=i64} %6 = reshape(%5) {shape=[1,s+50]} ` + body
			}
			text := fmt.Sprintf(`(%%7 "n": f32[s], %s, %%8 "b": f32[3,s+50,s+50]) { %s %s return %%1 as "y" }`, heads, rows, body)
			for _, s := range []int{1, 40} {
				check(t, d, fmt.Sprintf("%s, %s, s=%d", name, what, s), text, s, what == "plain")
			}
		}
	}
}

// TestSumRows holds sums over the tokens of texts to Eval: of texts without tokens and of one, and with tokens of no text.
func TestSumRows(t *testing.T) {
	d := open(t, 0)
	const rows = "const %9: i32[5,4] = [0, 4, 1, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 9, 5, 9, 9, 10, 9, 10]"
	for _, x := range []string{"f32[1,9+s,8]", "f32[1,9+s,7]", "f32[1,9+s]", "f32[1,9+s,3,70]"} {
		for _, s := range []int{1, 40} {
			check(t, d, fmt.Sprintf("%s, s=%d", x, s), fmt.Sprintf(`(%%7 "n": f32[s], %%0 "x": %s) { %s %%1 = sum_rows(%%0, %%9) return %%1 as "y" }`, x, rows), s, true)
		}
	}
}
