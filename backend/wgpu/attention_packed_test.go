package wgpu

import (
	"fmt"
	"testing"
)

// TestPackedAttention compares packed attention with Eval: sequences in the middle of a block of queries and over several, without tokens,
// with a first query that is no key, and tokens of no sequence; with bounds, bias and mask by position.
func TestPackedAttention(t *testing.T) {
	d := open(t, 0)
	const sequences = "const %9: i32[6,4] = [0, 4, 1, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 9, 5, 9, 9, 50, 9, 50, 50, 50, 50, 50]"
	for name, heads := range map[string]string{
		"whole vectors": "%0 \"x\": f32[1,50+s,3,8]", "parts of vectors": "%0 \"x\": f32[1,50+s,3,7]",
	} {
		for what, body := range map[string]string{
			"plain":  "%1 = attention(%0, %0, %0, _, %9) {scale=0.3}",
			"causal": "%1 = attention(%0, %0, %0, _, %9, %6) {scale=0.3, causal=true}",
			"window": "%1 = attention(%0, %0, %0, _, %9, %6) {scale=0.3, window=3}",
			"bias": "%2 = slice(%8) {starts=[0,0,0], sizes=[3,s+50,s+50], steps=[1,1,1]} %1 = attention(%0, %0, %0, %2, %9, " +
				"%6) {scale=0.3}",
			"keys": "%2 = slice(%8) {starts=[0,0,0], sizes=[3,1,s+50], steps=[1,1,1]} %1 = attention(%0, %0, %0, %2, %9, %6) " +
				"{scale=0.3}",
			"relative": `%10 = transpose(%11) {perm=[0,2,1,3]} %13 = neg(%12)
				%1 = attention(%0, %0, %0, _, %9, %6, %10, %14, %13, %15) {scale=0.3}`,
			"by key": `%1 = attention(%0, %0, %0, _, %9, %6, _, _, %12, %15) {scale=0.3}`,
			"mask":   "%2: bool[3,s+50,s+50] = cast(%8) {to=bool} %1 = attention(%0, %0, %0, %2, %9, %6) {scale=0.3, window=9}",
			"sequences": "%4 = reshape(%8) {shape=[3,1,s+50,s+50]} %2 = concat(%4, %4) {axis=0} %1 = attention(%0, %0, %0, %2, %9, " +
				"%6) {scale=0.3}",
			"mask of sequences": "%4 = slice(%8) {starts=[0,0,0], sizes=[3,1,s+50], steps=[1,1,1]} %3 = reshape(%4) {shape=[3,1,1,s+50]} " +
				"%16 = neg(%3) %2 = concat(%3, %16) {axis=0} %1 = attention(%0, %0, %0, %2, %9, %6) {scale=0.3}",
		} {
			if heads[len(heads)-2] == '7' && what != "plain" && what != "bias" && what != "relative" {
				continue // the same as with whole vectors
			}
			if what != "plain" {
				body = `%5: i64[s+50] = range() {start=0, step=1, len=s+50, dtype=i64} %6 = reshape(%5) {shape=[1,s+50]} ` + body
			}
			text := fmt.Sprintf(`(%%7 "n": f32[s], %s, %%8 "b": f32[3,s+50,s+50], %%11 "c": f32[1,s+50,3,s+5], %%12 "d": f32[1,3,s+50,s+3],
				%%14 "i": i64[s+50,s+50], %%15 "i": i64[s+50,s+50]) { %s %s return %%1 as "y" }`, heads, sequences, body)
			for _, s := range []int{1, 40} {
				check(t, d, fmt.Sprintf("%s, %s, s=%d", name, what, s), text, s, what == "plain")
			}
		}
	}
}

// TestSumSequences holds sums and maxima over the tokens of sequences to Eval: of sequences without tokens and of one, and with tokens of
// no sequence.
func TestSumSequences(t *testing.T) {
	d := open(t, 0)
	const sequences = "const %9: i32[5,4] = [0, 4, 1, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 9, 5, 9, 9, 10, 9, 10]"
	for _, x := range []string{"f32[1,9+s,8]", "f32[1,9+s,7]", "f32[1,9+s]", "f32[1,9+s,3,70]"} {
		for _, s := range []int{1, 40} {
			check(t, d, fmt.Sprintf("%s, s=%d", x, s),
				fmt.Sprintf(`(%%7 "n": f32[s], %%0 "x": %s) { %s %%1 = sum_sequences(%%0, %%9)
					%%2 = sum_sequences(%%0, %%9) {largest=true} return %%1 as "y", %%2 as "z" }`, x, sequences), s, true)
		}
	}
}

// TestQuantizedSequences holds products that quantise each sequence by its range to Eval: of sequences without tokens and of one,
// ranges of other tokens, and tokens of no sequence, which are 0.
func TestQuantizedSequences(t *testing.T) {
	d := open(t, 0)
	const sequences = "const %9: i32[6,4] = [0, 4, 1, 4, 4, 4, 4, 4, 4, 5, 0, 5, 5, 9, 5, 9, 9, 30, 9, 30, 30, 30, 30, 30]"
	for name, body := range map[string]string{
		"plain": `const %1: i8[24,40] = data const %3: f32[] = [0.05] %5 = onnx.QMatMul(%0, %1, _, _, _, %3, _, _, _, _, %9)`,
		"epilogue": `const %1: u8[24,40] = data const %2: u8[] = [101] const %3: f32[40] = data const %4: f32[40] = data
			%5 = onnx.QMatMul(%0, %1, _, %2, _, %3, %4, %8, _, _, %9) {act=gelu}`,
		"to quantised": `const %1: i8[24,40] = data const %3: f32[] = [0.05] const %4: f32[] = [0.11] const %10: u8[] = [7]
			%5 = onnx.QMatMul(%0, %1, _, _, _, %3, _, _, %4, %10, %9)`,
		"ragged": `const %1: i8[39,24] = data const %3: f32[] = [0.05]
			%5 = onnx.QMatMul(%0, %1, _, _, _, %3, _, _, _, _, %9) {transb=true}`,
		"of a run": `const %3: f32[] = [0.05] %5 = onnx.QMatMul(%0, %7, _, _, _, %3, _, _, _, _, %9)`,
	} {
		for _, s := range []int{1, 40} {
			checkWith(t, d, fmt.Sprintf("%s, s=%d", name, s),
				fmt.Sprintf(`(%%6 "n": f32[s], %%0 "x": f32[1,29+s,24], %%8 "r": f32[1,29+s,40], %%7 "w": i8[24,40]) { %s %s
					return %%5 as "y" }`, sequences, body), s, true, small)
		}
	}
}
