package kernel

import "math"

// Softmax writes e^(x − max)/Σe^(x − max) over each row of a rows × cols matrix. dst may be src. A row of -∞ alone
// yields NaN, as the formula does.
func (s *Set) Softmax(dst []float32, dstRow int, src []float32, srcRow, rows, cols int) {
	callRows(s.softmax, dst, dstRow, src, srcRow, rows, cols)
}

// softmaxStepFunc takes one more block of scores into a softmax over the columns of a contiguous matrix that sees its rows
// block by block. For each column it raises highest to the largest score, replaces the scores by e^(by·(score − highest)),
// adds them to sum, which is brought to the new maximum first, and writes to scale by how much everything that was summed
// under the old maximum has to be multiplied, and to inverse 1/sum. by is not negative. The columns fill vectors. One whose
// every score is -∞ has sum 0.
type softmaxStepFunc func(x *float32, rows, cols int, by float32, highest, sum, scale, inverse *float32)

// startSoftmax sets the state of a softmax that has seen nothing. The maximum starts at the lowest finite number, so
// that scores of -∞ give 0 and not -∞ − -∞.
func startSoftmax(highest, sum []float32) {
	for i := range highest {
		highest[i], sum[i] = -math.MaxFloat32, 0
	}
}

func softmaxGeneric(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int) {
	for r := range rows {
		highest, sum := float32(math.Inf(-1)), 0.0
		for c := range cols {
			highest = max(highest, *offset(src, r*srcRow+c))
		}
		for c := range cols {
			e := math.Exp(float64(*offset(src, r*srcRow+c) - highest))
			*offset(dst, r*dstRow+c) = float32(e)
			sum += e
		}
		for c := range cols {
			*offset(dst, r*dstRow+c) = float32(float64(*offset(dst, r*dstRow+c)) / sum)
		}
	}
}

func softmaxStepGeneric(x *float32, rows, cols int, by float32, highest, sum, scale, inverse *float32) {
	for c := range cols {
		old := *offset(highest, c)
		now := old
		for r := range rows {
			now = max(now, *offset(x, r*cols+c))
		}
		factor := math.Exp(float64(by) * float64(old-now))
		total := factor * float64(*offset(sum, c))
		for r := range rows {
			score := offset(x, r*cols+c)
			e := float32(math.Exp(float64(by) * float64(*score-now)))
			*score = e
			total += float64(e)
		}
		*offset(highest, c), *offset(sum, c), *offset(scale, c), *offset(inverse, c) = now, float32(total), float32(factor),
			float32(1/total)
	}
}
